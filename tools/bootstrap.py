"""Make .venv with everything in `.[dev]`, or say why it cannot be made. `make` calls this.

Only the standard library, and only syntax that Python 3.6 can read: an old Python must be
able to run this file to learn that it is too old.
"""

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOG = VENV / "install.log"  # made first: a .venv with a log but no stamp was interrupted
STAMP = VENV / "ready"  # written last: what .venv was made from
OLDEST = (3, 11)
NEED_GB = 3

CHECK = """
import sys
from importlib.metadata import PackageNotFoundError, distribution
for name in sys.argv[1:]:
    try:
        files = distribution(name).files or ()
    except PackageNotFoundError:
        print(name)
        continue
    if not all(file.locate().exists() for file in files if file.suffix != ".pyc"):
        print(name)
"""  # in .venv: which of these packages are not there, or lack a file

HINTS = (
    ("No space left on device", "The disk is full: free some space, then call make again."),
    (
        "NewConnectionError|NameResolutionError|Read timed out|ProxyError",
        "The package index cannot be reached: check the network, then call make again.",
    ),
    (
        "No matching distribution found|ResolutionImpossible",
        "A pinned version is not offered for this Python or this system, or contradicts"
        " pyproject.toml. If you changed neither, try another Python: make PYTHON=python3.11",
    ),
)


class CannotGoOnError(Exception):
    """Its message says what is wrong and what to do; it is all that the user sees."""


def version(parts=3):
    return ".".join(str(number) for number in sys.version_info[:parts])


def check_python():
    if sys.version_info[:2] < OLDEST:
        raise CannotGoOnError(
            f"Python {version()} ({sys.executable}) is too old, 3.11 or newer is needed."
            " Install one, or say where it is: make PYTHON=/path/to/python3.11"
        )
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        raise CannotGoOnError(
            f"{sys.executable} lacks the module {' and '.join(missing)}, so it cannot make .venv."
            f" On Debian or Ubuntu: sudo apt install python{version(2)}-venv"
        )


def check_disk():
    free_gb = shutil.disk_usage(VENV if VENV.exists() else ROOT).free / 1e9
    if free_gb < NEED_GB:
        raise CannotGoOnError(
            f"Only {free_gb:.1f} GB of disk space are free in {ROOT}, about {NEED_GB:g} GB are"
            " needed (more where pip chooses a CUDA build of torch). Free some space, or make .venv"
            " a symbolic link to an empty folder on a larger disk."
        )


def check_owner():
    if (VENV / "pyvenv.cfg").exists() and not LOG.exists():
        raise CannotGoOnError(
            ".venv was not made by make, so it is left as it is. Move or remove it, then call"
            " make again."
        )


def ingredients():
    """What .venv is made from: the folders' places, the exact versions, the project's needs."""
    files = (ROOT / "constraints.txt", ROOT / "pyproject.toml")
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    return [f"{ROOT} {VENV.resolve()}", *hashes]


def recorded():
    return STAMP.read_text().splitlines() if STAMP.exists() and PYTHON.exists() else []


def broken():
    """The packages of pyproject.toml that .venv should have and has not, or not whole."""
    text = (ROOT / "pyproject.toml").read_text()
    names = re.findall(r'^ {4}"(\w[\w.-]*)[<>=]', text, re.MULTILINE)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "universal_newlines": True}
    return subprocess.run([str(PYTHON), "-c", CHECK, *names], **pipes).stdout.split()


def set_up():
    """Nothing if .venv is up to date and whole, pip if a package is missing or only pyproject.toml
    has changed, else all anew."""
    have, want = recorded(), ingredients()
    lost = broken() if have == want else []
    if have == want and not lost:
        return
    check_python()
    check_owner()
    check_disk()
    if lost:
        say(f"Missing in .venv, or not whole: {', '.join(lost)}. Installing again.")
        STAMP.unlink()
        install(LOG, "--force-reinstall", "--no-deps", *lost)
    elif have[:2] == want[:2]:
        say("pyproject.toml has changed: bringing .venv up to date.")
        STAMP.unlink()
    else:
        make_venv()
    install(LOG, "-e", ".[dev]")
    STAMP.write_text("\n".join(want) + "\n")


def make_venv():
    why = ""
    if STAMP.exists():
        why = "Python, the pinned versions or the folder's place has changed. "
    elif LOG.exists():
        why = "An earlier set-up did not finish. "
    say(f"{why}Setting up .venv with Python {version()}: a few minutes, see .venv/install.log")
    VENV.mkdir(exist_ok=True)
    clear()
    LOG.write_text("")
    run([sys.executable, "-m", "venv", VENV.resolve()], LOG)  # venv refuses a symbolic link
    install(LOG, "pip", "setuptools", "wheel")


def clear():
    """Empty .venv, but keep the log, so that an interrupted clearing is still recognised."""
    for path in VENV.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path != LOG:
            path.unlink()


def install(log, *what, **options):
    """Install by pip; packages are built with the pinned setuptools, not with the latest one."""
    pip = [PYTHON, "-m", "pip", "install", "--no-build-isolation", "-c", "constraints.txt"]
    run(pip + list(what), log, **options)


def run(command, log, env=None):
    """Run with all output in the log; a terminal shows its latest line, a failure its last ones."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen(command, cwd=ROOT, env=env, text=True, errors="replace", **pipes)
    try:
        with log.open("a") as file:
            for line in process.stdout:
                file.write(line)
                show(line.strip()[:76])
        show("")
        if process.wait() != 0:
            raise CannotGoOnError(failure(log))
    finally:
        process.kill()


def show(line):
    if sys.stderr.isatty():
        print("\r\033[K" + line, end="", file=sys.stderr, flush=True)


def say(sentence):
    print(sentence, file=sys.stderr, flush=True)


def failure(log):
    text = log.read_text(errors="replace")
    hints = [hint for pattern, hint in HINTS if re.search(pattern, text)]
    hints.append("Mend what these lines complain about, then call make again.")
    tail = "\n".join("    " + line for line in text.splitlines()[-12:])
    return f"The installation failed. The end of {log.relative_to(ROOT)}:\n{tail}\n{hints[0]}"


@contextlib.contextmanager
def alone():
    """Let one process at a time set up this project; the others wait for it."""
    import fcntl  # here, because Windows has none

    folder = os.open(ROOT, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("Another make is setting up .venv: waiting for it.")
        fcntl.flock(folder, fcntl.LOCK_EX)
    except OSError:
        pass  # some network file systems have no locks: go on without
    try:
        yield
    finally:
        os.close(folder)


@contextlib.contextmanager
def plainly():
    """Say what is wrong in sentences, without a traceback."""
    try:
        if os.name == "nt":
            raise CannotGoOnError("Windows is not supported by make: use WSL or environment.yml.")
        with alone():
            yield
    except CannotGoOnError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("\nStopped. The next call begins again.")


def main():
    with plainly():
        set_up()


if __name__ == "__main__":
    main()
