"""Step through a sequence and watch the memory of the RNN; where nobody can click, a picture."""

import ipywidgets
import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from replication.explore import png, somebody_clicks
from replication.figures.state import memory


def state_explorer(S: Tensor, Z: Tensor, out: Tensor) -> ipywidgets.VBox | Figure:
    """A slider over the positions of one sequence; else the picture of the last of them."""
    arrays = tuple(part.detach().numpy() for part in (S, Z, out))
    return state_widget(*arrays) if somebody_clicks() else memory(*arrays, len(arrays[0]))


def state_widget(S: np.ndarray, Z: np.ndarray, out: np.ndarray) -> ipywidgets.VBox:
    """Play, pause, or drag; every position shows S, what was added, Z and the output."""
    N = len(S)
    play = ipywidgets.Play(min=1, max=N, value=1, interval=600)
    slider = ipywidgets.IntSlider(min=1, max=N, value=1, description="token", readout=True)
    ipywidgets.jslink((play, "value"), (slider, "value"))
    picture = ipywidgets.Image(format="png")

    def redraw(_=None) -> None:
        picture.value = png(memory(S, Z, out, slider.value))

    slider.observe(redraw, "value")
    redraw()
    return ipywidgets.VBox([ipywidgets.HBox([play, slider]), picture])
