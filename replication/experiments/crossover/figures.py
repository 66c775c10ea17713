"""The drawings of notebook 05: fits that look ahead, ratios, coverage, and one to click on."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from replication import stats
from replication.attention import look_of
from replication.experiments.crossover.earlier import Fitted, design
from replication.stats import LEVEL, NOUNS, Crossover, Labels, Measured, brief
from replication.style import grid, in_lab, legend, line, log_ticks, saved

UNSEEN, FAR = "0.93", 100
"""Grey ground, where a fit has seen nothing; and how far it is followed, in longest lengths."""
COVERS, MISSES = "0.45", look_of("softmax-textbook").colour
BLACK = {"marker": "o", "color": "0", "ms": 4}

Compared = tuple[pd.DataFrame, Measured]
"""A table over N (ratios, or costs with a column a contender), and the crossover that it shows."""
FIRST = "attention layer, training, causal"
"""How the setting begins that is shown before anybody has chosen, if the rows have one."""


def label(name: str, names: Labels = None) -> str:
    """Such as "softmax, fused", unless ``names`` call it otherwise."""
    return (names or {}).get(name, look_of(name).label)


def _panels(
    titles: Mapping[str, object], columns: int, unit: str, sharey: bool = True
) -> tuple[Figure, list[Axes]]:
    """A figure with one titled panel on log scales a title, in rows of ``columns``."""
    if not titles:
        raise ValueError("There is nothing to draw: no two contenders share enough lengths.")
    down, across = -(-len(titles) // columns), min(len(titles), columns)
    figure, panels = grid(0.5 + 2.15 * down, down, across, sharex=True, sharey=sharey)
    panels, extra = panels.flat[: len(titles)], panels.flat[len(titles) :]
    for axes in extra:
        axes.remove()
    for i, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        axes.set(title=title, xscale="log", yscale="log", ylabel="" if i % across else unit)
        if i >= len(titles) - across:
            axes.set_xlabel("N")
            axes.tick_params(labelbottom=True)
    return figure, list(panels)


def extrapolations(
    fits: Mapping[str, Fitted], unit: str | Mapping[str, str],
    later: Mapping[str, Compared] | None = None, names: Labels = None,
) -> Figure:  # fmt: skip
    """One panel a title, after Figure 1 of the earlier replication.

    ``unit`` is what the axis of costs says, for all panels or by title; then each panel has an
    axis of its own. Full markers are what the fits have seen, bands the intervals of the fitted
    costs, black dot and bar the crossover with its interval, an arrow where that has no end.
    ``later`` adds what was measured beyond: hollow markers, and the crossover as a vertical line.
    ``names`` are labels of contenders other than ours.
    """
    shared, later = isinstance(unit, str), later or {}
    figure, panels = _panels(fits, 3, unit if shared else "", sharey=shared)
    lengths = _lengths(fits.values(), (measured for _, measured in later.values()))
    for axes, (title, found) in zip(panels, fits.items(), strict=True):
        _draw_fits(axes, found, lengths, names)
        if title in later:
            _draw_later(axes, *later[title], found.longest, names)
        if found.status == "crosses":
            at = design(np.array([found.at]), found.powers[0])
            _draw_crossover(axes, found, float(found.fits[0].predict(at)[0]), BLACK)
        text = brief(found)
        if title in later:
            text = f"predicted: {text}\nmeasured: {brief(later[title][1])}"
        axes.annotate(text, (0.03, 0.98), xycoords="axes fraction", va="top", size=8)
        axes.set_xlim(lengths[0], lengths[-1])
        log_ticks(axes.xaxis, base=8)
        log_ticks(axes.yaxis)
        if not shared:
            axes.set_ylabel(unit[title])
    legend(figure, panels, columns=3 if len(fits) > 2 else 2)
    return figure


def _lengths(fits: Iterable[Fitted], measured: Iterable[Measured]) -> np.ndarray:
    """From below the shortest to well beyond every crossover, unless it is farther than far."""
    ends = [end for c in fits for end in (c.longest, min(c.at, FAR * c.longest))]
    ends += [min(c.at, c.longest) for c in measured]
    return np.geomspace(min(c.shortest for c in fits) / 1.3, 8 * max(ends), 300)


def _draw_fits(axes: Axes, found: Fitted, lengths: np.ndarray, names: Labels) -> None:
    axes.axvspan(found.longest, lengths[-1], color=UNSEEN, lw=0, zorder=0)
    both = found.contender, found.opponent
    for name, fit, powers in zip(both, found.fits, found.powers, strict=True):
        own, seen, N = look_of(name), fit.model.endog, fit.model.exog[:, -1] ** (1 / powers[-1])
        floor = seen.min() / 2  # of the drawing: least squares may go below 0
        predicted = fit.get_prediction(design(lengths, powers))
        low, high = predicted.conf_int(alpha=1 - found.level).T
        axes.fill_between(lengths, low.clip(floor), high, color=own.colour, alpha=0.2, lw=0)
        cost = np.where(predicted.predicted_mean > floor, predicted.predicted_mean, np.nan)
        axes.plot(lengths, cost, color=own.colour, ls=own.dash, lw=1.4)
        axes.plot(N, seen, own.marker, color=own.colour, ms=5,
                  label=f"{label(name, names)}: seen")  # fmt: skip


def _draw_later(
    axes: Axes, costs: pd.DataFrame, measured: Measured, longest: int, names: Labels
) -> None:
    for name in (measured.contender, measured.opponent):
        own, unseen = look_of(name), costs.loc[costs.index > longest, name].dropna()
        axes.plot(unseen, own.marker, color=own.colour, ms=4.5, mfc="none",
                  label=f"{label(name, names)}: beyond")  # fmt: skip
    if measured.status == "crosses":
        axes.axvline(measured.at, color="0.25", lw=1, zorder=1)


def _draw_crossover(axes: Axes, found: Crossover, height: float, look: Mapping) -> None:
    """A marker and a bar, which ends in an arrow at the edge where the interval has no end."""
    axes.plot(found.at, height, zorder=5, **look)
    if found.low is None:
        return
    ends = np.clip([found.low, found.high], 1e-3, 1e12)
    axes.hlines(height, *ends, color=look["color"], lw=1.3, zorder=4)
    real = [end for end in (found.low, found.high) if 0 < end < math.inf]
    axes.plot(real, [height] * len(real), "|", color=look["color"], ms=8, mew=1.3, zorder=4)
    edge = {"transform": axes.get_yaxis_transform(), "clip_on": False, "color": look["color"]}
    for place, arrow, is_open in ((0, "<", found.low <= 0), (1, ">", math.isinf(found.high))):
        if is_open:
            axes.plot(place, height, arrow, ms=5, zorder=4, **edge)


def ratios(panels: Mapping[str, Sequence[Compared]]) -> Figure:
    """One panel a title, one line an opponent: its cost over the contender's, against N.

    Bands and black bars are intervals of the ratios; markers with a black edge and bars at 1 are
    the crossovers with theirs, in the look of the opponent.
    """
    every = [found for lines in panels.values() for found in lines]
    nouns = {NOUNS[found.quantity] for _, found in every}
    noun = nouns.pop() if len(nouns) == 1 else "cost"
    ours = label(every[0][1].contender) if every else ""
    rivals = {label(found.opponent).partition(",")[0] for _, found in every}
    theirs = rivals.pop() if len(rivals) == 1 else "others"
    figure, drawn = _panels(panels, 2, f"{noun}, {theirs} / {ours}")
    for axes, lines in zip(drawn, panels.values(), strict=True):
        axes.axhline(1, color="0.4", lw=0.9, zorder=1)
        for table, found in lines:
            _draw_ratio(axes, table, found)
        axes.legend(loc="upper left", title="cheaper from N =", alignment="left", title_fontsize=8)
    low, high = drawn[0].get_ylim()
    drawn[0].set_ylim(low, high * (high / low) ** 0.3)  # room for the legend
    N = [N for table, _ in every for N in table.index]
    drawn[0].set_xlim(min(N) / 1.3, max(N) * 1.3)
    for axes in drawn:
        log_ticks(axes.xaxis, base=8)
        log_ticks(axes.yaxis, base=4 if high > 30 * low else 2)
    return figure


def _draw_ratio(axes: Axes, table: pd.DataFrame, found: Measured) -> None:
    own = look_of(found.opponent)
    axes.fill_between(table.index, table.low, table.high, color=own.colour, alpha=0.3, lw=0)
    axes.vlines(table.index, table.low, table.high, color="0.15", lw=0.8, zorder=3)
    axes.plot(table[["low", "high"]], "_", color="0.15", ms=5, mew=0.8, zorder=3)
    axes.plot(table.value, ms=4.5, lw=1.2, label=f"{own.label}: {brief(found)}", **line(own))
    if found.status == "crosses":
        look = {"marker": own.marker, "color": own.colour, "ms": 6, "mec": "0"}
        _draw_crossover(axes, found, 1.0, look)


def coverage(runs: pd.DataFrame, true: float) -> Figure:
    """Of a method, with columns at, low, high: intervals of simulated runs, in order of ``at``."""
    figure, [[axes]] = grid(2.6)
    ordered = runs.sort_values("at", ignore_index=True)
    covers = ordered.low.le(true) & ordered.high.ge(true)
    for part, colour, marker in ((covers, COVERS, "o"), (~covers, MISSES, "X")):
        shown = ordered[part]
        axes.hlines(shown.index, shown.low, shown.high, color=colour, lw=1.2)
        axes.plot(shown["at"], shown.index, marker, color=colour, ms=3.5)
    axes.axvline(true, color="0", lw=1)
    title = f"{runs.method.iloc[0]}: {covers.sum()} of {len(runs)} cover"
    axes.set(title=title, xlabel="N", ylabel="simulated runs", yticks=[])
    return figure


def comparable(sources: Iterable[pd.DataFrame], contender: str) -> pd.DataFrame:
    """Measured rows of several sources, with those that share two lengths with the contender.

    They say their setting in words; one that two sources have is taken from the first of them.
    """
    rows = pd.concat(dict(enumerate(sources)), names=["place"]).reset_index("place")
    rows["setting"] = list(map(_title, rows.itertuples()))
    rows = rows[rows["place"] == rows.groupby("setting")["place"].transform("min")]
    own = rows["contender"].eq(contender)
    rows = rows[own.groupby([rows["setting"], rows["N"]]).transform("any")]
    rows = rows[rows.groupby(["setting", "contender"])["N"].transform("nunique") >= 2]
    rows = rows[rows.groupby("setting")["contender"].transform("nunique") >= 2]
    if rows.empty:
        raise ValueError(
            f"No contender was measured at two lengths together with {contender!r}, so there is "
            "nothing to choose from. Measure more, by: replication run scaling"
        )
    return rows.drop(columns="place").reset_index(drop=True)


def _title(row) -> str:
    what = "attention layer" if row.subject == "layer" else f"{row.subject} model"
    mask = "causal" if row.causal else "not causal"
    sizes = f"{row.heads} heads of {row.head_dim}, {row.dtype}, threads: {row.threads}"
    return f"{what}, {row.direction}, {mask}, {sizes}"


def choose(rows: pd.DataFrame, contender: str, wish: Mapping) -> tuple[dict, dict[str, list]]:
    """Setting, opponent and quantity, as wished or the first, and what else is offered for each."""
    chosen, offers = {}, {}

    def pick(name: str, offered: list[str]) -> str:
        offers[name] = offered
        chosen[name] = wish[name] if wish.get(name) in offered else offered[0]
        return chosen[name]

    settings = sorted(rows["setting"].unique(), key=lambda name: not name.startswith(FIRST))
    own = rows[rows["setting"] == pick("setting", settings)]
    rivals = sorted({*own["contender"]} - {contender}, key=lambda name: (name != "softmax", name))
    both = own[own["contender"].isin([contender, pick("against", rivals)])]
    counts = both.groupby("contender")[[*NOUNS]].count().min()
    pick("quantity", [name for name in NOUNS if counts[name]])
    return chosen, offers


def view(rows: pd.DataFrame, contender: str, chosen: Mapping, level: float) -> tuple:
    """The ratio over N, drawn, and the crossover."""
    own = rows[rows["setting"] == chosen["setting"]]
    question = own, contender, chosen["against"], chosen["quantity"]
    found = stats.measured_crossover(*question, level=level)
    return ratios({chosen["setting"]: [(stats.ratios(*question, level=level), found)]}), found


def crossover_explorer(rows: pd.DataFrame, contender: str, labels: Labels = None, level=LEVEL):
    """Menus, a picture and a sentence that answer them; outside JupyterLab the first picture."""
    from ipywidgets import HTML, Dropdown, Image, VBox

    if not in_lab():
        return view(rows, contender, choose(rows, contender, {})[0], level)[0]
    words = NOUNS | dict(labels or {})
    wide = {"width": "720px", "max_width": "100%"}
    names = ("setting", "against", "quantity")
    menus = {name: Dropdown(description=name, layout=wide) for name in names}
    picture, sentence = Image(format="png", layout=wide), HTML()

    def redraw(_=None) -> None:
        chosen, offers = choose(rows, contender, {n: menu.value for n, menu in menus.items()})
        for name, menu in menus.items():
            menu.unobserve(redraw, "value")  # the menu itself observes it, too
            menu.options = [(words.get(value, value), value) for value in offers[name]]
            menu.value, menu.disabled = chosen[name], len(offers[name]) == 1
            menu.observe(redraw, "value")
        figure, found = view(rows, contender, chosen, level)
        picture.value, text = saved(figure), found.sentence(labels)
        sentence.value = f"{text[0].upper()}{text[1:]}."

    for menu in menus.values():
        menu.observe(redraw, "value")
    redraw()
    return VBox([*menus.values(), picture, sentence])
