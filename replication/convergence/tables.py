"""Rows of training -> one row a run, medians over seeds with intervals, stability."""

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from replication.convergence.rule import LEARNT, SPIKE_FACTOR, SPIKE_RISE, SPIKE_WINDOW

RUN = ["length", "attention", "seed"]
QUANTITIES = ("final_loss", "token_accuracy", "exact_match", "updates_to_99")


# One row a run --------------------------------------------------------------------------------


def summarise(
    steps: pd.DataFrame, evaluations: pd.DataFrame, failures: Iterable[dict] = ()
) -> pd.DataFrame:
    """How every run ended, when it had learnt to copy, and how smooth its way was."""
    stopped = {tuple(row[name] for name in RUN) for row in failures}
    ways = dict(iter(steps.groupby(RUN, sort=False)))
    rows = [
        dict(zip(RUN, run, strict=True))
        | {"stopped": run in stopped, **_ending(found), **_way(ways[run])}
        for run, found in evaluations.groupby(RUN, sort=False)
    ]
    return pd.DataFrame(rows)


def _ending(evaluations: pd.DataFrame) -> dict:
    found = evaluations.sort_values("step")
    last, learnt = found.iloc[-1], found.step[found.token_accuracy >= LEARNT]
    return {
        "final_loss": last.eval_loss,
        "token_accuracy": last.token_accuracy,
        "exact_match": last.exact_match,
        "updates_to_99": learnt.iloc[0] if len(learnt) else math.inf,
        "above_lowest": last.eval_loss - found.eval_loss.min(),
    }


def _way(steps: pd.DataFrame) -> dict:
    steps = steps.sort_values("step")
    norms = steps.grad_norm.quantile([0.5, 0.99, 1]).to_list()
    return {
        "updates": len(steps),
        "spikes": int(spikes(steps.loss).sum()),
        **dict(zip(("grad_norm", "grad_norm_99", "grad_norm_max"), norms, strict=True)),
        "smallest_denominator": steps.smallest_denominator.min(),
        "seconds": steps.seconds.sum(),
    }


def spikes(losses: pd.Series) -> pd.Series:
    """True where a spike begins. A loss that is not finite is one."""
    before = losses.rolling(SPIKE_WINDOW, min_periods=1).median().shift()
    limit = np.maximum(SPIKE_FACTOR * before, before + SPIKE_RISE)
    high = (losses > limit) | ~np.isfinite(losses)
    return high & ~high.shift(fill_value=False)


# Over seeds -----------------------------------------------------------------------------------


def bootstrap(
    values: ArrayLike, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of the median, values drawn with replacement; they may be infinite."""
    values, rng = np.asarray(values, float), np.random.default_rng(seed)
    draws = values[rng.integers(len(values), size=(resamples, len(values)))]
    ends = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(np.median(draws, axis=1), ends, method="inverted_cdf")
    return float(low), float(high)


def coverage(n: int) -> float:
    """How often the smallest and the largest of n values enclose the true median.

    The interval of ``bootstrap`` lies within them, so its level is no more than this.
    """
    return 1 - 2 ** (1 - n)


def table(runs: pd.DataFrame) -> pd.DataFrame:
    """Median over seeds and its interval: columns length, attention, seeds, quantity, ..."""
    rows = []
    for (length, attention), group in runs.groupby(["length", "attention"], sort=False):
        head = {"length": length, "attention": attention, "seeds": len(group)}
        for name in QUANTITIES:
            low, high = bootstrap(group[name])
            middle = float(np.median(group[name]))
            rows.append(head | {"quantity": name, "median": middle, "low": low, "high": high})
    return pd.DataFrame(rows)


def stability(runs: pd.DataFrame) -> pd.DataFrame:
    """One row a length and mechanism: what (c) of the rule looks at, and gradient norms."""
    groups = runs.groupby(["length", "attention"], sort=False)
    found = groups.agg(
        runs=("seed", "size"), stopped=("stopped", "sum"), spikes=("spikes", "sum"),
        above_lowest=("above_lowest", "max"), grad_norm=("grad_norm", "median"),
        grad_norm_99=("grad_norm_99", "median"), grad_norm_max=("grad_norm_max", "max"),
        smallest_denominator=("smallest_denominator", "min"),
    )  # fmt: skip
    rate = 1000 * found.spikes / groups.updates.sum().clip(lower=1)
    found.insert(3, "spikes_per_1000", rate)
    return found.reset_index()
