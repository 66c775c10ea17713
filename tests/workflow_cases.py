"""A project of one's own to run commands in: the real package, with small experiments."""

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
patience: float = 0.0  # seconds to wait if there is a file "wait"
broken: bool = False  # fail half-way
out: str = ""  # folder for results
"""
TRIAL_CELLS = (
    """
import os, time
from functools import partial
from pathlib import Path
import pandas as pd
from replication import store

folder = Path(out)
folder.mkdir(parents=True, exist_ok=True)
(folder / f"begun-{os.getpid()}").touch()
""",
    'time.sleep(patience if os.path.exists("wait") else 0)',
    """
if broken:
    raise ValueError("asked to fail")
(folder / f"ended-{os.getpid()}").touch()
said = pd.DataFrame([{"said": text * number, "length": len(text)}])
unit = store.Unit("saying", "said", "smoke", {"text": text}, (), lambda _: store.Result(said, {}))
store.ensure(unit, folder / "smoke");
""",
)
"""It leaves one unit of an experiment that nobody has heard of."""


def write_notebook(path: Path, parameters: str, *cells: str) -> Path:
    tagged = nbformat.v4.new_code_cell(parameters.strip(), metadata={"tags": ["parameters"]})
    rest = [nbformat.v4.new_code_cell(cell.strip()) for cell in cells]
    book = nbformat.v4.new_notebook(cells=[tagged, *rest], metadata={"kernelspec": KERNEL})
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(book, path)
    return path


def new_project(folder: Path) -> Path:
    """The package without its experiments, the Snakefile and the profiles; a trial notebook."""
    for name in ("replication", "workflow", "paper/template"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (folder / "replication" / "experiments").iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    shutil.copy(ROOT / "Snakefile", folder)
    importable(folder).symlink_to(folder)
    write_notebook(folder / "trial.ipynb", TRIAL, *TRIAL_CELLS)
    return folder


# Experiments --------------------------------------------------------------------------------

TOY = {
    "__init__.py": """
        from replication.experiments.base import Experiment, later
        from replication.experiments.NAME import numbers

        EXPERIMENT = Experiment(
            name="NAME", title="NAME", notebook="STEM", alone=ALONE, needs=NEEDS,
            minutes={"smoke": 0.5, "quick": 0.5}, check=numbers.check,
            units=later("replication.experiments.NAME.run:units"),
        )
        """,
    "numbers.py": """
        VALUE = 1
        def check(loud=1, **_):
            if loud < 1:
                raise ValueError(f"loud={loud} cannot be heard.")
        """,
    "run.py": """
        from functools import partial
        import pandas as pd
        from replication.experiments.NAME import numbers
        from replication.store import Result, Unit

        def units(profile, loud=1):
            return [Unit("NAME", f"u{i}", profile, {"i": i, "loud": loud}, (speak,),
                         partial(speak, i)) for i in range(2)]

        def speak(i, scratch):
            return Result(pd.DataFrame([{"i": i, "value": numbers.VALUE}]), {})
        """,
}
TOY_CELL = """
import json, time
from pathlib import Path
from replication import store
from replication.experiments.NAME import run

begin = time.time()
folder = Path(out, profile) if out else None
kept = store.ensure_all(run.units(profile, loud), folder)
time.sleep(0.5)
with open("../log", "a") as file:
    entry = dict(name="NAME", begin=begin, end=time.time(), profile=profile, MORE)
    print(json.dumps(entry), file=file)
"""


def add_experiment(project: Path, name: str, stem: str, alone=False, needs=(), more="") -> None:
    """A small experiment of two units with its notebook, which writes down when it ran."""
    words = {"NAME": name, "STEM": stem, "ALONE": repr(alone), "NEEDS": repr(tuple(needs))}
    words["MORE"] = more

    def filled(text: str) -> str:
        for word, value in words.items():
            text = text.replace(word, value)
        return text

    folder = project / "replication" / "experiments" / name
    folder.mkdir()
    for file, text in TOY.items():
        lines = [line.removeprefix(" " * 8) for line in text.splitlines()]
        (folder / file).write_text(filled("\n".join(lines)))
    known = 'profile: str = "quick"\nloud: int = 1\nout: str = ""'
    known += "\nworkers: int = 1" if "workers" in more else ""
    write_notebook(project / f"notebooks/{stem}.ipynb", known, filled(TOY_CELL))


# Commands -----------------------------------------------------------------------------------


def importable(project: Path) -> Path:
    """PYTHONPATH is split at colons: where it leads to a project of ours."""
    return project if project == ROOT else project.with_name("importable")


def heed_ctrl_c() -> None:
    """A process that was started in the background ignores it, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(project: Path, *typed: str, **options) -> subprocess.Popen:
    """``replication ...`` in that project."""
    options = {"preexec_fn": heed_ctrl_c} | options
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    env = os.environ | {"PYTHONPATH": str(importable(project))}
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
