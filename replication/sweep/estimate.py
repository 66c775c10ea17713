"""How long a point takes: from points that were run, or from a short real trial."""

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import NamedTuple

from replication import notebooks, results
from replication.notebooks import Job
from replication.sweep.grid import SWEEPS, Sweep, load, plain

TRIALS = {"03": {"steps": 3}}
"""What makes a real point of a notebook a short one. Its updates are counted and scaled up."""


class Estimate(NamedTuple):
    """What one point takes, and how that is known."""

    seconds: float
    origin: str


def estimate(sweep: Sweep, workers: int = 1, *, may_try: bool = True) -> Estimate | None:
    """None: nothing like it was run yet, and the first points must tell.

    ``may_try`` allows a trial, here and now.
    """
    if own := durations(sweep):
        return Estimate(mean(own), f"the mean of {len(own)} finished points of this sweep")
    for other in _others():
        if _kind(other) == _kind(sweep) and (found := durations(other)):
            origin = f"the mean of {len(found)} points of the sweep {other.folder.name}"
            return Estimate(mean(found), origin)
    return _trial(sweep, workers) if may_try and sweep.notebook.name[:2] in TRIALS else None


def _kind(sweep: Sweep) -> tuple:
    """Sweeps that differ in none of this differ in the values of their grids alone."""
    return sweep.notebook, sweep.fixed, sorted(sweep.grid)


def _others() -> Iterator[Sweep]:
    """All sweeps that can be read, the latest first."""
    for path in sorted(SWEEPS.glob("*/plan.json"), key=lambda path: -path.stat().st_mtime):
        with suppress(results.ResultsError):
            yield load(path.parent)


def announce(sweep: Sweep, waiting: int, workers: int, at_once: int | None, may_try: bool) -> None:
    """Print what will be run, how long that takes, and how that is known."""
    jobs = sweep.jobs()
    print(f"{sweep.notebook.name}, {len(jobs)} points, in {sweep.folder}")
    fixed = {name: [value] for name, value in sweep.fixed.items()}
    for name, values in (sweep.grid | fixed).items():
        print(f"  {name}: {', '.join(str(plain(value)) for value in values)}")
    print(f"{len(jobs) - waiting} are done and up to date, {waiting} are to be run.")
    if waiting:
        print(_forecast(estimate(sweep, workers, may_try=may_try), waiting, at_once), flush=True)


def _forecast(found: Estimate | None, waiting: int, at_once: int | None) -> str:
    if found is None:
        return "Nothing like it was run here yet: how long it takes will show with the first point."
    rounds = math.ceil(waiting / (at_once or 1))
    spread = f"with {min(at_once, waiting)} at a time" if at_once else "if one follows the other"
    return (
        f"About {in_words(rounds * found.seconds)} {spread}: {in_words(found.seconds)} a point, "
        f"by {found.origin}. Points differ."
    )


def in_words(seconds: float) -> str:
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"


def durations(sweep: Sweep) -> list[float]:
    """Seconds of every finished point."""
    return [seconds(sweep.executed(job)) for job in sweep.finished()]


def seconds(executed: Path) -> float:
    """How long papermill took."""
    return json.loads(executed.read_text())["metadata"]["papermill"]["duration"]


def _trial(sweep: Sweep, workers: int) -> Estimate:
    """The point in the middle of the grid, real but for its few updates. If it fails, its notebook
    stays in the sweep's folder."""
    jobs = sweep.jobs()
    job, few = jobs[len(jobs) // 2], TRIALS[sweep.notebook.name[:2]]
    print(f"Trial of {few['steps']} updates, to see how long a point takes ...", flush=True)
    with TemporaryDirectory() as scratch:
        given = job.parameters | few | {"out": scratch, "workers": workers}
        executed = notebooks.run(job.notebook, given, sweep.folder / "trial.ipynb")
        whole = seconds(executed) + sum(_rest(path, job) for path in _tables(scratch)) / workers
    executed.unlink()
    return Estimate(whole, f"a trial of {few['steps']} updates of {Path(job.name).name}")


def _tables(scratch: str) -> list[Path]:
    return sorted(Path(scratch).rglob("steps-*.csv"))


def _rest(table: Path, job: Job) -> float:
    """Seconds of the updates that a whole point makes beyond those of the trial."""
    from replication.config import resolve  # not above: Snakemake need not wait for PyTorch

    rows, facts = results.load(table.parent, table.stem, "replication sweep")
    trial, config = rows.groupby(["attention", "length", "seed"]).seconds, facts["config"]
    given = {"profile": config["profile"], "steps": job.parameters.get("steps")}
    whole = resolve(config["setting"], **given).steps
    return float((trial.median() * (whole - trial.size())).sum())
