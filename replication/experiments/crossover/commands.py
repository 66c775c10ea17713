"""``replication crossover`` and ``ask``: what they take, checked before all else, and print."""

import json
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from replication.experiments.base import DEVICES, at_least, folder, one_of
from replication.experiments.crossover.numbers import EXACT, GENERATION, OWN, asked
from replication.experiments.scaling.numbers import DIRECTIONS, Scaling
from replication.store import RESULTS

WRITTEN = ("linear", "softmax")
"""Whose tokens are timed where nobody says otherwise: a state and a cache."""
COMPARED = ("linear", "authors", "softmax", "softmax-textbook", "lsh-4")
"""Whose costs are told where nobody says otherwise."""
SHORT = {"lsh": "lsh-4"}
"""A mechanism by its own name: LSH has the paper's four rounds."""


def _add_layer(parser: ArgumentParser) -> None:
    """What both commands take."""
    for name, kind, text in (
        ("heads", int, "of the layer; default: 8"),
        ("head-dim", int, "size of a head; default: 64"),
        ("dtype", str, "or float64, bfloat16, float16; default: float32"),
        ("mode", str, "or forward, or generation: one token more after N; default: training"),
        ("threads", int, "default: one, pinned; more: by wall time"),
    ):
        parser.add_argument(f"--{name}", type=kind, help=text)
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto; default: auto")
    parser.add_argument("--causal", action=BooleanOptionalAction, default=True,
                        help="with a causal mask or without; default: with")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="for scripts; default: for people")


def crossover_arguments(parser: ArgumentParser) -> None:
    _add_layer(parser)
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
    parser.add_argument("--seconds", type=float, default=60.0,
                        help="how long all of it may take; default: 60")  # fmt: skip


def ask_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--length", type=int, required=True, help="N, positions of a sequence")
    parser.add_argument("--batch", type=int, help="sequences; default: 1")
    _add_layer(parser)
    parser.add_argument("--compare", nargs="+", metavar="NAME",
                        help=f"these; default: {' '.join(COMPARED)}")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=20.0, help="at most; default: 20")


def several_lengths(options: Namespace) -> Scaling:
    """The question of ``crossover``, in several runs."""
    compared = None if options.compare is None else _named(options.compare, 2)
    if options.mode == GENERATION:
        compared = compared or list(WRITTEN)
    given = {"contenders": compared, "lengths": options.lengths, "tokens": options.tokens}
    found = _asked(options, **given)
    if len(found.lengths) < 2:
        raise ValueError(f"lengths={found.lengths}: a crossover lies between two. Give more.")
    if options.batch is None:
        return found
    if options.tokens is not None:
        raise ValueError("--batch and --tokens contradict each other. Give one of them.")
    at_least("batch", options.batch, 1)
    return replace(found, samples=options.batch, tokens=options.batch * max(found.lengths))


def one_length(options: Namespace) -> Scaling:
    """The question of ``ask``, in one run, of which five stretches of four stand for processes."""
    compared = _named(COMPARED if options.compare is None else options.compare, 1)
    batch = 1 if options.batch is None else options.batch
    return _asked(options, runs=1, repeats=20, contenders=compared, lengths=options.length,
                  samples=batch, tokens=max(1, batch * options.length))  # fmt: skip


def _named(compare: Iterable[str], fewest: int) -> list[str]:
    """Contenders, by their own names or by their mechanism's."""
    found = [part for text in compare for part in text.replace(",", " ").split()]
    if len(found) < fewest:
        raise ValueError(f"--compare names {len(found)} of at least {fewest}. Name more.")
    return [SHORT.get(name, name) for name in found]


def _asked(options: Namespace, **numbers: Any) -> Scaling:
    """The layer in the mode that is asked for, if it can be had there."""
    if options.mode is not None:
        one_of("mode", options.mode, (*DIRECTIONS, GENERATION))
    generates = options.mode == GENERATION
    names = ("heads", "head_dim", "dtype", "threads", "device")
    numbers |= {name: getattr(options, name) for name in names} | {"causal": [options.causal]}
    numbers["directions"] = "forward" if generates else options.mode
    found = asked(options.seconds, **numbers)
    one_of("device", found.device.split(":")[0], DEVICES)
    slow = [name for name in found.contenders if name.startswith("lsh")]
    if options.compare is not None and found.threads > 1 and slow:
        raise ValueError(f"{slow[0]} is timed on one thread alone. Leave it, or --threads, out.")
    if "softmax-tiled" in found.contenders and (generates or not options.causal):
        raise ValueError("softmax-tiled works on whole sequences with a causal mask. Leave it out, "
                         "or take softmax.")  # fmt: skip
    if generates and not options.causal:
        raise ValueError("A token that is written sees no later one. Leave --no-causal out.")
    if generates and found.dtype not in EXACT:
        raise ValueError(f"dtype={found.dtype!r}: a state adds up, which takes {EXACT[0]} or "
                         f"{EXACT[1]}. Choose one of them.")  # fmt: skip
    return replace(found, directions=(GENERATION,)) if generates else found


def crossover(options: Namespace) -> int:
    """Measured anew; what was there of the same question stays until all of it is."""
    scaling = several_lengths(options)
    where = options.out or RESULTS / OWN
    from replication.experiments.crossover.rules import answer
    from replication.experiments.crossover.run import Limit, ask_now

    found = ask_now(scaling, where, Limit.of_command(options), partial(answer, scaling))
    found |= {"folder": str(where / "crossover")}
    text = f"{found['paragraph']}\nRows and provenance: {found['folder']}"
    print(json.dumps(found, indent=2, allow_nan=False) if options.json else text)
    return 0


def ask(options: Namespace) -> int:
    scaling = one_length(options)
    import pandas as pd

    from replication.experiments.crossover.rules import costs
    from replication.experiments.crossover.run import Limit, load, measure_until, prepare

    prepare(scaling)
    limit = Limit.of_command(options)
    limit.run(load, scaling)  # compiled, if that was not done yet
    found = costs(scaling, limit.run(measure_until, scaling, 0, limit, Path()))
    if options.json:
        print(json.dumps(found, indent=2, allow_nan=False))
        return 0
    table = pd.DataFrame(found["costs"]).fillna(float("nan"))
    print(table.to_string(index=False, float_format="{:.3g}".format, na_rep="–"))
    print(*(f"{name} is left out: {why}" for name, why in found["left_out"].items()), found["how"],
          sep="\n")  # fmt: skip
    return 0
