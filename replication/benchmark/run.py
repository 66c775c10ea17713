"""A plan goes in; rows come out group by group, with the plan as it then stands. No disk."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from tqdm.auto import tqdm

from replication.benchmark.cells import CELL, Group
from replication.benchmark.plan import Budget, calibrate, free_bytes, plan, predictor
from replication.benchmark.rounds import measure_group, row_of
from replication.scaling_config import Scaling


class Prepared(NamedTuple):
    """What is known before the first measurement."""

    plan: pd.DataFrame
    budget: Budget
    calibration: pd.DataFrame


def prepare(scaling: Scaling, device: torch.device, memory_bytes: float | None = None) -> Prepared:
    """Calibrate, and plan."""
    calibration = calibrate(scaling, device)
    memory = scaling.memory_share * free_bytes(device) if memory_bytes is None else memory_bytes
    budget = Budget(scaling.seconds, scaling.cell_seconds, memory)
    return Prepared(plan(scaling, predictor(calibration), budget), budget, calibration)


def skipped_rows(planned: pd.DataFrame) -> list[dict]:
    """The rows of the cells that the plan leaves out."""
    skipped = planned[planned["status"] == "skipped"]
    return [row_of(cell["contender"], Group.of(cell), "skipped", cell["reason"])
            for cell in skipped.to_dict("records")]  # fmt: skip


def measure_plan(
    planned: pd.DataFrame, scaling: Scaling, device: torch.device
) -> Iterator[tuple[list[dict], pd.DataFrame]]:
    """(rows of a group, the plan with its costs), for every group that is still planned."""
    todo = open_groups(planned)
    with tqdm(todo.items(), unit="group", leave=False, disable=None) as bar:
        for group, names in bar:
            bar.set_description(str(group))
            allowed = allowance(planned, group, scaling.seconds)
            result = measure_group(names, group, allowed, scaling, device)
            planned = _with_costs(planned, group, result.costs)
            yield result.rows, planned


def measure_now(scaling: Scaling, device: torch.device) -> pd.DataFrame:
    """All rows of what takes a minute and need not be kept."""
    planned = prepare(scaling, device).plan
    parts = [rows for rows, _ in measure_plan(planned, scaling, device)]
    return pd.DataFrame([*skipped_rows(planned), *(row for rows in parts for row in rows)])


def open_groups(planned: pd.DataFrame) -> dict[Group, tuple[str, ...]]:
    """The contenders still to be measured, by group, in the order of the plan."""
    found = {}
    for cell in planned[planned["status"] == "planned"].to_dict("records"):
        group = Group.of(cell)
        found[group] = (*found.get(group, ()), cell["contender"])
    return found


def allowance(planned: pd.DataFrame, group: Group, seconds: float) -> float:
    """What a group may take: its predicted time, and an equal part of what nobody needs.

    The part is reckoned anew for every group, from what all before it really took.
    """
    ahead = planned[planned["status"] == "planned"]
    spare = seconds - planned["measured_seconds"].sum() - ahead["predicted_seconds"].sum()
    own = ahead.loc[_of_group(ahead, group), "predicted_seconds"].sum()
    return float(own + max(0.0, spare) / len(open_groups(planned)))


def _with_costs(planned: pd.DataFrame, group: Group, costs: dict[str, dict]) -> pd.DataFrame:
    planned = planned.copy()
    for name, cost in costs.items():
        cell = _of_group(planned, group) & (planned["contender"] == name)
        for column, value in cost.items():
            planned.loc[cell, column] = value
    return planned


def _of_group(planned: pd.DataFrame, group: Group) -> pd.Series:
    return (planned[[*Group._fields]] == pd.Series(group._asdict())).all(axis=1)


def uncommitted(rows: pd.DataFrame, planned: pd.DataFrame) -> np.ndarray:
    """Which rows belong to cells that the plan does not know to be done."""
    todo = planned.loc[planned["status"] == "planned", [*CELL]]
    return pd.MultiIndex.from_frame(rows[[*CELL]]).isin(pd.MultiIndex.from_frame(todo))


def measured(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that hold measurements, as the estimates take them."""
    kept = rows[rows["status"] != "skipped"]
    return kept.assign(round=kept["round"].astype(int))
