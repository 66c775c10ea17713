"""What a run needs; whether it can be run, and a word be copied: errors in words, and at once."""

import math
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

from replication.experiments.base import at_least, one_of, some


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What all runs of a study share."""

    setting: str
    profile: str
    symbols: int
    steps: int
    batch_size: int
    lr: float
    lr_drop_after: int
    lr_drop: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    clip: float
    dropout: float
    attention_dropout: float
    d_model: int
    n_heads: int
    n_layers: int
    d_ff: int
    activation: str
    positions: str
    lsh_rounds: int
    lsh_buckets: int
    lsh_chunk: int
    eval_every: int
    eval_batches: int
    threads: int
    device: str


@dataclass(frozen=True, kw_only=True)
class Run(Numbers):
    """One model to train."""

    attention: str
    length: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.setting}-{self.attention}-{self.length}-seed{self.seed}"


# Checks -----------------------------------------------------------------------------------------

LEAST = {
    "steps": 0, "batch_size": 1, "symbols": 2, "d_model": 2, "n_heads": 1, "n_layers": 1,
    "d_ff": 1, "lr_drop_after": 0, "eval_every": 1, "eval_batches": 1, "threads": 1,
    "lsh_rounds": 1, "lsh_buckets": 2, "lsh_chunk": 1,
}  # fmt: skip


def check_sizes(study: Any, shortest: int) -> None:
    """What a study counts: some of everything, and enough."""
    for name in ("attentions", "lengths", "seeds"):
        some(name, getattr(study, name))
    one_of("activation", study.activation, ("relu", "elu_plus_one"))
    one_of("positions", study.positions, ("added", "concatenated"))
    for name, fewest in LEAST.items():
        at_least(name, getattr(study, name), fewest)
    if min(study.lengths) < shortest:
        raise ValueError(
            f"length={min(study.lengths)} is too short for the copy task in the {study.setting} "
            "setting: the words to be copied would have fewer than 2 symbols. Choose at least "
            f"{shortest}."
        )
    heads, rest = study.n_heads, study.d_model % study.n_heads
    if rest:
        raise ValueError(
            f"d_model={study.d_model} cannot be split over n_heads={heads}: {rest} features would "
            f"be left over. Choose a multiple of {heads}, for example "
            f"{study.d_model - rest + heads}."
        )


def check_rates(e: Any) -> None:
    """What a study weighs by."""
    for name in ("lr", "lr_drop", "eps", "clip"):
        if not 0 < getattr(e, name) < math.inf:
            raise ValueError(f"{name}={getattr(e, name)} must be positive, like 0.001.")
    if not 0 <= e.weight_decay < math.inf:
        raise ValueError(f"weight_decay={e.weight_decay} must not be negative. 0 is none.")
    if not 0 <= e.dropout < 1:
        raise ValueError(f"dropout={e.dropout} is a share. Choose it from 0 to below 1.")
    if not (len(e.betas) == 2 and all(0 <= beta < 1 for beta in e.betas)):
        raise ValueError(f"betas={e.betas} must be two numbers from 0 to below 1.")
    if e.attention_dropout:
        raise ValueError(
            f"attention_dropout={e.attention_dropout} cannot be had: linear attention never writes "
            "its weights down, so it would act on some mechanisms only. Set it to 0, and use "
            "dropout, which acts on all."
        )
    if e.lsh_buckets % 2:
        raise ValueError(f"lsh_buckets={e.lsh_buckets} is odd. Choose an even number.")


def usable(study: Any) -> Any:
    """The study, with its device made definite, if its mechanisms and its device are there."""
    from replication.attention import trained  # not above: all other checks need no PyTorch
    from replication.measure import pick_device

    for attention in study.attentions:
        one_of("attention", attention, trained())
    return replace(study, device=str(pick_device(study.device)))


# Words to be copied ---------------------------------------------------------------------------


def word_sizes(setting: str, length: int) -> tuple[int, int]:
    """The fewest and most symbols of a word: 32 to 62 at length 128, as in the authors' code."""
    if setting == "paper":
        return length // 4, (length - 1) // 2 - 1
    return length - 2, length - 2


def fitted(text: str, setting: str, length: int, symbols: int) -> str:
    """A sequence, cut or repeated to a length that the model is trained for."""
    fewest, most = word_sizes(setting, length)
    word = word_of(text)
    word = list(islice(cycle(word), min(max(len(word), fewest), most)))
    check_words([word], symbols, fewest, most)
    return " ".join(map(str, word))


def word_of(text: str) -> list[int | str]:
    """The symbols of a sequence like "3 1 4" or "3, 1, 4"."""
    parts = str(text).replace(",", " ").split()
    return [int(part) if part.isdecimal() else part for part in parts]


def check_words(words: list[list], symbols: int, fewest: int, most: int) -> None:
    """Every word has ``fewest`` to ``most`` symbols out of 1 ... ``symbols``."""
    if not words:
        raise ValueError("There is no sequence to copy. Give at least one.")
    for word in words:
        if strange := sorted({str(s) for s in word if s not in range(1, symbols + 1)}):
            raise ValueError(
                f"The model does not know {', '.join(strange)}. It has learnt the symbols 1 to "
                f"{symbols}: use these."
            )
        if not fewest <= len(word) <= most:
            wanted = f"exactly {most}" if fewest == most else f"{fewest} to {most}"
            raise ValueError(
                f"The sequence has {len(word)} symbols, but this model takes {wanted}. Change it, "
                "or train a model for another length."
            )
