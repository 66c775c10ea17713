"""Scaling: a profile goes in; a plan, then rows of time, exact memory and FLOPs come out."""

from replication.benchmark.cells import CELL, LAYER, STEP, Group, groups
from replication.benchmark.noise import is_narrow, median_interval, noisy
from replication.benchmark.plan import Budget, Cost, calibrate, plan, predictor
from replication.benchmark.rounds import Result, measure_group, row_of
from replication.benchmark.run import (
    Prepared,
    measure_now,
    measure_plan,
    measured,
    prepare,
    skipped_rows,
    uncommitted,
)

__all__ = [
    "CELL",
    "LAYER",
    "STEP",
    "Budget",
    "Cost",
    "Group",
    "Prepared",
    "Result",
    "calibrate",
    "groups",
    "is_narrow",
    "measure_group",
    "measure_now",
    "measure_plan",
    "measured",
    "median_interval",
    "noisy",
    "plan",
    "predictor",
    "prepare",
    "row_of",
    "skipped_rows",
    "uncommitted",
]
