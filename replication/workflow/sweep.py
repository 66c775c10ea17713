"""A grid of points: one notebook, many parameters, one tidy table."""

import json
import os
import re
from itertools import product
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any, NamedTuple

from replication import experiments, store
from replication.workflow import Job, notebooks
from replication.workflow.drive import Drive, alone

if TYPE_CHECKING:
    import pandas as pd

SWEEPS = store.RESULTS / "sweeps"
RESERVED = ("out", "rows", "workers")
"""Parameters that a sweep sets by itself for each of its points."""


class Sweep(NamedTuple):
    """What is run: every combination of the values in ``grid``, beside what is fixed."""

    folder: Path
    notebook: Path
    fixed: dict[str, Any]
    grid: dict[str, list]
    table: str | None
    """The experiment whose units are collected; None: the first that the points leave units of."""

    def jobs(self) -> list[Job]:
        has_out, jobs = "out" in notebooks.parameters(self.notebook), []
        for point in product(*self.grid.values()):
            given = self.fixed | dict(zip(self.grid, point, strict=True))
            text = "-".join(f"{name}_{plain(value)}" for name, value in sorted(given.items()))
            name = f"points/{re.sub(r'[^A-Za-z0-9_.-]', '_', text)[:80]}-{_hash(given)}"
            out = {"out": os.path.relpath(self.folder / name, self.notebook.parent)}
            jobs.append(Job(name, self.notebook, given | out if has_out else given))
        return jobs

    def finished(self) -> list[Job]:
        return [job for job in self.jobs() if (self.folder / f"{job.name}.done").exists()]

    def minutes(self, job: Job) -> float:
        """How long papermill took for a point."""
        executed = json.loads((self.folder / f"{job.name}.ipynb").read_text())
        return executed["metadata"]["papermill"]["duration"] / 60


def plain(value: Any) -> Any:
    """A value as it stands in a table or a name: a list of one is that one."""
    if isinstance(value, list) and len(value) == 1:
        return plain(value[0])
    return json.dumps(value) if isinstance(value, list | dict) else value


def _hash(content: Any) -> str:
    return store.digest(json.dumps(content, sort_keys=True).encode())[:8]


def plan(
    notebook: Path, values: dict[str, list], name: str | None = None, table: str | None = None
) -> Sweep:
    """A sweep over all names that have more than one value. All that can be wrong is found here."""
    for parameter, several in values.items():
        if parameter in RESERVED:
            raise ValueError(f"{parameter} is set by the sweep itself. Leave it out.")
        if twice := [value for i, value in enumerate(several) if value in several[:i]]:
            raise ValueError(f"{parameter} holds {twice[0]!r} twice. Name each value once.")
    known = [one.name for one in notebooks.experiments_of(notebook)]
    if table is not None and known and table not in known:
        raise ValueError(f"--table {table} is unknown. {notebook.name} makes {', '.join(known)}.")
    fixed = {key: several[0] for key, several in values.items() if len(several) == 1}
    grid = {key: several for key, several in values.items() if len(several) > 1}
    if name is None:
        mine = [notebook.stem[:2], *sorted(grid), _hash([notebook.stem, fixed, grid])]
        name = "-".join(mine)[-100:]
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", name):
        raise ValueError(f"--name {name[:40]!r} cannot name a folder. Use 1 to 100 letters from a "
                         "to z, digits, '.', '-' and '_', and no '.' or '-' first.")  # fmt: skip
    sweep = Sweep(SWEEPS / name, notebook, fixed, grid, table)
    for job in sweep.jobs():
        notebooks.check(notebook, job.parameters)
    return sweep


def save(sweep: Sweep) -> None:
    """Write down what the folder holds. A point that lost its notebook or a unit is not done."""
    notebook = os.path.relpath(sweep.notebook, store.ROOT)
    content = sweep._asdict() | {"folder": sweep.folder.name, "notebook": notebook}
    store.write_whole(sweep.folder / "plan.json", json.dumps(content, indent=2).encode())
    for job in sweep.finished():
        try:
            sweep.minutes(job)
            store.read_folder(sweep.folder / job.name)
        except (store.StoreError, OSError, ValueError, KeyError):
            (sweep.folder / f"{job.name}.done").unlink()


def load(folder: Path) -> Sweep:
    found = json.loads((folder / "plan.json").read_text())
    notebook = Path(os.path.normpath(store.ROOT / found["notebook"]))
    return Sweep(**found | {"folder": folder, "notebook": notebook})


def run(sweep: Sweep, cores: int, executor: str, *, dry: bool = False) -> int:
    """Run the points that are not done, and collect the table; ``dry``: only tell the plan."""
    settings = {"sweep": os.path.relpath(sweep.folder, store.ROOT), "threads": 1}
    drive = Drive(sweep.folder, settings, cores, executor)
    if dry:
        done = sweep.finished()
        print(_announce(sweep, [job.name for job in sweep.jobs() if job not in done]))
        return 0
    with alone(sweep.folder):
        save(sweep)
        waiting = list(drive.pending())
        print(_announce(sweep, waiting), flush=True)
        if executor == "local" and waiting:  # of one point: its share of the cores
            settings["threads"] = max(1, cores // len(waiting))
        code = drive.run(waiting, "point")
        if points := len(sweep.finished()):
            print(f"{len(collect(sweep))} rows of {points} points: {sweep.folder / 'table.csv'}")
    return code


def _announce(sweep: Sweep, waiting: list[str]) -> str:
    """What is to be run, and how long that takes if the other points take as long."""
    many, done = len(sweep.jobs()), sweep.finished()
    lines = [f"{sweep.notebook.name}, {many} points, in {sweep.folder}"]
    for name, values in (sweep.grid | {name: [one] for name, one in sweep.fixed.items()}).items():
        lines.append(f"  {name}: {', '.join(str(plain(value)) for value in values)}")
    lines.append(f"{many - len(waiting)} are done, {len(waiting)} are to be run.")
    if done and waiting:
        minutes = len(waiting) * mean(map(sweep.minutes, done))
        lines.append(f"About {minutes:.1f} minutes one after the other, by {len(done)} that ran.")
    return "\n".join(lines)


def collect(sweep: Sweep) -> "pd.DataFrame":
    """Gather what the finished points have measured, and save it with how it came about."""
    import pandas as pd

    jobs, done = sweep.jobs(), sweep.finished()
    table = pd.concat([_rows(sweep, job) for job in done], ignore_index=True)
    facts = {
        "notebook": sweep.notebook.name, "fixed": sweep.fixed, "grid": sweep.grid,
        "commit": store.commit(), "planned": len(jobs), "finished": len(done),
        "points": {job.name: {"minutes": sweep.minutes(job)} for job in done},
    }  # fmt: skip
    store.write(sweep.folder / "table.csv", table, facts)
    return table


def _rows(sweep: Sweep, job: Job) -> "pd.DataFrame":
    """A point's rows, after its parameters; a column that both have is the rows' own. They are the
    units of one experiment, as it sums them up; where none are left, the time it took."""
    import pandas as pd

    every, kept = experiments.every(), store.read_folder(sweep.folder / job.name)
    left = dict.fromkeys(one.unit.experiment for one in kept)
    table = sweep.table or next((name for name in [*every, *left] if name in left), None)
    if sweep.table and table not in left:
        raise store.StoreError(
            f"The point {job.name} has left no unit of {table} in {sweep.folder / job.name}. "
            "Name an experiment whose units its notebook makes with --table."
        )
    kept = [one for one in kept if one.unit.experiment == table]
    if table in every and every[table].summary:
        rows = every[table].summary(kept)
    elif kept:
        rows = pd.concat([one.rows for one in kept], ignore_index=True)
    else:
        rows = pd.DataFrame({"minutes": [sweep.minutes(job)]})
    given = {name: plain(value) for name, value in job.parameters.items()
             if name != "out" and name not in rows}  # fmt: skip
    return pd.concat([pd.DataFrame([given] * len(rows)), rows], axis=1)
