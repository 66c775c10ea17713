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
        "exact_match": runs.groupby("attention", sort=False).exact_match.median().to_dict(),
        "linear_stopped": int(linear.stopped.sum()),
        "above_lowest": float(linear.above_lowest.max()) if len(linear) else 0.0,
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
    smooth = rates.get("linear", 0) <= _most_spikes(rates)
    return bool(smooth and not linear.stopped.any() and (linear.above_lowest <= MARGIN).all())


def _most_spikes(rates: dict[str, float]) -> float:
    return max(MOST_SPIKES, rates.get("softmax", 0))


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


# In words -------------------------------------------------------------------------------------


def nats(value: float) -> str:
    """A difference of losses, as exactly as a reader can use it."""
    return f"{value:+.{4 if abs(value) < 0.1 else 2}f}".replace("-", "\N{MINUS SIGN}")


def _sentence(cell: dict) -> str:
    """What was seen at one length, and what is missing."""
    found = [
        f"N = {cell['length']}: {_of(cell['linear_learnt'])} linear and "
        f"{_of(cell['softmax_learnt'])} softmax runs copy at least {100 * LEARNT:g} % of the "
        f"symbols{_whole_words(cell['exact_match'])}",
        _difference(cell["difference"]),
        instability(cell) or "all linear runs are stable",
    ]
    missing = _missing(cell)
    return "; ".join(filter(None, found)) + f"{missing and f'; open for want of {missing}'}."


def _whole_words(exact: dict[str, float]) -> str:
    """The stricter measure: one wrong symbol spoils a word."""
    both = [f"{100 * exact[name]:.0f} %" for name in ("linear", "softmax") if name in exact]
    return f" (whole words: {' and '.join(both)}, medians)"


def _of(counts: list[int]) -> str:
    return f"{counts[0]} of {counts[1]}"


def _difference(pair: dict) -> str:
    if pair["n"] < 2:
        return ""
    return (
        f"linear minus softmax is {nats(pair['mean'])} nats per token (90 % interval "
        f"{nats(pair['low'])} to {nats(pair['high'])}, margin {MARGIN:.3f})"
    )


def instability(cell: dict) -> str:
    """Each respect in which the linear runs of one length are not stable; empty if in none."""
    rates, found = cell["spikes_per_1000"], []
    if cell["linear_stopped"]:
        found.append(f"{cell['linear_stopped']} linear runs stopped early")
    if cell["above_lowest"] > MARGIN:
        found.append(f"a linear run ends {cell['above_lowest']:.3f} above its own lowest loss")
    if rates.get("linear", 0) > _most_spikes(rates):
        found.append(
            f"{rates['linear']:.1f} spikes in 1000 linear updates ({_most_spikes(rates):.2g} "
            f"allowed; softmax {rates.get('softmax', 0):.1f})"
        )
    return ", ".join(found)


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
