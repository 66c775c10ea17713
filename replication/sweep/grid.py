"""The points of a sweep, and the file that says what it is."""

import hashlib
import json
import os
import re
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from replication import notebooks, results
from replication.notebooks import Job

SWEEPS = results.RESULTS / "sweeps"
RESERVED = ("out", "rows", "workers")
"""Parameters that a sweep sets by itself for each of its points."""

TABLES = {"03": "runs", "04": "scaling"}
"""The main table of a notebook's results."""


class Sweep(NamedTuple):
    """What is run: every combination of the values in ``grid``, beside what is fixed."""

    folder: Path
    notebook: Path
    fixed: dict[str, Any]
    grid: dict[str, list]
    table: str | None
    """The name of the table that is collected; None: only durations are."""

    def jobs(self) -> list[Job]:
        has_out = "out" in notebooks.accepts(self.notebook)
        points = product(*self.grid.values())
        return [self._job(dict(zip(self.grid, point, strict=True)), has_out) for point in points]

    def _job(self, point: dict[str, Any], has_out: bool) -> Job:
        parameters = self.fixed | point
        name = f"points/{_label(parameters)}-{_hash(parameters)}"
        out = os.path.relpath(self.folder / name, self.notebook.parent)
        return Job(name, self.notebook, parameters | ({"out": out} if has_out else {}))

    def finished(self) -> list[Job]:
        return [job for job in self.jobs() if (self.folder / f"{job.name}.done").exists()]

    def executed(self, job: Job) -> Path:
        return self.folder / f"{job.name}.ipynb"


def plan(
    notebook: Path, values: dict[str, list], name: str | None = None, table: str | None = None
) -> Sweep:
    """A sweep over all names that have more than one value; the others are fixed."""
    for reserved in RESERVED:
        if reserved in values:
            raise ValueError(f"{reserved} is set by the sweep itself. Leave it out.")
    for parameter, several in values.items():
        twice = [value for i, value in enumerate(several) if value in several[:i]]
        if twice:
            raise ValueError(f"{parameter} holds {twice[0]!r} twice. Name each value once.")
    fixed = {key: several[0] for key, several in values.items() if len(several) == 1}
    grid = {key: several for key, several in values.items() if len(several) > 1}
    table = table or TABLES.get(notebook.name[:2])
    folder = SWEEPS / _checked(name or _name(notebook, fixed, grid))
    return Sweep(folder, notebook, fixed, grid, table)


def _name(notebook: Path, fixed: dict, grid: dict) -> str:
    """The same for the same command, so that it finds what it has done before."""
    return "-".join([notebook.stem[:2], *sorted(grid), _hash([notebook.stem, fixed, grid])])


def _checked(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
        raise ValueError(f"--name {name!r} makes no folder. Use letters, digits, '.', '-', '_'.")
    return name


def save(sweep: Sweep) -> None:
    """Write down what the folder holds, unless it holds points of another sweep."""
    _check_agreement(sweep)
    notebook = os.path.relpath(sweep.notebook, results.ROOT)
    plan = sweep._asdict() | {"folder": sweep.folder.name, "notebook": notebook}
    results.write_whole(sweep.folder / "plan.json", json.dumps(plan, indent=2).encode())


def _check_agreement(sweep: Sweep) -> None:
    """Values may be added to a sweep; points that were run may not be lost from it."""
    if not (sweep.folder / "plan.json").exists():
        return
    there, wanted = load(sweep.folder), {job.name for job in sweep.jobs()}
    lost = [job.name for job in there.finished() if job.name not in wanted]
    if lost or (there.finished() and there.notebook != sweep.notebook):
        raise ValueError(
            f"{sweep.folder} holds another sweep: {there.notebook.name} with {there.fixed} over "
            f"{there.grid}. Repeat its values and add to them, or choose another --name."
        )


def load(folder: Path) -> Sweep:
    """The sweep that is in a folder."""
    try:
        plan = json.loads((folder / "plan.json").read_text())
        notebook = Path(os.path.normpath(results.ROOT / plan["notebook"]))
        return Sweep(**plan | {"folder": folder, "notebook": notebook})
    except (ValueError, TypeError, KeyError) as error:
        raise results.ResultsError(
            f"{folder / 'plan.json'} cannot be read ({error}). Delete it, then call the same sweep "
            "again: the points that were run are found by their names."
        ) from error


def plain(value: Any) -> Any:
    """A value as it stands in a table or a name: a list of one is that one."""
    if isinstance(value, list) and len(value) == 1:
        return plain(value[0])
    return json.dumps(value) if isinstance(value, list | dict) else value


def _label(parameters: dict[str, Any]) -> str:
    """Readable, and of characters that neither a shell nor Snakemake gives a meaning to."""
    text = "-".join(f"{name}_{plain(value)}" for name, value in sorted(parameters.items()))
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:80]


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
