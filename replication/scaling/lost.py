"""Rows that a plan knows of and the disk does not: somebody deleted them."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from replication.benchmark import CELL, Group


def reopened(planned: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The plan, in which groups that have lost the rows of a cell are to be measured once more.

    The whole group is: its contenders are compared round by round.
    """
    done = planned["status"].isin(("measured", "noisy"))
    lost = planned[done & ~have_rows(planned, rows)]
    again = done & _are_in(planned, lost, Group._fields)
    planned.loc[again, ["status", "reason"]] = "planned", ""
    planned.loc[again, [name for name in planned if name.startswith("measured_")]] = np.nan
    return planned


def have_rows(planned: pd.DataFrame, rows: pd.DataFrame) -> np.ndarray:
    """Which cells of a plan do."""
    return _are_in(planned, rows.reindex(columns=[*planned]), CELL)


def _are_in(table: pd.DataFrame, other: pd.DataFrame, names: Iterable[str]) -> np.ndarray:
    """Which lines of a table equal some line of the other in the columns of these names."""
    keys, known = (pd.MultiIndex.from_frame(one[[*names]]) for one in (table, other))
    return keys.isin(known)
