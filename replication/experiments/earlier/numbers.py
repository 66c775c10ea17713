"""Every number of this experiment: the suspects, the sizes of a profile, and their graphics card.

*Their code* is LinTrans.jl of Do & Bergner 2022 (jbergner1/DM2022-LinearTransformers).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from replication.experiments import studies
from replication.experiments.base import PROFILES, at_least, fits, one_of

# Suspects -------------------------------------------------------------------------------------


class Suspect(NamedTuple):
    """A deviation that can be switched on; its number in the report's table of deviations."""

    number: int
    words: str
    linear_alone: bool = False
    """In their code it is in the linear model only."""


CONVERGENCE = {
    "mask": Suspect(1, "no causal mask in the decoder"),
    "heads": Suspect(2, "heads split twice (8 features each)", linear_alone=True),
    "batch": Suspect(5, "batch of 32 for linear alone", linear_alone=True),
    "encoder": Suspect(6, "half of the encoder without effect"),
    "adam": Suspect(7, "Adam at a tenth of the rate without clipping"),
    "activation": Suspect(9, "elu + 1 in the decoder's feed-forward", linear_alone=True),
    "scaled": Suspect(10, "token embeddings divided by the root of the width"),
    "positions": Suspect(11, "positions are trained"),
}
"""What bears on convergence, in the order of the report's table."""
SPEED = {
    "double": Suspect(3, "double precision after the denominator", linear_alone=True),
    "generic": Suspect(4, "generic contraction product by product", linear_alone=True),
    "batch": Suspect(5, "batch of 32 for linear alone", linear_alone=True),
    "forwards": Suspect(8, "a further forward pass a step"),
    "heads": Suspect(2, "heads split twice (8 features each)", linear_alone=True),
}
"""What bears on speed. Their code has two further passes in every eighth step; here it has one."""
NONE, ALL = "none", "all"
"""In place of a suspect: no switch is on, or every one that their model of this mechanism has."""
HEAD, BATCH_FACTOR, RATE_FACTOR = 8, 4, 0.1
"""Their code: 64 features of a head are split again into 8 heads of 8; a batch of 32 for linear
attention against 8 (inferred from the levels of its curves); Adam at 1e-4, where the article says
1e-3."""
NEVER = 1e9
"""A norm that no gradient exceeds: no clipping."""
PUBLISHED_UPDATES = 3000
LAST = 5
"""Evaluations at the end whose mean is the loss of a run: a constant rate leaves it jittering."""
WORDS = 100
"""Held-out words that a trained model copies token after token."""


def switches_of(suspect: str, attention: str) -> tuple[str, ...]:
    """The switches that are on; for softmax not those of the linear model."""
    if suspect == NONE:
        return ()
    own = [n for n, s in CONVERGENCE.items() if attention == "linear" or not s.linear_alone]
    return tuple(own) if suspect == ALL else (suspect,)


def has(suspect: str, attention: str) -> bool:
    """Whether there is such a run: softmax has none of the suspects of the linear model."""
    return suspect in (NONE, ALL) or suspect in switches_of(ALL, attention)


# Runs -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Numbers(studies.Numbers):
    symbols: int
    lr_drop_after: int
    optimiser: str


@dataclass(frozen=True, kw_only=True)
class Run(Numbers):
    suspect: str
    attention: str
    length: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.suspect}-{self.attention}-{self.length}-seed{self.seed}"

    @property
    def switches(self) -> tuple[str, ...]:
        return switches_of(self.suspect, self.attention)


@dataclass(frozen=True, kw_only=True)
class Study(Numbers, studies.Study):
    """The runs of a profile: each suspect alone at ``alone``, none and all at ``lengths``."""

    lengths: tuple[int, ...] = (8, 16, 32, 64)
    alone: tuple[int, ...] = (8, 16, 32, 64)
    seeds: tuple[int, ...] = (0,)
    suspects: tuple[str, ...] = (NONE, *CONVERGENCE, ALL)

    def runs(self) -> Iterator[Run]:
        """The lengths at which every suspect is tried come first."""
        for length in sorted({*self.lengths, *self.alone}, key=lambda N: (N not in self.alone, N)):
            for suspect, attention in product(self.suspects, ("softmax", "linear")):
                there = self.lengths if suspect in (NONE, ALL) else self.alone
                which = {"suspect": suspect, "attention": attention, "length": length}
                for seed in self.seeds if length in there and has(suspect, attention) else ():
                    run = self.one(Run, **which, seed=seed)
                    yield replace(run, **_switched(run))


def _switched(run: Run) -> dict[str, Any]:
    """What the switches of a run change in its numbers; those of its model are in ``forms``."""
    found = {}
    if "batch" in run.switches:
        found["batch_size"] = BATCH_FACTOR * run.batch_size
    if "adam" in run.switches:
        found |= {"optimiser": "adam", "lr": RATE_FACTOR * run.lr, "clip": NEVER}
        found |= {"weight_decay": 0.0}
    return found


BASE = {
    "steps": PUBLISHED_UPDATES, "batch_size": 8, "lr": 1e-3, "lr_drop_after": PUBLISHED_UPDATES,
    "lr_drop": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01, "clip": 1.0,
    "optimiser": "radam", "dropout": 0.1, "d_model": 512, "n_heads": 8, "n_layers": 4,
    "d_ff": 1024, "eval_every": 100, "eval_batches": 20, "symbols": 10, "threads": 1,
    "device": "auto",
}  # fmt: skip
"""What runs share before a switch is on: the earlier setting, made causal."""
_SMALL = BASE | {"dropout": 0.0}
"""Fresh samples cannot be overfitted, and small models learn faster without."""
_CHOICES = {
    "smoke": _SMALL | {"steps": 8, "d_model": 32, "n_heads": 2, "n_layers": 2, "d_ff": 64,
                       "eval_every": 4, "eval_batches": 2, "lengths": (8, 16), "alone": (8,)},
    "quick": _SMALL | {"steps": 600, "d_model": 64, "n_heads": 2, "n_layers": 2, "d_ff": 128,
                       "lr": 3e-3, "eval_every": 50, "eval_batches": 5, "lengths": (16,),
                       "alone": (16,)},
    "reference": _SMALL | {"d_model": 128, "n_heads": 4, "n_layers": 2, "d_ff": 256,
                           "eval_batches": 10, "alone": (16,)},
    "paper": BASE,
}  # fmt: skip
"""``paper`` has the published sizes. ``reference`` has width 128 and two layers, since at the
published size its 29 runs would take days of two cores; each suspect alone is tried at N = 16,
where both of their curves end high. ``quick`` has heads of 32 as well and a rate that suits its few
updates."""
STUDIES = {profile: Study(profile=profile, **values) for profile, values in _CHOICES.items()}


# Times ----------------------------------------------------------------------------------------


class Timing(NamedTuple):
    """Training steps: lengths, runs in processes of their own, what one may take, the model."""

    profile: str
    runs: int
    repeats: int
    """Undisturbed ones of a short step, in a run; a long step has the fewest."""
    seconds: float
    d_model: int = 512
    n_heads: int = 8
    n_layers: int = 4
    d_ff: int = 1024
    batch: int = 8
    symbols: int = 10
    lengths: tuple[int, ...] = (8, 16, 32, 64)


TIMINGS = {
    "smoke": Timing("smoke", 1, 10, 30.0, 32, 2, 1, 64),
    "quick": Timing("quick", 3, 3, 60.0, 128, 4, 2, 256),
    "reference": Timing("reference", 5, 4, 600.0),
    "paper": Timing("paper", 6, 12, 3600.0),
}
"""The published sizes from ``reference`` on."""

# Their graphics card --------------------------------------------------------------------------

SINGLE_FLOPS = 5.3e12
"""Peak of a Quadro P4000 in single precision, operations a second (NVIDIA's data sheet, 2017)."""
DOUBLE_SLOWER = 32
"""Compute capability 6.1: 4 double-precision units beside 128 of single precision in a
multiprocessor (CUDA C++ Programming Guide, throughput of arithmetic instructions)."""


def weights_of(d: int, wide: int, layers: int) -> tuple[int, int]:
    """The weights of all products in encoder and decoder; embeddings and norms multiply few."""
    return layers * (4 * d * d + 2 * d * wide), layers * (8 * d * d + 2 * d * wide)


def double_seconds(N: int, batch: int) -> float:
    """The least time of one of their training steps in double precision on their card: all products
    of weights, at its peak. Forward and backward passes take six operations a weight and token, a
    forward pass two; half of the encoder gets no gradient, and there is one further forward pass.
    """
    encoder, decoder = weights_of(d=512, wide=1024, layers=4)
    operations = 6 * (decoder + encoder / 2) + 2 * encoder / 2 + 2 * (encoder + decoder)
    return batch * N * operations * DOUBLE_SLOWER / SINGLE_FLOPS


# Checks ---------------------------------------------------------------------------------------

GIVEN = ("lengths", "alone", "seeds", "suspects", "steps", "device")
"""What a notebook may choose."""


def check(*, profile: str = "quick", **given: Any) -> Study:
    one_of("profile", profile, PROFILES)
    study = studies.overridden(STUDIES[profile], GIVEN, given)
    studies.check(study, ("lengths", "alone", "seeds", "suspects"), steps=1)
    for suspect in study.suspects:
        one_of("suspect", suspect, (NONE, *CONVERGENCE, ALL))
    for length in (*study.lengths, *study.alone):
        at_least("length", length, 4)
        fits("length", length, study.batch_size * study.n_heads * length**2)
    return studies.on_device(study)
