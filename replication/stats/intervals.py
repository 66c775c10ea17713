"""Intervals over seeds, and what two groups of values share."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from statsmodels.stats.weightstats import DescrStatsW

LEVEL = 0.95


class Equivalence(NamedTuple):
    """Two one-sided paired t tests (Schuirmann 1987); low to high is their 1 - 2 alpha interval."""

    n: int
    mean: float
    low: float
    high: float
    p: float
    margin: float

    @property
    def same(self) -> bool:
        return self.low > -self.margin and self.high < self.margin

    def as_dict(self) -> dict:
        """For a file: what is undefined is None."""
        names = ("n", "mean", "low", "high", "p", "same")
        return {name: None if (x := getattr(self, name)) != x else x for name in names}


def equivalence(values: ArrayLike, margin: float, alpha: float) -> Equivalence:
    """Are paired differences within +- margin? The larger p of the two tests is theirs."""
    values = np.asarray(values, float)
    mean = float(values.mean()) if len(values) else math.nan
    if len(values) < 2:
        return Equivalence(len(values), mean, math.nan, math.nan, math.nan, margin)
    with np.errstate(divide="ignore"):  # equal differences: t is infinite, p 0 or 1
        p = float(DescrStatsW(values).ttost_mean(-margin, margin)[0])
    return Equivalence(len(values), mean, *mean_interval(values, 2 * alpha), p, margin)


def mean_interval(values: ArrayLike, outside: float) -> tuple[float, float]:
    """Student's interval of the mean, beyond which ``outside`` is left, half at either end."""
    values = np.asarray(values, float)
    if not np.ptp(values):
        return float(values[0]), float(values[0])
    low, high = DescrStatsW(values).tconfint_mean(outside)
    return float(low), float(high)


def bootstrap(values: ArrayLike) -> tuple[float, float]:
    """Percentile interval of the median, values drawn with replacement; they may be infinite."""
    values, rng = np.asarray(values, float), np.random.default_rng(0)
    draws = values[rng.integers(len(values), size=(10_000, len(values)))]
    ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = np.quantile(np.median(draws, axis=1), ends, method="inverted_cdf")
    return float(low), float(high)


def coverage(n: int) -> float:
    """How often n values enclose the true median: the interval of ``bootstrap`` no more often."""
    return 1 - 2 ** (1 - n)
