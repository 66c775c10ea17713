"""One more token: its time, and what must be remembered for it, against the tokens before it."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from replication.figures.style import COLOURS, DASHES, MARKERS, WIDTH, legend, log_ticks

LOOKS = {
    "linear": ("linear", "linear, as an RNN"),
    "softmax": ("softmax", "softmax, with a cache"),
    "softmax-again": ("softmax-textbook", "softmax, all computed again"),
}
"""By contender: whose colour, dash and marker it has, and its label."""


def tokens(rows: pd.DataFrame) -> Figure:
    """Rows of ``decoding_cost``: medians; on the left time a token, on the right memory."""
    figure = Figure(figsize=(WIDTH, 3.1))
    left, right = figure.subplots(1, 2)
    _draw(left, rows, "time_ms", 1.0, "time per token (ms)")
    _draw(right, rows[rows.state_bytes > 0], "state_bytes", 1e6, "state or cache (MB)")
    legend(figure, [left], columns=3)
    return figure


def _draw(axes: Axes, rows: pd.DataFrame, quantity: str, unit: float, label: str) -> None:
    for name, (like, words) in LOOKS.items():
        medians = rows[rows.contender == name].groupby("N")[quantity].median() / unit
        axes.plot(medians, color=COLOURS[like], ls=DASHES[like], marker=MARKERS[like], ms=4.5,
                  label=words)  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="tokens before, N", ylabel=label)
    axes.set_xticks(sorted(rows.N.unique()))
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    log_ticks(axes.yaxis)
