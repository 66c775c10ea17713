"""From which N on one contender is cheaper than another: as measured, and by fitted costs.

The intervals are percentile intervals of a bootstrap that draws rounds with replacement within
each length, both contenders of a round together. Percentiles allow crossovers that are 0 or
infinite in some resamples; the basic bootstrap does not, and in simulations with known
crossovers it covers too rarely; BCa needs a jackknife, which fails for medians. The intervals
hold the noise from round to round: not a wrong model, and not what drifts between lengths.
In those simulations (repeats of 3 to 8 %, slow rounds, outliers) the 95 % intervals covered in
94 to 99 % of runs; with 6 to 10 rounds they are rather too wide than too narrow.

Drift needs runs. Where rows are of several, told apart by the column run, the measured crossover
is the median of theirs, between order statistics: of seven runs, the smallest and the largest. They
are compared at the lengths that all of them reached. This takes runs for independent; those that
follow each other within minutes are so only in part.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from replication.crossover.estimate import LEVEL, Fitted, Measured, check_level
from replication.crossover.fits import (
    Powers,
    check_powers,
    last_root,
    saving,
    weighted_coefficients,
    weighted_fit,
)
from replication.crossover.rows import (
    FEWEST_ROUNDS,
    TIME,
    Pair,
    by_run,
    median_interval,
    pair,
    pairs_by_run,
)

RESAMPLES, SEED = 2000, 0
NEIGHBOURS = 4
"""Lengths through which the log ratio is interpolated: see ``passing``."""

LINE_AND_PARABOLA: Powers = ((0, 1), (0, 1, 2))


def measured_crossover(
    rows: pd.DataFrame,
    contender: str,
    opponent: str,
    quantity: str = TIME,
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Measured:
    """Where the ratio contender / opponent passes 1 and stays below, between two lengths."""
    _check_bootstrap(level, resamples)
    if quantity == TIME and len(by_run(rows)) > 1:
        return _over_runs(rows, contender, opponent, level)
    cells = pair(rows, contender, opponent, quantity, fewest=2)

    def estimate(levels: np.ndarray) -> np.ndarray:
        return passing(cells.N, levels[..., 0] - levels[..., 1])

    found = _over_rounds(cells, estimate, level, resamples, seed)
    return Measured(**_facts(cells, level), **found, crossings=_passes(cells.log_ratio))


def _passes(log_ratio: np.ndarray) -> int:
    """How often the cheaper one changes from one length to the next."""
    cheaper = log_ratio < 0
    return int(np.count_nonzero(cheaper[1:] != cheaper[:-1]))


def crossings_by_run(rows: pd.DataFrame, contender: str, opponent: str) -> np.ndarray:
    """The crossover in time of each run for itself; 0 and infinity as in ``passing``."""
    cells = pairs_by_run(rows, contender, opponent)
    return passing(cells[0].N, np.stack([run.log_ratio for run in cells]))


def _over_runs(rows: pd.DataFrame, contender: str, opponent: str, level: float) -> Measured:
    """The median run; without an interval where there are too few of them."""
    cells = pairs_by_run(rows, contender, opponent)
    at, low, high = median_interval(crossings_by_run(rows, contender, opponent), level)
    ends = {"low": None, "high": None} if np.isnan(low) else {"low": low, "high": high}
    typical = np.median([run.log_ratio for run in cells], axis=0)
    return Measured(**_facts(cells[0], level), at=at, **ends, crossings=_passes(typical))


def fitted_crossover(
    rows: pd.DataFrame,
    contender: str,
    opponent: str,
    quantity: str = TIME,
    *,
    powers: Powers = LINE_AND_PARABOLA,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Fitted:
    """Where the fitted costs cross for the last time: a + b N and, by default, a parabola."""
    _check_bootstrap(level, resamples)
    check_powers(powers)
    cells = pair(rows, contender, opponent, quantity, fewest=1 + max(map(len, powers)))

    def estimate(levels: np.ndarray) -> np.ndarray:
        costs = np.exp(levels)
        ours, theirs = (weighted_coefficients(cells.N, costs[..., i], powers[i]) for i in (0, 1))
        return last_root(saving(ours, theirs, powers))

    costs = np.exp(cells.levels)
    fits = tuple(weighted_fit(cells.N, costs[:, i], powers[i]) for i in (0, 1))
    found = _over_rounds(cells, estimate, level, resamples, seed)
    return Fitted(**_facts(cells, level), **found, powers=powers, fits=fits)


def passing(N: np.ndarray, log_ratio: np.ndarray) -> np.ndarray:
    """Where log_ratio [..., lengths] becomes negative for good; 0 if it is so throughout.

    Infinity if it is not negative at the longest. Between two lengths the log ratio is the
    polynomial in log N through the (up to four) lengths around, and bisected. A straight line
    through two of them errs by up to 3 % in N when lengths double, often more than the noise.
    """
    x, last = np.log(N), len(N) - 1
    not_yet = log_ratio >= 0
    before = np.where(not_yet.any(-1), last - not_yet[..., ::-1].argmax(-1), -1)
    left = np.clip(before, 0, last - 1)
    inside = np.exp(_bisected(x, log_ratio, left))
    return np.where(before < 0, 0.0, np.where(before == last, np.inf, inside))


def _bisected(x: np.ndarray, y: np.ndarray, left: np.ndarray) -> np.ndarray:
    """The root between x[left] and x[left + 1] of the polynomial through the points around."""
    size = min(NEIGHBOURS, len(x))
    start = np.clip(left - (size // 2 - 1), 0, len(x) - size)
    near = start[..., None] + np.arange(size)
    xs, ys = x[near], np.take_along_axis(y, near, -1)
    low, high = x[left], x[left + 1]
    for _ in range(30):
        middle = (low + high) / 2
        not_yet = _lagrange(xs, ys, middle) >= 0
        low, high = np.where(not_yet, middle, low), np.where(not_yet, high, middle)
    return (low + high) / 2


def _lagrange(xs: np.ndarray, ys: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The polynomial through the points (xs, ys) [..., points] at x [...]."""
    total = np.zeros_like(x)
    for k in range(xs.shape[-1]):
        others = np.delete(xs, k, -1)
        total += ys[..., k] * ((x[..., None] - others) / (xs[..., k, None] - others)).prod(-1)
    return total


def _over_rounds(
    cells: Pair, estimate: Callable, level: float, resamples: int, seed: int
) -> dict[str, float | None]:
    """The estimate, and its percentile interval if there are rounds enough; counts have one."""
    low = high = None
    if cells.fewest_rounds >= FEWEST_ROUNDS:
        values = np.sort(estimate(cells.resampled(resamples, seed)))
        tail = int((1 - level) / 2 * resamples)
        low, high = float(values[tail]), float(values[-1 - tail])
    return {"at": float(estimate(cells.levels[None])[0]), "low": low, "high": high}


def _facts(cells: Pair, level: float) -> dict[str, object]:
    """What was asked, and of which lengths the answer is."""
    return {
        "contender": cells.contender,
        "opponent": cells.opponent,
        "quantity": cells.quantity,
        "level": level,
        "shortest": int(cells.N[0]),
        "longest": int(cells.N[-1]),
    }


def _check_bootstrap(level: float, resamples: int) -> None:
    check_level(level)
    if (1 - level) / 2 * resamples < 1:
        raise ValueError(
            f"resamples={resamples} are too few to see the tails of a {100 * level:g} % interval. "
            f"Take at least {int(np.ceil(2 / (1 - level)))}, better {RESAMPLES}."
        )
