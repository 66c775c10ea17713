"""Rows -> Figure: words copied whole against their length, a line a head size."""

import pandas as pd
from matplotlib.figure import Figure

from replication.attention import look_of
from replication.experiments.head_size.numbers import CONTROL, LINEAR
from replication.style import WIDTH

MARKERS = "vsoD^P*X"
"""A head size differs from the others in its marker and in how dark it is."""


def words(runs: pd.DataFrame) -> Figure:
    """Shares of held-out words that are copied without an error. Small marks are seeds, lines
    their means."""
    figure = Figure(figsize=(WIDTH, 3.0))
    axes = figure.subplots()
    sizes = sorted(runs.features.unique())
    for i, D in enumerate(sizes):
        shown = runs[(runs.attention == LINEAR) & (runs.features == D)]
        share = (i + 1) / len(sizes)
        look = {"color": look_of(LINEAR).colour, "alpha": 0.25 + 0.75 * share, "marker": MARKERS[i]}
        _draw(axes, shown, f"linear, D = {D}", **look)
        axes.axvline(D, color="0.7", lw=0.8, ls=":", zorder=0)
    control = runs[runs.attention == CONTROL]
    look = {"color": look_of(CONTROL).colour, "marker": look_of(CONTROL).marker, "ls": "--"}
    _draw(axes, control, f"softmax, D = {sizes[0]}", **look)
    lengths = sorted({*runs.symbols, *sizes})
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, lengths)
    axes.minorticks_off()
    axes.set(xlabel="symbols of a word, n (dotted: features of a head, D)",
             ylabel="words copied (%)", ylim=(-4, 104))  # fmt: skip
    figure.legend(loc="outside right center")
    return figure


def _draw(axes, rows: pd.DataFrame, label: str, **look) -> None:
    percent = rows.assign(share=100 * rows.exact_match)
    means = percent.groupby("symbols").share.mean()
    axes.plot(means, label=label, lw=1.6, ms=5, **look)
    axes.plot(percent.symbols, percent.share, ms=3, **look | {"ls": "none", "mfc": "white"})
