"""A project of one's own to run commands in: the real package, with small notebooks."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
import psutil

ROOT = Path(__file__).resolve().parent.parent
PLACE = "my: project #1"
"""A folder whose name means something to YAML, to shells and to PYTHONPATH."""
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}

TRIAL = """
text: str = "a"  # what to say
number: int = 1  # how often
patience: float = 0.0  # seconds that the first attempt waits
broken: bool = False  # fail half-way
out: str = ""  # folder for results
"""
TRIAL_CELLS = (
    """
import os, time
from pathlib import Path
import pandas as pd
from replication import results

folder = Path(out)
folder.mkdir(parents=True, exist_ok=True)
is_first = not any(folder.glob("begun-*"))
(folder / f"begun-{os.getpid()}").touch()
""",
    "time.sleep(patience if is_first else 0)",
    """
if broken:
    raise ValueError("asked to fail")
(folder / f"ended-{os.getpid()}").touch()
said = pd.DataFrame([{"said": text * number, "length": len(text)}])
results.save(folder, "rows", said, {"by": os.getpid()});
""",
)


def write_notebook(path: Path, parameters: str, *cells: str) -> Path:
    tagged = nbformat.v4.new_code_cell(parameters.strip(), metadata={"tags": ["parameters"]})
    rest = [nbformat.v4.new_code_cell(cell.strip()) for cell in cells]
    book = nbformat.v4.new_notebook(cells=[tagged, *rest], metadata={"kernelspec": KERNEL})
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(book, path)
    return path


def new_project(folder: Path) -> Path:
    """The package, the Snakefile and the profiles; a trial notebook and no other."""
    for name in ("replication", "workflow"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Snakefile", folder)
    _importable(folder).symlink_to(folder)
    write_notebook(folder / "trial.ipynb", TRIAL, *TRIAL_CELLS)
    return folder


def _importable(project: Path) -> Path:
    """PYTHONPATH is split at colons: where it leads to a project of ours."""
    return project if project == ROOT else project.with_name("importable")


def heed_ctrl_c() -> None:
    """A process that was started in the background ignores it, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(project: Path, *typed: str, **options) -> subprocess.Popen:
    """``replication ...`` in that project."""
    options = {"preexec_fn": heed_ctrl_c} | options
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    env = os.environ | {"PYTHONPATH": str(_importable(project))}
    command = [sys.executable, "-m", "replication", *typed]
    return subprocess.Popen(command, cwd=project, env=env, **options)


def call(project: Path, *typed: str, code: int = 0, **options) -> str:
    """What it said."""
    child = start(project, *typed, **options)
    said, complained = child.communicate()
    assert child.returncode == code, said + complained
    return said + complained


LIMIT = 64 * 1024


def limited() -> None:
    """To this process the disk is full after so many bytes of any file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


def marked(folder: Path) -> list[psutil.Process]:
    """All processes that work for a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("REPLICATION_FOLDER") == str(folder):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def until(condition: Callable[[], object], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
