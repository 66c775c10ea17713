"""The widget of notebook 05: it offers what the rows hold, and redraws when a menu changes."""

from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from crossover_cases import LINEAR, SOFTMAX, N, machine_noise, rows_of
from matplotlib.figure import Figure

from replication.experiments.crossover.figures import (
    choose,
    comparable,
    crossover_explorer,
)
from replication.stats import measured_crossover

LABELS = {"linear": "linear attention", "softmax": "fused softmax"}


def run(shift=1.0, lengths=N, opponents=("softmax", "softmax-textbook"), **setting):
    """Rows of one setting; ``shift`` makes softmax cheaper and moves the crossover upwards."""
    n = np.asarray(lengths)
    linear, softmax = np.interp(n, N, LINEAR), np.interp(n, N, SOFTMAX) / shift
    costs = {"linear": linear} | {name: softmax * (i + 1) for i, name in enumerate(opponents)}
    noise = machine_noise(0, lengths=len(n), contenders=len(costs))
    usual = {"subject": "layer", "direction": "training", "causal": True, "heads": 8}
    usual |= {"head_dim": 64, "dtype": "float32", "threads": 1}
    rows = rows_of(costs, n, noise=noise).assign(**usual | setting)
    return rows.assign(peak_bytes=rows["N"] * 100.0 + 1)


def menus(widget):
    """By what stands beside them."""
    return {menu.description: menu for menu in widget.children[:3]}


def of(subject="attention layer", passes="training", heads=8, size=64, threads=1):
    """The setting of a run in words."""
    return f"{subject}, {passes}, causal, {heads} heads of {size}, float32, threads: {threads}"


# What can be asked ----------------------------------------------------------------------------


def test_a_setting_is_taken_from_the_first_run_that_has_it():
    first, again, other = run(), run(shift=2.0), run(heads=4)
    rows = comparable([first, again, other], "linear")
    assert len(rows) == len(first) + len(other)
    own = rows[rows["heads"] == 8].reset_index(drop=True)
    pd.testing.assert_frame_equal(own[[*first]], first, check_dtype=False)


def test_rivals_without_two_common_lengths_are_not_offered():
    short = run(direction="forward").query("contender != 'softmax-textbook' or N == 16")
    lonely = run(causal=False).query("contender == 'linear'")
    rows = comparable([run(), short, lonely], "linear")
    assert rows["causal"].all()
    _, offers = choose(rows, "linear", {"setting": of(passes="forward")})
    assert offers["against"] == ["softmax"]


def test_nothing_to_compare_is_told():
    with pytest.raises(ValueError, match="No contender was measured at two lengths together with"):
        comparable([run().query("contender == 'linear'")], "linear")


def test_a_wish_is_met_as_far_as_the_rows_go():
    rows = comparable([run(), run(heads=4, head_dim=32)], "linear")
    chosen, offers = choose(rows, "linear", {"setting": of(heads=4, size=32), "against": "lsh-4"})
    assert offers["setting"] == [of(), of(heads=4, size=32)]
    assert (chosen["setting"], chosen["against"]) == (of(heads=4, size=32), "softmax")
    assert offers["quantity"] == ["time_ms", "peak_bytes"]  # operations were not counted


def test_without_a_wish_the_layer_of_the_paper_is_shown():
    rows = comparable([run(subject="paper", direction="step"), run()], "linear")
    chosen, _ = choose(rows, "linear", {})
    assert chosen == {"setting": of(), "against": "softmax", "quantity": "time_ms"}


def test_the_rows_of_the_profile_are_shown_before_what_somebody_asked_for():
    rows = comparable([run(heads=2, head_dim=8, threads=2), run(), run(heads=1)], "linear")
    chosen, offers = choose(rows, "linear", {})
    assert chosen["setting"] == of(heads=2, size=8, threads=2)
    assert offers["setting"] == [chosen["setting"], of(), of(heads=1)]


@pytest.fixture(autouse=True)
def in_lab(monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "05_crossover_estimate.ipynb")


# The widget -----------------------------------------------------------------------------------


def test_the_widget_answers_what_its_menus_ask():
    rows = comparable([run()], "linear")
    *_, picture, sentence = crossover_explorer(rows, "linear", LABELS).children
    found = measured_crossover(rows, "linear", "softmax")
    assert sentence.value == f"L{found.sentence(LABELS)[1:]}."
    assert bytes(picture.value).startswith(b"\x89PNG")


def test_a_new_choice_redraws_picture_and_sentence():
    other = run(shift=3.0, heads=4)
    widget = crossover_explorer(comparable([run(), other], "linear"), "linear", LABELS)
    *_, picture, sentence = widget.children
    before = picture.value, sentence.value
    menus(widget)["setting"].value = of(heads=4)
    assert picture.value != before[0]
    found = measured_crossover(other, "linear", "softmax")
    assert sentence.value == f"L{found.sentence(LABELS)[1:]}."
    menus(widget)["setting"].value = of()
    assert (picture.value, sentence.value) == before


def test_the_page_shows_what_is_chosen():
    """A page knows the index of a choice, not its value."""
    widget = crossover_explorer(comparable([run(), run(heads=4)], "linear"), "linear", LABELS)
    for menu in menus(widget).values():
        assert menu.options[menu.get_state()["index"]][1] == menu.value
    setting = menus(widget)["setting"]
    setting.set_trait("index", 1)  # as a hand does
    assert setting.value == setting.options[1][1] == of(heads=4)
    assert setting.get_state()["index"] == 1


def test_menus_follow_one_another():
    rows = comparable([run(), run(subject="paper", direction="step", opponents=["softmax"])],
                      "linear")  # fmt: skip
    widget = crossover_explorer(rows, "linear", LABELS)
    menu = menus(widget)
    assert not menu["against"].disabled
    menu["against"].value = "softmax-textbook"
    menu["setting"].value = of("paper model", "step")
    assert menu["against"].options == (("fused softmax", "softmax"),)
    assert menu["against"].disabled


def test_memory_can_be_asked_for():
    widget = crossover_explorer(comparable([run()], "linear"), "linear", LABELS)
    menus(widget)["quantity"].value = "peak_bytes"
    assert "does not need less memory than" in widget.children[-1].value


def test_where_nobody_clicks_the_first_picture_is_shown(monkeypatch):
    rows = comparable([run()], "linear")
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    shown = crossover_explorer(rows, "linear", LABELS)
    assert isinstance(shown, Figure)
    assert shown.axes[0].get_title().startswith("attention layer, training, causal, 8 heads of 64")
    monkeypatch.setenv("JPY_SESSION_NAME", "05_crossover_estimate.ipynb")
    live = crossover_explorer(rows, "linear", LABELS)
    buffer = BytesIO()
    shown.savefig(buffer, format="png")
    assert live.children[-2].value == buffer.getvalue()
