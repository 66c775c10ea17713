"""The rows of all points, one tidy table."""

from pathlib import Path
from typing import Any

import pandas as pd

from replication import results
from replication.notebooks import Job
from replication.sweep.estimate import seconds
from replication.sweep.grid import Sweep, plain

REMEDY = "replication sweep (the same command again)"


def collect(sweep: Sweep) -> pd.DataFrame:
    """Gather what the finished points have measured, and save it with how it came about."""
    jobs, done = sweep.jobs(), sweep.finished()
    if not done:
        raise results.ResultsError(f"No point of {sweep.folder} is finished: there is no table.")
    table = pd.concat([_rows(sweep, job) for job in done], ignore_index=True)
    facts = {
        "notebook": sweep.notebook.name, "fixed": sweep.fixed, "grid": sweep.grid,
        "commit": results.commit(), "planned": len(jobs), "finished": len(done),
        "points": {job.name: _provenance(sweep, job) for job in done},
    }  # fmt: skip
    results.save(sweep.folder, "table", table, facts)
    return table


def _provenance(sweep: Sweep, job: Job) -> dict[str, Any]:
    """How long a point took, and where to read more of what its rows come from."""
    found = [str(path.relative_to(sweep.folder)) for path in _tables(sweep, job)]
    return {"seconds": seconds(sweep.executed(job)), "tables": found}


def _tables(sweep: Sweep, job: Job) -> list[Path]:
    return sorted((sweep.folder / job.name).rglob(f"{sweep.table}.csv")) if sweep.table else []


def _rows(sweep: Sweep, job: Job) -> pd.DataFrame:
    """A point's rows, after its parameters; a column that both have is the rows' own."""
    given = {name: plain(value) for name, value in job.parameters.items() if name != "out"}
    rows = _measured(sweep, job)
    before = {name: value for name, value in given.items() if name not in rows}
    return pd.concat([_repeated(before, len(rows)), rows], axis=1)


def _repeated(values: dict[str, Any], times: int) -> pd.DataFrame:
    return pd.DataFrame([values] * times)


def _measured(sweep: Sweep, job: Job) -> pd.DataFrame:
    """The rows of its table, of each setting if there are several; else how long it took."""
    if sweep.table is None:
        return pd.DataFrame({"seconds": [seconds(sweep.executed(job))]})
    found = _tables(sweep, job)
    if not found:
        raise results.ResultsError(
            f"The point {job.name} has left no {sweep.table}.csv in {sweep.folder / job.name}. "
            "Name the table that its notebook saves with --table; or, if it was deleted, delete "
            f"{sweep.executed(job)} too, and call again."
        )
    return pd.concat([_table(path) for path in found], ignore_index=True)


def _table(path: Path) -> pd.DataFrame:
    rows, facts = results.load(path.parent, path.stem, REMEDY)
    setting = facts.get("config", {}).get("setting")
    if setting is not None and "setting" not in rows:
        rows.insert(0, "setting", setting)
    return rows
