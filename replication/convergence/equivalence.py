"""Linear against softmax, seed by seed: is the final loss the same within the margin?"""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from statsmodels.stats.weightstats import DescrStatsW

from replication.convergence.rule import ALPHA, MARGIN


class Equivalence(NamedTuple):
    """Two one-sided paired t tests (Schuirmann 1987); low to high is their 1 - 2 alpha interval."""

    n: int
    mean: float
    low: float
    high: float
    p: float

    @property
    def same(self) -> bool:
        return self.low > -MARGIN and self.high < MARGIN

    @property
    def not_above(self) -> bool | None:
        """Whether the differences end below the margin; None if that is open."""
        if self.high < MARGIN:
            return True
        return False if self.low > MARGIN else None

    def as_dict(self) -> dict:
        """For a file: what is undefined is None."""
        values = {name: None if x != x else x for name, x in self._asdict().items()}
        return values | {"same": self.same}


def differences(runs: pd.DataFrame, opponent: str = "softmax") -> pd.DataFrame:
    """Final loss of linear - opponent by length and seed, of pairs that both went to the end."""
    finished = runs[~runs.stopped]
    wide = finished.pivot(index=["length", "seed"], columns="attention", values="final_loss")
    wide = wide.reindex(columns=["linear", opponent]).dropna()
    return (wide.linear - wide[opponent]).rename("difference").reset_index()


def equivalence(values: ArrayLike) -> Equivalence:
    """Are paired differences within +- MARGIN? The larger p of the two tests is theirs."""
    values = np.asarray(values, float)
    mean = float(values.mean()) if len(values) else math.nan
    if len(values) < 2:
        return Equivalence(len(values), mean, math.nan, math.nan, math.nan)
    stats = DescrStatsW(values)
    with np.errstate(divide="ignore"):  # equal differences: t is infinite, p 0 or 1
        p = float(stats.ttost_mean(-MARGIN, MARGIN)[0])
    low, high = map(float, stats.tconfint_mean(2 * ALPHA)) if np.ptp(values) else (mean, mean)
    return Equivalence(len(values), mean, low, high, p)
