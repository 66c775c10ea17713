"""What the experiments that train share: numbers with their sources, studies, checks.

A value of a profile is what was published, else what the code behind it does, unless a ``Choice``
names another one and why. A study is all runs whose outcomes are compared. All this is read
without PyTorch; ``training`` makes units of the runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from replication.experiments.base import Choice, Origin, at_least, one_of, positive, some, tidy

# Sources --------------------------------------------------------------------------------------


def because(reason: str, **values: Any) -> dict[str, Choice]:
    return {name: Choice(value, reason) for name, value in values.items()}


OUR_OWN = {"threads": Origin(), "device": Origin()}
"""What only this replication has to choose."""
OURS = {
    **because("seeds run side by side; a fixed number makes runs repeatable", threads=1),
    **because("CUDA where there is one, else the CPU", device="auto"),
}
NEVER = 10**9
"""Updates that no run makes."""


class Sources(NamedTuple):
    """Where every number of a setting in a profile comes from."""

    origins: Mapping[str, Origin]
    choices: Mapping[str, Choice]
    titles: tuple[str, ...]
    """Columns of the table of deviations: the sources, and what is done here."""
    notes: Sequence[tuple]
    """Deviations that are not numbers: name, an entry a title, reason."""

    def values(self) -> dict[str, Any]:
        """Of the profile as it stands."""
        published = {name: o.code if o.published is None else o.published
                     for name, o in self.origins.items()}  # fmt: skip
        return published | {name: choice.value for name, choice in self.choices.items()}


def text(value: Any) -> str:
    """A value as it stands in a table or a name."""
    if isinstance(value, tuple):
        return ", ".join(map(text, value))
    if value == NEVER:
        return "never"
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


# Studies --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What all runs of a study share, whatever they learn."""

    profile: str
    steps: int
    batch_size: int
    lr: float
    lr_drop: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    clip: float
    dropout: float
    d_model: int
    n_heads: int
    n_layers: int
    d_ff: int
    eval_every: int
    eval_batches: int
    threads: int
    device: str


class Study:
    """All runs whose outcomes are compared. For one seed they start and are fed alike.

    An experiment's own is a dataclass that adds numbers, ``sources`` and ``runs``.
    """

    sources: Sources

    @property
    def published_updates(self) -> int | None:
        return self.sources.origins["steps"].published

    def one(self, kind: type, **own: Any) -> Any:
        """A run with numbers of its own; it shares all others with the study."""
        names = [field.name for field in fields(kind) if field.name not in own]
        return kind(**{name: getattr(self, name) for name in names}, **own)

    def changes(self) -> list[str]:
        """The names of the values that are not the profile's."""
        base = self.sources.values()
        own = [field.name for field in fields(self) if field.name in base]
        return [name for name in own if name != "device" and getattr(self, name) != base[name]]

    def deviations(self) -> list[dict[str, str]]:
        """Rows of a table: every value that some source does not state or states otherwise."""
        origins, choices, titles, notes = self.sources
        changed, rows = self.changes(), []
        for name, origin in origins.items():
            value = getattr(self, name)
            if origin.published == value and origin.code in (None, value):
                continue
            reason = choices[name].reason if name in choices else "as their code has it"
            reason = "set for this run" if name in changed else reason
            rows.append((name, *origin[: len(titles) - 1], value, reason))
        columns = ("name", *titles, "reason")
        return [dict(zip(columns, map(text, row), strict=True)) for row in (*rows, *notes)]


def overridden(study: Any, known: Iterable[str], overrides: Mapping[str, Any]) -> Any:
    """With other values for some numbers that are ``known``; None leaves the profile's value.
    Several may come as a list or as "softmax, linear"."""
    for name in overrides:
        one_of("parameter", name, sorted(known))
    given = {name: value for name, value in overrides.items() if value is not None}
    return replace(study, **{k: tidy(k, v, getattr(study, k)) for k, v in given.items()})


def in_order(study: Any, order: Sequence[str]) -> Any:
    """Mechanisms as in our tables, others after them; lengths and seeds from small to large."""
    ranks = {name: rank for rank, name in enumerate(order)}
    names = sorted(study.attentions, key=lambda name: (ranks.get(name, len(ranks)), name))
    counts = [field.name for field in fields(study) if field.name in ("lengths", "seeds")]
    values = {name: tuple(sorted(getattr(study, name))) for name in counts}
    return replace(study, attentions=tuple(names), **values)


def gathered(kind: type, runs: Sequence[Any], **own: Any) -> Any:
    """The study that these runs make up: of ``seeds`` it has every ``seed``."""
    for name in (field.name for field in fields(kind) if field.name not in own):
        one = name.removesuffix("s")
        several = not hasattr(runs[0], name)
        own[name] = tuple({getattr(r, one) for r in runs}) if several else getattr(runs[0], name)
    return kind(**own)


def run_of(kind: type, numbers: Mapping[str, Any]) -> Any:
    """The run that a unit's numbers are of; read from a file, their tuples are lists."""
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in numbers.items()})


# Checks ---------------------------------------------------------------------------------------

LEAST = {
    "steps": 0, "batch_size": 1, "d_model": 2, "n_heads": 1, "n_layers": 1, "d_ff": 1,
    "eval_every": 1, "eval_batches": 1, "threads": 1,
}  # fmt: skip


def check(study: Any, several: Iterable[str], **least: int) -> None:
    """Whether a study can be run: ``several`` of what is compared, sizes not below the ``least``,
    rates that training can use. What only PyTorch knows ``on_device`` asks."""
    for name in several:
        some(name, getattr(study, name))
    for name, fewest in (LEAST | least).items():
        at_least(name, getattr(study, name), fewest)
    heads, rest = study.n_heads, study.d_model % study.n_heads
    if rest:
        raise ValueError(
            f"d_model={study.d_model} cannot be split over n_heads={heads}: {rest} features would "
            f"be left over. Choose a multiple of {heads}, for example "
            f"{study.d_model - rest + heads}."
        )
    for name in ("lr", "lr_drop", "eps", "clip"):
        positive(name, getattr(study, name))
    if not 0 <= study.weight_decay < float("inf"):
        raise ValueError(f"weight_decay={study.weight_decay} must not be negative. 0 is none.")
    if not 0 <= study.dropout < 1:
        raise ValueError(f"dropout={study.dropout} is a share. Choose it from 0 to below 1.")
    if not (len(study.betas) == 2 and all(0 <= beta < 1 for beta in study.betas)):
        raise ValueError(f"betas={study.betas} must be two numbers from 0 to below 1.")


def on_device(study: Any) -> Any:
    """The study, with its device made definite, if it is there."""
    from replication.measure import pick_device  # not above: numbers can be read without PyTorch

    return replace(study, device=str(pick_device(study.device)))
