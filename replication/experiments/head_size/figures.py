"""Rows -> Figure: words copied whole, a column a size of heads, a row a length of words."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from replication.experiments.head_size.numbers import CONTROL, LINEAR
from replication.style import SMALL, grid

DARK = 55
"""Percent up to which a cell is dark and its letters are white."""


def words(runs: pd.DataFrame) -> Figure:
    """Shares of held-out words that are copied without an error: the mean over seeds in large
    letters, each seed below. In a thick frame a word has more symbols than a head has features."""
    sizes = {name: sorted(runs[runs.attention == name].features.unique())
             for name in (LINEAR, CONTROL)}  # fmt: skip
    lengths, across = sorted(runs.symbols.unique()), [max(1, len(x)) for x in sizes.values()]
    figure, [panels] = grid(0.95 + 0.45 * len(lengths), 1, 2, sharey=True, width_ratios=across)
    for axes, (name, features) in zip(panels, sizes.items(), strict=True):
        for i, n in enumerate(lengths):
            for j, D in enumerate(features):
                mine = runs[(runs.attention == name) & (runs.symbols == n) & (runs.features == D)]
                _draw(axes, j, i, 100 * mine.exact_match, frame=bool(n > D))
        axes.set(title=name, xlim=(-0.5, len(features) - 0.5), ylim=(len(lengths) - 0.5, -0.5))
        axes.set_xticks(range(len(features)), features)
        axes.set_yticks(range(len(lengths)), [f"{n} symbols" for n in lengths])
        axes.tick_params(length=0)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
    figure.supxlabel("features of a head, D", size=9)
    return figure


def _draw(axes: Axes, x: int, y: int, shares: pd.Series, frame: bool) -> None:
    """A cell, the darker the fewer words are copied."""
    if shares.empty:
        return
    mean = shares.mean()
    grey, letters = 0.35 + 0.6 * mean / 100, "white" if mean <= DARK else "black"
    edge = {"edgecolor": "black" if frame else "0.75", "lw": 1.6 if frame else 0.6}
    axes.add_patch(Rectangle((x - 0.46, y - 0.45), 0.92, 0.9, facecolor=str(grey), **edge))
    axes.text(x, y - 0.16, f"{mean:.0f} %", ha="center", va="center", size=10, color=letters)
    each = ", ".join(f"{share:.0f}" for share in sorted(shares))
    axes.text(x, y + 0.25, each, ha="center", va="center", size=SMALL, color=letters)
