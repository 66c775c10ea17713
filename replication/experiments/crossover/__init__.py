"""The crossover: from which N on linear attention is cheaper, in several runs (notebook 05)."""

import json
from argparse import ArgumentParser, Namespace
from functools import partial

from replication.experiments.base import Command, Experiment, folder, later
from replication.experiments.crossover.numbers import OWN, resolve
from replication.experiments.crossover.question import add_layer, several_lengths
from replication.experiments.scaling import costs
from replication.experiments.scaling.numbers import resolve as resolve_benchmark
from replication.store import RESULTS, writable


def _arguments(parser: ArgumentParser) -> None:
    add_layer(parser)
    for name, kind, text in (
        ("lengths", str, "such as 64,128,256; default: 2 to 1024, doubling"),
        ("tokens", int, "positions in a batch, which shrinks as 1/N; default: 1024"),
        ("batch", int, "sequences at every length, in place of --tokens; default: by --tokens"),
        ("out", folder, "where rows and provenance go; default: results/own"),
    ):
        parser.add_argument(f"--{name}", type=kind, help=text)
    parser.add_argument("--compare", nargs="+", metavar="NAME",
                        help="these, every two of them; default: linear attention by every kernel "
                        "with both forms of softmax")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=45.0,
                        help="how long all of it may take; default: 45")  # fmt: skip


def _crossover(options: Namespace) -> int:
    """Measured anew; what was there of the same question stays until all of it is."""
    scaling = several_lengths(options)
    where = writable(options.out or RESULTS / OWN)
    from replication.experiments.crossover.rules import answer
    from replication.experiments.crossover.run import Limit, ask_now

    evidence = ask_now(scaling, where, Limit.of_command(options))
    found = answer(scaling, evidence) | {"folder": str(where / "crossover")}
    text = f"{found['paragraph']}\nRows and provenance: {found['folder']}"
    print(json.dumps(found, indent=2, allow_nan=False) if options.json else text)
    return 0


def _check(profile: str = "quick", level: float = 0.95, **others) -> None:
    given = ("contenders", "lengths", "seconds", "device", "threads")
    resolve_benchmark(profile, **{name: others.get(name) for name in given})
    resolve(profile, device=others.get("device"), threads=others.get("threads"))
    if not 0 < level < 1:
        raise ValueError(f"level={level} is no share. Choose one between 0 and 1, such as 0.95.")


EXPERIMENT = Experiment(
    name="crossover",
    title="the main crossover",
    notebook="05_crossover_estimate",
    work="timing",
    needs=("scaling",),
    minutes={"smoke": 0.6, "quick": 0.9, "reference": 3.5},
    units=later(f"{__name__}.run:units"),
    evidence=later("replication.experiments.scaling.run:evidence"),
    costs=partial(costs, "the main crossover"),
    check=_check,
    commands=(
        Command("crossover", "from which length on linear attention pays on this machine",
                _arguments, _crossover),
        Command("ask", "what a layer of this size costs here, by every attention",
                later(f"{__name__}.ask:arguments"), later(f"{__name__}.ask:run")),
    ),
)  # fmt: skip
