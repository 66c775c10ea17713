"""Every number of the scaling benchmark once, with its source or reason; its four profiles.

*paper* is Katharopoulos et al. 2020, Sec. 4.1.2 and Figure 1; *earlier* is Do & Bergner 2022,
Table 1. The paper states lengths and that the batch shrinks as 1/N, but neither heads, sizes
nor repeats.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

from replication.config.numbers import PROFILE_NAMES, Choice
from replication.config.validate import one_of, tidy

DTYPES = ("float32", "float64", "bfloat16", "float16")
DIRECTIONS = ("forward", "training")
CONTENDERS = ("linear", "softmax", "softmax-textbook", "lsh-1", "lsh-4", "lsh-8", "authors")
MODELS = ("paper", "earlier")


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """What is measured, and what it may cost."""

    profile: str
    contenders: tuple[str, ...]
    lengths: tuple[int, ...]
    directions: tuple[str, ...]
    causal: tuple[bool, ...]
    heads: int
    head_dim: int
    dtype: str
    tokens: int
    samples: int
    models: tuple[str, ...]
    model_contenders: tuple[str, ...]
    model_lengths: tuple[int, ...]
    model_tokens: int
    model_profile: str
    calibration: tuple[int, ...]
    seconds: float
    cell_seconds: float
    memory_share: float


def doubling(first: int, last: int) -> tuple[int, ...]:
    return tuple(2**i for i in range(first, last + 1))


TIME = "fits the time of this profile"
COMMON = {
    "contenders": Choice(CONTENDERS, "the paper's three with 1, 4 and 8 rounds of LSH, softmax "
                         "as a textbook writes it and fused, and the authors' kernel"),
    "lengths": Choice(doubling(3, 16), "the paper's 2^9 to 2^16, and below it down to where the "
                      "earlier replication began"),
    "directions": Choice(DIRECTIONS, "the paper times forward and backward; inference is forward"),
    "causal": Choice((True, False), "the paper does not say which it timed"),
    "heads": Choice(8, "unstated in the paper; its memory fits 8 heads of 64"),
    "head_dim": Choice(64, "unstated in the paper; its memory fits 8 heads of 64"),
    "dtype": Choice("float32", "the type that the authors' kernel takes"),
    "tokens": Choice(2**12, "positions in a batch, which shrinks as 1/N, as in the paper, down "
                     "to 1; the longest N of this profile, so that the batch shrinks up to it"),
    "samples": Choice(64, "the largest batch, that of the paper's copy task"),
    "models": Choice(MODELS, "the paper's and the earlier replication's"),
    "model_contenders": Choice(("linear", "softmax", "softmax-textbook", "lsh-4"),
                               "those of the paper's Figure 2, softmax in both forms"),
    "model_lengths": Choice(doubling(3, 10), "the earlier replication's 8 to 64, and upwards"),
    "model_tokens": Choice(1024, "positions in a batch of models, if the published batch has more"),
    "model_profile": Choice("paper", "the published sizes of the models"),
    "calibration": Choice((32, 256, 1024), "the three terms 1, N and N^2 each lead at one of them"),
    "memory_share": Choice(0.6, "of the free memory; the rest is for fragments and for others"),
}  # fmt: skip
"""What all profiles choose unless they say otherwise."""

PROFILES_OWN = {
    "smoke": {
        "contenders": Choice(("linear", "softmax", "softmax-textbook", "lsh-1"), TIME),
        "lengths": Choice((8, 16, 32, 64), TIME),
        "causal": Choice((True,), TIME),
        "heads": Choice(2, TIME),
        "head_dim": Choice(8, TIME),
        "tokens": Choice(64, TIME),
        "model_tokens": Choice(64, TIME),
        "model_contenders": Choice(("linear", "softmax"), TIME),
        "model_lengths": Choice((8, 16), TIME),
        "model_profile": Choice("smoke", TIME),
        "calibration": Choice((8, 32, 128), TIME),
        "seconds": Choice(20.0, "seconds, to see that all of it works; a busy machine needs them"),
        "cell_seconds": Choice(10.0, "never too short for a cell, so that all are measured"),
    },
    "quick": {
        "contenders": Choice(tuple(c for c in CONTENDERS if c not in ("lsh-1", "lsh-8")), TIME),
        "lengths": Choice(doubling(3, 12), TIME),
        "causal": Choice((True,), TIME),
        "models": Choice(("earlier",), "the one that its Table 1 has times of"),
        "model_contenders": Choice(("linear", "softmax-textbook"), "those of its Table 1"),
        "model_lengths": Choice(doubling(3, 6), "those of its Table 1"),
        "tokens": Choice(2**11, "half of the longest N, which alone has a larger batch, for time"),
        "seconds": Choice(125.0, "a short wait"),
        "cell_seconds": Choice(30.0, "textbook softmax as far as N = 4096, in 3 s a call"),
    },
    "reference": {
        "contenders": Choice(tuple(c for c in CONTENDERS if c != "lsh-8"), TIME),
        "tokens": Choice(2**14, "so many that fixed buffers are small beside what grows with N"),
        "model_contenders": Choice(("linear", "softmax", "softmax-textbook"), TIME),
        "model_lengths": Choice(doubling(3, 9), "the earlier replication's, and beyond"),
        "seconds": Choice(2100.0, "35 minutes, with nothing beside it"),
        "cell_seconds": Choice(75.0, "textbook softmax as far as N = 4096, where the paper's ends"),
    },
    "paper": {
        "tokens": Choice(2**16, "batch in proportion to 1/N up to the longest, as in the paper"),
        "model_tokens": Choice(2**16, "the published batches at every length"),
        "seconds": Choice(4 * 3600.0, "for a GPU, or a night"),
        "cell_seconds": Choice(600.0, "what memory allows shall not fail for time"),
        "memory_share": Choice(0.9, "a GPU is seldom shared"),
    },
}

RUNS = 7
"""Of ``replication crossover``: six are the fewest whose range holds their median with 95 %, and of
an odd number the median is one of them, also where some do not cross."""
CALIBRATION_SHARE = 0.2
"""The part of a crossover's time that is left to calibration and bookkeeping."""
REPEATS = {
    "smoke": (doubling(3, 6), 10.0),
    "quick": (doubling(6, 9), 45.0),
    "reference": (doubling(5, 10), 560.0),
    "paper": (doubling(5, 13), 3600.0),
}
"""Lengths and seconds of the runs that repeat a profile's main question: lengths around the
crossovers seen so far, as what is far from one tells nothing about where it is."""

CROSSOVER = {
    "profile": Choice("crossover", "not a profile of the report"),
    "contenders": Choice(("linear", "softmax", "softmax-textbook"), "the question's"),
    "lengths": Choice(doubling(3, 13), "from far below to far above the crossovers seen so far"),
    "tokens": Choice(1024, "in a minute many lengths tell more than large batches"),
    "models": Choice((), "the question is about a layer"),
}
"""What ``replication crossover`` measures, where it is not told."""


def _scaling(choices: dict[str, Choice]) -> Scaling:
    return Scaling(**{name: choice.value for name, choice in (COMMON | choices).items()})


PROFILES = {
    name: _scaling(PROFILES_OWN[name] | {"profile": Choice(name, "")}) for name in PROFILE_NAMES
}


def reasons(profile: str) -> list[dict[str, str]]:
    """Rows of a table: every number of a profile and why it is so."""
    choices = COMMON | PROFILES_OWN[profile]
    return [{"name": n, "value": c.value, "reason": c.reason} for n, c in choices.items()]


def resolve(profile: str = "quick", **overrides: Any) -> Scaling:
    """A profile with some values overridden, checked. None leaves the profile's value."""
    one_of("profile", profile, PROFILE_NAMES)
    return _overridden(PROFILES[profile], overrides)


def for_crossover(seconds: float, **overrides: Any) -> Scaling:
    """One setting of one layer; ``RUNS`` runs of it take the time given."""
    each = seconds * (1 - CALIBRATION_SHARE) / RUNS
    budget = {"seconds": Choice(each, ""), "cell_seconds": Choice(each, "")}
    return _overridden(_scaling(CROSSOVER | budget), overrides)


def repeated(profile: str) -> dict[str, Any]:
    """What ``replication crossover`` is asked beside a benchmark: its main question, by options."""
    one_of("profile", profile, PROFILE_NAMES)
    lengths, seconds = REPEATS[profile]
    same = ("heads", "head_dim", "dtype", "tokens")
    asked = {name: getattr(PROFILES[profile], name) for name in same}
    return asked | {"lengths": lengths, "seconds": seconds}


def for_repeats(profile: str) -> Scaling:
    """What that measures in each run: by default it trains, with a mask."""
    return for_crossover(**repeated(profile), directions="training", causal=[True])


def _overridden(base: Scaling, overrides: dict[str, Any]) -> Scaling:
    values = asdict(base)
    for name, value in overrides.items():
        one_of("parameter", name, [field.name for field in fields(Scaling)])
        if value is not None:
            flags = name == "causal"
            values[name] = tuple(value) if flags else tidy(name, value, _like(name, values[name]))
    return check(Scaling(**values))


def _like(name: str, value: Any) -> Any:
    """An example of the parameter's type, also where the base has none of them."""
    return COMMON[name].value if value == () else value


def check(scaling: Scaling) -> Scaling:
    """The same, if it can be measured; else an error that says why not."""
    s = scaling
    for name in ("contenders", "lengths", "directions", "causal", "calibration"):
        _some(name, getattr(s, name))
    for name, known in (("contenders", CONTENDERS), ("directions", DIRECTIONS), ("models", MODELS),
                        ("model_contenders", CONTENDERS[:-1])):  # fmt: skip
        for value in getattr(s, name):
            one_of(name, value, known)
    one_of("dtype", s.dtype, DTYPES)
    for name in ("lengths", "model_lengths", "calibration"):
        for length in getattr(s, name):
            _at_least("N", length, 1)
    for name in ("heads", "head_dim", "tokens", "samples", "model_tokens"):
        _at_least(name, getattr(s, name), 1)
    for name in ("seconds", "cell_seconds", "memory_share"):
        if not 0 < getattr(s, name) < float("inf"):
            raise ValueError(f"{name}={getattr(s, name)} must be positive.")
    return s


def _some(name: str, values: Iterable) -> None:
    if not values:
        raise ValueError(f"{name} is empty, so there is nothing to measure. Give at least one.")
    if len(set(values)) < len(values):
        raise ValueError(f"{name} holds a value more than once: {values}. Name each once.")


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name} = {value} is too small. Choose at least {least}.")
