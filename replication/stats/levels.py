"""One estimator and one interval for times, ratios and exponents; crossovers follow from them.

What other programs do to a repeat only adds to its time, so the middle of the repeats is
the cost plus the neighbours. A *level* is therefore the logarithm of a low quantile of the
undisturbed repeats of a cell (contender, N) within a *unit*: one process, or where there are
fewer than ``FEWEST_UNITS`` processes one stretch of rounds. Whatever is asked is computed in
each unit from its levels; the answer is the mean over units with Student's interval. A ratio is
a difference of levels, so that its mean is geometric.

Rows are those of ``measure.rounds``: contender, N, run, round, time_ms, disturbed. Bytes are
counted, not timed: one value a cell, without noise and so without an interval.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from replication.stats.intervals import LEVEL

TIME, EXACT = "time_ms", ("peak_bytes", "state_bytes")
NOUNS = {"time_ms": "time", "peak_bytes": "memory"}
SETTING = ("subject", "direction", "causal", "clock", "heads", "head_dim")
QUANTILE = 0.25
"""For what no counter sees: where all is marked the median does about as well."""
FEWEST_UNITS = 3
STRETCHES = 5
"""Units made of the rounds of a single process, or of two."""
FEWEST_REPEATS = 2
"""Undisturbed repeats without which a cell has no level in a unit."""
FEWEST_LENGTHS = 3
"""Of an exponent."""
COLUMNS = ["value", "low", "high", "units"]


class TooFewError(ValueError):
    """The rows are right, but not enough for an estimate."""


@dataclass(frozen=True)
class Exponent:
    """cost ~ N^value, with its interval, from lengths between shortest and longest."""

    value: float
    low: float
    high: float
    shortest: int
    longest: int
    lengths: int
    misfit: float
    """The largest relative distance of a cell from the power law; the interval knows it not."""

    def brief(self) -> str:
        """Such as 1.02 (0.98–1.06); of bytes 0.98, exactly."""
        return f"{self.value:.2f}" + f" ({self.low:.2f}–{self.high:.2f})" * (self.low < self.high)


def check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level={level} is no share. Choose one between 0 and 1, such as 0.95.")


def typical(times: pd.Series) -> float:
    """The time of a cell in a unit, of its undisturbed repeats: the estimator of location."""
    return float(np.quantile(times, QUANTILE))


def levels(rows: pd.DataFrame, quantity: str = TIME) -> pd.DataFrame:
    """Logarithms of cost: a row a unit, a column a cell; NaN where a cell was hardly measured."""
    _check(rows)
    cells = pd.MultiIndex.from_frame(rows[["contender", "N"]].drop_duplicates())
    if quantity in EXACT:
        found = np.log(rows.groupby(["contender", "N"])[quantity].max())
        return found.reindex(cells).to_frame(0).T
    kept = rows[~rows["disturbed"].astype(bool)]
    groups = kept.assign(unit=_units(kept)).groupby(["unit", "contender", "N"])[quantity]
    found = np.log(groups.agg(typical)).where(groups.size() >= FEWEST_REPEATS)
    return found.unstack(["contender", "N"]).reindex(columns=cells)


def _units(rows: pd.DataFrame) -> pd.Series:
    """The process of each row; or, with too few to tell their spread, parts of each cell's rows."""
    runs = rows["run"].nunique()
    if runs >= FEWEST_UNITS:
        return rows["run"]
    cell = rows.sort_values(["run", "round"]).groupby(["run", "contender", "N"])["N"]
    parts = -(-STRETCHES // max(runs, 1))
    return rows["run"] * parts + cell.cumcount() * parts // cell.transform("size")


def location(rows: pd.DataFrame, quantity: str = TIME) -> pd.DataFrame:
    """Cost of every cell: index (contender, N), columns value, low, high, units."""
    table = levels(rows, quantity).sort_index(axis=1)
    return _frame(table.columns, over_units(table.to_numpy(), LEVEL, quantity))


def ratios(
    rows: pd.DataFrame, contender: str, opponent: str, quantity: str = TIME, *, level: float = LEVEL
) -> pd.DataFrame:
    """By N, how many times the contender's cost the opponent's is: columns as ``location``."""
    N, logs = log_ratios(rows, contender, opponent, quantity)
    return _frame(pd.Index(N, name="N"), over_units(logs, level, quantity))


def _frame(index: pd.Index, found: tuple) -> pd.DataFrame:
    *logs, units = found
    return pd.DataFrame(dict(zip(COLUMNS, (*map(np.exp, logs), units), strict=True)), index)


def growth_exponent(
    rows: pd.DataFrame, contender: str, quantity: str = TIME, *, shortest: int = 1
) -> Exponent:
    """The slope of log cost over log N at N >= shortest, in units that reached all of them."""
    logs = _of(levels(rows, quantity), contender).sort_index(axis=1).loc[:, shortest:]
    logs = _reached(logs, quantity).dropna()
    if len(logs) < fewest(quantity):
        raise TooFewError(f"{len(logs)} units reached all lengths, {FEWEST_UNITS} are needed.")
    N = logs.columns.to_numpy(int)
    if len(N) < FEWEST_LENGTHS:
        raise TooFewError(
            f"{len(N)} lengths were measured for {contender} at N >= {shortest}, but at least "
            f"{FEWEST_LENGTHS} are needed. Measure more lengths."
        )
    x = np.log(N) - np.log(N).mean()
    slopes = logs.to_numpy() @ x / (x @ x)
    value, low, high, _ = map(float, over_units(slopes, LEVEL, quantity))
    mean = logs.to_numpy().mean(0)
    misfit = float(np.expm1(abs(mean - mean.mean() - value * x)).max())
    return Exponent(value, low, high, int(N[0]), int(N[-1]), len(N), misfit)


def log_ratios(
    rows: pd.DataFrame, contender: str, opponent: str, quantity: str = TIME
) -> tuple[np.ndarray, np.ndarray]:
    """The lengths that both reached, and [units, lengths] of log (opponent / contender)."""
    if contender == opponent:
        raise ValueError(f'"{contender}" cannot be compared with itself. Name two contenders.')
    table = levels(rows[rows["contender"].isin([contender, opponent])], quantity)
    ours, theirs = _of(table, contender), _of(table, opponent)
    logs = _reached((theirs - ours).sort_index(axis=1), quantity)
    return logs.columns.to_numpy(int), logs.to_numpy()


def _reached(logs: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """The lengths that enough units have: one that a single run reached says nothing of others."""
    return logs.loc[:, logs.notna().sum() >= min(fewest(quantity), len(logs))]


def fewest(quantity: str) -> int:
    """Units without which there is no estimate."""
    return 1 if quantity in EXACT else FEWEST_UNITS


def over_units(values: np.ndarray, level: float, quantity: str) -> tuple:
    """[units, ...] -> mean, low and high of Student's interval, and how many units have a value.

    Of what is exact all three are its value; NaN where units are too few.
    """
    check_level(level)
    if quantity in EXACT:
        return values[0], values[0], values[0], np.ones_like(values[0])
    n = (~np.isnan(values)).sum(0)
    enough = np.where(n >= FEWEST_UNITS, n, np.nan)
    mean = np.nansum(values, 0) / enough
    spread = np.sqrt(np.nansum((values - mean) ** 2, 0) / (enough - 1) / enough)
    half = stats.t.ppf((1 + level) / 2, enough - 1) * spread
    return mean, mean - half, mean + half, n


def _check(rows: pd.DataFrame) -> None:
    """Rows are of one setting."""
    for column in SETTING:
        if column in rows and rows[column].nunique() > 1:
            values = sorted(rows[column].dropna().unique().tolist())
            raise ValueError(f"The rows mix {column} {values}. Keep the rows of one of them.")


def _of(table: pd.DataFrame, contender: str) -> pd.DataFrame:
    names = sorted(set(table.columns.get_level_values("contender")))
    if contender not in names:
        known = ", ".join(names) or "none"
        raise TooFewError(f'No rows of contender "{contender}". Measured are: {known}.')
    return table[contender]
