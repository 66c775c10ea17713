"""The fast implementations beside the equations: errors, who sees whom, rank, costs."""

from argparse import ArgumentParser
from typing import Any

from replication.experiments import base
from replication.experiments.base import Command, Experiment, fits, later, some

LEAST = {"heads": 1, "head_dim": 1, "value_dim": 1, "positions": 2, "rounds": 1, "buckets": 2,
         "chunk": 1, "seed": 0}  # fmt: skip
LSH = {"rounds": 2, "buckets": 8, "chunk": 16, "seed": 0}
"""Such as these."""


def check(*, lengths: Any, longest: Any, rank_lengths: Any, lsh: Any, **sizes: Any) -> None:
    """Refuse what leaves nothing to compare, no slope to be seen, or no memory."""
    if not isinstance(lsh, dict):
        raise ValueError(f"lsh={lsh!r} is not a mapping. Give one, such as {LSH}.")
    for name in lsh:
        base.one_of("lsh", name, LSH)
    if lacking := [name for name in LSH if name not in lsh]:
        raise ValueError(f"lsh lacks {', '.join(lacking)}. Give all of it, such as {LSH}.")
    for name, value in (sizes | lsh).items():
        base.whole(name, value, LEAST[name])
    if lsh.get("buckets", 2) % 2:
        raise ValueError(f"lsh buckets={lsh['buckets']} is odd. Choose an even number.")
    for name, values in {"lengths": lengths, "rank_lengths": rank_lengths}.items():
        some(name, values)
        for value in values:
            base.whole(name, value)
    base.whole("longest", longest)
    fits("lsh rounds", lsh["rounds"], lsh["rounds"] * max(lengths))
    fits("lsh buckets", lsh["buckets"], lsh["rounds"] * lsh["buckets"] * sizes.get("head_dim", 1))
    heads, D, M = (sizes.get(name, 1) for name in ("heads", "head_dim", "value_dim"))
    fits("lengths", max(lengths), heads * max(lengths) * (D + M))
    fits("longest", longest, heads * min(longest, max(lengths)) ** 2)
    fits("rank_lengths", max(rank_lengths), max(rank_lengths) ** 2, size=8)
    fits("positions", sizes.get("positions"), heads * sizes.get("positions", 2) ** 2 * (D + M))
    if sum(length <= longest for length in lengths) < 2:
        raise ValueError(
            f"longest={longest} leaves fewer than two of lengths={list(lengths)} for softmax, and "
            "growth needs two. Choose a larger one."
        )


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--device", default="auto", choices=base.DEVICES)
    base.bench_arguments(parser)


EXPERIMENT = Experiment(
    name="implementations",
    title="the implementations",
    notebook="02_attention_implementations",
    smallest={"head_dim": 4, "value_dim": 6, "positions": 33, "longest": 512,
              "lengths": [64, 128, 256], "rank_lengths": [16, 32, 64]},
    minutes={"smoke": 0.3, "quick": 0.5, "reference": 0.5, "paper": 0.5},
    commands=(
        Command("bench attention", "kernels beside the authors', and one decoding step", arguments,
                later("replication.experiments.implementations.bench:run")),
    ),
    check=check,
)  # fmt: skip
