"""The scaling benchmark on disk: what is measured is kept, and a stopped run goes on.

scaling.csv has a row a repeat; scaling_plan.csv a row a cell, with what was predicted and what
it took; calibration.csv what the prediction rests on; the JSON beside them how all came about.
A group counts as measured once the plan says so and its rows are there; the plan is replaced in
one step after the rows are on disk. So a run that is killed at any moment loses at most one group,
and rows that were deleted are measured again.
"""

import ctypes
import json
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch

from replication import results, sources
from replication.benchmark import (
    Prepared,
    measure_plan,
    measured,
    prepare,
    skipped_rows,
    uncommitted,
)
from replication.measure import gemm_rate, machine
from replication.scaling.deaths import mark, unmark, without_the_deadly
from replication.scaling.lost import have_rows, reopened
from replication.scaling_config import Scaling

ROWS, PLAN, CALIBRATION = "scaling", "scaling_plan", "scaling_calibration"
STATES = ("measured", "noisy", "skipped")
SAME = ("config", "source", "processor", "threads", "device", "allocator")
"""What must not change between the parts of one run."""


class Outcome(NamedTuple):
    """What a run left behind."""

    rows: pd.DataFrame
    plan: pd.DataFrame
    facts: dict


def run_scaling(
    scaling: Scaling,
    folder: Path,
    device: torch.device,
    *,
    memory_bytes: float | None = None,
    again: bool = False,
) -> Outcome:
    """Measure what is not yet measured in ``folder``.

    ``again`` begins anew, unless a run of the same was broken off there: that one goes on. What is
    there is forgotten when the new plan stands, not before.
    """
    with results.held(folder, ROWS):
        now = identity(scaling, device)
        if not results.has(folder, PLAN) or (again and not _goes_on(folder, now)):
            _begin(folder, prepare(scaling, device, memory_bytes), now)
        planned, facts = _resume(folder, now)
        if not _ended(planned, facts):
            facts["sessions"].append({"started": now_utc(), "load": now["machine"]["load"]})
            _measure(folder, planned, facts, scaling, device)
        return load_scaling(folder)


def _measure(
    folder: Path, planned: pd.DataFrame, facts: dict, scaling: Scaling, device: torch.device
) -> None:
    """All groups that are still planned: the rows of each, then the plan that says so."""
    so_far = planned
    try:
        _keep(folder, so_far, facts)
        for rows, so_far in measure_plan(planned, scaling, device):
            results.append(folder / f"{ROWS}.csv", rows)
            _keep(folder, so_far, facts)
            give_back()
    except BaseException:
        unmark(facts)
        results.save(folder, PLAN, so_far, facts)
        raise
    _finish(folder, so_far, facts, device)


def _keep(folder: Path, planned: pd.DataFrame, facts: dict) -> None:
    """The plan as it stands, with a mark at the group that comes next."""
    mark(planned, facts)
    results.save(folder, PLAN, planned, facts)


def give_back() -> None:
    """Return freed memory to the system before the next group.

    Within a group it is kept, so that no call waits for pages. But blocks of one length do not
    fit into the holes that another has left, and the holes of all lengths would fill the machine.
    """
    with suppress(AttributeError, OSError):  # other C libraries than glibc have no such call
        ctypes.CDLL(None).malloc_trim(0)


def load_scaling(folder: Path, remedy: str = "replication bench scaling") -> Outcome:
    """Rows, plan and provenance of a run, finished or not."""
    rows, _ = results.load(folder, ROWS, remedy)
    planned, facts = results.load(folder, PLAN, remedy)
    return Outcome(_words(rows), _words(planned), facts)


def summary(outcome: Outcome) -> str:
    """Median milliseconds a sample, what was left out, and the plan beside its cost."""
    keys = ["subject", "direction", "causal", "N"]
    times = measured(outcome.rows).groupby([*keys, "contender"])["time_ms"].median().unstack()
    counts = outcome.plan["status"].value_counts()
    states = ", ".join(f"{counts.get(state, 0)} {state}" for state in STATES)
    costs = {which: _seconds(outcome.plan, which) for which in ("predicted", "measured")}
    return (
        f"{times.round(3).to_string(na_rep='-')}\nMilliseconds a sample. Cells: {states}. Fewest "
        f"rounds predicted at {costs['predicted']:.0f} s; all rounds took {costs['measured']:.0f} s"
        f".{_reasons(outcome.plan)}"
    )


def _reasons(planned: pd.DataFrame) -> str:
    """Of every contender how many cells were skipped, and why the first of them."""
    skipped = planned[planned["status"] == "skipped"].groupby(["subject", "contender"])
    return "".join(
        f"\nSkipped: {len(cells)} of {contender}, {subject}; the first, at N = "
        f"{cells['N'].iloc[0]}, for {cells['reason'].iloc[0]}."
        for (subject, contender), cells in skipped
    )


def finished(planned: pd.DataFrame) -> bool:
    return not (planned["status"] == "planned").any()


def is_whole(planned: pd.DataFrame, facts: dict, rows: pd.DataFrame) -> bool:
    """Whether a run came to its end, and has all its rows still."""
    return _ended(planned, facts) and bool(have_rows(planned, rows).all())


def _ended(planned: pd.DataFrame, facts: dict) -> bool:
    return finished(planned) and "finished" in facts


def is_stale(facts: dict) -> bool:
    """Whether the source that measures has changed since these rows were measured."""
    return facts["source"] != sources.hash_of("benchmark")


def _words(table: pd.DataFrame) -> pd.DataFrame:
    """CSV knows no empty text."""
    return table.assign(reason=table["reason"].astype(object).fillna(""))


def as_json(scaling: Scaling) -> dict:
    """As it comes back from disk."""
    return json.loads(json.dumps(asdict(scaling)))


def identity(scaling: Scaling, device: torch.device) -> dict:
    facts = machine(device)
    return {
        "config": as_json(scaling),
        "source": sources.hash_of("benchmark"),
        "commit": results.commit(),
        **{name: facts[name] for name in ("processor", "threads", "device", "allocator")},
        "machine": facts,
    }


def _begin(folder: Path, prepared: Prepared, now: dict) -> None:
    """The plan comes last: without it there is no run."""
    _forget(folder)
    facts = now | {"budget": prepared.budget._asdict(), "sessions": [], "started": now_utc()}
    facts["predicted_seconds"] = _seconds(prepared.plan, "predicted")
    results.save(folder, CALIBRATION, prepared.calibration, facts)
    results.write_whole(folder / f"{ROWS}.json", results.to_json(facts))
    if left_out := skipped_rows(prepared.plan):
        results.append(folder / f"{ROWS}.csv", left_out)
    results.save(folder, PLAN, prepared.plan, facts)


def _goes_on(folder: Path, now: dict) -> bool:
    """Whether a run of the same was broken off there; what cannot be read was not."""
    try:
        planned, facts = results.load(folder, PLAN, "")
        return not (_ended(planned, facts) or differing(facts, now))
    except (results.ResultsError, KeyError):
        return False


def differing(facts: dict, now: dict) -> list[str]:
    """What sets a run apart from one that would begin now."""
    return [name for name in SAME if facts.get(name) != now[name]]


def _resume(folder: Path, now: dict) -> tuple[pd.DataFrame, dict]:
    """The plan and its facts, after both and the rows were made to agree."""
    planned, facts = results.load(folder, PLAN, "replication bench scaling --again")
    if differ := differing(facts, now):
        raise results.ResultsError(
            f"The run in {folder} had another {', '.join(differ)}, so it cannot stand for this "
            "one. Measure anew with --again (in a notebook: rows fresh), or choose another folder "
            "with --out."
        )
    path = folder / f"{ROWS}.csv"
    rows = results.read_partial(path)
    planned = without_the_deadly(reopened(_words(planned), rows), facts)
    kept = rows if rows.empty else rows[~uncommitted(rows, planned)]
    if kept.empty:
        path.unlink(missing_ok=True)
    elif len(kept) < len(rows):
        results.write_whole(path, kept.to_csv(index=False).encode())
    if left_out := skipped_rows(planned[~have_rows(planned, kept)]):
        results.append(path, left_out)
    results.write_whole(folder / f"{ROWS}.json", results.to_json(facts))
    return planned, facts


def _finish(folder: Path, planned: pd.DataFrame, facts: dict, device: torch.device) -> None:
    facts["gemm_flops_per_s"] = gemm_rate(device, repeats=3)
    facts["measured_seconds"] = _seconds(planned, "measured")
    facts["finished"] = now_utc()
    results.write_whole(folder / f"{ROWS}.json", results.to_json(facts))
    results.save(folder, PLAN, planned, facts)


def _seconds(planned: pd.DataFrame, which: str) -> float:
    """Of all cells that are not skipped."""
    return float(planned.loc[planned["status"] != "skipped", f"{which}_seconds"].sum())


def _forget(folder: Path) -> None:
    """The plan goes first, so that no half of a run is taken for one."""
    for name in (PLAN, ROWS, CALIBRATION):
        for suffix in (".csv", ".json"):
            (folder / f"{name}{suffix}").unlink(missing_ok=True)


def now_utc() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
