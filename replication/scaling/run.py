"""The scaling benchmark on disk: what is measured is kept, and a stopped run goes on.

scaling.csv has a row a repeat; scaling_plan.csv a row a cell, with what was predicted and what
it took; calibration.csv what the prediction rests on; the JSON beside them how all came about.
A group counts as measured once the plan says so, and that file is replaced in one step after
the rows are on disk. So a run that is killed at any moment loses at most one group.
"""

import json
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
    """Measure what is not yet measured in ``folder``; ``again`` forgets what is there."""
    if again:
        _forget(folder)
    now = _identity(scaling, device)
    if not (folder / f"{PLAN}.csv").exists():
        _begin(folder, prepare(scaling, device, memory_bytes), now)
    planned, facts = _resume(folder, now)
    if finished(planned):
        return load_scaling(folder)
    facts["sessions"].append({"started": _time(), "load": now["machine"]["load"]})
    for rows, so_far in measure_plan(planned, scaling, device):
        results.append(folder / f"{ROWS}.csv", rows)
        results.save(folder, PLAN, so_far, facts)
    _finish(folder, so_far, facts, device)
    return load_scaling(folder)


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


def is_stale(facts: dict) -> bool:
    """Whether the source that measures has changed since these rows were measured."""
    return facts["source"] != sources.hash_of("benchmark")


def _words(table: pd.DataFrame) -> pd.DataFrame:
    """CSV knows no empty text."""
    return table.assign(reason=table["reason"].astype(object).fillna(""))


def as_json(scaling: Scaling) -> dict:
    """As it comes back from disk."""
    return json.loads(json.dumps(asdict(scaling)))


def _identity(scaling: Scaling, device: torch.device) -> dict:
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
    facts = now | {"budget": prepared.budget._asdict(), "sessions": [], "started": _time()}
    facts["predicted_seconds"] = _seconds(prepared.plan, "predicted")
    results.save(folder, CALIBRATION, prepared.calibration, facts)
    results.write_whole(folder / f"{ROWS}.json", results.to_json(facts))
    if left_out := skipped_rows(prepared.plan):
        results.append(folder / f"{ROWS}.csv", left_out)
    results.save(folder, PLAN, prepared.plan, facts)


def _resume(folder: Path, now: dict) -> tuple[pd.DataFrame, dict]:
    """The plan and its facts; rows of a group that was not finished are dropped."""
    planned, facts = results.load(folder, PLAN, "replication bench scaling --again")
    if differ := [name for name in SAME if facts.get(name) != now[name]]:
        raise results.ResultsError(
            f"The run in {folder} had another {', '.join(differ)}, so it cannot stand for this "
            "one. Measure anew with --again (in a notebook: rows fresh), or choose another folder "
            "with --out."
        )
    rows_path = folder / f"{ROWS}.csv"
    rows = results.read_partial(rows_path)
    rows = rows if rows.empty else rows[~uncommitted(rows, planned)]
    if rows.empty:
        rows_path.unlink(missing_ok=True)
    else:
        results.write_whole(rows_path, rows.to_csv(index=False).encode())
    return _words(planned), facts


def _finish(folder: Path, planned: pd.DataFrame, facts: dict, device: torch.device) -> None:
    facts["gemm_flops_per_s"] = gemm_rate(device, repeats=3)
    facts["measured_seconds"] = _seconds(planned, "measured")
    facts["finished"] = _time()
    results.save(folder, PLAN, planned, facts)
    results.write_whole(folder / f"{ROWS}.json", results.to_json(facts))


def _seconds(planned: pd.DataFrame, which: str) -> float:
    """Of all cells that are not skipped."""
    return float(planned.loc[planned["status"] != "skipped", f"{which}_seconds"].sum())


def _forget(folder: Path) -> None:
    """The plan goes first, so that no half of a run is taken for one."""
    for name in (PLAN, ROWS, CALIBRATION):
        for suffix in (".csv", ".json"):
            (folder / f"{name}{suffix}").unlink(missing_ok=True)


def _time() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
