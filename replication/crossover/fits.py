"""Costs a + b N + c N^2 fitted to measured lengths, one by one and by the thousand."""

import numpy as np
import statsmodels.api as sm
from statsmodels.regression.linear_model import RegressionResultsWrapper as Fit

Model = tuple[int, ...]
"""The powers of N in it: (0, 1) is a + b N."""
Powers = tuple[Model, Model]
"""Of the contender's model and of the opponent's."""

TERMS = ("a", "b N", "c N^2")
EQUAL = 1e-9
"""Coefficients that differ by less than this, relatively, are the same number."""


def model_name(powers: Model) -> str:
    return " + ".join(TERMS[power] for power in powers)


def check_powers(powers: Powers) -> None:
    for each in powers:
        if not each or not set(each) <= {0, 1, 2} or len(set(each)) < len(each):
            raise ValueError(f"powers={powers}: each model takes some of 0, 1, 2, each once.")


def design(N: np.ndarray, powers: Model) -> np.ndarray:
    return np.asarray(N, float)[:, None] ** np.array(powers)


def ordinary_fit(N: np.ndarray, cost: np.ndarray, powers: Model) -> Fit:
    """Least squares, as if the noise were of one size at every N."""
    return sm.OLS(cost, design(N, powers)).fit()


def weighted_fit(N: np.ndarray, cost: np.ndarray, powers: Model) -> Fit:
    """Least squares of the relative errors (weights 1 / cost^2): noise in proportion to cost."""
    return sm.WLS(cost, design(N, powers), weights=cost**-2.0).fit()


def weighted_coefficients(N: np.ndarray, cost: np.ndarray, powers: Model) -> np.ndarray:
    """The coefficients of ``weighted_fit`` for costs [..., lengths], without a loop.

    Divided by its cost each row asks for X beta / cost = 1, so that beta = pinv(X / cost) 1.
    """
    return np.linalg.pinv(design(N, powers) / cost[..., None]).sum(-1)


def saving(contender: np.ndarray, opponent: np.ndarray, powers: Powers) -> np.ndarray:
    """The opponent's cost minus the contender's, as coefficients [..., 3] of 1, N and N^2."""
    ours, theirs = np.zeros((2, *contender.shape[:-1], 3))
    ours[..., powers[0]], theirs[..., powers[1]] = contender, opponent
    same = np.isclose(ours, theirs, rtol=EQUAL, atol=0)
    return np.where(same, 0.0, theirs - ours)


def last_root(saved: np.ndarray) -> np.ndarray:
    """The N from which on saved = d0 + d1 N + d2 N^2 stays positive: [..., 3] -> [...].

    0 if that is so from N = 1 on; infinity if there is no such N.
    """
    d0, d1, d2 = np.moveaxis(saved, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        width = np.sqrt(d1**2 - 4 * d2 * d0)
        root = np.where(d1 > 0, -2 * d0 / (d1 + width), (width - d1) / (2 * d2))
    always = ~(root >= 1)  # also where no root is real
    rises = np.where(d2 != 0, d2 > 0, np.where(d1 != 0, d1 > 0, d0 > 0))
    return np.where(rises, np.where(always, 0.0, root), np.inf)
