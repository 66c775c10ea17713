"""Every number of the comparison by equal care; all others are those of the main crossover."""

from typing import Any

from replication.experiments.crossover.numbers import asked
from replication.experiments.scaling.numbers import Scaling, doubling

OPPONENTS = ("softmax-tiled", "softmax")
"""Softmax by our tiles, threads and compiler, and by PyTorch's fused kernel."""
RUNS = {
    "smoke": (doubling(1, 5), 1, 2.0),
    "quick": (doubling(6, 10), 3, 3.0),
    "reference": (doubling(1, 12), 6, 40.0),
    "paper": (doubling(1, 13), 6, 600.0),
}  # fmt: skip
"""Lengths, runs, and seconds of a run. Ours: from the shortest to where the methods differ."""
SMOKE = {"heads": 2, "head_dim": 8}
"""As the benchmark has them there."""


def resolve(profile: str, **overrides: Any) -> Scaling:
    lengths, runs, seconds = RUNS[profile]
    own = {"contenders": ("linear", *OPPONENTS), "lengths": lengths, "repeats": 6}
    own |= (SMOKE | {"repeats": 10} if profile == "smoke" else {}) | overrides
    return asked(seconds * runs, profile, runs, **own)
