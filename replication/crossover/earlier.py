"""The earlier replication's regression, re-derived from its table, and tried on our own rows."""

from types import MappingProxyType

import numpy as np
import pandas as pd
from numpy.polynomial import Polynomial
from scipy import stats

from replication.crossover.estimate import LEVEL, Fitted, check_level
from replication.crossover.fits import (
    Fit,
    Model,
    Powers,
    check_powers,
    last_root,
    ordinary_fit,
    saving,
)
from replication.crossover.rows import TIME, pair

TABLE_1 = MappingProxyType(
    {
        "N": (8, 16, 32, 64),
        "softmax": (221.0, 236.0, 287.0, 416.0),
        "linear": (1738.0, 3004.0, 5373.0, 10071.0),
    }
)
"""Seconds for 3000 training steps. Do & Bergner 2022, Table 1; one run a length."""

EARLIER_POWERS: Powers = ((0, 1), (0, 2))
"""Its models: linear ~ 1 + N and softmax ~ 1 + N^2."""
REAL = 1e-6
"""A root whose imaginary part is smaller than this, relatively, is real."""


def earlier_crossover(powers: Powers = EARLIER_POWERS, level: float = LEVEL) -> Fitted:
    """The published crossover, N = 3149, from the published times, with what it left out."""
    N, linear, softmax = (np.array(TABLE_1[name], float) for name in ("N", "linear", "softmax"))
    return _crossover(N, linear, softmax, powers, level, ("linear", "softmax"))


def earlier_method(
    rows: pd.DataFrame,
    contender: str = "linear",
    opponent: str = "softmax",
    *,
    longest: int = 64,
    powers: Powers = EARLIER_POWERS,
    level: float = LEVEL,
) -> Fitted:
    """What the earlier method would say of our own times, one value a length, N <= longest."""
    check_powers(powers)
    fewest = 1 + max(map(len, powers))
    cells = pair(rows, contender, opponent, TIME, fewest, longest)
    ours, theirs = np.exp(cells.levels).T
    return _crossover(cells.N, ours, theirs, powers, level, (contender, opponent))


def _crossover(
    N: np.ndarray,
    ours: np.ndarray,
    theirs: np.ndarray,
    powers: Powers,
    level: float,
    names: tuple[str, str],
) -> Fitted:
    check_level(level)
    fits = ordinary_fit(N, ours, powers[0]), ordinary_fit(N, theirs, powers[1])
    saved = saving(fits[0].params, fits[1].params, powers)
    root = float(last_root(saved))
    low, high = _fieller(saved, fits, powers, root, level) if 0 < root < np.inf else (None, None)
    return Fitted(
        contender=names[0],
        opponent=names[1],
        quantity=TIME,
        at=root,
        low=low,
        high=high,
        level=level,
        shortest=int(N[0]),
        longest=int(N[-1]),
        powers=powers,
        fits=fits,
    )


def _fieller(
    saved: np.ndarray, fits: tuple[Fit, Fit], powers: Powers, root: float, level: float
) -> tuple[float, float]:
    """The N around the root at which equal costs cannot be rejected, as in Fieller's theorem.

    Equal costs at N are kept if saved(N)^2 <= t^2 var(N), a polynomial of degree four in N.
    With two residual degrees of freedom (or one) the delta method is no option: it is
    symmetric, bounded and may go below zero. This set is skew, and unbounded when the growth
    of the opponent is not significant. Of the two fits' degrees of freedom t takes the fewer.
    """
    t = stats.t.ppf((1 + level) / 2, min(fit.df_resid for fit in fits))
    variance = sum(_variance(fit, p) for fit, p in zip(fits, powers, strict=True))
    roots = (Polynomial(saved) ** 2 - t**2 * variance).roots()
    ends = roots.real[abs(roots.imag) <= REAL * abs(roots)]
    below, above = ends[ends <= root * (1 + REAL)], ends[ends >= root * (1 - REAL)]
    low, high = max(below, default=0.0), min(above, default=np.inf)
    return max(0.0, float(low)), float(high)


def _variance(fit: Fit, powers: Model) -> Polynomial:
    """Of the fitted cost at N, as a polynomial in N."""
    coefficients = np.zeros(5)
    for row, p in zip(fit.cov_params(), powers, strict=True):
        for covariance, q in zip(row, powers, strict=True):
            coefficients[p + q] += covariance
    return Polynomial(coefficients)
