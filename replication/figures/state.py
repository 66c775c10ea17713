"""The memory of the RNN after one token: S, what the token added to it, Z, and what is read out."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from replication.figures.style import COLOURS, WIDTH


def memory(S: np.ndarray, Z: np.ndarray, out: np.ndarray, i: int) -> Figure:
    """S [N, C, M], Z [N, C] and the outputs [N, M] of all positions; position i is shown, from 1.

    Scales are those of the whole sequence, so that pictures of two positions can be compared.
    """
    figure = Figure(figsize=(WIDTH, 2.6))
    panels = figure.subplots(1, 4, width_ratios=[1.3, 1.3, 0.8, 0.8])
    added = S[i - 1] - (S[i - 2] if i > 1 else 0)
    largest = float(np.abs(S).max())
    _matrix(panels[0], S[i - 1], largest, f"$S_{{{i}}}$")
    _matrix(panels[1], added, largest, rf"added: $\phi(K_{{{i}}}) V_{{{i}}}^T$")
    _bars(panels[2], Z[i - 1], (0.0, 1.05 * float(Z.max())), f"$Z_{{{i}}}$", "feature")
    widest = 1.05 * float(np.abs(out).max())
    _bars(panels[3], out[i - 1], (-widest, widest), f"$V'_{{{i}}}$", "value")
    return figure


def _matrix(axes: Axes, values: np.ndarray, largest: float, title: str) -> None:
    axes.imshow(values, cmap="PuOr_r", vmin=-largest, vmax=largest, aspect="auto")
    axes.set(title=title, xlabel="value", ylabel="feature", xticks=[], yticks=[])
    axes.grid(False)


def _bars(axes: Axes, values: np.ndarray, limits: tuple, title: str, what: str) -> None:
    axes.barh(np.arange(len(values)), values, color=COLOURS["linear"])
    axes.set(title=title, xlim=limits, ylabel=what, yticks=[])
    axes.invert_yaxis()
