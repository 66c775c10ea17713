"""Studies of image generation and their runs: numbers by setting, checked before use."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from replication.experiments import studies
from replication.experiments.base import PROFILES, one_of, positive, tidy
from replication.experiments.images.numbers import CHOICES, COLOURS, COMMON, NOTES, ORDER, ORIGINS

TITLES = ("paper", "authors' code", "this profile")


@dataclass(frozen=True, kw_only=True)
class Numbers(studies.Numbers):
    dataset: str
    side: int
    lr_drop_after: int
    mixtures: int
    lsh_buckets: int
    lsh_chunk: int

    @property
    def setting(self) -> str:
        return f"{self.dataset}-{self.side}"

    @property
    def length(self) -> int:
        """Bytes that are predicted."""
        return self.side**2 * COLOURS[self.dataset] - 1


@dataclass(frozen=True, kw_only=True)
class Run(Numbers):
    attention: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.setting}-{self.attention}-seed{self.seed}"


def sources(profile: str, dataset: str, side: int) -> studies.Sources:
    choices = studies.OURS | COMMON | CHOICES[profile][dataset, side]
    return studies.Sources(ORIGINS[dataset] | studies.OUR_OWN, choices, TITLES, NOTES)


@dataclass(frozen=True, kw_only=True)
class Study(Numbers, studies.Study):
    attentions: tuple[str, ...]
    seeds: tuple[int, ...]
    linear_pace: float
    """Updates of linear attention for one of the others: more where time is what is equal."""

    @property
    def sources(self) -> studies.Sources:
        return sources(self.profile, self.dataset, self.side)

    def runs(self) -> Iterator[Run]:
        """Every attention and seed; those that are compared come one after another."""
        for seed, attention in product(self.seeds, self.attentions):
            steps = round(self.steps * (self.linear_pace if attention == "linear" else 1))
            yield self.one(Run, attention=attention, seed=seed, steps=steps)


STUDIES = {
    profile: {f"{dataset}-{side}": Study(profile=profile, dataset=dataset, side=side,
                                         **sources(profile, dataset, side).values())
              for dataset, side in chosen}
    for profile, chosen in CHOICES.items()
}  # fmt: skip
"""By profile and setting."""


def resolve(profile: str = "quick", settings: str = "", **overrides: Any) -> dict[str, Study]:
    """The studies of a profile by setting, some values overridden, checked. None named: all."""
    one_of("profile", profile, PROFILES)
    there, found = STUDIES[profile], {}
    for name in tidy("settings", settings, ("mnist-28",)) or there:
        one_of("setting", name, there)
        study = studies.overridden(there[name], there[name].sources.origins, overrides)
        check(study)
        found[name] = studies.on_device(studies.in_order(study, ORDER))
    return found


def study_of(runs: Sequence[Run]) -> Study:
    steps = {run.attention == "linear": run.steps for run in runs}
    others = steps.get(False, steps.get(True))
    pace = steps.get(True, others) / others if others else 1.0
    return studies.in_order(studies.gathered(Study, runs, steps=others, linear_pace=pace), ORDER)


def check(study: Study) -> None:
    least = {"mixtures": 1, "lr_drop_after": 0, "lsh_buckets": 2, "lsh_chunk": 1}
    studies.check(study, ("attentions", "seeds"), **least)
    positive("linear_pace", study.linear_pace)
    for attention in study.attentions:
        one_of("attention", attention, ORDER)
