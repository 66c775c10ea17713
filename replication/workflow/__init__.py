"""What runs when: the jobs of a report, from the list of experiments, and what of them is done."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from replication import experiments, store
from replication.store import PAPER
from replication.workflow import notebooks
from replication.workflow.drive import Drive, alone

ARTICLE = ("report.ipynb", "claims.yaml", "references.bib", "template/[!.]*.[chlt]*[!~]")
"""What the article is made from: what else lies in paper/, such as an editor's copy, is not."""
FRESH = ".fresh"
"""A mark in a folder: all in it is being made anew."""


class Job(NamedTuple):
    """A notebook to run with parameters. Its files are ``name`` with various suffixes."""

    name: str
    notebook: Path
    parameters: dict[str, Any]
    needs: tuple[str, ...] = ()
    """The names of the jobs whose rows it reads."""


def report_jobs(profile: str) -> list[Job]:
    """The notebook of every experiment, in the profile where it knows profiles."""
    jobs = []
    for stem in dict.fromkeys(one.notebook for one in experiments.every().values()):
        notebook = notebooks.NOTEBOOKS / f"{stem}.ipynb"
        shown = notebooks.experiments_of(notebook)
        needs = {experiments.find(name).notebook for one in shown for name in one.needs}
        if "profile" in notebooks.parameters(notebook):
            given = {"profile": profile}
        else:
            given = {k: v for one in shown for k, v in one.smallest.items() if profile == "smoke"}
        jobs.append(Job(stem, notebook, given, tuple(sorted(needs - {stem}))))
    return jobs


def report_files() -> list[Path]:
    """What the article is made from, beside rows and code; nothing where there is no article."""
    found = {path for pattern in ARTICLE for path in PAPER.glob(pattern)}
    return sorted(found) if PAPER / "report.ipynb" in found else []


def report_code() -> str:
    """A hash of the code that makes the article."""
    mine = store.notebook_hash("from replication.report.build import build\nbuild")
    return mine + notebooks.code_of(PAPER / "report.ipynb")


def prepare(folder: Path, jobs: Iterable[Job]) -> None:
    """The parameters of every job as a file, so that no shell ever reads them."""
    for job in jobs:
        path, text = folder / f"{job.name}.json", store.to_json(job.parameters)
        if not path.exists() or path.read_bytes() != text:
            store.write_whole(path, text)


def drop_lost(folder: Path, profile: str, *, fresh: bool = False) -> dict[str, str]:
    """A job whose files or units are not there, whole and of the present code is not done: why.

    ``fresh``: none is, and all units are to be made anew; if that was broken off, it goes on.
    """
    lost, anew = {}, fresh and not (folder / FRESH).exists()
    for job in [*report_jobs(profile), Job("report", PAPER / "report.ipynb", {})]:
        shown = notebooks.experiments_of(job.notebook)
        units = [unit for one in shown for unit in one.units(profile)]
        if anew:
            store.retire(units)
        missing = sum(not store.is_current(unit) for unit in units)
        made = (".html", ".pdf" if job.name == "report" else ".ipynb")
        if anew or missing:
            told = f"{missing} of {len(units)} units to be made"
            lost[job.name] = told if units else "to be made anew"
        elif not all((folder / f"{job.name}{kind}").exists() for kind in made):
            lost[job.name] = "not made yet"
        if job.name in lost:
            (folder / f"{job.name}.done").unlink(missing_ok=True)
    if fresh:
        (folder / FRESH).touch()
    return lost
