"""The verdict on claim 1: answers to three questions, an outcome, a sentence of evidence."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from replication.convergence.equivalence import Equivalence, differences, equivalence
from replication.convergence.rule import (
    FEWEST_SEEDS,
    INCONCLUSIVE,
    LEARNT,
    MARGIN,
    MOST_SPIKES,
    NOT,
    PARTLY,
    RULE,
    SUPPORTED,
)
from replication.convergence.tables import stability


def claim_1(runs: pd.DataFrame, published_updates: int, id: str = "C1") -> dict[str, Any]:
    """The verdict on "converges stably and reaches the loss of softmax", by ``RULE``."""
    lengths = [judge(group, published_updates) for _, group in runs.groupby("length")]
    return {
        "id": id,
        "verdict": combine(cell["verdict"] for cell in lengths),
        "evidence": " ".join(_sentence(cell) for cell in lengths),
        "rule": RULE,
        "margin": MARGIN,
        "values": lengths,
    }


def judge(runs: pd.DataFrame, published_updates: int) -> dict[str, Any]:
    """The three answers at one length (None: open), the outcome, and what it rests on."""
    linear, softmax = (runs[runs.attention == name] for name in ("linear", "softmax"))
    pair, rates = equivalence(differences(runs).difference), _spike_rates(runs)
    updates = int(runs.updates.max())
    answers = {
        "converges": _converges(linear, updates >= published_updates),
        "reaches": _reaches(linear, softmax, pair, updates >= published_updates),
        "stable": _stable(linear, rates),
    }
    seeds = len(set(linear.seed) & set(softmax.seed))
    return {
        "length": int(runs.length.iloc[0]),
        "seeds": seeds,
        "updates": updates,
        "published_updates": published_updates,
        "linear_learnt": [int(_learnt(linear).sum()), len(linear)],
        "softmax_learnt": [int(_learnt(softmax).sum()), len(softmax)],
        "linear_stopped": int(linear.stopped.sum()),
        "spikes_per_1000": rates,
        "difference": pair.as_dict(),
        **answers,
        "verdict": outcome(seeds, **answers),
    }


def _spike_rates(runs: pd.DataFrame) -> dict[str, float]:
    rows = stability(runs)
    return dict(zip(rows.attention, rows.spikes_per_1000.map(float), strict=True))


def _learnt(runs: pd.DataFrame) -> pd.Series:
    return (runs.token_accuracy >= LEARNT) & ~runs.stopped


def _converges(linear: pd.DataFrame, enough: bool) -> bool | None:
    """A run that stopped never will; one that was cut short might."""
    if linear.empty:
        return None
    return _counts(bool(_learnt(linear).all()), enough or bool(linear.stopped.any()))


def _reaches(
    linear: pd.DataFrame, softmax: pd.DataFrame, pair: Equivalence, enough: bool
) -> bool | None:
    """That two models which copy nothing have equal losses says nothing."""
    if not any(_learnt(runs).mean() > 0.5 for runs in (linear, softmax)):
        return None
    return _counts(pair.not_above, enough)


def _stable(linear: pd.DataFrame, rates: dict[str, float]) -> bool:
    smooth = rates.get("linear", 0) <= max(MOST_SPIKES, rates.get("softmax", 0))
    return bool(smooth and not linear.stopped.any() and (linear.above_lowest <= MARGIN).all())


def _counts(answer: bool | None, enough: bool) -> bool | None:
    """A no that came too early is no answer."""
    return None if answer is False and not enough else answer


def outcome(seeds: int, converges: bool | None, reaches: bool | None, stable: bool) -> str:
    if seeds < FEWEST_SEEDS:
        return INCONCLUSIVE
    if converges and reaches and stable:
        return SUPPORTED
    if converges or reaches:
        return PARTLY
    return NOT if converges is reaches is False else INCONCLUSIVE


def combine(outcomes: Iterable[str]) -> str:
    """Of several lengths."""
    found = set(outcomes)
    if len(found) == 1:
        return found.pop()
    return PARTLY if found & {SUPPORTED, PARTLY} else NOT


def _sentence(cell: dict) -> str:
    """What was seen at one length, and what is missing."""
    found = [
        f"N = {cell['length']}: {_of(cell['linear_learnt'])} linear and "
        f"{_of(cell['softmax_learnt'])} softmax runs copy at least {LEARNT:.0%} of the symbols",
        _difference(cell["difference"]),
        f"{cell['linear_stopped']} linear runs stopped early",
        "spikes in 1000 updates: "
        + ", ".join(f"{name} {rate:.2g}" for name, rate in cell["spikes_per_1000"].items()),
        f"outcome: {cell['verdict']}",
    ]
    missing = _missing(cell)
    return "; ".join(filter(None, found)) + f"{missing and f', for want of {missing}'}."


def _of(counts: list[int]) -> str:
    return f"{counts[0]} of {counts[1]}"


def _difference(pair: dict) -> str:
    if pair["n"] < 2:
        return ""
    return (
        f"linear - softmax is {pair['mean']:+.2g} nats a token (90 % interval {pair['low']:+.2g} "
        f"to {pair['high']:+.2g}, margin {MARGIN:.3f})"
    )


def _missing(cell: dict) -> str:
    """What might have decided a question that is open."""
    if cell["seeds"] < FEWEST_SEEDS:
        return f"at least {FEWEST_SEEDS} seeds of both"
    if cell["converges"] is not None and cell["reaches"] is not None:
        return ""
    if cell["updates"] < cell["published_updates"]:
        return f"updates: {cell['updates']} of {cell['published_updates']} were made"
    learnt = (2 * a > b for a, b in (cell["linear_learnt"], cell["softmax_learnt"]))
    return "more seeds" if any(learnt) else "a mechanism that learns to copy"
