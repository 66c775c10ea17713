"""Decoding: what one more token costs after N others (notebook 04)."""

from replication.experiments.base import Experiment, later

EXPERIMENT = Experiment(
    name="decoding",
    title="one more token",
    notebook="04_scaling_benchmarks",
    alone=True,
    units=later(f"{__name__}.run:units"),
    evidence=later("replication.experiments.scaling.run:evidence"),
    rules={"constant_cost": later(f"{__name__}.run:constant_cost")},
)
