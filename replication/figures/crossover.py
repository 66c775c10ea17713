"""The drawings of notebook 05: fits that look ahead, ratios with their crossings, coverage.

A mechanism differs from the others in colour, dash and marker, so also in grey. Grey ground is
where a fit has seen no measurement.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from replication.crossover.estimate import Crossover, Fitted, Measured, rounded
from replication.crossover.fits import Fit, Model, design
from replication.crossover.tables import brief
from replication.figures.style import (
    COLOURS,
    DASHES,
    LABELS,
    MARKERS,
    SMALL,
    WIDTH,
    legend,
    log_ticks,
)

UNSEEN, FAR = "0.93", 100
"""Grey ground; and how many times the longest measurement a figure follows a fit at most."""
COVERS, MISSES = "0.45", COLOURS["softmax-textbook"]
BLACK = {"marker": "o", "color": "0", "ms": 4}
NOUNS = {"time_ms": "time", "peak_bytes": "memory", "flops": "operations"}

Later = Mapping[str, tuple[pd.DataFrame, Measured]]
"""By title: costs (index N, a column a contender), and the crossover that they show."""
Compared = tuple[pd.DataFrame, Measured]
"""A table of ``crossover.tables.ratios``, and the crossover that belongs to it."""
Names = Mapping[str, str] | None


def family(name: str) -> str:
    """The mechanism of a contender: lsh of lsh-4."""
    return name if name in COLOURS else name.partition("-")[0]


def label(name: str, names: Names = None) -> str:
    """Such as "LSH-4", or "softmax, fused", unless ``names`` call it otherwise."""
    return (names or {}).get(name, LABELS[family(name)] + name.removeprefix(family(name)))


def _panels(
    titles: Mapping[str, object], columns: int, height: float, sharey: bool = True
) -> tuple[Figure, list[Axes]]:
    """A figure with one titled panel on log scales a title, in rows of ``columns``."""
    if not titles:
        raise ValueError("There is nothing to draw: no two contenders share enough lengths.")
    down, across = -(-len(titles) // columns), min(len(titles), columns)
    figure = Figure(figsize=(WIDTH, 0.5 + height * down))
    panels = list(figure.subplots(down, across, squeeze=False, sharex=True, sharey=sharey).flat)
    for extra in panels[len(titles) :]:
        extra.remove()
    for axes, title in zip(panels, titles, strict=False):
        axes.set(title=title, xscale="log", yscale="log")
    lowest = panels[max(0, len(titles) - across) : len(titles)]
    for axes in lowest:
        axes.set_xlabel("N")
        axes.tick_params(labelbottom=True)
    return figure, panels[: len(titles)]


def _label_rows(panels: Iterable[Axes], text: str) -> None:
    for axes in panels:
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel(text)


# Fits and what they foretell ------------------------------------------------------------------


def extrapolations(
    fits: Mapping[str, Fitted],
    unit: str | Mapping[str, str],
    later: Later | None = None,
    names: Names = None,
) -> Figure:
    """One panel a title, after Figure 1 of the earlier replication.

    ``unit`` is what the axis of costs says, for all panels or by title; then each panel has an
    axis of its own. Full markers are what the fits have seen, bands the intervals of the fitted
    costs, black dot and bar the crossover with its interval. ``later`` adds what was measured
    beyond: hollow markers, and the crossover as a vertical line. ``names`` are labels of
    contenders other than ours.
    """
    shared = isinstance(unit, str)
    figure, panels = _panels(fits, columns=3, height=2.4, sharey=shared)
    later = later or {}
    lengths = _lengths(fits.values(), (measured for _, measured in later.values()))
    for axes, (title, found) in zip(panels, fits.items(), strict=True):
        _draw_fits(axes, found, lengths, names)
        if title in later:
            _draw_later(axes, *later[title], found.longest, names)
        _mark_forecast(axes, found)
        axes.set_xlim(lengths[0], lengths[-1])
        log_ticks(axes.xaxis, base=8)
        log_ticks(axes.yaxis)
        if not shared:
            axes.set_ylabel(unit[title])
    if shared:
        _label_rows(panels, unit)
    legend(figure, panels, columns=3 if len(fits) > 2 else 2)
    return figure


def _lengths(fits: Iterable[Fitted], measured: Iterable[Measured]) -> np.ndarray:
    """From below the shortest to well beyond every crossover, unless it is farther than far."""
    ends = [end for c in fits for end in (c.longest, min(c.at, FAR * c.longest))]
    ends += [min(c.at, c.longest) for c in measured]
    return np.geomspace(min(c.shortest for c in fits) / 1.3, 8 * max(ends), 300)


def _draw_fits(axes: Axes, found: Fitted, lengths: np.ndarray, names: Names) -> None:
    axes.axvspan(found.longest, lengths[-1], color=UNSEEN, lw=0, zorder=0)
    both = found.contender, found.opponent
    for name, fit, powers in zip(both, found.fits, found.powers, strict=True):
        kind, seen = family(name), fit.model.endog
        floor = seen.min() / 2  # of the drawing: least squares may go below 0
        predicted = fit.get_prediction(design(lengths, powers))
        low, high = predicted.conf_int(alpha=1 - found.level).T
        axes.fill_between(lengths, low.clip(floor), high, color=COLOURS[kind],
                          alpha=0.2, lw=0)  # fmt: skip
        cost = predicted.predicted_mean
        axes.plot(lengths, np.where(cost > floor, cost, np.nan), color=COLOURS[kind],
                  ls=DASHES[kind], lw=1.4)  # fmt: skip
        axes.plot(seen_lengths(fit, powers), seen, MARKERS[kind], color=COLOURS[kind], ms=5,
                  label=f"{label(name, names)}: seen by the fit")  # fmt: skip


def seen_lengths(fit: Fit, powers: Model) -> np.ndarray:
    """The N behind a fit, from the column of its highest power."""
    return fit.model.exog[:, powers.index(max(powers))] ** (1 / max(powers))


def _draw_later(
    axes: Axes, costs: pd.DataFrame, measured: Measured, longest: int, names: Names
) -> None:
    for name in (measured.contender, measured.opponent):
        kind, unseen = family(name), costs.loc[costs.index > longest, name].dropna()
        axes.plot(unseen, MARKERS[kind], color=COLOURS[kind], ms=4.5, mfc="none",
                  label=f"{label(name, names)}: measured beyond")  # fmt: skip
    if measured.status == "crosses":
        axes.axvline(measured.at, color="0.25", lw=1, zorder=1)
        place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        text = f"measured\n{rounded(measured.at)}"
        axes.annotate(text, (measured.at, 0.02), (3, 0), va="bottom", size=SMALL, **place)


def _mark_forecast(axes: Axes, found: Fitted) -> None:
    """The crossover with its interval, or the words that there is none."""
    if found.status == "crosses":
        at = design(np.array([found.at]), found.powers[0])
        _draw_crossover(axes, found, float(found.fits[0].predict(at)[0]), BLACK)
    axes.annotate(brief(found), (0.03, 0.98), xycoords="axes fraction", va="top", size=8)


def _draw_crossover(axes: Axes, found: Crossover, height: float, look: Mapping) -> None:
    """A marker and a bar; the bar has no end where the interval has none."""
    axes.plot(found.at, height, zorder=5, **look)
    if found.low is None:
        return
    ends = np.clip([found.low, found.high], 1e-3, 1e12)
    axes.hlines(height, *ends, color=look["color"], lw=1.3, zorder=4)
    real = [end for end in (found.low, found.high) if 0 < end < math.inf]
    axes.plot(real, [height] * len(real), "|", color=look["color"], ms=8, mew=1.3, zorder=4)


# Ratios and where they pass 1 -----------------------------------------------------------------


def ratios(panels: Mapping[str, Sequence[Compared]]) -> Figure:
    """One panel a title, one line an opponent: its cost over the contender's, against N.

    Bands are intervals of the ratios; large markers and bars at 1 are the crossovers with theirs,
    in the look of the opponent.
    """
    figure, drawn = _panels(panels, columns=2, height=2.4)
    for axes, lines in zip(drawn, panels.values(), strict=True):
        axes.axhline(1, color="0.4", lw=0.9, zorder=1)
        for table, found in lines:
            _draw_ratio(axes, table, found)
        axes.legend(loc="upper left", title="cheaper from N =", alignment="left", title_fontsize=8)
    nouns = {NOUNS[found.quantity] for lines in panels.values() for _, found in lines}
    noun, (low, high) = nouns.pop() if len(nouns) == 1 else "cost", drawn[0].get_ylim()
    drawn[0].set_ylim(low, high * (high / low) ** 0.3)  # room for the legend
    N = [N for lines in panels.values() for table, _ in lines for N in table.index]
    drawn[0].set_xlim(min(N) / 1.3, max(N) * 1.3)
    _label_rows(drawn, f"{noun} / {noun} of {label(found.contender)}")
    for axes in drawn:
        log_ticks(axes.xaxis, base=8)
        log_ticks(axes.yaxis, base=4 if high > 30 * low else 2)
    return figure


def _draw_ratio(axes: Axes, table: pd.DataFrame, found: Measured) -> None:
    kind = family(found.opponent)
    axes.fill_between(table.index, table.low, table.high, color=COLOURS[kind], alpha=0.25, lw=0)
    axes.plot(table.ratio, color=COLOURS[kind], ls=DASHES[kind], marker=MARKERS[kind], ms=4,
              lw=1.4, label=f"{label(found.opponent)}: {brief(found)}")  # fmt: skip
    if found.status == "crosses":
        look = {"marker": MARKERS[kind], "color": COLOURS[kind], "ms": 6, "mec": "0"}
        _draw_crossover(axes, found, 1.0, look)


# Coverage -------------------------------------------------------------------------------------


def coverage(runs: pd.DataFrame, true: float) -> Figure:
    """Columns method, at, low, high: the intervals of simulated runs, in the order of ``at``."""
    methods = runs.groupby("method", sort=False)
    figure = Figure(figsize=(WIDTH, 2.6))
    row = figure.subplots(1, methods.ngroups, sharex=True, sharey=True, squeeze=False)[0]
    for axes, (method, rows) in zip(row, methods, strict=True):
        ordered = rows.sort_values("at", ignore_index=True)
        covers = ordered.low.le(true) & ordered.high.ge(true)
        for part, colour, marker in ((covers, COVERS, "o"), (~covers, MISSES, "X")):
            shown = ordered[part]
            axes.hlines(shown.index, shown.low, shown.high, color=colour, lw=1.2)
            axes.plot(shown["at"], shown.index, marker, color=colour, ms=3.5)
        axes.axvline(true, color="0", lw=1)
        axes.set(title=f"{method}: {covers.sum()} of {len(rows)} cover", xlabel="N", yticks=[])
    row[0].set_ylabel("simulated runs")
    return figure
