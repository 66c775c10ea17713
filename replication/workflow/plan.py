"""The jobs of a report, their parameters as files that no shell ever reads, and what is done."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import yaml

from replication import notebooks, results, sources
from replication.notebooks import Job
from replication.results import ROOT, write_whole

NEEDS = {"05": ("04",)}
"""Which notebooks read the rows of which."""

PAPER = ROOT / "paper"
ARTICLE = (
    "report.ipynb", "claims.yaml", "references.bib",
    *(f"template/[!.]*.{kind}" for kind in ("css", "html", "lua", "tex", "typ")),
)  # fmt: skip
"""What the article is made from: what else lies in paper/, such as an editor's copy, is not."""

FRESH = ".fresh"
"""A mark in a folder: all in it is being made anew."""


def report_jobs(profile: str) -> list[Job]:
    """Every notebook, in the profile where it knows profiles."""
    stems = {path.name[:2]: path.stem for path in notebooks.every()}
    jobs = []
    for notebook in notebooks.every():
        knows = "profile" in notebooks.accepts(notebook)
        needs = [stems[number] for number in NEEDS.get(notebook.name[:2], ()) if number in stems]
        parameters = {"profile": profile} if knows else {}
        jobs.append(Job(notebook.stem, notebook, parameters, tuple(needs)))
    return jobs


def report_sources() -> list[Path]:
    """What the article is made from, beside the rows; nothing where there is no article."""
    article = PAPER / "report.ipynb"
    if not article.exists():
        return []
    files = [path for pattern in ARTICLE for path in PAPER.glob(pattern)]
    return sorted({*files, *notebooks.source_files(article), *sources.files("report")})


def prepare(folder: Path, jobs: Iterable[Job]) -> None:
    """Write the parameters of every job."""
    for job in jobs:
        path = folder / f"{job.name}.yaml"
        text = yaml.safe_dump(job.parameters, allow_unicode=True, sort_keys=False).encode()
        if not path.exists() or path.read_bytes() != text:
            write_whole(path, text)


# What is done -------------------------------------------------------------------------------


def drop_lost(folder: Path, jobs: Iterable[Job]) -> None:
    """A job whose notebook, or whose tables, were deleted is not done."""
    for job in jobs:
        if not ((folder / f"{job.name}.ipynb").exists() and has_tables(job)):
            (folder / f"{job.name}.done").unlink(missing_ok=True)


def has_tables(job: Job) -> bool:
    """Whether all tables are there that a report reads of a job. One with a folder of its own, such
    as a point of a sweep, leaves none of them."""
    number, profile = job.notebook.name[:2], job.parameters.get("profile")
    if profile is None or "out" in job.parameters:
        return True
    folder = results.RESULTS / profile
    if number == "03":
        return _has_training(folder / "copy_task", profile)
    return number != "04" or _has_benchmark(folder)


def _has_benchmark(folder: Path) -> bool:
    repeated = any(results.has(path, "repeats") for path in folder.glob("crossover/*"))
    return repeated and results.has(folder, "scaling", "scaling_plan", "decoding")


def _has_training(folder: Path, profile: str) -> bool:
    """Of every setting, on one device or another."""
    from replication.config import ORIGINS, PROFILES  # not above: Snakemake need not wait for it

    for plain in (PROFILES[setting, profile] for setting in ORIGINS):
        names = [replace(plain, device=device).name for device in ("cpu", "cuda")]
        tables = ("evaluations", "runs", "patterns", *(f"steps-{x}" for x in plain.attentions))
        if not any(results.has(folder / name, *tables) for name in names):
            return False
    return True


def drop_all(folder: Path) -> None:
    """Nothing in the folder is done, all is made anew; if that is broken off, it goes on."""
    if not (folder / FRESH).exists():
        for done in folder.glob("*.done"):
            done.unlink()
        (folder / FRESH).touch()


def overview(folder: Path, waiting: dict[str, str]) -> str:
    """What a report has to do, in words."""
    article = "" if report_sources() else " There is no paper/report.ipynb: only pages are made."
    if not waiting:
        return f"Nothing to do: all in {folder} is up to date.{article}"
    names = [name for name in waiting if not name.endswith(".html")]
    lines = [f"  {Path(name).stem}: {waiting[name]}" for name in names]
    return "\n".join([f"To be made in {folder}:{article}", *lines])
