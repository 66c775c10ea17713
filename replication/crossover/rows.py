"""What every estimate asks of its rows, said in words before any compute, and the paired cells."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import stats

TIME = "time_ms"
EXACT = ("peak_bytes", "flops")
"""Counted, not timed: one value a cell, without noise and so without an interval."""
SETTING = ("direction", "causal", "heads", "head_dim")
FEWEST_ROUNDS = 6
"""With fewer not even the smallest and the largest value enclose the median with 95 %."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Two contenders at the lengths that both were measured at.

    logs holds, for each length, the logarithms as [rounds, 2]: a row is a round, in which the
    contender and its opponent ran one after the other.
    """

    contender: str
    opponent: str
    quantity: str
    N: np.ndarray
    logs: tuple[np.ndarray, ...]

    @cached_property
    def levels(self) -> np.ndarray:
        """[lengths, 2]: see ``paired_level``."""
        return np.stack([paired_level(log) for log in self.logs])

    @property
    def log_ratio(self) -> np.ndarray:
        """[lengths]: of the contender's cost to its opponent's."""
        return self.levels[:, 0] - self.levels[:, 1]

    @property
    def fewest_rounds(self) -> int:
        return min(len(log) for log in self.logs)

    def resampled(self, resamples: int, seed: int) -> np.ndarray:
        """[resamples, lengths, 2]: levels of rounds drawn with replacement within each length."""
        rng = np.random.default_rng(seed)
        draws = (log[rng.integers(len(log), size=(resamples, len(log)))] for log in self.logs)
        return np.stack([paired_level(draw) for draw in draws], axis=1)


def paired_level(logs: np.ndarray) -> np.ndarray:
    """[..., rounds, 2] -> [..., 2], the typical logarithm of either contender.

    What a round does to both (a busy machine) and what sets them apart (the log ratio) are
    summarised each by its own median. So the levels differ by the median ratio within a round,
    from which the common part has cancelled, and single slow repeats move neither.
    """
    middle = np.median(logs.mean(-1), -1)
    half = np.median(logs[..., 0] - logs[..., 1], -1) / 2
    return np.stack([middle + half, middle - half], -1)


def median_interval(values: np.ndarray, level: float) -> tuple[float, float, float]:
    """The median, and the values that it lies between with this level whatever the noise.

    NaN where there are too few values for the level. How many values lie below the median is
    binomial. A bootstrap of few covers less: 87 to 93 % with 5 to 10 values.
    """
    ordered, n = np.sort(values), len(values)
    tail = max(0, int(stats.binom.ppf((1 - level) / 2, n, 0.5)) - 1)
    ends = (ordered[tail], ordered[-1 - tail]) if 2 * 0.5**n <= 1 - level else (np.nan, np.nan)
    return float(np.median(values)), *ends


def by_run(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """The rows of each run, where rows tell runs apart."""
    return [own for _, own in rows.groupby("run")] if "run" in rows else [rows]


def pair(
    rows: pd.DataFrame,
    contender: str,
    opponent: str,
    quantity: str,
    fewest: int,
    longest: int | None = None,
) -> Pair:
    """Two contenders round by round, N <= longest; what only one of them reached is left out."""
    if contender == opponent:
        raise ValueError(f'"{contender}" cannot be compared with itself. Name two contenders.')
    needed = () if quantity in EXACT else ("round",)
    chosen = _checked(rows, (contender, opponent), quantity, needed)
    if quantity in EXACT:
        chosen = chosen.drop_duplicates(["contender", "N"]).assign(run=0, round=0)
    if longest is not None:
        chosen = chosen[chosen["N"] <= longest]
    chosen = chosen.assign(run=chosen["run"].fillna(0) if "run" in chosen else 0)
    reached = chosen.groupby(["N", "run"])["contender"].transform("nunique")
    shared = chosen[reached == 2]
    where = f" at N <= {longest}" if longest is not None else ""
    _check_lengths(shared["N"].nunique(), fewest, f"both {contender} and {opponent}{where}")
    wide = _by_round(shared, quantity)[[contender, opponent]]
    cells = {N: np.log(cell.to_numpy(float)) for N, cell in wide.groupby(level="N")}
    return Pair(contender, opponent, quantity, np.array([*cells], float), tuple(cells.values()))


def pairs_by_run(rows: pd.DataFrame, contender: str, opponent: str) -> list[Pair]:
    """Two contenders in every run, at the lengths that both reached in all runs; of times."""
    both = rows[rows["contender"].isin([contender, opponent])]
    reached = both.groupby(["run", "N"])["contender"].nunique().eq(2).groupby("N").sum()
    shared = both[both["N"].isin(reached.index[reached == both["run"].nunique()])]
    _checked(rows, (contender, opponent), TIME)
    _check_lengths(shared["N"].nunique(), 2, f"both {contender} and {opponent} in every run")
    return [pair(own, contender, opponent, TIME, fewest=2) for own in by_run(shared)]


def series(
    rows: pd.DataFrame, contender: str, quantity: str, shortest: int, fewest: int
) -> tuple[np.ndarray, np.ndarray]:
    """The lengths N >= shortest of one contender, and its median at each of them."""
    chosen = _checked(rows, (contender,), quantity)
    chosen = chosen[chosen["N"] >= shortest]
    medians = np.exp(np.log(chosen[quantity].astype(float)).groupby(chosen["N"]).median())
    _check_lengths(len(medians), fewest, f"{contender} at N >= {shortest}")
    return medians.index.to_numpy(float), medians.to_numpy()


def _checked(
    rows: pd.DataFrame, names: tuple[str, ...], quantity: str, needed: tuple[str, ...] = ()
) -> pd.DataFrame:
    """The rows of these contenders, if they are of one setting and their numbers make sense."""
    if quantity not in (TIME, *EXACT):
        raise ValueError(f'"{quantity}" is no quantity. Choose {TIME}, {" or ".join(EXACT)}.')
    missing = {"contender", "N", quantity, *needed} - set(rows.columns)
    if missing:
        raise ValueError(f"The rows have no column {', '.join(sorted(missing))}. Came: {[*rows]}.")
    measured = sorted(rows["contender"].unique())
    for name in names:
        if name not in measured:
            raise ValueError(
                f'No rows of contender "{name}". Measured are: {", ".join(measured) or "none"}.'
            )
    chosen = rows[rows["contender"].isin(names)]
    for column in SETTING:
        if column in chosen and chosen[column].nunique() > 1:
            values = sorted(chosen[column].dropna().unique().tolist())
            raise ValueError(f"The rows mix {column} {values}. Keep the rows of one of them.")
    _check_numbers(chosen, quantity)
    return chosen


def _check_numbers(chosen: pd.DataFrame, quantity: str) -> None:
    bad = chosen[(chosen["N"] < 1) | (chosen["N"] % 1 != 0)]
    if len(bad):
        raise ValueError(
            f"N = {bad['N'].iloc[0]} is no length: N must be a whole number, 1 or more."
        )
    bad = chosen[~(np.isfinite(chosen[quantity]) & (chosen[quantity] > 0))]
    if len(bad):
        raise ValueError(
            f"{len(bad)} of {len(chosen)} rows have a {quantity} that is not positive and finite, "
            f"the first of them {_cell(bad.iloc[0])}: {bad[quantity].iloc[0]}. Drop those rows."
        )
    counts = chosen.groupby(["contender", "N"])[quantity].nunique()
    if quantity in EXACT and counts.max() > 1:
        raise ValueError(
            f"{quantity} is a count and must be one value a cell, but {counts.idxmax()[0]} at "
            f"N = {counts.idxmax()[1]} has {counts.max()} different ones. Keep one setting."
        )


def _by_round(shared: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Index (N, run, round), a column a contender; every round must have both, once."""
    keys = ["N", "run", "round", "contender"]
    twice = shared[shared.duplicated(keys)]
    if len(twice):
        raise ValueError(
            f"{_cell(twice.iloc[0])} has several rows in round {twice['round'].iloc[0]}. Number "
            "the rounds, and keep the rows of one setting."
        )
    wide = shared.pivot(index=keys[:-1], columns="contender", values=quantity)
    if wide.isna().any(axis=None):
        N, run, number = wide.index[wide.isna().any(axis=1)][0]
        absent = wide.columns[wide.loc[(N, run, number)].isna()][0]
        raise ValueError(
            f"The rounds do not match: at N = {N} round {number} has no row of {absent}. Only "
            "contenders of one round are compared; measure them interleaved, or drop that round."
        )
    return wide


def _check_lengths(came: int, fewest: int, what: str) -> None:
    if came < fewest:
        raise ValueError(
            f"{came} lengths were measured for {what}, but at least {fewest} are needed. "
            "Measure more lengths."
        )


def _cell(row: pd.Series) -> str:
    return f"{row['contender']} at N = {row['N']}"
