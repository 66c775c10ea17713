"""The drawings of the implementations: chunks and tiles, who sees whom, spectra, ranges, costs."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle
from matplotlib.ticker import LogLocator, NullFormatter

from replication.attention import look_of
from replication.style import FORMS, SMALL, grid, line, powers_of_two

SOFTMAX, LINEAR = look_of("softmax"), look_of("linear")


def chunks_and_tiles(chunks: int, tile: int) -> Figure:
    """The causal weights of a sequence of so many chunks, ``tile`` of which make a tile."""
    figure, [[left, right]] = grid(3.3, 1, 2, width_ratios=[1, 1.25])
    _draw_weights(left, chunks, tile)
    _draw_journey(right, chunks, tile)
    for axes in (left, right):
        axes.set_axis_off()
    return figure


def _draw_weights(axes: Axes, chunks: int, tile: int) -> None:
    """Triangles are written down; the rectangles to their left are read from S."""
    for i in range(chunks):
        triangle, past = [(i, i), (i, i + 1), (i + 1, i + 1)], {"facecolor": "0.9", "hatch": ".."}
        axes.add_patch(Polygon(triangle, facecolor=SOFTMAX.colour, edgecolor="0.2"))
        axes.add_patch(Rectangle((0, i), i, 1, edgecolor="0.5", lw=0.6, **past))
        axes.text(-0.15, i + 0.5, f"{i + 1}", ha="right", va="center", size=8)
    for edge in range(tile, chunks, tile):
        axes.plot([0, edge], [edge, edge], color="0", lw=2)
    axes.set(xlim=(-0.6, chunks + 0.2), ylim=(chunks + 1.3, -0.2), aspect="equal", anchor="N")
    axes.set_title("which weight is met where", loc="left")
    axes.text(chunks * 0.98, 0.4, "later keys:\nnever touched", ha="right", va="top", size=8)
    axes.text(0, chunks + 0.25, "triangles: in the chunk, dense\ndotted: through $S$ and $Z$",
              va="top", size=8)  # fmt: skip


def _draw_journey(axes: Axes, chunks: int, tile: int) -> None:
    """S on its way through the chunks, kept at the left edge of every tile."""
    white = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    middle = {"ha": "center", "size": 8}
    for i in range(chunks):
        x = 1.5 * i
        axes.add_patch(Rectangle((x, 0), 0.8, 1, facecolor=SOFTMAX.colour, edgecolor="0.2"))
        axes.text(x + 0.4, 0.5, f"{i + 1}", va="center", bbox=white, **middle)
        _arrow(axes, (x + 0.8, 0.7), (x + 1.5, 0.7), LINEAR.colour, "-")
        _arrow(axes, (x + 1.5, 0.3), (x + 0.8, 0.3), "0.35", "--")
    for start in range(0, chunks, tile):
        x, width = 1.5 * start - 0.2, 1.5 * min(tile, chunks - start) - 0.3
        axes.add_patch(Rectangle((x, -0.45), width, 1.9, fill=False, edgecolor="0", lw=1.5))
        axes.text(x + width / 2, -0.6, f"tile {start // tile + 1}", va="top", **middle)
        axes.plot([x], [1.45], "s", color=LINEAR.colour, ms=8, clip_on=False)
    axes.text(0, 2.05, "forward: $S, Z$ travel right (solid);\na copy is kept at each square",
              size=8, va="bottom")  # fmt: skip
    axes.text(0, -1.25, "backward: Eqs. (14), (15) travel left (dashed);\n"
              "within a tile $S$ is summed again for Eq. (13)", size=8, va="top")  # fmt: skip
    axes.set(xlim=(-0.4, 1.5 * chunks + 0.1), ylim=(-3.6, 4.4))
    axes.set_title("what travels between chunks", loc="left")


def _arrow(axes: Axes, start: tuple, end: tuple, colour, dash: str) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "linestyle": dash, "lw": 1.3, "shrinkA": 0,
             "shrinkB": 0, "mutation_scale": 8}  # fmt: skip
    axes.annotate("", end, start, arrowprops=style)


def who_sees_whom(matrices: dict[tuple[str, bool], np.ndarray], what: str) -> Figure:
    """Matrices [N, N] by (mechanism, causal): exact zeros stay white, all else is coloured."""
    names = list(dict.fromkeys(name for name, _ in matrices))
    positive = np.concatenate([matrix[matrix > 0] for matrix in matrices.values()])
    share = LogNorm(np.quantile(positive, 0.01), positive.max(), clip=True)
    figure, panels = grid(3.05, 2, len(names), sharex=True, sharey=True)
    for row, causal in zip(panels, (False, True), strict=True):
        for axes, name in zip(row, names, strict=True):
            image = _show(axes, matrices[name, causal], share)
        row[0].set_ylabel(("causal" if causal else "all keys") + "\noutput $i$")
    for upper, lower, name in zip(*panels, names, strict=True):
        upper.set_title(look_of(name).label.replace(", ", ",\n"))
        lower.set_xlabel("input $j$")
    figure.colorbar(image, ax=panels, shrink=0.8, label=what, extend="min")
    return figure


def _show(axes: Axes, matrix: np.ndarray, share: LogNorm):
    N, some = len(matrix), np.ma.masked_where(matrix == 0, matrix)
    axes.grid(visible=False)
    axes.plot([0.5, N + 0.5], [0.5, N + 0.5], color="0.6", lw=0.5)
    axes.set(xticks=[1, N], yticks=[1, N])
    return axes.imshow(some, norm=share, extent=(0.5, N + 0.5, N + 0.5, 0.5), cmap="cividis_r")


def spectra(values: dict[str, np.ndarray], ranks: pd.DataFrame, C: dict[str, int]) -> Figure:
    """Singular values by form; columns form, N, rank; C distinct features by form, grey lines."""
    figure, [[left, right]] = grid(3.0, 1, 2)
    for form, spectrum in values.items():
        look = FORMS[form] | {"markevery": max(1, len(spectrum) // 8), "markersize": 4}
        left.plot(np.arange(1, len(spectrum) + 1), spectrum / spectrum[0], **look)
    left.set(xlabel="index", ylabel="singular value / largest", yscale="log", ylim=(1e-18, 3))
    left.legend(loc="center right")
    for form, group in ranks.groupby("form", sort=False):
        right.plot(group.N, group["rank"], ms=5, **FORMS[form])
    for form, size in C.items():
        if size <= ranks.N.max():
            right.axhline(size, color="0.5", lw=1, zorder=0)
            right.annotate(f"features, {form}", (ranks.N.max(), size), ha="right",
                           xytext=(0, -11), textcoords="offset points", size=SMALL)  # fmt: skip
    powers_of_two(right, ranks.N)
    right.set_yscale("log", base=2)
    right.yaxis.set_major_formatter("{x:,.0f}")
    right.set(ylabel="numerical rank", ylim=(0.6 * ranks["rank"].min(), None))
    return figure


def denominators(rows: pd.DataFrame, expected: pd.Series, limit: float) -> Figure:
    """Columns N, causal, smallest, largest; the expected value by N; the largest float16."""
    figure, [[axes]] = grid(2.9)
    looks = {False: ("all keys", "0.25", "--", "s"), True: ("causal", LINEAR.colour, "-", "o")}
    for causal, group in rows.groupby("causal"):
        label, colour, dash, marker = looks[causal]
        look = {"color": colour, "linestyle": dash, "marker": marker, "ms": 4}
        axes.fill_between(group.N, group.smallest, group.largest, color=colour, alpha=0.18, lw=0)
        axes.plot(group.N, group.smallest, label=label, **look)
        axes.plot(group.N, group.largest, **look)
    axes.plot(expected.index, expected, ":", color="0", lw=1.2, label="expected, all keys")
    axes.axhline(limit, color="0.5", lw=1)
    axes.annotate("largest float16", (rows.N.min(), limit), xytext=(0, 3), size=SMALL,
                  textcoords="offset points")  # fmt: skip
    axes.set(yscale="log", ylabel="denominator, smallest to largest")
    powers_of_two(axes, rows.N)
    axes.legend(loc="center left", bbox_to_anchor=(0.02, 0.35))
    return figure


def costs(rows: pd.DataFrame, slopes: pd.DataFrame) -> Figure:
    """Columns mechanism, N, flops, peak_bytes; slopes by mechanism, one column a quantity."""
    figure, [panels] = grid(4.3, 1, 2)
    shown = (("flops", "matrix-product FLOPs", 1), ("peak_bytes", "peak memory (MB)", 1e6))
    for axes, (quantity, title, unit) in zip(panels, shown, strict=True):
        for name, group in rows.dropna(subset=quantity).groupby("mechanism", sort=False):
            look = look_of(name)
            label = f"{look.label}: $N^{{{slopes.loc[name, quantity]:.2f}}}$"
            size = {"ms": 4, "lw": 1} if look.fine else {"ms": 7, "lw": 1.7, "mfc": "none"}
            axes.plot(group.N, group[quantity] / unit, **line(look), **size, label=label)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(base=10))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_title(title, loc="left")
        powers_of_two(axes, rows.N)
        axes.tick_params(axis="x", rotation=45)
        axes.legend(fontsize=SMALL, loc="upper center", bbox_to_anchor=(0.5, -0.3))
    return figure
