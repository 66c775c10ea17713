"""One look for all figures: colour-blind-safe, told apart in grey, readable in print."""

import matplotlib as mpl
import seaborn as sns

COLOURS = dict(
    zip(
        ("linear", "softmax", "softmax-textbook", "lsh", "authors"),
        (sns.color_palette("colorblind")[i] for i in (0, 1, 3, 2, 7)),
        strict=True,
    )
)
"""A mechanism has the same colour in every figure."""

MARKERS = {"linear": "o", "softmax": "s", "softmax-textbook": "D", "lsh": "^", "authors": "X"}
DASHES = {
    "linear": "-",
    "softmax": "--",
    "softmax-textbook": ":",
    "lsh": "-.",
    "authors": (0, (1, 1)),
}
LABELS = {
    "linear": "linear",
    "softmax": "softmax, fused",
    "softmax-textbook": "softmax, textbook",
    "lsh": "LSH",
    "authors": "linear, authors' kernel",
}

WIDTH = 6.3
"""Width of the text of an A4 page in inches."""


def use_style() -> None:
    """Set seaborn's and matplotlib's defaults; call once, before the first figure."""
    sns.set_theme(context="paper", style="ticks", palette="colorblind", font="DejaVu Sans")
    mpl.rcParams.update(
        {
            "figure.figsize": (WIDTH, 3.2),
            "figure.dpi": 110,
            "figure.constrained_layout.use": True,
            "savefig.dpi": 200,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.35,
            "font.size": 9,
            "axes.labelsize": 9,
            "axes.titlesize": 9.5,
            "legend.fontsize": 8,
            "xtick.labelsize": 8,
            "ytick.labelsize": 8,
            "legend.frameon": False,
            "image.cmap": "cividis",
            "pdf.fonttype": 42,
        }
    )
