"""Experiments and their runs: frozen, checked, and named after all that they are."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from typing import Any

from replication.attention import ATTENTIONS
from replication.config.numbers import (
    CHOICES,
    COMMON,
    NOTES,
    ORIGINS,
    OUR_OWN,
    PROFILE_NAMES,
    SOURCES,
    Choice,
)
from replication.config.validate import check, one_of, tidy


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What all runs of an experiment share."""

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

    def hash(self) -> str:
        """Eight digits that change with any value."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:8]


@dataclass(frozen=True, kw_only=True)
class Run(Numbers):
    """One model to train."""

    attention: str
    length: int
    seed: int

    @property
    def cross_attention(self) -> str:
        """LSH cannot look from one sequence into another: its cross attention is softmax."""
        return "softmax" if ATTENTIONS[self.attention].shared_keys else self.attention

    @property
    def name(self) -> str:
        what = f"{self.setting}-{self.profile}-{self.attention}-{self.length}-seed{self.seed}"
        return f"{what}-{self.hash()}"


@dataclass(frozen=True, kw_only=True)
class Experiment(Numbers):
    """All runs whose outcomes are compared. For one seed they start and are fed alike."""

    attentions: tuple[str, ...]
    lengths: tuple[int, ...]
    seeds: tuple[int, ...]

    @property
    def name(self) -> str:
        """Setting, profile, what differs from the profile, and a hash of every value."""
        changed = "".join(f"-{name}={_text(getattr(self, name))}" for name in self.changes())
        return f"{self.setting}-{self.profile}{changed.replace(', ', '+')[:80]}-{self.hash()}"

    def changes(self) -> list[str]:
        """The names of the values that are not the profile's."""
        base = PROFILES[self.setting, self.profile]
        names = [field.name for field in fields(self) if field.name != "device"]
        return [name for name in names if getattr(self, name) != getattr(base, name)]

    def runs(self) -> Iterator[Run]:
        """Every attention, length and seed; those that are compared come one after another."""
        shared = {field.name: getattr(self, field.name) for field in fields(Numbers)}
        for length, seed, attention in product(self.lengths, self.seeds, self.attentions):
            yield Run(**shared, attention=attention, length=length, seed=seed)

    def deviations(self) -> list[dict[str, str]]:
        """Rows of a table: every value that some source does not state or states otherwise."""
        choices = COMMON[self.setting] | CHOICES[self.setting, self.profile]
        changed, rows = self.changes(), []
        for name, origin in (ORIGINS[self.setting] | OUR_OWN).items():
            value = getattr(self, name)
            if origin.published == value and origin.code in (None, value):
                continue
            chosen = choices.get(name, Choice(value, "as their code has it"))
            reason = "set for this run" if name in changed else chosen.reason
            rows.append((name, origin.published, origin.code, value, reason))
        titles = ("name", *SOURCES[self.setting], "this profile", "reason")
        return [
            dict(zip(titles, map(_text, row), strict=True)) for row in rows + NOTES[self.setting]
        ]


def _profile(setting: str, profile: str) -> Experiment:
    origins = (ORIGINS[setting] | OUR_OWN).items()
    values = {name: o.code if o.published is None else o.published for name, o in origins}
    choices = COMMON[setting] | CHOICES[setting, profile]
    values |= {name: choice.value for name, choice in choices.items()}
    return Experiment(setting=setting, profile=profile, **values)


PROFILES = {key: _profile(*key) for key in product(ORIGINS, PROFILE_NAMES)}
"""Every setting in every profile, by (setting, profile)."""


def resolve(setting: str = "paper", profile: str = "quick", **overrides: Any) -> Experiment:
    """The profile with some values overridden, all checked before anything is computed.

    An override of None leaves the profile's value. Several attentions, lengths or seeds may
    come as a list or as "softmax, linear". The name of what is returned says what differs.
    """
    one_of("setting", setting, ORIGINS)
    one_of("profile", profile, PROFILE_NAMES)
    known = {field.name for field in fields(Experiment)} - {"setting", "profile"}
    for name in overrides:
        one_of("parameter", name, sorted(known))
    base = PROFILES[setting, profile]
    given = {name: value for name, value in overrides.items() if value is not None}
    values = {name: tidy(name, value, getattr(base, name)) for name, value in given.items()}
    return check(replace(base, **values))


def _text(value: Any) -> str:
    """A value as it stands in a table or a name."""
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
