"""One look for all figures: colour-blind-safe, told apart in grey, readable in print."""

import os
from collections.abc import Iterable
from io import BytesIO
from numbers import Integral

import matplotlib as mpl
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from replication.attention import look_of

PALETTE = sns.color_palette("colorblind")
WIDTH = 6.3
"""Width of the text of an A4 page in inches."""
SMALL = 7.5
"""The smallest letters of a figure, in points."""


def use_style() -> None:
    """Set seaborn's and matplotlib's defaults; call once, before the first figure."""
    sns.set_theme(context="paper", style="ticks", palette="colorblind", font="DejaVu Sans")
    mpl.rcParams.update(
        {"figure.figsize": (WIDTH, 3.2), "figure.dpi": 110, "figure.constrained_layout.use": True,
         "savefig.dpi": 200, "axes.spines.top": False, "axes.spines.right": False,
         "axes.grid": True, "grid.alpha": 0.35, "font.size": 9, "axes.labelsize": 9,
         "axes.titlesize": 9.5, "legend.fontsize": 8, "xtick.labelsize": 8, "ytick.labelsize": 8,
         "legend.frameon": False, "image.cmap": "cividis", "pdf.fonttype": 42}
    )  # fmt: skip


def plain(x: float, _: int | None = None) -> str:
    """The number of a tick in full: 0.01, 100, 65,536."""
    return f"{x:,.0f}" if x >= 10 else f"{x:g}"


def log_ticks(axis: Axis, base: int = 10) -> None:
    """Plain numbers at powers of ``base``, and at 2 and 5 times those of 10 where they are few."""
    low, high = axis.get_view_interval()
    few = base == 10 and high < 300 * low
    axis.set_major_locator(LogLocator(base=base, subs=(1, 2, 5) if few else (1,)))
    axis.set_major_formatter(plain)
    axis.set_minor_locator(LogLocator(subs=range(2, 10)) if base == 10 else NullLocator())
    axis.set_minor_formatter(NullFormatter())


def powers_of_two(axes: Axes, values: Iterable[Integral], written: int = 99) -> None:
    """A logarithmic axis of lengths: each has a tick, and so many at most their numbers."""
    found = sorted(set(values))
    some = found[:: -(-len(found) // written)]
    axes.set_xscale("log", base=2)
    axes.set_xticks(some, [f"{value:,}" for value in some])
    axes.set_xticks(found, [""] * len(found), minor=True)
    axes.set_xlabel("sequence length $N$")


def line(look) -> dict:
    """What ``plot`` needs to draw a mechanism with the look of its card."""
    return {"color": look.colour, "linestyle": look.dash, "marker": look.marker}


FORMS = {
    "softmax": {"label": "softmax"} | line(look_of("softmax")),
    "elu + 1": {"label": "linear, elu + 1"} | line(look_of("linear")),
    "degree 2": {"label": "linear, degree 2", "color": PALETTE[4], "ls": "-.", "marker": "v"},
}
"""What ``plot`` needs to draw softmax beside linear attention with two feature maps."""


def grid(height: float, down: int = 1, across: int = 1, **options) -> tuple[Figure, np.ndarray]:
    """A figure as wide as the text, and its panels, row by row."""
    figure = Figure(figsize=(WIDTH, height))
    return figure, figure.subplots(down, across, squeeze=False, **options)


def legend(figure: Figure, panels: Iterable[Axes], columns: int = 4) -> None:
    """One legend for all panels, below; what several of them show stands once."""
    shown = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        shown |= dict(zip(labels, handles, strict=True))
    figure.legend(shown.values(), shown, loc="outside lower center", ncols=columns)


def in_lab() -> bool:
    """Whether somebody may be there to click: in the kernel of a notebook that JupyterLab shows."""
    return "JPY_SESSION_NAME" in os.environ


def saved(figure: Figure, form: str = "png", **options) -> bytes:
    """A figure as a file holds it, or as a widget shows it."""
    figure.savefig(buffer := BytesIO(), format=form, **options)
    return buffer.getvalue()
