"""The scaling benchmark as a whole: kept on disk, run from anywhere, and put into tables."""

from replication.scaling.apart import WAYS, obtain
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
    "finished",
    "is_stale",
    "load_scaling",
    "obtain",
    "run_scaling",
    "summary",
]
