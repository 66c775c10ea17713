"""The jobs of a report, and their parameters as files that no shell ever reads."""

from collections.abc import Iterable
from pathlib import Path

import yaml

from replication import notebooks, sources
from replication.notebooks import Job
from replication.results import ROOT, write_whole

NEEDS = {"05": ("04",)}
"""Which notebooks read the rows of which."""

PAPER = ROOT / "paper"


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
    article, made = PAPER / "report.ipynb", (PAPER / "report.pdf", PAPER / "report.html")
    if not article.exists():
        return []
    files = [path for path in PAPER.rglob("*") if path.is_file() and path not in made]
    return sorted({*files, *notebooks.source_files(article), *sources.files("report")})


def prepare(folder: Path, jobs: Iterable[Job]) -> None:
    """Write the parameters of every job; one whose notebook was deleted is not done."""
    for job in jobs:
        path = folder / f"{job.name}.yaml"
        text = yaml.safe_dump(job.parameters, allow_unicode=True, sort_keys=False).encode()
        if not path.exists() or path.read_bytes() != text:
            write_whole(path, text)
        if not (folder / f"{job.name}.ipynb").exists():
            (folder / f"{job.name}.done").unlink(missing_ok=True)


def overview(folder: Path, waiting: dict[str, str]) -> str:
    """What a report has to do, in words."""
    article = "" if report_sources() else " There is no paper/report.ipynb: only pages are made."
    if not waiting:
        return f"Nothing to do: all in {folder} is up to date.{article}"
    names = [name for name in waiting if not name.endswith(".html")]
    lines = [f"  {Path(name).stem}: {waiting[name]}" for name in names]
    return "\n".join([f"To be made in {folder}:{article}", *lines])
