"""The drawings of notebook 01: products, series, feature maps, costs, sums and states."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from replication.figures.style import COLOURS, DASHES, MARKERS, PALETTE, SMALL, WIDTH

PLAIN = "0.9"
DEGREE_2 = {"color": PALETTE[4], "linestyle": "-.", "marker": "v"}
"""Linear attention with the degree-2 features; elu + 1 has the look of "linear"."""
OTHER = PALETTE[5]
"""For what is no mechanism of its own."""


def _look(mechanism: str) -> dict:
    return {
        "color": COLOURS[mechanism],
        "linestyle": DASHES[mechanism],
        "marker": MARKERS[mechanism],
    }


def _powers_of_two(axes: Axes, values: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(values), [f"{value:,}" for value in values])
    axes.minorticks_off()


# Which product is taken first ----------------------------------------------------------------


def product_orders(N: int, C: int, M: int) -> Figure:
    """The two ways to multiply phi(Q), phi(K)^T and V, matrices drawn to scale."""
    q, k = (r"$\phi(Q)$", N, C, "$N × C$", PLAIN), (r"$\phi(K)^\top$", C, N, "$C × N$", PLAIN)
    v = ("$V$", N, M, "$N × M$", PLAIN)
    weights = (r"$\phi(Q)\,\phi(K)^\top$", N, N, "$N × N$", COLOURS["softmax"])
    sums = ("$S$", C, M, "$C × M$", COLOURS["linear"])
    figure = Figure(figsize=(WIDTH, 4.4))
    upper, lower = figure.subplots(2, 1)
    width = _write_product(upper, ["(", q, k, ")", v, "=", weights, v], N)
    _write_product(lower, [q, "(", k, v, ")", "=", q, sums], N)
    upper.set_title("left product first", loc="left")
    lower.set_title("right product first", loc="left")
    for axes in (upper, lower):
        axes.set(xlim=(0, width), ylim=(-0.62 * N, 0.52 * N), aspect="equal")
        axes.set_axis_off()
    return figure


def _write_product(axes: Axes, parts: list[str | tuple], N: int) -> float:
    """Write signs and blocks (label, rows, columns, size, colour) from left to right."""
    x = gap = 0.09 * N
    for part in parts:
        if isinstance(part, str):
            axes.text(x + 0.2 * gap, 0, part, ha="center", va="center_baseline", size=18)
            x += 1.4 * gap
        else:
            _write_block(axes, x, 0.04 * N, *part)
            x += part[2] + gap
    return x


def _write_block(axes, x, below, label, rows, columns, size, colour) -> None:
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    intermediate = colour != PLAIN
    style = {"facecolor": colour, "edgecolor": "0.2", "hatch": "///" if intermediate else None}
    axes.add_patch(Rectangle((x, -rows / 2), columns, rows, **style))
    centre = x + columns / 2
    axes.text(centre, 0, label, ha="center", va="center", bbox=box if intermediate else None)
    axes.text(centre, -rows / 2 - below, size, ha="center", va="top", size=SMALL)


# Feature maps ----------------------------------------------------------------------------------


def taylor_errors(rows: pd.DataFrame) -> Figure:
    """Columns r (three of them), order, features, error: the exponential's series cut off."""
    figure = Figure(figsize=(WIDTH, 2.9))
    left, right = figure.subplots(1, 2, sharey=True)
    lines = (("0", "-", "o"), ("0.2", "--", "s"), ("0.4", "-.", "^"))
    for (r, group), (grey, dash, marker) in zip(rows.groupby("r"), lines, strict=True):
        look = {"color": grey, "linestyle": dash, "marker": marker, "ms": 3.5, "markevery": 2}
        left.plot(group.order, group.error, label=f"$r$ = {r:g}", **look)
        right.plot(group.features, group.error, **look)
    left.set(xlabel="order of the last term", ylabel=r"largest error / $e^{\,r}$", yscale="log")
    left.set_ylim(1e-12, 3)
    left.legend(loc="lower left")
    right.set(xlabel="features needed", xscale="log")
    right.minorticks_off()
    return figure


def feature_maps(shapes: pd.DataFrame, half: pd.DataFrame) -> Figure:
    """Columns x, elu, relu, elu_slope, relu_slope; and x, exact, naive, stable in bfloat16."""
    figure = Figure(figsize=(WIDTH, 2.5))
    value, slope, rounded = figure.subplots(1, 3)
    for axes, suffix in ((value, ""), (slope, "_slope")):
        axes.plot(shapes.x, shapes["elu" + suffix], color=COLOURS["linear"], label="elu + 1")
        axes.plot(shapes.x, shapes["relu" + suffix], "--", color=OTHER, label="relu")
        axes.set_xlabel("$x$")
    value.set_title(r"$\phi(x)$")
    value.legend()
    slope.set_title(r"$\phi'(x)$")
    _rounding(rounded, half)
    return figure


def _rounding(axes: Axes, half: pd.DataFrame) -> None:
    axes.plot(half.x, half.exact, color="0.75", lw=4, label="exact")
    axes.plot(half.x, half.stable, color=COLOURS["linear"], label="exp(x)")
    some, zero = half[half.naive > 0], half[half.naive == 0][::3]
    axes.plot(some.x, some.naive, "--", color="0.1", label="elu(x) + 1")
    axes.plot(zero.x, np.full(len(zero), half.exact.min()), "x", ms=4, color="0.1", label="… is 0")
    axes.set(yscale="log", xlabel=r"$x \leq 0$", title="computed in bfloat16")
    axes.legend(loc="upper left", borderpad=0)


# Costs -----------------------------------------------------------------------------------------

FORMS = {
    "softmax": {**_look("softmax"), "label": "softmax"},
    "elu + 1": {**_look("linear"), "label": "linear, elu + 1"},
    "degree 2": {**DEGREE_2, "label": "linear, degree 2"},
}


def operations(rows: pd.DataFrame, D: int) -> Figure:
    """Columns form, N, counted, formula: points are counted, lines are the formulas."""
    figure = Figure(figsize=(WIDTH, 3.0))
    axes = figure.subplots()
    for form, group in rows.groupby("form", sort=False):
        look = dict(FORMS[form])
        marker = look.pop("marker")
        axes.plot(group.N, group.formula, **look)
        axes.plot(group.N, group.counted, marker, color=look["color"])
    axes.axvline(D**2, color="0.5", lw=1)
    axes.annotate("$N = D^2$", (D**2, 0.03), xycoords=("data", "axes fraction"), xytext=(4, 0),
                  textcoords="offset points")  # fmt: skip
    axes.set(yscale="log", xlabel="sequence length $N$", ylabel="FLOPs, one head, forward")
    _powers_of_two(axes, rows.N.unique())
    axes.legend()
    return figure


def backward_memory(rows: pd.DataFrame) -> Figure:
    """Columns form, N, peak_bytes: what forward and backward hold at once."""
    looks = {
        "all weights": {"color": "0.35", "linestyle": "--", "marker": "D"},
        "all sums": {"color": OTHER, "linestyle": ":", "marker": "P"},
        "running sums": _look("linear"),
    }
    return _bytes_against_length(rows, looks, "peak_bytes", "peak memory, one head")


def state_against_cache(rows: pd.DataFrame) -> Figure:
    """Columns form, N, bytes: what has to be kept between two tokens."""
    looks = {
        "softmax": "softmax: K and V",
        "elu + 1": "state, elu + 1",
        "degree 2": "state, degree 2",
    }
    looks = {form: {**FORMS[form], "label": label} for form, label in looks.items()}
    return _bytes_against_length(rows, looks, "bytes", "kept between tokens, one head")


def _bytes_against_length(rows: pd.DataFrame, looks: dict, column: str, what: str) -> Figure:
    figure = Figure(figsize=(WIDTH, 3.0))
    axes = figure.subplots()
    for form, group in rows.groupby("form", sort=False):
        axes.plot(group.N, group[column] / 1024, **{"label": form, **looks[form]})
    axes.set(yscale="log", xlabel="sequence length $N$", ylabel=f"{what} (KiB)")
    _powers_of_two(axes, rows.N.unique())
    axes.legend()
    return figure


# Causal sums -----------------------------------------------------------------------------------


def causal_sums(weights: np.ndarray, S: np.ndarray, chosen: Sequence[int]) -> Figure:
    """The masked product [N, N], and the sizes S [N, C, M] of S_i at the chosen i, from 1."""
    N, share = len(weights), PowerNorm(0.5, 0, S.max())
    figure = Figure(figsize=(WIDTH, 2.7))
    left, *others = figure.subplots(1, 1 + len(chosen), width_ratios=[2.6, *[1] * len(chosen)])
    hidden = np.triu(np.ones((N, N), dtype=bool), 1)
    left.imshow(np.ma.masked_where(hidden, weights), extent=(0.5, N + 0.5, N + 0.5, 0.5))
    left.set(title=r"$\phi(Q_i)^\top \phi(K_j)$, $j \leq i$", xlabel="key $j$", ylabel="query $i$")
    for axes, i in zip(others, chosen, strict=True):
        left.axhline(i, color="white", lw=0.9, ls=":")
        image = axes.imshow(S[i - 1], norm=share, aspect="auto")
        axes.set(title=f"$|S_{{{i}}}|$", xticks=[], yticks=[], xlabel="$M$")
    others[0].set_ylabel("$C$")
    figure.colorbar(image, ax=others, shrink=0.8)
    for axes in (left, *others):
        axes.grid(visible=False)
    return figure
