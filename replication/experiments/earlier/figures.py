"""The drawings of notebook 08: losses and copies by suspect, their curves and ours, factors."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from replication.attention import look_of
from replication.experiments.copy_task.task import EarlierCopy
from replication.experiments.crossover.numbers import EARLIER_ENDS
from replication.experiments.earlier.numbers import ALL, BATCH_FACTOR, CONVERGENCE, NONE, SPEED
from replication.experiments.earlier.rules import factors, losses, on_their_card, published
from replication.style import SMALL, grid, legend, log_ticks

BOTH = ("softmax", "linear")
BATCH = {"softmax": 8, "linear": 8 * BATCH_FACTOR}
"""Sequences over which their losses are summed."""
LEVELS = {"frequencies": {"label": "knows the frequencies", "ls": (0, (1, 2))},
          "bag": {"label": "knows which digits", "ls": (0, (5, 2))}}  # fmt: skip
CALLED = {NONE: "no switch", ALL: "all switches"} | {n: s.words for n, s in CONVERGENCE.items()}
SHORT = {"double": "double precision", "generic": "generic contraction", "batch": "batch of 32",
         "forwards": "extra forward pass", "heads": "split heads"}  # fmt: skip
"""The suspects of speed in one short line each."""
SLOWER, PALE = "#0173b2", "0.75"


def _short(words: str) -> str:
    """In two lines, if it is long."""
    if len(words) < 26:
        return words
    cut = words.rfind(" ", 0, 2 + len(words) // 2)
    return f"{words[:cut]}\n{words[cut + 1 :]}"


def suspects(runs: pd.DataFrame) -> Figure:
    """At the length at which most suspects were tried alone: the loss, and what is right with the
    right tokens given (full) and in copies written without help (hollow)."""
    found = losses(runs)
    length = found[found.suspect.isin(CONVERGENCE)].length.mode().min()
    found = found[found.length == (found.length.max() if np.isnan(length) else length)]
    names = [name for name in CALLED if name in set(found.suspect)]
    figure, [[left, right]] = grid(0.9 + 0.36 * len(names), 1, 2, sharey=True)
    for i, attention in enumerate(BOTH):
        mine = found[found.attention == attention].set_index("suspect").reindex(names)
        places = np.arange(len(names)) + 0.24 * (i - 0.5)
        look = {"marker": look_of(attention).marker, "ls": "", "ms": 5.5}
        colour = look_of(attention).colour
        left.plot(mine.loss, places, color=colour, label=attention, **look)
        left.axvline(mine.theirs.dropna().max(), color=colour, ls=look_of(attention).dash, lw=1,
                     label="end of theirs")  # fmt: skip
        right.hlines(places, mine.free_symbols, mine.accuracy, color=colour, lw=1)
        right.plot(mine.accuracy, places, color=colour, **look)
        right.plot(mine.free_symbols, places, color=colour, mfc="white", label="without help",
                   **look)  # fmt: skip
    left.set_yticks(range(len(names)), [_short(CALLED[name]) for name in names], size=SMALL)
    left.invert_yaxis()
    left.set(xlabel="loss (nats per token)", xscale="log", title=f"N = {found.length.iloc[0]}")
    log_ticks(left.xaxis)
    right.set(xlabel="share of symbols that are right", xlim=(-0.03, 1.03))
    legend(figure, (left, right))
    return figure


def theirs_and_ours(evaluations: pd.DataFrame) -> Figure:
    """All switches on, one panel a length, on the scale of their figures: summed over the batch."""
    rows = evaluations[evaluations.suspect == ALL]
    lengths = sorted(rows.length.unique())
    figure, [panels] = grid(2.9, 1, len(lengths), sharey=True)
    for axes, length in zip(panels, lengths, strict=True):
        mine = rows[rows.length == length]
        for attention in BOTH:
            _draw_curve(axes, mine[mine.attention == attention], attention, int(length))
        axes.set(title=f"N = {length}", xlabel="updates")
        axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    panels[0].set_ylabel("loss, summed over the batch\n(8 for softmax, 32 for linear)")
    panels[0].set_ylim(bottom=-3)
    legend(figure, panels, columns=3)
    return figure


def _draw_curve(axes: Axes, rows: pd.DataFrame, attention: str, length: int) -> None:
    """Ours as a line, the end of theirs as a hollow marker, and two levels of not copying."""
    look, batch = look_of(attention), BATCH[attention]
    for name, level in EarlierCopy(length, 10).levels().items():
        axes.axhline(batch * level, color="0.55", lw=1, zorder=0, **LEVELS[name])
    for _, one in rows.groupby("seed"):
        axes.plot(one.step, batch * one.eval_loss, color=look.colour, ls=look.dash, lw=1.6,
                  label=f"{attention}, ours")  # fmt: skip
    if (end := EARLIER_ENDS.get(length, {}).get(attention)) is not None and len(rows):
        hollow = {"mec": look.colour, "mfc": "white", "ms": 7, "mew": 1.4, "zorder": 4}
        axes.plot(rows.step.max(), batch * end, look.marker, clip_on=False,
                  label=f"{attention}, end of theirs", **hollow)  # fmt: skip


def waterfall(times: pd.DataFrame) -> Figure:
    """From our ratio of linear to softmax to theirs, factor by factor; one panel a length."""
    found = factors(times)
    lengths = sorted(found.N.unique())
    figure, [panels] = grid(3.4, 1, len(lengths), sharey=True, sharex=True)
    for axes, N in zip(panels, lengths, strict=True):
        bars = _bars(found[found.N == N].set_index("suspect").factor, int(N))
        for place, (name, ends) in enumerate(bars.items()):
            _draw_bar(axes, place, name, *ends)
        axes.axvline(1, color="0.4", lw=0.9)
        axes.set(title=f"N = {N}", xscale="log", xlim=(0.6, 300))
        axes.set_xticks([1, 10, 100], ["1", "10", "100"])
    called = SHORT | {"ours": "ours, with a mask", "mask": "no causal mask", ALL: "all switches"}
    called |= {"together": "beyond their product", "card": "their card, at least"}
    called |= {"theirs": "theirs, published"}
    panels[0].set_yticks(range(len(bars)), [called[name] for name in bars], size=SMALL)
    panels[0].invert_yaxis()
    figure.supxlabel("time of a step, linear / softmax", size=9)
    return figure


def _bars(mine: pd.Series, N: int) -> dict[str, tuple[float, float]]:
    """Where every bar begins and ends."""
    bars, at = {"ours": (1.0, mine["ours"]), "mask": (mine["ours"], mine["open"])}, mine["open"]
    for name in SPEED:
        bars[name] = at, at * mine[name]
        at *= mine[name]
    bars |= {"together": (at, mine["ratio"]), ALL: (1.0, mine["ratio"])}
    return bars | {"card": (1.0, on_their_card().batch[N]), "theirs": (1.0, published()[N])}


def _draw_bar(axes: Axes, place: int, name: str, start: float, end: float) -> None:
    total, card = name in ("ours", ALL, "theirs", "card"), name == "card"
    look: dict[str, Any] = {"color": "0.15" if total else SLOWER if end >= start else PALE}
    if card or name == "theirs":
        look = {"facecolor": "white", "edgecolor": "0.2", "hatch": "////" if card else ""}
    axes.barh(place, end - start, left=start, height=0.62, zorder=2, **look)
    value = end if total else end / start
    number = f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    text = f"≥ {number}" if card else number if total else f"× {number}"
    axes.text(1.12 * max(start, end), place, text, va="center", size=SMALL - 0.5)
