"""The crossover: from which N on linear attention is cheaper, in several runs (notebook 05)."""

from functools import partial
from typing import Any

from replication.experiments.base import Command, Experiment, later, some, tidy, whole
from replication.experiments.crossover.numbers import resolve
from replication.experiments.scaling import ADD, costs
from replication.experiments.scaling.numbers import resolve as resolve_benchmark


def _check(
    profile: str = "quick", level: float = 0.95, contender: str = "linear",
    opponents: Any = ("softmax",), **others,
) -> None:  # fmt: skip
    given = ("contenders", "lengths", "seconds", "device", "threads")
    resolve_benchmark(profile, **{name: others.get(name) for name in given})
    resolve(profile, device=others.get("device"), threads=others.get("threads"))
    if level != tidy("level", level, 0.95) or not 0 < level < 1:  # a text is none
        raise ValueError(f"level={level!r} is no share. Choose one between 0 and 1, such as 0.95.")
    for name, limits in {"add": ADD, "shortest": (1, 2**31), "simulations": (1, 10**5)}.items():
        whole(name, limits[0] if others.get(name) is None else others[name], *limits)
    some("opponents", opponents)
    if contender in opponents:
        raise ValueError(f"opponents={list(opponents)} hold {contender} itself. Name others.")
    resolve_benchmark(profile, contenders=[contender, *opponents])  # unknown names are refused


EXPERIMENT = Experiment(
    name="crossover",
    title="the main crossover",
    notebook="05_crossover_estimate",
    alone=True,
    needs=("scaling",),
    minutes={"smoke": 0.6, "quick": 0.9, "reference": 3.5},
    units=later(f"{__name__}.run:units"),
    evidence=later("replication.experiments.scaling.run:evidence"),
    costs=partial(costs, "the main crossover"),
    answers=later(f"{__name__}.rules:answers"),
    check=_check,
    commands=tuple(
        Command(name, text, later(f"{__name__}.commands:{name}_arguments"),
                later(f"{__name__}.commands:{name}"))
        for name, text in (
            ("crossover", "from which length on linear attention pays on this machine"),
            ("ask", "what a layer of this size costs here, by every attention"),
        )
    ),
)  # fmt: skip
