"""What is run: one causal layer, forward and backward, in several runs, each a unit."""

from functools import partial

from replication.experiments.equal_care.numbers import resolve
from replication.experiments.scaling import run as scaling
from replication.store import Unit

units_of = partial(scaling.units_of, experiment="equal_care")
ensure = partial(scaling.ensure, units_of=units_of)


def units(profile: str) -> list[Unit]:
    return units_of(resolve(profile))
