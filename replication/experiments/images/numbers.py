"""Studies of image generation and their runs: the numbers of ``sources``, resolved and checked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

from replication.experiments.base import PROFILES, Choice, at_least, one_of, some, tidy
from replication.experiments.images.sources import (
    CHOICES,
    COLOURS,
    COMMON,
    NEVER,
    NOTES,
    ORDER,
    ORIGINS,
    OUR_OWN,
)


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What all runs of a study share."""

    dataset: str
    side: int
    profile: str
    batch_size: int
    lr: float
    lr_drop_after: int
    lr_drop: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    clip: float
    dropout: float
    mixtures: int
    d_model: int
    n_heads: int
    n_layers: int
    d_ff: int
    lsh_buckets: int
    lsh_chunk: int
    eval_every: int
    eval_batches: int
    threads: int
    device: str

    @property
    def setting(self) -> str:
        return f"{self.dataset}-{self.side}"

    @property
    def length(self) -> int:
        """Bytes that are predicted."""
        return self.side**2 * COLOURS[self.dataset] - 1


@dataclass(frozen=True, kw_only=True)
class Run(Numbers):
    """One model to train."""

    attention: str
    seed: int
    steps: int

    @property
    def name(self) -> str:
        return f"{self.setting}-{self.attention}-seed{self.seed}"


@dataclass(frozen=True, kw_only=True)
class Study(Numbers):
    """All runs whose outcomes are compared. For one seed they start and are fed alike."""

    attentions: tuple[str, ...]
    seeds: tuple[int, ...]
    steps: int
    linear_pace: float
    """Updates of linear attention for one of the others: more where time is what is equal."""

    @property
    def published_updates(self) -> int | None:
        return ORIGINS[self.dataset]["steps"].published

    def runs(self) -> Iterator[Run]:
        """Every attention and seed; those that are compared come one after another."""
        shared = {field.name: getattr(self, field.name) for field in fields(Numbers)}
        for seed, attention in product(self.seeds, self.attentions):
            steps = round(self.steps * (self.linear_pace if attention == "linear" else 1))
            yield Run(**shared, attention=attention, seed=seed, steps=steps)

    def deviations(self) -> list[dict[str, str]]:
        """Rows of a table: every value that some source does not state or states otherwise."""
        choices = COMMON | CHOICES[self.profile][self.dataset, self.side]
        base, rows = STUDIES[self.profile][self.setting], []
        for name, origin in (ORIGINS[self.dataset] | OUR_OWN).items():
            value = getattr(self, name)
            if origin.published == value and origin.code in (None, value):
                continue
            reason = choices.get(name, Choice(value, "as their code has it")).reason
            changed = name != "device" and value != getattr(base, name)
            rows.append((name, *origin, value, "set for this run" if changed else reason))
        titles = ("name", "paper", "authors' code", "this profile", "reason")
        return [dict(zip(titles, map(text, row), strict=True)) for row in rows + NOTES]


def _study(profile: str, dataset: str, side: int) -> Study:
    origins = (ORIGINS[dataset] | OUR_OWN).items()
    values = {name: o.code if o.published is None else o.published for name, o in origins}
    chosen = COMMON | CHOICES[profile][dataset, side]
    values |= {name: choice.value for name, choice in chosen.items()}
    return Study(profile=profile, dataset=dataset, side=side, **values)


STUDIES = {
    profile: {f"{dataset}-{side}": _study(profile, dataset, side) for dataset, side in chosen}
    for profile, chosen in CHOICES.items()
}
"""By profile and setting."""


def resolve(profile: str = "quick", settings: str = "", **overrides: Any) -> dict[str, Study]:
    """The studies of a profile by setting, some values overridden, all checked before anything is
    computed. An override of None leaves the profile's value; no settings mean all of them."""
    one_of("profile", profile, PROFILES)
    there, found = STUDIES[profile], {}
    for name in [part.strip() for part in settings.split(",") if part.strip()] or there:
        one_of("setting", name, there)
        known = {field.name for field in fields(Study)} - {"profile", "dataset", "side"}
        for key in overrides:
            one_of("parameter", key, sorted(known))
        given = {key: value for key, value in overrides.items() if value is not None}
        values = {key: tidy(key, v, getattr(there[name], key)) for key, v in given.items()}
        found[name] = in_order(check(replace(there[name], **values)))
    return found


def in_order(study: Study) -> Study:
    names = sorted(study.attentions, key=lambda name: (ORDER.index(name), name))
    return replace(study, attentions=tuple(names), seeds=tuple(sorted(study.seeds)))


def study_of(runs: Sequence[Run]) -> Study:
    """The study that these runs make up."""
    shared = {field.name: getattr(runs[0], field.name) for field in fields(Numbers)}
    steps = {run.attention == "linear": run.steps for run in runs}
    others = steps.get(False, steps.get(True))
    found = {f"{name}s": tuple({getattr(run, name) for run in runs})
             for name in ("attention", "seed")}  # fmt: skip
    pace = steps.get(True, others) / others if others else 1.0
    return in_order(Study(**shared, **found, steps=others, linear_pace=pace))


def text(value: Any) -> str:
    """A value as it stands in a table."""
    if isinstance(value, tuple):
        return ", ".join(map(text, value))
    if value == NEVER:
        return "never"
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


LEAST = {
    "steps": 0, "batch_size": 1, "mixtures": 1, "d_model": 2, "n_heads": 1, "n_layers": 1,
    "d_ff": 1, "lr_drop_after": 0, "eval_every": 1, "eval_batches": 1, "threads": 1,
    "lsh_buckets": 2, "lsh_chunk": 1,
}  # fmt: skip


def check(study: Study) -> Study:
    """The study, with its device made definite, if it can be run; else an error."""
    from replication.measure import pick_device  # not above: numbers can be read without PyTorch

    for name in ("attentions", "seeds"):
        some(name, getattr(study, name))
    for attention in study.attentions:
        one_of("attention", attention, ORDER)
    for name, least in LEAST.items():
        at_least(name, getattr(study, name), least)
    for name in ("lr", "lr_drop", "eps", "clip", "linear_pace"):
        if not 0 < getattr(study, name) < float("inf"):
            raise ValueError(f"{name}={getattr(study, name)} must be positive, like 0.001.")
    if not 0 <= study.dropout < 1:
        raise ValueError(f"dropout={study.dropout} is a share. Choose it from 0 to below 1.")
    if rest := study.d_model % study.n_heads:
        raise ValueError(
            f"d_model={study.d_model} cannot be split over n_heads={study.n_heads}: {rest} "
            f"features would be left over. Choose a multiple of {study.n_heads}."
        )
    return replace(study, device=str(pick_device(study.device)))
