"""The scaling benchmark as a whole: kept on disk, run from anywhere, and put into tables."""

from replication.scaling.apart import WAYS, obtain, obtain_repeats
from replication.scaling.repeats import Repeats, load_repeats, run_repeats
from replication.scaling.run import (
    Outcome,
    finished,
    is_stale,
    load_scaling,
    run_scaling,
    summary,
)

__all__ = [
    "WAYS",
    "Outcome",
    "Repeats",
    "finished",
    "is_stale",
    "load_repeats",
    "load_scaling",
    "obtain",
    "obtain_repeats",
    "run_repeats",
    "run_scaling",
    "summary",
]
