"""A grid of points: one notebook, many parameters, one tidy table."""

from replication.sweep.estimate import announce, estimate
from replication.sweep.grid import SWEEPS, Sweep, load, plan, save
from replication.sweep.table import collect

__all__ = ["SWEEPS", "Sweep", "announce", "collect", "estimate", "load", "plan", "save"]
