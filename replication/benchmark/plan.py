"""What each cell will cost, from a short calibration, and which cells are worth it.

A call of a cell costs a + b (batch N) + c (batch N^2), with c = 0 where theory has no N^2:
softmax attention takes quadratic time, and quadratic memory if it writes its matrix down.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from inspect import signature
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.optimize import nnls
from tqdm.auto import tqdm

from replication.attention import lsh_attention
from replication.benchmark.cells import LAYER, Group, calls, contenders, groups, unavailable
from replication.benchmark.limits import FEWEST_CALLS
from replication.measure import peak_bytes, seconds
from replication.scaling_config import Scaling
from replication.tasks import TASKS

QUADRATIC = {"seconds": ("softmax", "softmax-textbook"), "bytes": ("softmax-textbook",)}
"""Who grows with N^2, and in what."""

SERIES = ("contender", *Group._fields[:-2])
"""The columns that name a contender in one kind of group, at all its sizes."""

LSH_CHUNK = signature(lsh_attention).parameters["chunk"].default

Predict = Callable[[str, Group], "Cost"]


class Cost(NamedTuple):
    """Of one call: wall time, and peak memory beyond the inputs."""

    seconds: float
    bytes: float


class Budget(NamedTuple):
    """What may be spent: on all cells, on one cell, and at any moment."""

    seconds: float
    cell_seconds: float
    bytes: float


# Calibration -------------------------------------------------------------------------------


def calibrate(scaling: Scaling, device: torch.device) -> pd.DataFrame:
    """A row a point: contender, group columns, seconds, bytes, at a few small sizes.

    The faster of two calls counts: what else the machine does can only slow them down.
    """
    rows = []
    points = calibration_points(scaling)
    for group in tqdm(points, desc="calibration", unit="point", leave=False, disable=None):
        names = tuple(c for c in contenders(scaling, group) if not unavailable(c, group))
        for name, call in calls(names, group, scaling, device).items():
            first, memory = seconds(call, device), peak_bytes(call, device)
            cost = Cost(min(first, seconds(call, device)), memory)
            rows.append({"contender": name, **group._asdict(), **cost._asdict()})
    return pd.DataFrame(rows)


def calibration_points(scaling: Scaling) -> list[Group]:
    """Of every kind of group: the calibration's lengths, none longer than the longest wanted.

    Once with a batch of one, which shows what a call costs whatever its size.
    """
    found = {}
    for group in groups(scaling):
        found.setdefault(group.kind, []).append(group)
    return [point for kind in found.values() for point in _points(kind, scaling)]


def _points(kind: list[Group], scaling: Scaling) -> list[Group]:
    longest, published = kind[-1], max(group.batch for group in kind)
    least = 1 if longest.subject == LAYER else TASKS[longest.subject].shortest
    lengths = sorted({max(least, min(N, longest.N)) for N in scaling.calibration})
    top = min(scaling.tokens, scaling.calibration[-1])
    sizes = {(lengths[0], 1), *((N, min(published, max(1, top // N))) for N in lengths)}
    return [longest.sized(N, batch) for N, batch in sorted(sizes)]


def predictor(calibration: pd.DataFrame) -> Predict:
    """Costs of any cell whose kind was calibrated."""
    fits = {
        key: [_fit(points, key[0], what) for what in Cost._fields]
        for key, points in calibration.groupby([*SERIES])
    }

    def predict(name: str, group: Group) -> Cost:
        terms = _terms(name, np.array([group.batch]), np.array([group.N]))[0]
        return Cost(*(float(terms @ fit) for fit in fits[name, *group.kind]))

    return predict


def _terms(name: str, batch: np.ndarray, N: np.ndarray) -> np.ndarray:
    """1, batch N, batch N^2; LSH fills its last chunk up."""
    if name.startswith("lsh"):
        N = -(-N // LSH_CHUNK) * LSH_CHUNK
    return np.stack([np.ones(len(N)), batch * N, batch * N.astype(float) ** 2], -1)


def _fit(points: pd.DataFrame, name: str, what: str) -> np.ndarray:
    """Coefficients of the three terms, none negative, by least squares of relative errors."""
    used = 3 if name in QUADRATIC[what] else 2
    terms = _terms(name, points["batch"].to_numpy(), points["N"].to_numpy())[:, :used]
    scale = terms.max(0)
    values = np.maximum(points[what].to_numpy(float), np.finfo(float).tiny)
    fit, _ = nnls(terms / scale / values[:, None], np.ones(len(values)))
    return np.append(fit / scale, np.zeros(3 - used))


# Choice ------------------------------------------------------------------------------------


def plan(scaling: Scaling, predict: Predict, budget: Budget) -> pd.DataFrame:
    """A row a cell: what it should cost, whether it is planned or skipped, and why."""
    rows = [
        _planned(name, group, predict, budget)
        for group in groups(scaling)
        for name in contenders(scaling, group)
    ]
    _fit_into(budget.seconds, rows)
    check_something(rows, budget)
    nothing_yet = {f"measured_{what}": np.nan for what in ("call_ms", "seconds", "bytes")}
    return pd.DataFrame(rows).assign(**nothing_yet)


def _planned(name: str, group: Group, predict: Predict, budget: Budget) -> dict:
    row = {"contender": name, **group._asdict()}
    if reason := unavailable(name, group):
        costs = dict.fromkeys(("call_ms", "seconds", "bytes"), np.nan)
    else:
        cost = predict(name, group)
        costs = {"call_ms": cost.seconds * 1e3, "seconds": cost.seconds * FEWEST_CALLS}
        costs |= {"bytes": cost.bytes}
        reason = too_dear(cost, group, budget)
    row |= {f"predicted_{what}": value for what, value in costs.items()}
    return row | {"status": "skipped" if reason else "planned", "reason": reason or ""}


def too_dear(cost: Cost, group: Group, budget: Budget) -> str | None:
    """Why one cell alone is over the budget; None if it is not."""
    memory, time = cost.bytes + input_bytes(group), cost.seconds * FEWEST_CALLS
    if memory > budget.bytes:
        return f"memory: {memory / 1e9:.3g} GB predicted, {budget.bytes / 1e9:.3g} GB allowed"
    if time > budget.cell_seconds:
        return (
            f"time: {FEWEST_CALLS} calls of {cost.seconds:.3g} s predicted, "
            f"{budget.cell_seconds:.3g} s a cell allowed"
        )
    return None


def input_bytes(group: Group) -> int:
    """Queries, keys, values and the gradient from above, which stay during a group."""
    numbers = group.batch * group.heads * group.N * group.head_dim
    return 4 * numbers * getattr(torch, group.dtype).itemsize if group.subject == LAYER else 0


def _fit_into(limit: float, rows: Iterable[dict]) -> None:
    """Skip groups until all that is planned fits into ``limit`` seconds, fairly to all kinds.

    A group stays or goes as a whole, so that what stays can be compared. Each kind takes its
    groups from the cheapest on. Of all kinds the one goes next that will have taken least by
    then, so that none starves because the groups of another are cheaper.
    """
    order = sorted(_within_kinds(rows), key=itemgetter(0))
    total = np.cumsum([_cost(cells) for _, cells in order])
    for (taken, cells), spent in zip(order, total, strict=True):
        if spent > limit:
            reason = (
                f"time: {_cost(cells):.3g} s predicted for all contenders at this length, "
                f"{taken:.3g} s with its cheaper lengths, {limit:g} s allowed in all"
            )
            for cell in cells:
                cell |= {"status": "skipped", "reason": reason}


def _within_kinds(rows: Iterable[dict]) -> list[tuple[float, list[dict]]]:
    """Planned groups, each with what its kind takes up to it; of equals the longest first."""
    cells = defaultdict(list)
    for row in rows:
        if row["status"] == "planned":
            cells[Group.of(row)].append(row)
    taken, found = defaultdict(float), []
    for group in sorted(cells, key=lambda group: (_cost(cells[group]), -group.N)):
        taken[group.kind] += _cost(cells[group])
        found.append((taken[group.kind], cells[group]))
    return found


def _cost(cells: Iterable[dict]) -> float:
    return sum(cell["predicted_seconds"] for cell in cells)


def check_something(rows: list[dict], budget: Budget) -> None:
    if any(row["status"] == "planned" for row in rows):
        return
    raise ValueError(
        f"With {budget.seconds:.3g} s, {budget.cell_seconds:.3g} s a cell and "
        f"{budget.bytes / 1e9:.3g} GB nothing can be measured: {rows[0]['contender']} at "
        f"N = {rows[0]['N']} is skipped ({rows[0]['reason']}). Allow more."
    )


# Memory ------------------------------------------------------------------------------------


def free_bytes(device: torch.device) -> int:
    """What could be allocated now, of the device or of this machine, within its container."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    limits = [_machine_bytes(), _container_bytes()]
    return min(limit for limit in limits if limit is not None)


def _machine_bytes() -> int:
    try:
        with open("/proc/meminfo") as file:
            facts = dict(line.split(":") for line in file)
        return int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _container_bytes() -> int | None:
    """What a control group (version 2) leaves of its limit; None without one."""
    try:
        with (
            open("/sys/fs/cgroup/memory.max") as limit,
            open("/sys/fs/cgroup/memory.current") as used,
        ):
            return int(limit.read()) - int(used.read())
    except (OSError, ValueError):
        return None
