"""Every number of the scaling benchmark once, with its source or reason; its four profiles.

*paper* is Katharopoulos et al. 2020, arXiv:2006.16236, Sec. 4.1.2 and Figure 1; *earlier* is Do &
Bergner 2022, Table 1. The paper states lengths and that the batch shrinks as 1/N, but neither
heads, sizes nor repeats.
"""

import os
from dataclasses import dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import Any

from replication.experiments import studies
from replication.experiments.base import Choice, at_least, fits, one_of, positive, some
from replication.experiments.studies import because

DTYPES = ("float32", "float64", "bfloat16", "float16")
DIRECTIONS = ("forward", "training")
LINEAR = ("linear", "linear-pytorch", "authors")
"""Linear attention: our compiled kernel, ours by PyTorch's products, and the authors'."""
CONTENDERS = (*LINEAR, "softmax", "softmax-textbook", "lsh-1", "lsh-4", "lsh-8")
MODELS = ("paper", "earlier")
LAYER, STEP = "layer", "step"
"""The subject that is one attention layer, the others being models, named by their setting; and the
direction of a model: forward, backward, clipping and update."""
THREAD, WALL = "thread", "wall"
"""The clocks: CPU time of one pinned thread, which decides; wall time of all threads, or a GPU."""
THREADS_PER_CORE = 4
"""More threads than this many a core are a slip of the pen; far more crash PyTorch."""
SEED = 0
"""Of inputs and of the order within rounds."""


def doubling(first: int, last: int) -> tuple[int, ...]:
    return tuple(2**i for i in range(first, last + 1))


def chosen(value: Any, reason: str) -> Any:
    """What all profiles choose unless they say otherwise, and why."""
    return field(default=value, metadata={"reason": reason})


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """What is measured, how precisely, and what it may cost."""

    # fmt: off
    profile: str
    contenders: tuple[str, ...] = chosen(
        tuple(c for c in CONTENDERS if c not in ("lsh-1", "lsh-8")),
        "linear attention by three kernels, softmax as a textbook writes it and fused, and LSH "
        "with the paper's four rounds")
    lengths: tuple[int, ...] = chosen(doubling(9, 16), "the paper's, 2^9 to 2^16")
    rivals_until: int = chosen(
        2**13, "the longest N of all but our own kernel: softmax takes seconds there")
    directions: tuple[str, ...] = chosen(("training",), "what the claims are about")
    causal: tuple[bool, ...] = chosen((True,), "what the claims are about")
    other_lengths: tuple[int, ...] = chosen(
        (), "of the layer without a mask, and forward alone, which no claim is about")
    thread_lengths: tuple[int, ...] = chosen(
        (), "of the layer on all threads, by wall time; no verdict rests on it")
    heads: int = chosen(8, "unstated in the paper; its memory fits 8 heads of 64")
    head_dim: int = chosen(64, "unstated in the paper; its memory fits 8 heads of 64")
    dtype: str = chosen("float32", "the type that the authors' kernel takes")
    tokens: int = chosen(
        2**9, "positions in a batch, which shrinks as 1/N down to 1; one sequence from 512 on")
    samples: int = chosen(64, "the largest batch, that of the paper's copy task")
    models: tuple[str, ...] = chosen(("earlier",), "the one whose times are published")
    model_contenders: tuple[str, ...] = chosen(
        ("linear", "softmax-textbook"), "those of the earlier replication's Table 1")
    model_lengths: tuple[int, ...] = chosen(
        doubling(3, 9), "the earlier replication's 8 to 64, and upwards")
    model_tokens: int = chosen(512, "positions in a batch of models, if the published has more")
    model_profile: str = chosen("paper", "the published sizes of the models")
    runs: int = chosen(3, "processes; three are the fewest whose spread gives an interval")
    seconds: float
    repeats: int = chosen(4, "undisturbed ones, of a cell in a run; more runs narrow more")
    device: str = chosen("auto", "a GPU where there is one")
    threads: int = chosen(1, "one pinned thread decides; more are measured by wall time")
    # fmt: on


for_time = partial(because, "fits the time of this profile")
PROFILES_OWN = {
    "smoke": for_time(
        contenders=("linear", "softmax", "softmax-textbook", "lsh-1"), lengths=(8, 16, 32, 64),
        heads=2, head_dim=8, tokens=64, model_tokens=64, model_profile="smoke",
        model_lengths=(8, 16, 32), other_lengths=(8, 16, 32), thread_lengths=(8, 64), runs=1,
    ) | {
        "seconds": Choice(15.0, "to see that all of it works: it decides nothing"),
        "repeats": Choice(10, "five stretches of two stand for processes"),
    },
    "quick": for_time(
        contenders=("linear", "authors", "softmax", "softmax-textbook", "lsh-4"),
        lengths=doubling(9, 12), rivals_until=2**11, model_tokens=64, repeats=3,
    ) | {
        "model_lengths": Choice((64, 256), "below and above where the models may cross"),
        "thread_lengths": Choice((512, 1024), "two are enough to compare with one thread"),
        "seconds": Choice(36.0, "a quiet machine needs about 30 of them"),
    },
    "reference": for_time(contenders=tuple(c for c in CONTENDERS if c != "lsh-8")) | {
        "tokens": Choice(2**11, "four sequences of 512, so that what any call costs weighs 3 %"),
        "other_lengths": Choice(doubling(5, 11), "around the crossovers, and beyond"),
        "thread_lengths": Choice((512, 2048), "two are enough to compare with one thread"),
        "model_tokens": Choice(256, "fits the time of this profile"),
        "runs": Choice(5, "over two hours, so that what differs between them is in the interval"),
        "seconds": Choice(720.0, "three rounds of all, textbook softmax at 8192 among them"),
        "repeats": Choice(8, "beyond these another run tells more"),
    },
    "paper": {
        "contenders": Choice(CONTENDERS, "all"),
        "rivals_until": Choice(2**14, "where LSH ends in the paper's Figure 1"),
        "other_lengths": Choice(doubling(5, 14), "the same"),
        "tokens": Choice(2**16, "batch in proportion to 1/N up to the longest, as in the paper"),
        "models": Choice(MODELS, "both"),
        "model_contenders": Choice(("linear", "softmax", "softmax-textbook", "lsh-4"), "all"),
        "model_lengths": Choice(doubling(3, 10), "upwards"),
        "model_tokens": Choice(2**16, "the published batches at every length"),
        "runs": Choice(6, "a night has time for more"),
        "seconds": Choice(1800.0, "for a GPU, or a night"),
        "repeats": Choice(12, "time allows"),
    },
}  # fmt: skip


def reasons(profile: str) -> list[dict[str, str]]:
    """Rows of a table: every number of a profile and why it is so."""
    usual = {f.name: Choice(f.default, f.metadata["reason"]) for f in fields(Scaling) if f.metadata}
    choices = usual | PROFILES_OWN[profile]
    return [{"name": n, "value": c.value, "reason": c.reason} for n, c in choices.items()]


def resolve(profile: str = "quick", **overrides: Any) -> Scaling:
    """A profile with some values overridden, checked. None leaves the profile's value."""
    one_of("profile", profile, PROFILES_OWN)
    own = {name: choice.value for name, choice in PROFILES_OWN[profile].items()}
    found = overridden(Scaling(profile=profile, **own), overrides)
    if len(found.lengths) < 2:
        raise ValueError(f"lengths={found.lengths}: one length shows no growth. Give at least two.")
    if not {"linear"} < set(found.contenders):
        names = list(found.contenders)
        raise ValueError(f"contenders={names}: all are compared with linear. Give it and others.")
    return found


def overridden(base: Scaling, overrides: dict[str, Any]) -> Scaling:
    """With other values for some numbers, if that can be measured."""
    s = studies.overridden(base, Scaling.__dataclass_fields__, overrides)
    for name in ("contenders", "lengths", "directions", "causal"):
        some(name, getattr(s, name))
    names = {*s.contenders, *s.model_contenders}
    known = {"directions": DIRECTIONS, "models": MODELS, "dtype": DTYPES}
    known |= dict.fromkeys(("contenders", "model_contenders"), _known(names))
    for name in known:
        for value in [s.dtype] if name == "dtype" else getattr(s, name):
            one_of(name, value, known[name])
    for N in (*s.lengths, *s.model_lengths, *s.other_lengths, *s.thread_lengths):
        at_least("N", N, 1)
    for name in ("heads", "head_dim", "tokens", "samples", "model_tokens", "runs", "repeats",
                 "threads"):  # fmt: skip
        at_least(name, getattr(s, name), 1)
    for N in s.lengths:
        numbers = s.heads * (4 * N * s.head_dim + s.head_dim**2)
        fits("N", f"{N} with {s.heads} heads of {s.head_dim}", numbers)
    positive("seconds", s.seconds)
    if s.threads > (most := THREADS_PER_CORE * (os.cpu_count() or 1)):
        raise ValueError(f"threads={s.threads} are too many for this machine. Choose up to {most}.")
    return s


def _known(names: set[str]) -> Any:
    """Contenders; the cards are asked only for one that is not in the usual list."""
    if names <= set(CONTENDERS):
        return CONTENDERS
    from replication import attention

    return attention.contenders()


# What the paper has published -----------------------------------------------------------------

PAPER_MACHINE = "one GTX 1080 Ti with 11 GB"
"""The paper, Sec. 4.1.2."""
LONGEST = MappingProxyType({"linear": 2**16, "softmax": 2**12, "lsh-4": 2**14, "lsh-8": 2**14})
"""How far each curve of the paper's Figure 1 goes: softmax and LSH end where memory does."""
FIGURE_1 = {
    "linear": ((9, 0.61, 12.3), (10, 1.21, 24.2), (11, 2.47, 48.6), (12, 5.04, 97.5),
               (13, 9.83, 195.0), (14, 21.2, 388.0), (16, 97.8, 1544.0)),
    "softmax": ((9, 1.4, 46.0), (10, 4.7, 173.0), (11, 17.5, 670.0), (12, 68.1, 2620.0)),
}  # fmt: skip
"""log2 N, milliseconds and megabytes a sample, forward and backward. The paper, Figure 1, which
gives no numbers: these are read off its pixels, to 2 %, and to 5 % the time of softmax at 2^9 and
its memory there and at 2^10. It does not say which megabyte it means; 10^6."""


def figure_1():
    """contender, N, time_ms, peak_bytes."""
    import pandas as pd

    rows = [(name, 2**power, ms, mb * 1e6)
            for name, points in FIGURE_1.items() for power, ms, mb in points]  # fmt: skip
    return pd.DataFrame(rows, columns=["contender", "N", "time_ms", "peak_bytes"])
