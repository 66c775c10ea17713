"""Every number of the comparison by equal care; all others are those of the main crossover."""

from typing import Any

from replication.experiments.crossover.numbers import resolve as main_question
from replication.experiments.scaling.numbers import Scaling, doubling

OPPONENTS = ("softmax-tiled", "softmax")
"""Softmax by our tiles, threads and compiler, and by PyTorch's fused kernel."""
RUNS = {
    "smoke": (doubling(1, 5), 1, 2.0),
    "quick": (doubling(6, 10), 3, 3.0),
    "reference": (doubling(1, 12), 5, 40.0),
    "paper": (doubling(1, 13), 6, 600.0),
}  # fmt: skip
"""Lengths, runs, and seconds of a run. Ours: from the shortest to where the methods differ."""


def resolve(profile: str, **overrides: Any) -> Scaling:
    return main_question(profile, RUNS, contenders=("linear", *OPPONENTS), **overrides)
