"""JupyterLab as `make lab` starts it, on a copy of the project, and a browser without a window."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

ROOT = Path(__file__).resolve().parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium", "chromium-driver")
INHERITED = ("MAKE", "MFLAGS", "JUPYTER_", "JPY_", "XDG_", "PYTHONPATH")
"""What a server of one's own must not find in its environment."""
QUIET = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Asks this machine, whatever proxy there is."""


class Lab(NamedTuple):
    """A server that runs."""

    url: str
    token: str
    process: int

    def kernels(self) -> list[Path]:
        """The Pythons of the kernels that run."""
        return [Path(_command(kernel)[0]) for kernel in self._processes()]

    def end_kernels(self) -> None:
        """What a failure has left must not be taken for the next notebook's."""
        for kernel in self._processes():
            with suppress(psutil.Error):
                kernel.kill()

    def _processes(self) -> list[psutil.Process]:
        children = psutil.Process(self.process).children(recursive=True)
        return [child for child in children if "ipykernel_launcher" in _command(child)]


def _command(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []  # it has just ended


def tools() -> tuple[str, str]:
    """The browser and its driver, installed by apt if need be and if that can be done."""
    if not all(_tools()):
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            sys.exit("There is no Chromium with its driver here. Install both, such as by\n"
                     f"    sudo apt install {' '.join(PACKAGES)}")  # fmt: skip
        print("Installing Chromium ...", flush=True)
        env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "--yes", "--no-install-recommends", *PACKAGES]):
            subprocess.run(["apt-get", "--quiet=2", *command], env=env, check=True)
    return _tools()


def _tools() -> tuple[str | None, str | None]:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    return browser, shutil.which("chromedriver")


def copy_project(folder: Path) -> Path:
    """All files that git tracks or would track: the code and the reference run, no other runs."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def new_home(folder: Path) -> Path:
    """The home of a user who wants no news from Jupyter, and who has another kernel python3.

    It cannot run: that of .venv must come before it.
    """
    trap = {"argv": ["false"], "display_name": "not that of .venv", "language": "python"}
    settings = ".jupyter/lab/user-settings/@jupyterlab/apputils-extension"
    _write(folder / ".local/share/jupyter/kernels/python3/kernel.json", trap)
    _write(folder / settings / "notification.jupyterlab-settings", {"fetchNews": "false"})
    return folder


def _write(path: Path, content: dict) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))


@contextmanager
def started(project: Path, home: Path, log: Path) -> Iterator[Lab]:
    """`make lab` in the project, on a free port of this machine, with a token of its own."""
    token, port = secrets.token_hex(16), _free_port()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(INHERITED)}
    mine = {"HOME": str(home), "PYTHONPATH": str(project), "JUPYTER_TOKEN": token}
    options = {"cwd": project, "env": clean | mine, "start_new_session": True}
    with log.open("w") as file:
        command = _make_lab(port)
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, **options)
        try:
            lab = Lab(f"http://127.0.0.1:{port}", token, process.pid)
            _wait(lab, process, log)
            yield lab
        finally:
            _end(process)


def _make_lab(port: int) -> list[str]:
    """.venv is the one that runs this, so nothing is set up in the copy.

    Should nobody be left to end the server, it ends by itself when nothing has happened for long.
    """
    arguments = f"--no-browser --ip=127.0.0.1 --port={port} --ServerApp.port_retries=0"
    arguments += " --LabApp.expose_app_in_browser=True --MappingKernelManager.cull_idle_timeout=600"
    arguments += " --ServerApp.shutdown_no_activity_timeout=900"
    arguments += " --allow-root" if os.geteuid() == 0 else ""
    return ["make", "-o", "setup", "lab", f"BIN={sys.prefix}/bin", f"ARGS={arguments}"]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def _wait(lab: Lab, process: subprocess.Popen, log: Path, seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        try:
            QUIET.open(f"{lab.url}/api/status?token={lab.token}", timeout=10).close()
            return
        except OSError:
            time.sleep(0.5)
    sys.exit(f"JupyterLab did not start. It said:\n{log.read_text()}")


def _end(process: subprocess.Popen) -> None:
    """End the server with its kernels: all that descends from the process that was started."""
    family = [psutil.Process(process.pid)] if process.poll() is None else []
    family += [child for parent in family for child in parent.children(recursive=True)]
    for member in family:
        _signal(member, signal.SIGTERM)
    _, left = psutil.wait_procs(family, timeout=20)
    for member in left:
        _signal(member, signal.SIGKILL)
    process.wait()


def _signal(member: psutil.Process, number: int) -> None:
    with suppress(psutil.NoSuchProcess):
        member.send_signal(number)


@contextmanager
def browser(program: str, driver: str) -> Iterator[Chrome]:
    """A Chromium of one's own, which is gone afterwards."""
    service = ChromeService(driver, popen_kw={"start_new_session": True})  # deaf to Ctrl-C
    page = Chrome(_options(program), service)
    family = psutil.Process(service.process.pid).children(recursive=True)
    try:
        page.set_page_load_timeout(180)
        page.set_script_timeout(60)
        yield page
    finally:
        try:
            page.quit()
        finally:
            for member in psutil.wait_procs(family, timeout=20)[1]:
                _signal(member, signal.SIGKILL)


def _options(program: str) -> ChromeOptions:
    options = ChromeOptions()
    options.binary_location = program
    arguments = ["headless=new", "window-size=1500,1000", "no-proxy-server"]
    arguments += ["disable-dev-shm-usage"]  # a container has little of it
    arguments += ["no-sandbox"] if os.geteuid() == 0 else []  # which root cannot have
    for argument in arguments:
        options.add_argument(f"--{argument}")
    return options
