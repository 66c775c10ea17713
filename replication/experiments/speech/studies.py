"""Studies and their runs, and what is timed: numbers by profile, checked before use."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

from replication.experiments.base import PROFILES, Choice, at_least, one_of, some, tidy
from replication.experiments.speech.numbers import (
    CHOICES,
    COMMON,
    GROWTH,
    GROWTH_CHOICES,
    MODELS,
    NOTES,
    OPTIMISERS,
    ORIGINS,
    because,
)


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What all runs of a study share."""

    setting: str
    profile: str
    d_model: int
    n_heads: int
    n_layers: int
    d_ff: int
    lstm_layers: int
    lstm_size: int
    lsh_rounds: int
    lsh_buckets: int
    lsh_chunk: int
    positions: str
    stack: int
    lr_drop: float
    plateau: int
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    clip: float
    dropout: float
    steps: int
    batch_size: int
    longest: int
    hide_mels: int
    hide_frames: int
    eval_every: int
    eval_batches: int
    tested: int
    beam: int
    threads: int
    device: str


@dataclass(frozen=True, kw_only=True)
class Run(Numbers):
    """One model to train."""

    model: str
    seed: int
    lr: float
    optimiser: str
    utterances: int
    words: int
    """In each utterance of synthetic speech; 0: Czech speech."""

    lr_drop_after = 0
    """The rate falls on a plateau, not at a step."""

    @property
    def name(self) -> str:
        case = f"{self.utterances}x{self.words}" if self.words else f"{self.utterances}"
        return f"{self.setting}-{case}-{self.model}-seed{self.seed}"


WHICH = ["setting", "utterances", "words", "model", "seed"]
"""The columns that say which run a row is from."""
EVALUATION = ["step", "eval_loss", "error_rate"]


def run_of(numbers: Mapping[str, Any]) -> Run:
    """The run of a unit, whether of its training or of its errors."""
    given = numbers.get("run", numbers)
    return Run(**{**given, "betas": tuple(given["betas"])})


@dataclass(frozen=True, kw_only=True)
class Study(Numbers):
    """All runs whose outcomes are compared. For one seed they start and are fed alike."""

    models: tuple[str, ...]
    seeds: tuple[int, ...]
    cases: tuple[tuple[int, int], ...]
    lr: float
    lstm_lr: float

    def runs(self) -> Iterator[Run]:
        shared = {field.name: getattr(self, field.name) for field in fields(Numbers)}
        for (utterances, words), seed, model in product(self.cases, self.seeds, self.models):
            lr = self.lstm_lr if model == "bilstm" else self.lr
            yield Run(**shared, model=model, seed=seed, lr=lr, optimiser=OPTIMISERS[model],
                      utterances=utterances, words=words)  # fmt: skip

    def deviations(self) -> list[dict[str, str]]:
        """Rows of a table: every value that the paper does not state or states otherwise."""
        choices, rows = COMMON | CHOICES[self.profile], []
        for name, origin in ORIGINS.items():
            value = getattr(self, name)
            if origin.published != value:
                chosen = choices.get(name, Choice(value, ""))
                reason = chosen.reason if chosen.value in (value, "auto") else "set for this run"
                rows.append((name, origin.published, value, reason))
        titles = ("name", "paper", "here", "reason")
        return [dict(zip(titles, map(_text, row), strict=True)) for row in rows + NOTES]


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _study(setting: str, profile: str) -> Study:
    values = {name: origin.published for name, origin in ORIGINS.items()}
    choices = COMMON | CHOICES[profile]
    if setting != "czech":
        choices = choices | GROWTH_CHOICES[profile]
        choices |= because("how much is heard, and how long", cases=GROWTH[profile][setting])
    values |= {name: choice.value for name, choice in choices.items()}
    return Study(setting=setting, profile=profile, **values)


SETTINGS = ("czech", "amount", "length")
"""Czech speech, which decides; synthetic speech of growing amount, and of growing length."""
STUDIES = {key: _study(*key) for key in product(SETTINGS, PROFILES)}


def resolve(setting: str = "czech", profile: str = "quick", **overrides: Any) -> Study:
    """The profile with some values overridden, all checked before anything is computed."""
    one_of("setting", setting, SETTINGS)
    one_of("profile", profile, PROFILES)
    base = STUDIES[setting, profile]
    known = {field.name for field in fields(Study)} - {"setting", "profile", "cases"}
    for name in overrides:
        one_of("parameter", name, sorted(known))
    given = {name: value for name, value in overrides.items() if value is not None}
    values = {name: tidy(name, value, getattr(base, name)) for name, value in given.items()}
    return check(replace(base, **values))


LEAST = {"steps": 0, "batch_size": 1, "d_model": 2, "n_heads": 1, "n_layers": 1, "d_ff": 1,
         "lstm_layers": 1, "lstm_size": 1, "stack": 1, "eval_every": 1, "eval_batches": 1,
         "tested": 1, "beam": 1, "threads": 1, "longest": 10}  # fmt: skip


def check(study: Study) -> Study:
    """The study, with its device made definite, if it can be run; else an error."""
    from replication.measure import pick_device  # not above: numbers can be read without PyTorch

    some("models", study.models)
    some("seeds", study.seeds)
    for model in study.models:
        one_of("model", model, MODELS)
    for name, least in LEAST.items():
        at_least(name, getattr(study, name), least)
    if study.d_model % study.n_heads:
        raise ValueError(
            f"d_model={study.d_model} cannot be split over n_heads={study.n_heads}. Choose a "
            f"multiple, for example {study.n_heads * math.ceil(study.d_model / study.n_heads)}."
        )
    return replace(study, device=str(pick_device(study.device)))


# Timing, at published sizes ---------------------------------------------------------------------

CONTENDERS = ("linear", "softmax-textbook", "softmax", "lsh", "bilstm")
"""softmax-textbook is what the paper had; softmax is PyTorch's fused kernel."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How long a model of published size takes for an utterance, and how much memory."""

    profile: str
    contenders: tuple[str, ...] = CONTENDERS
    lengths: tuple[int, ...]
    rounds: int
    batch_size: int
    phonemes: int = 45
    """Classes: about as many as either language has, and the blank."""
    frames_a_phoneme: int = 8
    """Fewer than the 11 of the Czech corpus: CTC is not made cheaper than it is in fast speech."""
    d_model: int = 192
    n_heads: int = 6
    n_layers: int = 9
    d_ff: int = 768
    lstm_layers: int = 3
    lstm_size: int = 320
    lsh_rounds: int = 4
    lsh_buckets: int = 64
    lsh_chunk: int = 32
    positions: str = "concatenated"
    threads: int = 1
    """One thread gives the same ratios on a busy machine; two may wait for each other."""


TIMINGS = {
    "paper": Timing(profile="paper", lengths=(100, 200, 400, 800, 1600, 2400, 4800, 9600),
                    rounds=12, batch_size=8),
    "reference": Timing(profile="reference", lengths=(200, 400, 800, 1600, 2400), rounds=6,
                        batch_size=1),
    "quick": Timing(profile="quick", lengths=(100, 800), rounds=2, batch_size=1),
    "smoke": Timing(profile="smoke", lengths=(32, 64), rounds=2, batch_size=1, n_layers=1,
                    d_model=32, n_heads=2, d_ff=32, lstm_layers=1, lstm_size=8),
}  # fmt: skip


def timing(profile: str) -> Timing:
    one_of("profile", profile, PROFILES)
    return TIMINGS[profile]
