"""Many questions at once: estimates as tables, and each estimate in as few characters as can be.

Rows are of one setting, as everywhere in this room. Where too few lengths were measured for an
estimate its place in the table is empty, and ``brief`` writes a dash.
"""

import math
from collections.abc import Callable, Iterable
from itertools import product

import numpy as np
import pandas as pd

from replication.crossover.crossing import (
    LINE_AND_PARABOLA,
    fitted_crossover,
    measured_crossover,
)
from replication.crossover.earlier import TABLE_1, earlier_method
from replication.crossover.estimate import (
    LEVEL,
    Crossover,
    Fitted,
    Measured,
    check_level,
    rounded,
)
from replication.crossover.growth import (
    BARELY,
    FEWEST_LENGTHS,
    PARABOLA,
    Comparison,
    Exponent,
    compare_models,
    growth_exponent,
)
from replication.crossover.rows import TIME, median_interval, pair

ABSENT = "–"
EXTRAPOLATED, REPEATED = "†", "‡"
"""Marks a length outside of what was measured."""
FEWEST = {
    measured_crossover: 2,
    fitted_crossover: 4,
    earlier_method: len(TABLE_1["N"]),
    growth_exponent: 3,
    compare_models: FEWEST_LENGTHS,
}
"""Lengths that an estimate needs; the earlier method as many as it had."""


def ratios(
    rows: pd.DataFrame,
    contender: str,
    opponent: str,
    quantity: str = TIME,
    *,
    level: float = LEVEL,
) -> pd.DataFrame:
    """ratio, low, high by N: how many times the contender's cost the opponent's is.

    The median over rounds, between order statistics. Without rounds enough, or for counts, low
    and high are missing.
    """
    check_level(level)
    cells = pair(rows, contender, opponent, quantity, fewest=1)
    found = np.exp([median_interval(log[:, 1] - log[:, 0], level) for log in cells.logs])
    return pd.DataFrame(found, cells.N.astype(int), ["ratio", "low", "high"]).rename_axis("N")


def growth(
    rows: pd.DataFrame, contenders: Iterable[str], quantity: str = TIME, *, shortest: int = 1,
    level: float = LEVEL,
) -> pd.DataFrame:  # fmt: skip
    """By contender: the exponent at N >= shortest, and whether all lengths need an N^2 term."""
    long = rows[rows["N"] >= shortest]
    table = {
        name: {
            "exponent": _ask(growth_exponent, long, [name], quantity, level=level),
            "comparison": _ask(compare_models, rows, [name], quantity),
        }
        for name in contenders
    }
    return _table(table, ["contender"])


def crossovers(
    rows: pd.DataFrame,
    contender: str,
    opponents: Iterable[str],
    quantities: Iterable[str] = (TIME,),
    **options,
) -> pd.DataFrame:
    """By opponent and quantity: the crossover as measured, and by fits to all lengths."""
    table = {
        (opponent, quantity): {
            "measured": _ask(measured_crossover, rows, [contender, opponent], quantity, **options),
            "fitted": _ask(fitted_crossover, rows, [contender, opponent], quantity, **options),
        }
        for opponent, quantity in product(opponents, quantities)
    }
    return _table(table, ["opponent", "quantity"])


def forecasts(
    rows: pd.DataFrame,
    contender: str,
    opponents: Iterable[str],
    *,
    longest: int = TABLE_1["N"][-1],
    level: float = LEVEL,
    **options,
) -> pd.DataFrame:
    """By opponent: what the earlier method predicts from N <= longest, and what was measured."""
    pairs = {name: [contender, name] for name in opponents}
    short, same = rows[rows["N"] <= longest], {"longest": longest, "level": level}
    table = {
        name: {
            "predicted": _ask(earlier_method, short, both, **same),
            "with b N": _ask(earlier_method, short, both, powers=LINE_AND_PARABOLA, **same),
            "measured": _ask(measured_crossover, rows, both, level=level, **options),
        }
        for name, both in pairs.items()
    }
    return _table(table, ["opponent"])


def _table(cells: dict, names: list[str]) -> pd.DataFrame:
    """Without the lines that have no estimate at all."""
    table = pd.DataFrame.from_dict(cells, orient="index").rename_axis(names)
    return table.dropna(how="all")


def _ask(estimate: Callable, rows: pd.DataFrame, names: list[str], *quantity: str, **options):
    """The estimate for these contenders; None if they share too few lengths for it."""
    shared = rows[rows["contender"].isin(names)].groupby("N")["contender"].nunique() == len(names)
    if shared.sum() < FEWEST[estimate]:
        return None
    return estimate(rows, *names, *quantity, **options)


def miss(predicted: Crossover | None, measured: Crossover | None) -> float:
    """How many times the measured crossover the predicted one is; NaN unless both are lengths."""
    crossing = [c is not None and c.status == "crosses" for c in (predicted, measured)]
    return predicted.at / measured.at if all(crossing) else math.nan


def brief(found: object) -> str:
    """In a table: a dash for what is no estimate, else

    a crossover as 312 (295–330), <8, >4096, 3149† (2402–4558) where it is extrapolated, or 151‡
    where it is the last of several; an exponent as 1.02 (0.98–1.06);
    a comparison as the model that AICc prefers, by how much, and (the share of c N^2 at the end).
    """
    if isinstance(found, Exponent):
        return f"{found.value:.2f} ({found.low:.2f}–{found.high:.2f})"
    if isinstance(found, Comparison):
        return _brief_comparison(found)
    return _brief_crossover(found) if isinstance(found, Crossover) else ABSENT


def _brief_comparison(found: Comparison) -> str:
    by, share = abs(found.delta_aicc), round(found.quadratic_share, 2) + 0.0  # no -0 %
    name = "parabola" if found.preferred == PARABOLA else "line"
    return f"{'either' if by < BARELY else name} by {by:.{0 if by >= 10 else 1}f} ({share:.0%})"


def _brief_crossover(found: Crossover) -> str:
    if isinstance(found, Measured) and found.status != "crosses":
        return _end(found.at, found)
    if found.status != "crosses":
        return {"below": "always", "beyond": "never"}[found.status]
    interval = "" if found.low is None else f" ({_end(found.low, found)}–{_end(found.high, found)})"
    return _number(found.at) + _mark(found) + interval


def _mark(found: Crossover) -> str:
    """What a reader must know of a crossover: that it was not seen, or not for the first time."""
    if isinstance(found, Fitted):
        return EXTRAPOLATED if found.extrapolated else ""
    return REPEATED if found.crossings > 1 else ""


def _number(N: float) -> str:
    return rounded(N) if N < 1e6 else f"{N:.0e}"


def _end(N: float, found: Crossover) -> str:
    """An end of an interval in numbers; 0 and infinity are what lies outside."""
    if isinstance(found, Fitted):
        return {0: "1", math.inf: "∞"}.get(N) or _number(N)
    return {0: f"<{found.shortest}", math.inf: f">{found.longest}"}.get(N) or _number(N)
