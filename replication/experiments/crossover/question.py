"""What ``replication crossover`` and ``ask`` were asked, checked before anything is measured."""

from argparse import Namespace
from collections.abc import Iterable
from dataclasses import replace

from replication.experiments.base import DEVICES, at_least, one_of
from replication.experiments.crossover.numbers import QUESTION, asked
from replication.experiments.scaling.numbers import DIRECTIONS, Scaling

GENERATION = "generation"
"""The mode in which tokens are written one by one."""
MODES = (*DIRECTIONS, GENERATION)
WRITTEN = ("linear", "softmax")
"""Whose tokens are timed where nobody says otherwise: a state and a cache."""
EXACT = ("float32", "float64")
"""A state adds up, and half types lose what is small."""
SHORT = {"lsh": "lsh-4"}
"""A mechanism by its own name: LSH has the paper's four rounds."""


def question(options: Namespace) -> Scaling:
    """One layer at several lengths."""
    names = ("heads", "head_dim", "dtype", "lengths", "tokens", "threads", "device")
    compared = None if options.compare is None else named(options.compare, 2)
    if options.mode == GENERATION:
        compared = compared or list(WRITTEN)
    given = {name: getattr(options, name) for name in names} | {"causal": [options.causal]}
    found = asked(options.seconds, directions=direction(options), contenders=compared, **given)
    found = in_mode(found, options)
    return found if options.batch is None else _with_batch(found, options)


def named(compare: Iterable[str], fewest: int) -> list[str]:
    """Contenders, by their own names or by their mechanism's."""
    found = [part for text in compare for part in text.replace(",", " ").split()]
    if len(found) < fewest:
        raise ValueError(f"--compare names {len(found)} of at least {fewest}. Name more.")
    return [SHORT.get(name, name) for name in found]


def direction(options: Namespace) -> str | None:
    """What the benchmark of layers calls it: a token that is written goes forward."""
    if options.mode is not None:
        one_of("mode", options.mode, MODES)
    return "forward" if options.mode == GENERATION else options.mode


def in_mode(found: Scaling, options: Namespace) -> Scaling:
    """The same in the mode that is asked for, if it can be had there."""
    one_of("device", found.device.split(":")[0], DEVICES)
    slow = [name for name in found.contenders if name.startswith("lsh")]
    if options.compare is not None and found.threads > 1 and slow:
        raise ValueError(f"{slow[0]} is timed on one thread alone. Leave it, or --threads, out.")
    if options.mode != GENERATION:
        return found
    if not options.causal:
        raise ValueError("A token that is written sees no later one. Leave --no-causal out.")
    if found.dtype not in EXACT:
        raise ValueError(f"dtype={found.dtype!r}: a state adds up, which takes {EXACT[0]} or "
                         f"{EXACT[1]}. Choose one of them.")  # fmt: skip
    return replace(found, directions=(GENERATION,))


def _with_batch(found: Scaling, options: Namespace) -> Scaling:
    if options.tokens is not None:
        raise ValueError("--batch and --tokens contradict each other. Give one of them.")
    at_least("batch", options.batch, 1)
    return replace(found, samples=options.batch, tokens=options.batch * max(found.lengths))


def usual(scaling: Scaling) -> bool:
    """Whether it is the main question: its mechanisms, in whole layers."""
    main = scaling.contenders == QUESTION["contenders"].value
    return main and scaling.directions != (GENERATION,)
