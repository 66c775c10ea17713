"""What is run: one causal layer, forward and backward, in several runs, each a unit."""

from pathlib import Path

from replication.experiments.equal_care.numbers import resolve
from replication.experiments.scaling import run as scaling_run
from replication.experiments.scaling.numbers import Scaling
from replication.experiments.scaling.run import Evidence
from replication.store import Unit


def units(profile: str) -> list[Unit]:
    return units_of(resolve(profile))


def units_of(scaling: Scaling) -> list[Unit]:
    return scaling_run.units_of(scaling, "equal_care")


def ensure(scaling: Scaling, folder: Path | None = None, rows: str = "auto") -> Evidence:
    """The runs that ``folder`` has of these numbers, and those that are missing or stale."""
    return scaling_run.ensure_runs(units_of(scaling), folder, rows, None)
