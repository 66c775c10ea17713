"""In JupyterLab: choose a digit, how much of it is given and a temperature, and watch the model
finish it. Elsewhere, as under papermill and in a PDF, the picture that it begins with is shown;
without weights, what was saved of one digit.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from IPython.display import Image
from matplotlib.figure import Figure

from replication.experiments.images.figures import completions, picture
from replication.experiments.images.generation import drawing
from replication.experiments.images.run import task_of, trained_model, units_of
from replication.experiments.images.studies import Study
from replication.experiments.images.task import ImageTask
from replication.style import in_lab, saved

PICTURES = 14
"""How often the picture is renewed while an image is drawn."""


def explorer(
    study: Study, folder: Path | None = None, data: str = "", temperature: float = 1.0
) -> Any:
    """A widget where one can be shown, else a picture: the linear model, or the first there is."""
    units = {unit.numbers["attention"]: unit for unit in reversed(units_of([study]))}
    model = trained_model(units.get("linear", next(iter(units.values()))), folder)
    task = task_of(study, data)
    *_, last = finish(model, task, 3, 0.5, temperature)
    first = shown(task, last, 0.5)
    return _widget(model, task, first, temperature) if in_lab() else Image(first)


def as_saved(trained: Any) -> Figure:
    """The first digit that the linear model, or the first there is, has finished, large."""
    rows = trained.samples[trained.samples.image == 0]
    name = "linear" if "linear" in set(rows.attention) else rows.attention.iloc[0]
    return completions(trained._replace(samples=rows[rows.attention == name]), height=1.2)


def finish(
    model: Any, task: ImageTask, label: int, share: float, temperature: float, seed: int = 0
) -> Iterator[np.ndarray]:
    """This label's first test image, its ``share`` given: pictures meanwhile, the whole last."""
    which = int(np.flatnonzero(task.test_labels == label)[0])
    prompt = task.test[which : which + 1, : given(task, share)]
    left = task.test.shape[1] - prompt.shape[1]
    for done, values in enumerate(drawing(model, prompt, temperature, seed), 1):
        if (done - 1) % max(1, -(-left // PICTURES)) == 0 or done == left:
            yield values[0].cpu().numpy().copy()


def given(task: ImageTask, share: float) -> int:
    return min(max(1, round(share * task.test.shape[1])), task.test.shape[1])


def shown(task: ImageTask, values: Any, share: float) -> bytes:
    return saved(picture(task.picture(values), given(task, share)), dpi=100)


def _widget(model: Any, task: ImageTask, first: bytes, temperature: float) -> Any:
    import ipywidgets as w

    digit = w.ToggleButtons(options=list(range(10)), value=3, description="digit")
    once = {"continuous_update": False}  # an image for every value, not for every move of a hand
    share = w.FloatSlider(value=0.5, min=0, max=0.95, step=0.05, description="given", **once)
    heat = w.FloatSlider(
        value=temperature, min=0.1, max=1.5, step=0.1, description="temperature", **once
    )
    again, image = w.Button(description="draw another"), w.Image(value=first, format="png")
    seeds = iter(range(1, 10**9))

    def redraw(_: Any) -> None:
        for values in finish(model, task, digit.value, share.value, heat.value, next(seeds)):
            image.value = shown(task, values, share.value)

    for control in (digit, share, heat):
        control.observe(redraw, "value")
    again.on_click(redraw)
    return w.VBox([digit, share, heat, again, image])
