"""The drawings of notebook 04: growth of time and memory, steps of whole models.

Rows are those of the scaling benchmark, a repeat each; what is drawn is the level of a cell over
runs, with its interval. Hollow are those that no claim is about.
"""

from collections.abc import Iterable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from replication import attention
from replication.stats import location
from replication.style import grid, legend, log_ticks, powers_of_two

CROSSES = {"linear": "+", "softmax": "x"}
"""The markers of what others have published."""
QUANTITIES = {
    "time_ms": ("time per sequence (ms)", 1.0),
    "peak_bytes": ("peak memory per sequence (MB)", 1e6),
}
"""What an axis says, and its unit."""
DIRECTIONS = {"training": "forward and backward", "forward": "forward"}
TITLES = {"paper": "the paper's model", "earlier": "the earlier replication's model"}
GUIDE = {"color": "0.6", "lw": 0.9, "zorder": 0}
FEW = 5
"""Lengths of a panel whose numbers are written."""


def look(contender: str) -> dict:
    """Colour, dash, marker and label of a contender; fine and hollow where no claim is about it."""
    own = attention.look_of(contender)
    size = {"ms": 5, "lw": 0.8, "mfc": "white"} if own.fine else {"ms": 4.5, "lw": 1.4}
    return {"color": own.colour, "ls": own.dash, "marker": own.marker, "label": own.label} | size


def _curves(axes: Axes, rows: pd.DataFrame, quantity: str, unit: float = 1.0) -> None:
    """The level of every cell with its interval, a line a contender."""
    found = location(rows, quantity).dropna() / unit
    for name in _ordered(found.index.unique("contender")):
        own = found.loc[name]
        axes.vlines(own.index, own["low"], own["high"], color=look(name)["color"], lw=1)
        axes.plot(own["value"], **look(name))


def _ordered(contenders: Iterable[str]) -> list[str]:
    return sorted(set(contenders), key=list(attention.contenders()).index)


def _log_y(axes: Axes, label: str) -> None:
    axes.set_yscale("log")
    log_ticks(axes.yaxis)
    axes.set_ylabel(label)


def _guides(axes: Axes) -> None:
    """Lines that grow as N and N^2, in the lower right, where no cost lies; the limits stay."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    start, foot = left * (right / left) ** 0.65, low * (high / low) ** 0.04
    reach = (right / left) ** 0.22
    for power, text in ((1, "$N$"), (2, "$N^2$")):
        tip = start * reach, foot * reach**power
        axes.plot([start, tip[0]], [foot, tip[1]], **GUIDE)
        axes.annotate(text, tip, (3, 0), textcoords="offset points", color="0.35", va="center")
    axes.set(xlim=(left, right), ylim=(low, high))


def _crosses(contender: str, whose: str) -> dict:
    return {"color": "0.55", "ls": attention.look_of(contender).dash, "marker": CROSSES[contender],
            "lw": 0.7, "ms": 5.5, "zorder": 1, "label": f"{whose}: {contender}"}  # fmt: skip


def growth(rows: pd.DataFrame, published: pd.DataFrame | None = None) -> Figure:
    """Time and memory in one setting, after the paper's Figure 1, whose points may be added."""
    others = rows.iloc[:0] if published is None else published
    figure, [panels] = grid(3.5, 1, 2)
    for axes, (quantity, (label, unit)) in zip(panels, QUANTITIES.items(), strict=True):
        _curves(axes, rows, quantity, unit)
        for name, points in others.groupby("contender", sort=False):
            axes.plot(points["N"], points[quantity] / unit, **_crosses(name, "paper"))
        powers_of_two(axes, [*rows["N"], *others["N"]], FEW)
        _log_y(axes, label)
        _guides(axes)
    legend(figure, panels)
    return figure


def settings(rows: pd.DataFrame, quantity: str, paper_from: int | None = None) -> Figure:
    """One quantity: a row a direction, a column a mask or none; a line where the paper begins."""
    downs = [name for name in DIRECTIONS if (rows["direction"] == name).any()]
    across = sorted(rows["causal"].unique(), reverse=True)
    label, unit = QUANTITIES[quantity]
    height, sizes = 0.7 + 2.3 * len(downs), (len(downs), len(across))
    figure, panels = grid(height, *sizes, sharex=True, sharey=True)
    for i, direction in enumerate(downs):
        for axes, causal in zip(panels[i], across, strict=True):
            own = rows[(rows["direction"] == direction) & (rows["causal"] == causal)]
            _curves(axes, own, quantity, unit)
            axes.set_title(f"{DIRECTIONS[direction]}, {'causal' if causal else 'all keys'}")
            powers_of_two(axes, rows["N"], FEW)
            _log_y(axes, label if axes is panels[i, 0] else "")
    for axes in panels.flat:
        axes.label_outer()
        if paper_from is not None and paper_from <= rows["N"].max():
            axes.axvline(paper_from, **GUIDE)
    legend(figure, panels.flat)
    return figure


def steps(table: pd.DataFrame) -> Figure:
    """The table of ``rules.steps``: milliseconds of a training step, a panel a model."""
    models, order = list(table.index.unique("subject")), list(attention.contenders())
    figure, [panels] = grid(3.3, 1, len(models))
    for axes, model in zip(panels, models, strict=True):
        own = table.loc[model].dropna(axis=1, how="all")
        for where, name in sorted(own, key=lambda key: (key[0], order.index(key[1]))):
            style = look(name) if where == "here" else _crosses(name, where)
            axes.plot(own[where, name].dropna(), **style)
        powers_of_two(axes, own.index, FEW)
        _log_y(axes, "a training step (ms)")
        axes.set_title(TITLES[model])
    legend(figure, panels)
    return figure
