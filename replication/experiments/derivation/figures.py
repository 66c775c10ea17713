"""The drawings of the derivation: products, series, feature maps, costs, sums and states."""

from collections.abc import Sequence

import ipywidgets
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from replication.attention import look_of
from replication.style import FORMS, PALETTE, SMALL, grid, in_lab, line, powers_of_two, saved

PLAIN = "0.9"
SOFTMAX, LINEAR = look_of("softmax"), look_of("linear")
OTHER = PALETTE[5]
"""For what is no mechanism of its own."""


def product_orders(N: int, C: int, M: int) -> Figure:
    """The two ways to multiply phi(Q), phi(K)^T and V, matrices drawn to scale."""
    q, k = (r"$\phi(Q)$", N, C, "$N × C$", PLAIN), (r"$\phi(K)^\top$", C, N, "$C × N$", PLAIN)
    v = ("$V$", N, M, "$N × M$", PLAIN)
    weights = (r"$\phi(Q)\,\phi(K)^\top$", N, N, "$N × N$", SOFTMAX.colour)
    sums = ("$S$", C, M, "$C × M$", LINEAR.colour)
    figure, [[left], [right]] = grid(4.4, 2)
    width = _write_product(left, ["(", q, k, ")", v, "=", weights, v], N)
    _write_product(right, [q, "(", k, v, ")", "=", q, sums], N)
    for axes, first in ((left, "left"), (right, "right")):
        axes.set_title(f"{first} product first", loc="left")
        axes.set(xlim=(0, width), ylim=(-0.62 * N, 0.52 * N), aspect="equal")
        axes.set_axis_off()
    return figure


def _write_product(axes: Axes, parts: list[str | tuple], N: int) -> float:
    """Write signs and blocks (label, rows, columns, size, colour) from left to right."""
    x = gap = 0.09 * N
    white = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    for part in parts:
        if isinstance(part, str):
            axes.text(x + 0.2 * gap, 0, part, ha="center", va="center_baseline", size=18)
            x += 1.4 * gap
            continue
        label, rows, columns, size, colour = part
        hatch, box = (None, None) if colour == PLAIN else ("///", white)  # an intermediate result
        look = {"facecolor": colour, "edgecolor": "0.2", "hatch": hatch}
        axes.add_patch(Rectangle((x, -rows / 2), columns, rows, **look))
        x += columns / 2
        axes.text(x, 0, label, ha="center", va="center", bbox=box)
        axes.text(x, -rows / 2 - 0.04 * N, size, ha="center", va="top", size=SMALL)
        x += columns / 2 + gap
    return x


def taylor_errors(rows: pd.DataFrame) -> Figure:
    """Columns r (three of them), order, features, error: the exponential's series cut off."""
    figure, [[left, right]] = grid(2.9, 1, 2, sharey=True)
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
    figure, [[value, slope, rounded]] = grid(2.5, 1, 3)
    for axes, suffix, title in ((value, "", r"$\phi(x)$"), (slope, "_slope", r"$\phi'(x)$")):
        axes.plot(shapes.x, shapes["elu" + suffix], color=LINEAR.colour, label="elu + 1")
        axes.plot(shapes.x, shapes["relu" + suffix], "--", color=OTHER, label="relu")
        axes.set(xlabel="$x$", title=title)
    value.legend()
    rounded.plot(half.x, half.exact, color="0.75", lw=4, label="exact")
    rounded.plot(half.x, half.stable, color=LINEAR.colour, label="exp(x)")
    some, zero = half[half.naive > 0], half[half.naive == 0][::3].assign(naive=half.exact.min())
    rounded.plot(some.x, some.naive, "--", color="0.1", label="elu(x) + 1")
    rounded.plot(zero.x, zero.naive, "x", ms=4, color="0.1", label="… is 0")
    rounded.set(yscale="log", xlabel=r"$x \leq 0$", title="computed in bfloat16")
    rounded.legend(loc="upper left", borderpad=0)
    return figure


def operations(rows: pd.DataFrame, D: int) -> Figure:
    """Columns form, N, counted, formula: points are counted, lines are the formulas."""
    _, [[axes]] = grid(3.0)
    for form, group in rows.groupby("form", sort=False):
        axes.plot(group.N, group.formula, **FORMS[form] | {"marker": None})
        axes.plot(group.N, group.counted, FORMS[form]["marker"], color=FORMS[form]["color"])
    axes.axvline(D**2, color="0.5", lw=1)
    axes.annotate("$N = D^2$", (D**2, 0.03), xycoords=("data", "axes fraction"), xytext=(4, 0),
                  textcoords="offset points")  # fmt: skip
    return _with_lengths(axes, rows, "FLOPs, one head, forward")


def backward_memory(rows: pd.DataFrame) -> Figure:
    """Columns form, N, peak_bytes: what forward and backward hold at once."""
    looks = {
        "all weights": {"color": "0.35", "linestyle": "--", "marker": "D"},
        "all sums": {"color": OTHER, "linestyle": ":", "marker": "P"},
        "running sums": line(LINEAR),
    }
    return _bytes(rows, looks, "peak_bytes", "peak memory, one head (KiB)")


def state_against_cache(rows: pd.DataFrame) -> Figure:
    """Columns form, N, bytes: what has to be kept between two tokens."""
    looks = {form: look | {"label": f"state, {form}"} for form, look in FORMS.items()}
    looks["softmax"]["label"] = "softmax: K and V"
    return _bytes(rows, looks, "bytes", "kept between tokens, one head (KiB)")


def _bytes(rows: pd.DataFrame, looks: dict, column: str, what: str) -> Figure:
    _, [[axes]] = grid(3.0)
    for form, group in rows.groupby("form", sort=False):
        axes.plot(group.N, group[column] / 1024, **{"label": form, **looks[form]})
    return _with_lengths(axes, rows, what)


def _with_lengths(axes: Axes, rows: pd.DataFrame, what: str) -> Figure:
    axes.set(yscale="log", ylabel=what)
    powers_of_two(axes, rows.N)
    axes.legend()
    return axes.figure


def causal_sums(weights: np.ndarray, S: np.ndarray, chosen: Sequence[int]) -> Figure:
    """The masked product [N, N], and the sizes S [N, C, M] of S_i at the chosen i, from 1."""
    N, share = len(weights), PowerNorm(0.5, 0, S.max())
    shares = [2.6, *[1] * len(chosen)]
    figure, [[left, *others]] = grid(2.7, 1, len(shares), width_ratios=shares)
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


def state_explorer(S: Tensor, Z: Tensor, out: Tensor) -> ipywidgets.VBox | Figure:
    """Play, pause, or drag a slider over the positions of one sequence: each shows S, what was
    added, Z and the output. Where nobody can click, the last of them."""
    arrays = tuple(part.detach().numpy() for part in (S, Z, out))
    if not in_lab():
        return memory(*arrays, len(S))
    play = ipywidgets.Play(min=1, max=len(S), value=1, interval=600)
    slider = ipywidgets.IntSlider(min=1, max=len(S), value=1, description="token", readout=True)
    ipywidgets.jslink((play, "value"), (slider, "value"))
    picture = ipywidgets.Image(format="png")

    def redraw(_=None) -> None:
        picture.value = saved(memory(*arrays, slider.value))

    slider.observe(redraw, "value")
    redraw()
    return ipywidgets.VBox([ipywidgets.HBox([play, slider]), picture])


def memory(S: np.ndarray, Z: np.ndarray, out: np.ndarray, i: int) -> Figure:
    """S [N, C, M], Z [N, C] and the outputs [N, M] of all positions; position i is shown, from 1.

    Scales are those of the whole sequence, so that pictures of two positions can be compared.
    """
    figure, [panels] = grid(2.6, 1, 4, width_ratios=[1.3, 1.3, 0.8, 0.8])
    largest, widest = float(np.abs(S).max()), 1.05 * float(np.abs(out).max())
    added = S[i - 1] - (S[i - 2] if i > 1 else 0)
    matrices = {f"$S_{{{i}}}$": S[i - 1], rf"added: $\phi(K_{{{i}}}) V_{{{i}}}^T$": added}
    for axes, (title, values) in zip(panels[:2], matrices.items(), strict=True):
        axes.imshow(values, cmap="PuOr_r", vmin=-largest, vmax=largest, aspect="auto")
        axes.set(title=title, xlabel="value", ylabel="feature", xticks=[], yticks=[])
        axes.grid(False)
    vectors = {"Z": (Z[i - 1], 0.0, 1.05 * float(Z.max())), "V'": (out[i - 1], -widest, widest)}
    for axes, (letter, (values, low, high)) in zip(panels[2:], vectors.items(), strict=True):
        axes.barh(np.arange(len(values)), values, color=LINEAR.colour)
        what = "feature" if letter == "Z" else "value"
        axes.set(title=f"${letter}_{{{i}}}$", xlim=(low, high), ylabel=what, yticks=[])
        axes.invert_yaxis()
    return figure
