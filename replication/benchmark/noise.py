"""When are repeats enough? By the interval of the median ratio to one contender."""

import numpy as np
import pandas as pd
from scipy.stats import binom

from replication.benchmark.limits import NARROW

LEVEL = 0.95


def median_interval(values: np.ndarray) -> tuple[float, float]:
    """Order statistics between which the median lies with 95 %, whatever the distribution.

    The number of values below the median is binomial; six values are the fewest that do.
    """
    ordered = np.sort(values)
    tail = max(0, int(binom.ppf((1 - LEVEL) / 2, len(ordered), 0.5)) - 1)
    return float(ordered[tail]), float(ordered[-1 - tail])


def is_narrow(values: np.ndarray, width: float = NARROW) -> bool:
    low, high = median_interval(values)
    return high <= low * (1 + width)


def noisy(times: pd.DataFrame, reference: str = "linear") -> set[str]:
    """The contenders (columns; rounds are rows) whose ratio to the reference is not narrow.

    The reference itself is noisy if no ratio to it is narrow. Alone, its times are judged.
    """
    if reference not in times:
        reference = times.columns[0]
    others = times.drop(columns=reference)
    if others.empty:
        return set() if is_narrow(times[reference].to_numpy()) else {reference}
    ratios = others.div(times[reference], axis=0)
    wide = {name for name in ratios if not is_narrow(ratios[name].to_numpy())}
    return wide | ({reference} if len(wide) == len(ratios.columns) else set())
