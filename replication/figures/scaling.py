"""The drawings of notebook 04: what was planned, growth of time and memory, exponents, work.

Rows are those of the scaling benchmark, a repeat each; what is drawn is the median of a cell. A
contender differs from the others in colour, dash and marker, so also in grey. Hollow markers are
cells whose ratio to linear attention stayed noisy.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from replication.figures.style import COLOURS, DASHES, LABELS, MARKERS, WIDTH, legend, log_ticks

ORDER = ("linear", "softmax", "softmax-textbook", "lsh-1", "lsh-4", "lsh-8", "authors")
ROUNDS = {"lsh-1": (0.5, "^"), "lsh-4": (0.0, "v"), "lsh-8": (-0.4, "<")}
"""LSH by its rounds: how far its colour is lightened (or darkened), and its marker."""
SECONDARY = {"lsh-1", "lsh-8", "authors"}
"""Drawn finer: no claim is about them."""
CROSSES = {"linear": "+", "softmax": "x"}
"""The markers of what others have published."""
QUANTITIES = {
    "time_ms": ("time per sequence (ms)", 1.0),
    "peak_bytes": ("peak memory per sequence (MB)", 1e6),
    "flops": ("operations per sequence (GFLOP)", 1e9),
}
"""What an axis says, and its unit."""
DIRECTIONS = {"training": "forward and backward", "forward": "forward"}
TITLES = {"paper": "the paper's model", "earlier": "the earlier replication's model"}
GUIDE = {"color": "0.6", "lw": 0.9, "zorder": 0}
POWERS = (0.4, 2.6)
"""Exponents that are drawn."""


# What all panels share --------------------------------------------------------------------------


def look(contender: str) -> dict:
    """Colour, dash, marker and label of a contender."""
    family = "lsh" if contender in ROUNDS else contender
    colour, marker, label = np.array(COLOURS[family]), MARKERS[family], LABELS[family]
    if contender in ROUNDS:
        lighter, marker = ROUNDS[contender]
        colour = colour + (1 - colour) * lighter if lighter > 0 else colour * (1 + lighter)
        label = f"LSH, {contender.partition('-')[2]} rounds".replace("1 rounds", "1 round")
    size = {"ms": 4, "lw": 0.8} if contender in SECONDARY else {"ms": 4.5, "lw": 1.4}
    return {"color": tuple(colour), "ls": DASHES[family], "marker": marker, "label": label} | size


def _curves(axes: Axes, rows: pd.DataFrame, x: str, y: str, unit: float = 1.0) -> None:
    """Medians of cells, a line a contender. Times may be noisy, bytes and operations are exact."""
    known = rows.dropna(subset=y)
    known = known.assign(noisy=(known["status"] == "noisy") & (y == "time_ms"))
    for name in _ordered(known["contender"]):
        cells = known[known["contender"] == name].groupby("N", as_index=False)
        cells = cells.agg({x: "median", y: "median", "noisy": "first"})
        style = look(name)
        axes.plot(cells[x], cells[y] / unit, **style)
        noisy = cells[cells["noisy"]]
        hollow = {"ms": style["ms"], "mfc": "white", "mec": style["color"], "mew": 0.8}
        axes.plot(noisy[x], noisy[y] / unit, style["marker"], zorder=3, **hollow)
    if known["noisy"].any():
        axes.plot([], [], "o", ms=4.5, mfc="white", mec="0.3", label="hollow: stayed noisy")


def _ordered(contenders: Iterable[str]) -> list[str]:
    return sorted(set(contenders), key=ORDER.index)


def _lengths(axes: Axes, N: Iterable[int]) -> None:
    """Every length has a tick, at most five their numbers."""
    found = sorted(set(N))
    axes.set_xscale("log", base=2)
    axes.set_xticks(found, minor=True)
    axes.set_xticks(found[:: max(1, -(-len(found) // 5))])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("sequence length $N$")


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


# The plan ---------------------------------------------------------------------------------------


def plan(cells: pd.DataFrame) -> Figure:
    """Rows of the plan: what a call took against what was predicted; on the line both agree."""
    figure = Figure(figsize=(WIDTH, 3.6))
    axes = figure.subplots()
    kept = cells[cells["status"] != "skipped"]
    for name in _ordered(kept["contender"]):
        own = kept[kept["contender"] == name]
        style = look(name) | {"ls": "", "alpha": 0.75}
        axes.plot(own["predicted_call_ms"], own["measured_call_ms"], **style)
    both = kept[["predicted_call_ms", "measured_call_ms"]]
    ends = np.array([both.min(axis=None) / 1.5, both.max(axis=None) * 1.5])
    for factor in (0.5, 1, 2):
        axes.plot(ends, ends * factor, **GUIDE | ({"color": "0.4"} if factor == 1 else {}))
    axes.set(xscale="log", xlim=ends, ylim=ends, aspect="equal", xlabel="a call, predicted (ms)")
    _log_y(axes, "a call, measured (ms)")
    log_ticks(axes.xaxis)
    axes.legend(loc="center left", bbox_to_anchor=(1.03, 0.5))
    return figure


# Growth -----------------------------------------------------------------------------------------


def growth(rows: pd.DataFrame, published: pd.DataFrame | None = None) -> Figure:
    """Time and memory in one setting, after the paper's Figure 1, whose points may be added."""
    others = rows.iloc[:0] if published is None else published
    figure = Figure(figsize=(WIDTH, 3.5))
    panels = figure.subplots(1, 2)
    for axes, quantity in zip(panels, ("time_ms", "peak_bytes"), strict=True):
        label, unit = QUANTITIES[quantity]
        _curves(axes, rows, "N", quantity, unit)
        for name, points in others.groupby("contender", sort=False):
            axes.plot(points["N"], points[quantity] / unit, **_crosses(name, "paper"))
        _lengths(axes, [*rows["N"], *others["N"]])
        _log_y(axes, label)
        _guides(axes)
    legend(figure, panels)
    return figure


def _crosses(contender: str, whose: str) -> dict:
    """The look of what others have published."""
    return {"color": "0.55", "ls": DASHES[contender], "marker": CROSSES[contender], "lw": 0.7,
            "ms": 5.5, "zorder": 1, "label": f"{whose}: {contender}"}  # fmt: skip


def settings(rows: pd.DataFrame, quantity: str, paper_from: int | None = None) -> Figure:
    """One quantity in all settings: a row a direction, a column with and without a mask.

    A grey line marks the shortest length of the paper.
    """
    downs = [name for name in DIRECTIONS if (rows["direction"] == name).any()]
    across = sorted(rows["causal"].unique(), reverse=True)
    label, unit = QUANTITIES[quantity]
    figure = Figure(figsize=(WIDTH, 0.7 + 2.3 * len(downs)))
    grid = figure.subplots(len(downs), len(across), squeeze=False, sharex=True, sharey=True)
    for i, direction in enumerate(downs):
        for axes, causal in zip(grid[i], across, strict=True):
            own = rows[(rows["direction"] == direction) & (rows["causal"] == causal)]
            _curves(axes, own, "N", quantity, unit)
            axes.set_title(f"{DIRECTIONS[direction]}, {'causal' if causal else 'all keys'}")
            _lengths(axes, rows["N"])
            _log_y(axes, label if axes is grid[i, 0] else "")
    for axes in grid.flat:
        axes.label_outer()
        if paper_from is not None and paper_from <= rows["N"].max():
            axes.axvline(paper_from, **GUIDE)
    legend(figure, grid.flat)
    return figure


# Exponents --------------------------------------------------------------------------------------


def exponents(table: pd.DataFrame) -> Figure:
    """Columns contender, quantity, value, low, high: a row a contender, a panel a quantity.

    Intervals that leave the panel end in an arrow.
    """
    quantities = [name for name in QUANTITIES if name in set(table["quantity"])]
    names = _ordered(table["contender"])[::-1]
    figure = Figure(figsize=(WIDTH, 0.9 + 0.28 * len(names)))
    panels = figure.subplots(1, len(quantities), sharey=True, squeeze=False)[0]
    for axes, quantity in zip(panels, quantities, strict=True):
        for row in table[table["quantity"] == quantity].itertuples():
            _interval(axes, row, names.index(row.contender))
        axes.set(xlim=POWERS, xticks=[0.5, 1, 1.5, 2, 2.5], xlabel="exponent of $N$",
                 title=QUANTITIES[quantity][0].partition(" per sequence")[0])  # fmt: skip
        for power in (1, 2):
            axes.axvline(power, color="0.6", lw=0.9, zorder=0)
    panels[0].set_yticks(range(len(names)), [look(name)["label"] for name in names])
    return figure


def _interval(axes: Axes, row, y: int) -> None:
    style = look(row.contender)
    low, high = np.clip([row.low, row.high], *POWERS)
    axes.plot([low, high], [y, y], color=style["color"], lw=1.4)
    axes.plot(row.value, y, style["marker"], color=style["color"], ms=5.5)
    for end, real, arrow in ((low, row.low, "<"), (high, row.high, ">")):
        if real != end:
            axes.plot(end, y, arrow, color=style["color"], ms=5, clip_on=False)


# Work, and whole models -------------------------------------------------------------------------


def work(cells: pd.DataFrame, flops_per_s: float) -> Figure:
    """The table of ``scaling.tables.work``: time by operations, and the share of the full rate."""
    figure = Figure(figsize=(WIDTH, 3.5))
    left, right = figure.subplots(1, 2)
    rows = cells.assign(status="measured", giga=cells["flops"] / 1e9)
    _curves(left, rows, "giga", "time_ms")
    ends = np.array([rows["giga"].min(), rows["giga"].max()])
    line = {"color": "0.4", "lw": 0.9, "zorder": 0, "label": "a large product"}
    left.plot(ends, ends * 1e12 / flops_per_s, **line)
    left.set(xscale="log", xlabel=QUANTITIES["flops"][0])
    _log_y(left, QUANTITIES["time_ms"][0])
    _curves(right, rows, "N", "share")
    _lengths(right, rows["N"])
    right.set_ylim(bottom=0)
    right.yaxis.set_major_formatter("{x:.0%}")
    right.set_ylabel("share of the rate of a large product")
    legend(figure, [left, right])
    return figure


def steps(table: pd.DataFrame) -> Figure:
    """The table of ``scaling.tables.steps``: milliseconds of a training step, a panel a model."""
    figure = Figure(figsize=(WIDTH, 3.3))
    models = list(table.index.unique("subject"))
    panels = figure.subplots(1, len(models), squeeze=False)[0]
    for axes, model in zip(panels, models, strict=True):
        own = table.loc[model].dropna(axis=1, how="all")
        for where, name in sorted(own, key=lambda key: (key[0], ORDER.index(key[1]))):
            style = look(name) if where == "here" else _crosses(name, where)
            axes.plot(own[where, name].dropna(), **style)
        _lengths(axes, own.index)
        _log_y(axes, "a training step (ms)")
        axes.set_title(TITLES[model])
    legend(figure, panels)
    return figure
