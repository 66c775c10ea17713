"""The twenty equations of the paper, one by one."""

from typing import Any

from replication.experiments.base import Experiment, fits, some, whole


def check(*, lengths: Any, seed: Any = 0, **sizes: Any) -> None:
    """Refuse what leaves nothing to compute, or what is too large for the literal equations: N x N
    weights, and a state of D^2 x M at every position."""
    some("lengths", lengths)
    for name, value in [*sizes.items(), *(("lengths", length) for length in lengths)]:
        whole(name, value)
        fits(name, value, value**2, size=8)
    N, D, M = (sizes.get(name, 1) for name in "NDM")
    fits("D", D, N * D**2 * M, size=8)


EXPERIMENT = Experiment(
    name="derivation",
    title="the equations",
    notebook="01_math_derivation",
    smallest={"N": 6, "D": 3, "M": 4, "lengths": [16, 32, 64]},
    minutes={"smoke": 0.2, "quick": 0.3, "reference": 0.3, "paper": 0.3},
    check=check,
)
