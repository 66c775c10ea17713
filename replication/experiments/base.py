"""What an experiment is: its notebook, its units of work, its rules, and how they are described."""

import math
import os
import stat
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

from replication.store import RESULTS, ROOT, WAYS, Kept, Unit

PROFILES = ("smoke", "quick", "reference", "paper")
"""Sizes in which everything can be run, from seconds to days."""

# Verdicts -------------------------------------------------------------------------------------

SUPPORTED, PARTLY, NOT = "supported", "partly supported", "not supported"
INCONCLUSIVE = "inconclusive"
OUTCOMES = (SUPPORTED, PARTLY, NOT, INCONCLUSIVE)
NOT_RUN = "not run here"
"""In place of an outcome, where there are no rows to judge by."""


class Verdict(NamedTuple):
    """An outcome, what was seen in one sentence, and the numbers behind it."""

    outcome: str
    evidence: str
    values: dict[str, Any]


def by_answers(answers: Sequence[bool | None]) -> str:
    """Supported if all are yes, partly if some are, not if all are no; else inconclusive."""
    if answers and all(answers):
        return SUPPORTED
    if any(answers):
        return PARTLY
    return NOT if answers and all(answer is False for answer in answers) else INCONCLUSIVE


def within(low: float, high: float, least: float, most: float) -> bool | None:
    """Does an interval lie inside a range (yes), outside (no), or across its end (open)?"""
    if least <= low and high <= most:
        return True
    return False if high < least or low > most else None


def below(low: float, high: float, limit: float = 0.0) -> bool | None:
    """Does an interval end below a limit (yes), begin above it (no), or lie across it (open)?"""
    return True if high < limit else False if low > limit else None


def above(low: float, high: float, limit: float = 0.0) -> bool | None:
    return below(-high, -low, -limit)


def signed(value: float, digits: int) -> str:
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def listed(words: Iterable[str]) -> str:
    """a, b and c."""
    *most, last = map(str, words)
    return f"{', '.join(most)} and {last}" if most else last


def apart(values: Iterable[float], text: Callable[[float, int], str]) -> list[str]:
    """A value and the ends of its interval, with up to two more digits until no two that differ
    look alike."""
    values = list(values)
    for more in range(3):
        texts = [text(value, more) for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def not_run(why: str) -> Verdict:
    return Verdict(NOT_RUN, f"Not run here. {why}", {})


# Experiments ----------------------------------------------------------------------------------


def later(path: str) -> Callable[..., Any]:
    """The function at "module:name", imported when it is first called.

    So the list of experiments, a command's help and an error about an argument need no PyTorch.
    """
    module, _, name = path.partition(":")

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*arguments, **options)

    return call


class Command(NamedTuple):
    """A command of ``replication`` that belongs to an experiment, such as ``crossover``."""

    name: str
    """One word, or two where several belong together: "bench training"."""
    help: str
    arguments: Callable[[ArgumentParser], None]
    """Adds what it takes; imports nothing that is slow."""
    run: Callable[[Namespace], int]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One folder of this room. All else in the package loops over these and names none."""

    name: str
    """Its folder here and in results/<profile>/."""
    title: str
    """In tables and on progress bars."""
    notebook: str
    """The stem of its file in notebooks/."""
    alone: bool = False
    """Whether it reads the clock, so that nothing may run beside it."""
    needs: tuple[str, ...] = ()
    """The experiments whose rows its notebook reads."""
    minutes: Mapping[str, float] = field(default_factory=dict)
    """What its notebook takes by profile, measured on the reference machine."""
    smallest: Mapping[str, Any] = field(default_factory=dict)
    """What profile smoke gives a notebook that takes no profile."""
    units: Callable[[str], list[Unit]] = lambda profile: []
    """Of a profile as it stands: what the report reads."""
    evidence: Callable[[list[Kept]], Any] = lambda kept: kept
    """What the rules, figures and tables take, from the rows of those units that are there."""
    rules: Mapping[str, Callable[..., Verdict]] = field(default_factory=dict)
    """(evidence, **numbers) -> Verdict, by the name that paper/claims.yaml gives as its test."""
    summary: Callable[[list[Kept]], Any] | None = None
    """One tidy DataFrame of any units of its own, as a sweep collects it; None: their rows."""
    costs: Callable[[Any], list[dict]] = lambda evidence: []
    """Rows of the table of costs: Part, Measured, and Estimated, Allowed (s) or Flops."""
    answers: "Callable[[Mapping[str, Any]], dict[str, str]]" = lambda evidence: {}
    """By question what machines are compared by beside verdicts; from all evidence of a run."""
    commands: tuple[Command, ...] = ()
    check: Callable[..., Any] = lambda **parameters: None
    """Raises ValueError in words if parameters of its notebook are wrong, before anything runs.
    Those that all notebooks share are looked at first, by ``check_shared``."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "check", partial(_check_both, self.check))


# Numbers --------------------------------------------------------------------------------------


class Origin(NamedTuple):
    """What was published, and what the code behind it does; None: a source does not say."""

    published: Any = None
    code: Any = None


class Choice(NamedTuple):
    """A value of our own, and why."""

    value: Any
    reason: str


def one_of(name: str, value: object, known: Iterable[str]) -> None:
    if value not in (known := list(known)):
        raise ValueError(f"{name}={value!r} is unknown. Choose one of: {', '.join(known)}.")


def some(name: str, values: Any) -> None:
    """A list of at least one value, and none twice."""
    if not isinstance(values, list | tuple):
        raise ValueError(f"{name}={values!r} is not a list. Give a list.")
    if not values:
        raise ValueError(f"{name} is empty, so there is nothing to run. Give at least one.")
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"{name} holds {twice[0]!r} more than once. Name each of them once.")


def at_least(name: str, value: int | float, least: int | float) -> None:
    if not value >= least:
        raise ValueError(f"{name}={value} is too small. Choose at least {least}.")


def whole(name: str, value: Any, least: int = 1, most: int | None = None) -> None:
    """Refuse what is no whole number, the text "8" as well: a notebook counts by it as it comes."""
    if isinstance(value, str):
        raise ValueError(f"{name}={value!r} is a text. Give a whole number, without quotes.")
    between(name, tidy(name, value, least), least, most or SEEDS)


def between(name: str, value: int | float, least: int | float, most: int | float) -> None:
    at_least(name, value, least)
    if not value <= most:
        raise ValueError(f"{name}={value} is too large. Choose at most {most}.")


def positive(name: str, value: int | float) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{name}={value} must be positive and finite, like 0.001.")


def fits(name: str, value: object, numbers: int | float, size: int = 4) -> None:
    """Refuse a value by which so many numbers of ``size`` bytes are more than all memory here."""
    import psutil

    if (needed := numbers * size) > (there := psutil.virtual_memory().total):
        raise ValueError(f"{name}={value} needs at least {needed / 1e9:,.0f} GB of memory; this "
                         f"machine has {there / 1e9:.0f} GB. Choose a smaller one.")  # fmt: skip


def count(most: int) -> Callable[[str], int]:
    """The type of an option that counts, from 1 on."""

    def whole_number(text: str) -> int:
        if not 1 <= int(text) <= most:
            raise ArgumentTypeError(f"{text} is not between 1 and {most}")
        return int(text)

    return whole_number


def bench_arguments(parser: ArgumentParser) -> None:
    """What the benchmarks of single kernels and models take."""
    parser.add_argument("--rounds", type=count(1000), default=9, help="turns of every contender")
    parser.add_argument("--threads", type=count(1024), help="default: PyTorch's choice")
    parser.add_argument("--out", type=folder, default=RESULTS / "bench")


def folder(text: str) -> Path:
    """The type of an option such as --out."""
    if not can_be_folder(text):
        raise ArgumentTypeError(f"{text[:40]!r} can be no folder. Name one, such as results/mine")
    return Path(text)


def can_be_folder(text: str) -> bool:
    return bool(text.strip()) and lies_at(text) in ("folder", "nothing")


def lies_at(path: str | Path) -> Literal["folder", "file", "nothing", "impossible"]:
    """What is there; a path is impossible that is too long, below a file, or has a zero byte."""
    try:
        return "folder" if stat.S_ISDIR(os.stat(path).st_mode) else "file"
    except FileNotFoundError:
        return "nothing"
    except (OSError, ValueError):
        return "impossible"


def tidy(name: str, value: Any, like: Any) -> Any:
    """``value`` as the type of ``like``; "a, b", [a, b] and a are all understood as tuples."""
    if not isinstance(like, tuple):
        return _scalar(name, value, like)
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    values = list(value) if isinstance(value, Iterable) else [value]
    return tuple(_scalar(name, part, like[0]) for part in values)


WORDS = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}


def _scalar(name: str, value: Any, like: Any) -> Any:
    kind = type(like)
    try:
        converted = kind(value)
        right = isinstance(value, bool) == (kind is bool)
        right &= kind in (bool, str) or converted == float(value)
    except (TypeError, ValueError, OverflowError):
        right = False
    if not right:
        words = WORDS[kind]
        raise ValueError(f"{name}={value!r} is not {words}. Give {words}, for example {like}.")
    return converted


# Parameters that several notebooks have -------------------------------------------------------

SHARED = ("rows", "workers", "out")
"""Those that change no result: an experiment's own check is not given them."""
SEEDS = 2**32 - 1
DEVICES = ("auto", "cpu", "cuda")
LIMITS = {"workers": (1, 256), "threads": (1, 1024), "seed": (0, SEEDS), "steps": (1, 10**8),
          "batch_size": (1, 10**6)}  # fmt: skip
"""The least and the most of each."""


def check_shared(
    *, profile: str = "quick", rows: str = "auto", device: str | None = None, seeds: Any = None,
    lr: Any = None, out: Any = "", **others: Any,
) -> None:  # fmt: skip
    """Refuse those that no notebook can use; None means the profile's."""
    one_of("profile", profile, PROFILES)
    one_of("rows", rows, WAYS)
    one_of("device", str(device or "auto").split(":")[0], DEVICES)
    if device not in (None, *DEVICES[:2]):
        import_module("replication.measure").pick_device(device)
    for name, (least, most) in LIMITS.items():
        if others.get(name) is not None:
            between(name, tidy(name, others[name], 1), least, most)
    for seed in () if seeds is None else tidy("seeds", seeds, (0,)):
        between("seeds", seed, 0, SEEDS)
    if lr is not None:
        positive("lr", tidy("lr", lr, 0.001))
    if out and not (isinstance(out, str) and can_be_folder(out)):
        raise ValueError(f"out={str(out)[:40]!r} can be no folder. Name one, or leave it out.")


def a_folder(name: str, text: str) -> None:
    """One to read from, as seen from here or from the notebook; empty: none is named."""
    places = (Path(), ROOT / "notebooks") if isinstance(text, str) else ()
    if text and not any(os.path.isdir(place / text) for place in places):
        raise ValueError(f"{name}={str(text)[:40]!r} is no folder here. Name one, or leave it out.")


def _check_both(own: Callable[..., Any], **parameters: Any) -> Any:
    check_shared(**parameters)
    return own(**{name: x for name, x in parameters.items() if name not in SHARED})
