"""Every number of the crossover once: what its runs measure, with reasons; and what is published.

*The earlier replication* is Do & Bergner 2022.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from replication.experiments.base import PROFILES, one_of
from replication.experiments.scaling.numbers import Scaling, doubling, overridden
from replication.experiments.scaling.numbers import resolve as scaling_of
from replication.store import OWN

QUESTION = MappingProxyType({
    "contenders": ("linear", "authors", "softmax", "softmax-textbook"),
    "lengths": doubling(1, 10),  # from the shortest to above the crossovers seen so far
    "rivals_until": 2**20,  # all lengths that are asked for
    "tokens": 1024,  # in a minute many lengths tell more than large batches
    "models": (),  # the question is about a layer
    "repeats": 4,  # a run of all lengths then takes some seconds
})  # fmt: skip
"""What is measured, where nobody says otherwise."""
RUNS = 5
"""Of a question that is asked in a minute. What differs between runs is most of an interval; if
five shorter ones differ as three do, Student's is half as wide."""
GENERATION = "generation"
"""The mode in which tokens are written one by one."""
EXACT = ("float32", "float64")
"""A state adds up, and half types lose what is small."""
REPEATS = {
    "smoke": (doubling(1, 6), 1, 10.0),
    "quick": (doubling(1, 10), 3, 7.0),
    "reference": (doubling(1, 10), 6, 30.0),
    "paper": (doubling(1, 13), 6, 600.0),
}  # fmt: skip
"""Lengths, runs and seconds of a run that ask a profile's main question."""


def asked(seconds: float, profile: str = OWN, runs: int = RUNS, **overrides: Any) -> Scaling:
    """One setting of one layer, in ``runs`` runs that take the time given together."""
    base = Scaling(profile=profile, runs=runs, seconds=seconds / runs, **QUESTION)
    found = overridden(base, overrides)
    return replace(found, lengths=tuple(sorted(found.lengths)))


def is_generation(scaling: Scaling) -> bool:
    return scaling.directions == (GENERATION,)


def is_usual(scaling: Scaling) -> bool:
    """Whether it is the main question: its mechanisms, in whole layers."""
    return scaling.contenders == QUESTION["contenders"] and not is_generation(scaling)


def resolve(profile: str, plan: Mapping[str, tuple] = REPEATS, **overrides: Any) -> Scaling:
    """The main question of a profile's benchmark, training a causal layer, as ``plan`` asks it."""
    one_of("profile", profile, PROFILES)
    (lengths, runs, seconds), same = plan[profile], scaling_of(profile)
    sizes = {name: getattr(same, name) for name in ("heads", "head_dim", "dtype")}
    sizes["repeats"] = 10 if profile == "smoke" else 6
    return asked(seconds * runs, profile, runs, lengths=lengths, **sizes | overrides)


# What the earlier replication has published ---------------------------------------------------

EARLIER_MACHINE = "one Quadro P4000 with 8 GB"
"""Its Sec. 3.5."""
TABLE_1 = MappingProxyType({
    "N": (8, 16, 32, 64),
    "softmax": (221.0, 236.0, 287.0, 416.0),
    "linear": (1738.0, 3004.0, 5373.0, 10071.0),
})  # fmt: skip
"""Seconds for 3000 training steps. Its Table 1; one run a length."""
EARLIER_STEPS = 3000
"""Training steps behind each time of its Table 1."""
EARLIER_ENDS = MappingProxyType({
    8: {"softmax": 1.29, "linear": 0.00}, 16: {"softmax": 1.81, "linear": 1.80},
    32: {"softmax": 2.15, "linear": 0.00}, 64: {"softmax": 2.24, "linear": 2.19},
})  # fmt: skip
"""Where the curves of its Figures 2 and 5 end, by N, in nats per token: read off, and divided by
the batch that their levels fit, 8 for softmax and 32 for linear attention. Its softmax at N = 32
ends between 2.08 and 2.22."""
