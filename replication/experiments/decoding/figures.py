"""One more token: its time, and what must be remembered for it, against the tokens before it."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from replication import attention
from replication.experiments.decoding.run import AGAIN
from replication.stats import location
from replication.style import grid, legend, line, log_ticks, powers_of_two

KINDS = {"state": "as an RNN", "cache": "with a cache"}


def tokens(rows: pd.DataFrame) -> Figure:
    """On the left time a token, on the right memory."""
    figure, [[left, right]] = grid(3.1, 1, 2)
    _draw(left, rows, "time_ms", 1.0, "time per token (ms)")
    _draw(right, rows, "state_bytes", 1e6, "state or cache (MB)")
    legend(figure, [left], columns=3)
    return figure


def _draw(axes: Axes, rows: pd.DataFrame, quantity: str, unit: float, label: str) -> None:
    for name in sorted(rows.contender.unique(), key=lambda name: (name.endswith(AGAIN), name)):
        own = rows[rows.contender == name]
        if (own[quantity] > 0).all():  # who remembers nothing has none
            axes.plot(location(own, quantity)["value"].loc[name] / unit, ms=4.5, **look(name))
    powers_of_two(axes, rows.N)
    axes.set(yscale="log", xlabel="tokens before, N", ylabel=label)
    log_ticks(axes.yaxis)


def look(name: str) -> dict:
    """Colour, dash, marker, label. Who computes all again looks like the textbook form, if any."""
    card = attention.mechanism(name.removesuffix(AGAIN))
    how, own = KINDS[card.memory.kind], card.look
    if name.endswith(AGAIN):
        how, textbook = "all computed again", f"{card.name}-textbook"
        own = attention.look_of(textbook if textbook in attention.mechanisms() else card.name)
    return line(own) | {"label": f"{card.name}, {how}"}
