"""Rows in, numbers out: intervals, growth, crossovers. No disk, no clock, no drawing."""

import math
from collections.abc import Callable

from replication.stats.crossing import Crossover, Labels, Measured, measured_crossover, rounded
from replication.stats.intervals import LEVEL, bootstrap, coverage, equivalence, mean_interval
from replication.stats.levels import NOUNS, Exponent, TooFewError, growth_exponent, location, ratios

ABSENT = "–"


def brief(found: object) -> str:
    """An estimate in a table, as its own ``brief`` says; a dash for what is none."""
    return found.brief() if isinstance(found, Crossover | Exponent) else ABSENT


def miss(predicted: Crossover | None, measured: Crossover | None) -> float:
    """How many times the measured crossover the predicted one is; NaN unless both are lengths."""
    crossing = [c is not None and c.status == "crosses" for c in (predicted, measured)]
    return predicted.at / measured.at if all(crossing) else math.nan


def ask(estimate: Callable, *question, **options):
    """The estimate; None if there are too few lengths or repeats for it."""
    try:
        return estimate(*question, **options)
    except TooFewError:
        return None
