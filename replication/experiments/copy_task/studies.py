"""Studies of the copy task and their runs: numbers by setting and profile, checked before use."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import cycle, islice, product
from typing import Any

from replication.experiments import studies
from replication.experiments.base import PROFILES, Choice, one_of
from replication.experiments.copy_task import numbers


@dataclass(frozen=True, kw_only=True)
class Numbers(studies.Numbers):
    setting: str
    symbols: int
    lr_drop_after: int
    attention_dropout: float
    activation: str
    positions: str
    lsh_rounds: int
    lsh_buckets: int
    lsh_chunk: int


@dataclass(frozen=True, kw_only=True)
class Run(Numbers):
    attention: str
    length: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.setting}-{self.attention}-{self.length}-seed{self.seed}"


def sources(setting: str, profile: str) -> studies.Sources:
    choices = studies.OURS | numbers.COMMON[setting] | numbers.CHOICES.get((setting, profile), {})
    titles = (*numbers.TITLES[setting], "this profile")
    origins = numbers.ORIGINS[setting] | studies.OUR_OWN
    return studies.Sources(origins, choices, titles, numbers.NOTES[setting])


@dataclass(frozen=True, kw_only=True)
class Study(Numbers, studies.Study):
    attentions: tuple[str, ...]
    lengths: tuple[int, ...]
    seeds: tuple[int, ...]
    chosen: tuple[str, ...] = ()
    """What holds at one length alone in the profile, but was set, if only to the usual value."""

    @property
    def sources(self) -> studies.Sources:
        return sources(self.setting, self.profile)

    @property
    def name(self) -> str:
        """Setting, profile, what differs from the profile, and a hash of every value."""
        changed = "".join(f"-{name}={studies.text(getattr(self, name))}" for name in self.changes())
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
        return f"{self.setting}-{self.profile}{changed.replace(', ', '+')[:80]}-{digest[:8]}"

    def at(self, length: int) -> dict[str, Choice]:
        """What holds at this length alone."""
        here = special(self).get(length, {})
        return {name: own for name, own in here.items() if name not in self.chosen}

    def runs(self) -> Iterator[Run]:
        """Every attention, length and seed; those that are compared come one after another."""
        for length, seed in product(self.lengths, self.seeds):
            own = {name: choice.value for name, choice in self.at(length).items()}
            for attention in own.pop("attentions", self.attentions):
                yield self.one(Run, attention=attention, length=length, seed=seed, **own)

    @property
    def drops(self) -> dict[int, int]:
        """By length, after how many updates the learning rate falls."""
        return {run.length: run.lr_drop_after for run in self.runs()}

    def deviations(self) -> list[dict[str, str]]:
        """What holds at one length stands behind the rest."""
        rows, (*_, here, why) = super().deviations(), ("name", *self.sources.titles, "reason")
        for length in self.lengths:
            for name, own in self.at(length).items():
                said = map(studies.text, self.sources.origins[name])
                sources = dict(zip(self.sources.titles, said, strict=False))
                row = {"name": f"{name} at N = {length}"} | sources
                rows.append(row | {here: studies.text(own.value), why: own.reason})
        return rows


def special(one: Run | Study) -> Mapping[int, dict[str, Choice]]:
    """By length, what holds at this one alone as long as nobody sets it."""
    return numbers.AT_LENGTHS.get((one.setting, one.profile), {})


STUDIES = {
    key: Study(setting=key[0], profile=key[1], **sources(*key).values())
    for key in product(numbers.ORIGINS, PROFILES)
}
"""Every setting in every profile, by (setting, profile)."""


def resolve(setting: str = "paper", profile: str = "quick", **overrides: Any) -> Study:
    """The profile with some values overridden, all checked before anything is computed.

    The name of the study says what differs.
    """
    return usable(chosen(setting, profile, overrides))


def chosen(setting: str, profile: str, overrides: dict[str, Any]) -> Study:
    """The same, but for what only PyTorch knows: which mechanisms and devices there are."""
    one_of("setting", setting, numbers.ORIGINS)
    one_of("profile", profile, PROFILES)
    base = STUDIES[setting, profile]
    own = {name for here in special(base).values() for name in here}
    given = sorted(name for name in own if overrides.get(name) is not None)
    study = studies.overridden(base, base.sources.origins, overrides)
    check(study := replace(study, chosen=tuple(given)))
    return studies.in_order(study, numbers.ORDER)


def usable(study: Study) -> Study:
    """The study, with its device made definite, if its mechanisms and its device are there."""
    from replication.attention import trained  # not above: all other checks need no PyTorch

    for attention in study.attentions:
        one_of("attention", attention, trained())
    return studies.on_device(study)


SHARED = ("steps", "batch_size", "lr", "seeds", "device")


def shared(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a notebook has chosen for the copy task and for models of other sizes alike."""
    return {name: given[name] for name in SHARED if given.get(name) is not None}


def wider(profile: str, **given: Any) -> list[Study]:
    """Setting paper at the published width, where the profile has less."""
    if profile not in numbers.WIDER:
        return []
    own = numbers.WIDER[profile] | {"attentions": numbers.ORDER[:2]} | shared(given)
    return [resolve("paper", profile, **own)]


def rated(profile: str, **given: Any) -> list[Study]:
    """Setting paper at further learning rates, a study a rate."""
    base = STUDIES["paper", profile]
    own = {"lengths": base.lengths[0], "seeds": base.seeds[0]} | shared(given)
    return [resolve("paper", profile, **own | {"lr": lr}) for lr in numbers.RATES.get(profile, ())]


def study_of(runs: Sequence[Run]) -> Study:
    """The study that these runs make up. Of numbers that hold at one length it has the others."""
    names = ("attention", "length", "seed")
    kept = {f"{name}s": tuple({getattr(run, name) for run in runs}) for name in names}
    own = {length: set(here) - {"attentions"} for length, here in special(runs[0]).items()}
    common = [run for run in runs if not own.get(run.length)] or runs
    chosen = tuple(sorted({name for run in runs for name in _not_its_own(run)}))
    study = studies.gathered(Study, common, **kept, chosen=chosen)
    return studies.in_order(study, numbers.ORDER)


def _not_its_own(run: Run) -> Iterator[str]:
    """What has another value than the profile's at this length, so that somebody has set it."""
    for name, own in special(run).get(run.length, {}).items():
        several = name == "attentions"
        if run.attention not in own.value if several else getattr(run, name) != own.value:
            yield name


def check(study: Study) -> None:
    """What is to be learnt, and by which mechanisms; all else ``studies`` looks at."""
    least = {"symbols": 2, "lr_drop_after": 0, "lsh_rounds": 1, "lsh_buckets": 2, "lsh_chunk": 1}
    studies.check(study, ("attentions", "lengths", "seeds"), **least)
    one_of("activation", study.activation, ("relu", "elu_plus_one"))
    one_of("positions", study.positions, ("added", "concatenated"))
    if min(study.lengths) < (shortest := numbers.SHORTEST[study.setting]):
        raise ValueError(
            f"length={min(study.lengths)} is too short for the copy task in the {study.setting} "
            "setting: the words to be copied would have fewer than 2 symbols. Choose at least "
            f"{shortest}."
        )
    if study.attention_dropout:
        raise ValueError(
            f"attention_dropout={study.attention_dropout} cannot be had: linear attention never "
            "writes its weights down, so it would act on some mechanisms only. Set it to 0, and "
            "use dropout, which acts on all."
        )
    if study.lsh_buckets % 2:
        raise ValueError(f"lsh_buckets={study.lsh_buckets} is odd. Choose an even number.")


# Words to be copied: whether they can be, and how they are made to fit ---------------------------


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
