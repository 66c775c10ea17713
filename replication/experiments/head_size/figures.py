"""Rows -> Figure: words copied whole against the features of a head, a line a length of words."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from replication.attention import look_of
from replication.experiments.head_size.numbers import CONTROL, LINEAR
from replication.style import WIDTH, powers_of_two

MARKERS, DASHES = "oD^v", ("-", "-.", (0, (4, 1)), (0, (1, 1)))
"""Lengths of words differ in marker and dash."""


def words(runs: pd.DataFrame) -> Figure:
    """Shares of held-out words that are copied without an error. Small marks are seeds, lines
    their means; left of its dotted line a word has more symbols than a head has features."""
    figure = Figure(figsize=(WIDTH, 2.8))
    axes, sizes = figure.subplots(), sorted(runs.features.unique())
    for i, n in enumerate(sorted(runs.symbols.unique())):
        mark = {"marker": MARKERS[i], "ls": DASHES[i]}
        for name, word in ((LINEAR, "linear"), (CONTROL, "softmax")):
            shown = runs[(runs.attention == name) & (runs.symbols == n)]
            _draw(axes, shown, f"{word}, n = {n}", color=look_of(name).colour, **mark)
        axes.axvline(n, color="0.6", lw=0.9, ls=":", zorder=0)
        axes.annotate(f"n = {n} ", (n, 0), ha="right", va="bottom", size=8, color="0.3")
    powers_of_two(axes, sizes)
    axes.set(xlabel="features of a head, D", ylabel="words copied (%)", ylim=(-4, 104))
    figure.legend(loc="outside right center", title="symbols of a word, n", title_fontsize=8)
    return figure


def _draw(axes: Axes, rows: pd.DataFrame, label: str, **look) -> None:
    percent = rows.assign(share=100 * rows.exact_match)
    axes.plot(percent.groupby("features").share.mean(), label=label, lw=1.6, ms=6, **look)
    axes.plot(percent.features, percent.share, ms=3, **look | {"ls": "none", "mfc": "white"})
