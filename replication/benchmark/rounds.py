"""One group measured: FLOPs, exact memory, and rounds of the clock until the ratios are known."""

import time
from collections.abc import Callable
from typing import NamedTuple

import pandas as pd
import torch

from replication.benchmark.cells import Group, calls
from replication.benchmark.limits import (
    FEWEST_CALLS,
    FEWEST_ROUNDS,
    MOST_ROUNDS,
    NARROW,
    PATIENCE,
)
from replication.benchmark.noise import noisy
from replication.measure import count_flops, interleaved, peak_bytes, seconds
from replication.scaling_config import Scaling

NAN = float("nan")


class Counted(NamedTuple):
    """What does not depend on the clock, and what it took to count it."""

    flops: float
    bytes: int
    seconds: float


class Result(NamedTuple):
    """Rows of a group, and what each of its cells cost."""

    rows: list[dict]
    costs: dict[str, dict]
    """By contender: status, reason, measured_call_ms, measured_seconds, measured_bytes."""


def measure_group(
    names: tuple[str, ...], group: Group, allowed: float, scaling: Scaling, device: torch.device
) -> Result:
    """All contenders in turn until no ratio is noisy, or ``allowed`` seconds have passed.

    A contender that fails for want of memory, or is far slower than predicted, is skipped.
    """
    start, counted, failed = time.perf_counter(), {}, {}
    runs = calls(names, group, scaling, device)
    for name, call in runs.items():
        try:
            counted[name] = _count(name, group, call, scaling.cell_seconds, device)
        except (TooSlowError, MemoryError, RuntimeError) as error:
            if not _expected(error):
                raise
            failed[name] = str(error).splitlines()[0]
    times = rounds({name: runs[name] for name in counted}, start + allowed, device)
    return _result(group, times, counted, failed, time.perf_counter() - start)


class TooSlowError(Exception):
    """A call that leaves no hope of staying within the budget."""


def _expected(error: Exception) -> bool:
    """Too slow or too large, and no mistake of ours; PyTorch tells them apart by words alone."""
    if isinstance(error, (TooSlowError, MemoryError, torch.OutOfMemoryError)):
        return True
    return "can't allocate memory" in str(error)


def _count(
    name: str, group: Group, call: Callable[[], object], limit: float, device: torch.device
) -> Counted:
    start = time.perf_counter()
    _check_pace(call, limit, device)
    unseen = name == "authors" and group.causal  # their C++ kernel is no product of PyTorch's
    flops = NAN if unseen else count_flops(call)
    return Counted(flops, peak_bytes(call, device), time.perf_counter() - start)


def _check_pace(call: Callable[[], object], limit: float, device: torch.device) -> None:
    """Give up what is hopeless; a slow first call may have been loading, so it has a second."""
    for _ in range(2):
        spent = seconds(call, device)
        if spent * FEWEST_CALLS <= PATIENCE * limit:
            return
    raise TooSlowError(
        f"time: a call took {spent:.3g} s, {FEWEST_CALLS} such calls are over {PATIENCE:g} x the "
        f"{limit:.3g} s a cell allowed"
    )


def rounds(runs: dict[str, Callable], end: float, device: torch.device) -> pd.DataFrame:
    """Seconds: a row a round, a column a contender."""
    found = {name: [] for name in runs}
    for _, name, spent in interleaved(runs, MOST_ROUNDS, device):
        found[name].append(spent)
        if name == next(reversed(runs)) and _enough(pd.DataFrame(found), end):
            break
    return pd.DataFrame(found)


def _enough(times: pd.DataFrame, end: float) -> bool:
    if len(times) < FEWEST_ROUNDS:
        return False
    return time.perf_counter() >= end or not noisy(times)


def _result(
    group: Group,
    times: pd.DataFrame,
    counted: dict[str, Counted],
    failed: dict[str, str],
    whole: float,
) -> Result:
    """What no cell spent alone of the ``whole`` seconds (inputs, warm-up) is shared equally."""
    rows, costs = [], {}
    own = {name: count.seconds + times[name].sum() for name, count in counted.items()}
    shared = (whole - sum(own.values())) / (len(counted) + len(failed))
    wide = noisy(times) if counted else set()
    for name, count in counted.items():
        state = _state(name in wide, len(times))
        rows += _rows(name, group, state, times[name], count)
        costs[name] = state | {
            "measured_call_ms": times[name].median() * 1e3,
            "measured_seconds": own[name] + shared,
            "measured_bytes": count.bytes,
        }
    for name, reason in failed.items():
        state = {"status": "skipped", "reason": reason}
        rows.append(row_of(name, group, **state))
        costs[name] = state | {"measured_seconds": shared}
    return Result(rows, costs)


def _state(wide: bool, count: int) -> dict[str, str]:
    if not wide:
        return {"status": "measured", "reason": ""}
    return {"status": "noisy", "reason": f"ratio not known to {NARROW:.0%} after {count} rounds"}


def _rows(name: str, group: Group, state: dict, times: pd.Series, count: Counted) -> list[dict]:
    """A row a round, per sample."""
    blank = row_of(name, group, **state)
    counts = {"peak_bytes": count.bytes / group.batch, "flops": count.flops / group.batch}
    return [
        blank | counts | {"round": i, "time_ms": spent * 1e3 / group.batch}
        for i, spent in enumerate(times)
    ]


def row_of(name: str, group: Group, status: str, reason: str) -> dict:
    """A row without measurements, all columns in order."""
    numbers = dict.fromkeys(("round", "time_ms", "peak_bytes", "flops"), NAN)
    return {"contender": name, **group._asdict(), **numbers, "status": status, "reason": reason}
