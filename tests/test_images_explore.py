"""The widget of notebook 06: it shows an image while the model draws it, and what is saved."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from IPython.display import Image

from replication.data import Images
from replication.experiments.images import explore, run
from replication.experiments.images.generation import drawing, generate
from replication.experiments.images.studies import STUDIES
from replication.experiments.images.task import ImageTask

STUDY = replace(STUDIES["smoke"]["mnist-7"], device="cpu")
PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def task():
    """One image of noise a digit."""
    images = np.random.default_rng(0).integers(0, 256, (10, 7, 7, 1), np.uint8)
    labels = np.arange(10, dtype=np.uint8)
    return ImageTask(Images(images, labels, images, labels), 7)


@pytest.fixture(scope="module")
def model():
    return run.new_model(next(STUDY.runs())).eval()


@pytest.fixture
def drawn(monkeypatch):
    """How many bytes the model has drawn so far."""
    count = []

    def counted(*arguments):
        for values in drawing(*arguments):
            count.append(1)
            yield values

    monkeypatch.setattr(explore, "drawing", counted)
    return count


@pytest.fixture
def widget(model, task):
    digit, share, heat, again, image = explore._widget(model, task, PNG, 1.0).children
    seen = []
    image.observe(lambda change: seen.append(bytes(change.new)), "value")
    return digit, share, heat, again, seen


def test_pictures_are_shown_while_the_model_draws(model, task, drawn):
    pictures = explore.finish(model, task, 3, 0.5, 1.0)
    first = next(pictures)
    assert len(drawn) == 1
    assert first[:24].tolist() == task.test[3, :24].tolist()
    assert first[25:].tolist() == [0] * 24
    second = next(pictures)
    assert len(drawn) == 3
    assert np.flatnonzero(second[27:]).size == 0
    *_, last = others = list(pictures)
    assert last.tolist() == generate(model, task.test[3:4, :24], 1.0, 0)[0].tolist()
    assert 8 <= len(others) + 2 <= explore.PICTURES + 1


@pytest.mark.parametrize("share", [0.0, 0.96, 1.0])
def test_what_is_given_is_at_least_a_byte_and_at_most_the_image(model, task, share):
    *_, last = explore.finish(model, task, 8, share, 1.0)
    kept = explore.given(task, share)
    assert 1 <= kept <= 49
    assert last[:kept].tolist() == task.test[8, :kept].tolist()


def test_every_control_draws_anew_picture_by_picture(widget, drawn):
    digit, share, heat, again, seen = widget
    for change in (lambda: setattr(digit, "value", 7), lambda: setattr(share, "value", 0.25),
                   lambda: setattr(heat, "value", 0.5), again.click):  # fmt: skip
        seen.clear()
        change()
        assert len(set(seen)) == len(seen) >= 10
        assert all(picture.startswith(PNG) for picture in seen)
    assert len(drawn) == (49 - 24) + 3 * (49 - 12)


def test_another_picture_is_drawn_by_other_random_numbers(widget):
    *_, again, seen = widget
    ends = []
    for _ in range(2):
        again.click()
        ends.append(seen[-1])
    assert ends[0] != ends[1]


def test_a_slider_that_is_dragged_asks_once(widget):
    assert not any(slider.continuous_update for slider in widget[1:3])


@pytest.mark.parametrize("somebody", [True, False])
def test_where_nobody_clicks_a_finished_digit_is_shown(model, task, monkeypatch, somebody):
    asked = []
    monkeypatch.setattr(explore, "trained_model", lambda unit, _: asked.append(unit) or model)
    monkeypatch.setattr(explore, "task_of", lambda *_: task)
    monkeypatch.setattr(explore, "in_lab", lambda: somebody)
    found = explore.explorer(STUDY)
    assert asked[0].numbers["attention"] == "linear"
    *_, last = explore.finish(model, task, 3, 0.5, 1.0)
    first = found.children[-1].value if somebody else found.data
    assert bytes(first) == explore.shown(task, last, 0.5)
    assert somebody or isinstance(found, Image)


@pytest.mark.parametrize(("there", "shown"), [
    (["softmax", "linear"], "linear"), (["softmax"], "softmax")])  # fmt: skip
def test_without_weights_the_digit_that_was_saved_is_shown(model, task, there, shown):
    samples = pd.concat([run.drawn(name, model, task) for name in there])
    one = run.Trained(STUDY, pd.DataFrame(), pd.DataFrame(), [], {}, samples)
    original, half, finished = explore.as_saved(one).axes
    pixels = [panel.images[0].get_array() for panel in (original, half, finished)]
    assert pixels[0].ravel().tolist() == task.test[3].tolist()
    assert pixels[1].ravel().tolist() == task.test[3, :24].tolist() + [0] * 25
    assert pixels[2].shape == (7, 3 * 7 + 2)
    mine = samples[(samples.attention == shown) & (samples.kind == "completion")].pixels.iloc[0]
    assert bytes(pixels[2][:, :7].astype(np.uint8).ravel()).hex() == mine
    assert finished.get_title().lower().startswith(shown)
