"""What ``replication crossover`` and ``ask`` take, checked before anything is measured."""

from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from replication.experiments.base import DEVICES, at_least, one_of
from replication.experiments.crossover.numbers import QUESTION, asked
from replication.experiments.scaling.numbers import DIRECTIONS, Scaling

GENERATION = "generation"
"""The mode in which tokens are written one by one."""
WRITTEN = ("linear", "softmax")
"""Whose tokens are timed where nobody says otherwise: a state and a cache."""
COMPARED = ("linear", "authors", "softmax", "softmax-textbook", "lsh-4")
"""Whose costs are told where nobody says otherwise."""
EXACT = ("float32", "float64")
"""A state adds up, and half types lose what is small."""
SHORT = {"lsh": "lsh-4"}
"""A mechanism by its own name: LSH has the paper's four rounds."""


def add_layer(parser: ArgumentParser) -> None:
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


def several_lengths(options: Namespace) -> Scaling:
    """The question of ``crossover``, in three runs."""
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
    if generates and not options.causal:
        raise ValueError("A token that is written sees no later one. Leave --no-causal out.")
    if generates and found.dtype not in EXACT:
        raise ValueError(f"dtype={found.dtype!r}: a state adds up, which takes {EXACT[0]} or "
                         f"{EXACT[1]}. Choose one of them.")  # fmt: skip
    return replace(found, directions=(GENERATION,)) if generates else found


def is_generation(scaling: Scaling) -> bool:
    return scaling.directions == (GENERATION,)


def usual(scaling: Scaling) -> bool:
    """Whether it is the main question: its mechanisms, in whole layers."""
    return scaling.contenders == QUESTION["contenders"] and not is_generation(scaling)
