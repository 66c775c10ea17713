"""The drawings of notebook 03: curves of all seeds, levels, stability, learnt patterns.

Rows are those of ``run.Trained``. Thin lines are seeds, thick ones with markers their medians.
"""

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, MaxNLocator

from replication.attention import look_of, mechanism
from replication.style import SMALL, WIDTH, grid, legend, line, log_ticks

LEVELS = {
    "frequencies": {"label": "knows the frequencies", "color": "0.5", "ls": (0, (1, 2))},
    "bag": {"label": "knows which digits, not their order", "color": "0.25", "ls": (0, (5, 2))},
}
"""The lines of what a model loses that knows no more than this."""
ENDS, DROP = "earlier replication, end of its curves", "learning rate lowered"
DASHES = {"lsh": (0, (1, 1))}
"""In place of that of the card, where in thick lines of grey it is too much like softmax's."""
COLUMNS = 4
DUE = "#7f2704"


def curves(evaluations: pd.DataFrame, drops: Mapping[int, int]) -> Figure:
    """Loss on held-out data, on a log scale, after the paper's Figure 2; one panel a length.

    By length, the learning rate falls after so many updates, where a grey line is drawn.
    """
    figure, panels = _losses(evaluations, height=3.2)
    for length, axes in panels.items():
        _draw_drop(axes, drops[length], evaluations.step[evaluations.length == length].max())
    legend(figure, panels.values())
    return figure


def _draw_drop(axes: Axes, drop: int, end: Integral) -> None:
    """Where the learning rate falls, if before the end."""
    if drop < end:
        axes.axvline(drop, color="0.6", lw=1, zorder=0, label=DROP)


def widths(wide: Any, narrow: Any) -> Figure:
    """Loss on held-out data over updates, on a log scale, a panel a mechanism, of the seeds of the
    wide model; of the narrow one to its end, which may be later."""
    rows, length = narrow.evaluations, wide.study.lengths[0]
    same = rows[(rows.length == length) & rows.seed.isin(wide.evaluations.seed)]
    names = sorted(set(wide.evaluations.attention), reverse=True)
    figure, [panels] = grid(2.4, 1, len(names), sharey=True)
    parts = ((same, narrow, {"lw": 1.0, "ls": (0, (3, 1.5)), "color": "0.35"}),
             (wide.evaluations, wide, {"lw": 1.5}))  # fmt: skip
    for axes, name in zip(panels, names, strict=True):
        for found, model, look in parts:
            label = f"width {model.study.d_model}"
            for _, one in found[found.attention == name].groupby("seed"):
                look = {"color": look_of(name).colour} | look
                axes.plot(one.step, one.eval_loss, label=label, **look)
                label = None
        _draw_drop(axes, wide.study.lr_drop_after, wide.evaluations.step.max())
        axes.set(title=look_of(name).words, xlabel="updates", yscale="log")
        axes.legend(loc="upper right")
        log_ticks(axes.yaxis)
    least = min(found.eval_loss.min() for found, *_ in parts)
    panels[0].set(ylabel="loss (nats per token)", ylim=(least / 3, None))
    return figure


def lengths(
    evaluations: pd.DataFrame,
    levels: Mapping[int, Mapping[str, float]],
    batch: int,
    published: Mapping[int, Mapping[str, float]],
) -> Figure:
    """One panel a length, after Figures 2 and 5 of the earlier replication, but on a log scale.

    By length, ``levels`` are losses per token by name, ``published`` those at which its curves
    end, by mechanism. The right-hand scale is summed over ``batch`` sequences, as theirs is.
    """
    figure, panels = _losses(evaluations, height=3.1)
    for length, axes in panels.items():
        for name, value in levels[length].items():
            axes.axhline(value, lw=1, zorder=0, **LEVELS[name])
    right = axes.secondary_yaxis("right", functions=(lambda x: x * batch, lambda x: x / batch))
    right.set_ylabel(f"loss summed over {batch}")
    right.set_ylim([batch * loss for loss in axes.get_ylim()])
    log_ticks(right.yaxis)
    shown = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    for length in panels.keys() & published.keys():
        shown[ENDS] = _draw_ends(panels[length], published[length])
    figure.legend(shown.values(), shown, loc="outside upper center", ncols=3,
                  handler_map={tuple: HandlerTuple(None)})  # fmt: skip
    return figure


def _losses(evaluations: pd.DataFrame, height: float) -> tuple[Figure, dict[int, Axes]]:
    figure, panels = _by_length(evaluations, "eval_loss", height)
    losses = evaluations.eval_loss
    for axes in panels.values():
        axes.set_yscale("log")
        axes.set_ylim(min(0.5, 0.4 * losses.min()), max(4, 1.2 * losses.max()))
        log_ticks(axes.yaxis)
    next(iter(panels.values())).set_ylabel("loss (nats per token)")
    return figure, panels


def _draw_ends(axes: Axes, ends: Mapping[str, float]) -> tuple[Line2D, ...]:
    """Hollow markers on the right; a loss below the scale stands at its foot and is written."""
    foot, drawn = 1.6 * axes.get_ylim()[0], []
    for i, (name, loss) in enumerate(ends.items()):
        place, on_scale = (0.84 + 0.1 * i, max(loss, foot)), axes.get_yaxis_transform()
        look = {"mfc": "white", "mec": look_of(name).colour, "mew": 1.3, "ms": 6, "zorder": 4}
        drawn += axes.plot(*place, look_of(name).marker, transform=on_scale, clip_on=False, **look)
        if loss < foot:
            axes.annotate(f"{loss:.2f}", place, (-6, 0), xycoords=on_scale, ha="right", va="center",
                          textcoords="offset points", size=SMALL)  # fmt: skip
    return tuple(drawn)


def _by_length(rows: pd.DataFrame, what: str, height: float) -> tuple[Figure, dict[int, Axes]]:
    """A figure with the curves of one quantity, a panel a length, in rows of ``COLUMNS``."""
    found = sorted(rows.length.unique().tolist())
    down, across = -(-len(found) // COLUMNS), min(len(found), COLUMNS)
    figure = Figure(figsize=(WIDTH, height * down))
    panels = list(figure.subplots(down, across, squeeze=False, sharey=True).flat)
    for extra in panels[len(found) :]:
        extra.remove()
    by_length = dict(zip(found, panels, strict=False))
    for length, axes in by_length.items():
        axes.set_title(f"N = {length}")
        axes.set_xlabel("updates")
        _few_ticks(axes)
        _draw_curves(axes, rows[rows.length == length], what)
    return figure, by_length


def _few_ticks(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _draw_curves(axes: Axes, rows: pd.DataFrame, quantity: str) -> None:
    names = short_names(rows.attention.unique())
    for name, group in rows.groupby("attention", sort=False):
        wide = group.pivot(index="step", columns="seed", values=quantity)
        axes.plot(wide, color=look_of(name).colour, lw=0.6, alpha=0.6)
        axes.plot(wide.index, wide.median(axis=1), label=names[name], **_line(name, len(wide)))


def short_names(attentions: Iterable[str]) -> dict[str, str]:
    """ "softmax" in place of "softmax, fused", unless another form of it is shown beside it."""
    full = {name: look_of(name).label for name in attentions}
    heads = [label.split(",")[0] for label in full.values()]
    return {name: label if heads.count(head) > 1 else head
            for (name, label), head in zip(full.items(), heads, strict=True)}  # fmt: skip


def _line(name: str, points: int) -> dict:
    """A mechanism's line, with about six markers, not where another's are."""
    every = (mechanism(name).order - 10) * points // 300, max(1, points // 6)
    look = line(look_of(name)) | {"lw": 1.8, "markevery": every, "markersize": 4.5}
    return look | ({"linestyle": DASHES[name]} if name in DASHES else {})


def side_by_side(steps: pd.DataFrame, spikes: pd.DataFrame) -> Figure:
    """Training loss and gradient norm at every update, one column a mechanism, after Figure 3 of
    the earlier replication. ``spikes`` are the rows where spikes begin; each is circled."""
    names = short_names(steps.attention.unique())
    figure, panels = grid(4.0, 2, len(names), sharex=True, sharey="row")
    for column, name in zip(panels.T, names, strict=True):
        rows, marked = (x[x.attention == name] for x in (steps, spikes))
        for axes, quantity in zip(column, ("loss", "grad_norm"), strict=True):
            for (_, one), shade in zip(rows.groupby("seed"), _shades(rows), strict=True):
                axes.plot(one.step, one[quantity], lw=0.5, color=shade)
            axes.set_yscale("log")
            log_ticks(axes.yaxis)
        column[0].scatter(marked.step, marked.loss, s=36, facecolor="none", edgecolor="0", zorder=3)
        column[0].set_title(f"{names[name]}: {len(marked)} spike{'s' * (len(marked) != 1)}")
        column[1].set_xlabel("updates")
        _few_ticks(column[1])
    panels[0, 0].set_ylabel("training loss\n(nats per token)")
    panels[1, 0].set_ylabel("gradient norm")
    return figure


def _shades(rows: pd.DataFrame) -> list[tuple]:
    """One shade of the mechanism's colour a seed, from full to pale."""
    colour, n = np.array(to_rgb(look_of(rows.attention.iloc[0]).colour)), rows.seed.nunique()
    return [tuple(colour + (1 - colour) * 0.55 * i / max(1, n - 1)) for i in range(n)]


def patterns(weights: pd.DataFrame) -> Figure:
    """Columns attention, layer, head, query, key, weight, due: one head a mechanism.

    ``due`` marks the key that holds the symbol to be written next; dots are drawn there.
    """
    names = short_names(weights.attention.unique())
    figure, [row] = grid(1.0 + WIDTH / (len(names) + 0.6), 1, len(names), sharey=True)
    for axes, name in zip(row, names, strict=True):
        rows = weights[weights.attention == name]
        wide = rows.pivot(index="query", columns="key", values="weight")
        ends = wide.columns[0], wide.columns[-1] + 1, wide.index[-1] + 1, wide.index[0]
        extent = [place - 0.5 for place in ends]
        image = axes.imshow(wide, cmap="Greys", vmin=0, vmax=weights.weight.max(),
                            extent=extent, aspect="auto")  # fmt: skip
        due = rows[rows.due]
        axes.plot(due.key, due["query"], "o", ms=4, mfc="none", mec=DUE, mew=0.9)
        axes.grid(visible=False)
        axes.set_title(f"{names[name]}\nlayer {rows.layer.iloc[0]}, head {rows['head'].iloc[0]}")
        axes.set_xlabel("position looked at")
    row[0].set_ylabel("position looking")
    figure.colorbar(image, ax=row, label="weight", shrink=0.9)
    return figure
