"""What notebook 05's figures show is what the estimates say."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from crossover_cases import TRUE, N, simulated
from matplotlib.collections import FillBetweenPolyCollection
from matplotlib.colors import to_rgb

from replication.attention import look_of
from replication.experiments.crossover import figures as draw
from replication.experiments.crossover.earlier import earlier_crossover, earlier_method
from replication.experiments.crossover.numbers import TABLE_1
from replication.stats import brief, measured_crossover, ratios, rounded

PARABOLA = ((0, 1), (0, 1, 2))


def compared(rows, quantity="time_ms"):
    question = rows, "linear", "softmax", quantity
    return ratios(*question), measured_crossover(*question)


def line_of(axes, text):
    """The points of the line whose label holds a text."""
    (found,) = [line for line in axes.lines if text in str(line.get_label())]
    return found.get_xydata()


def dots(axes):
    """Where crossovers are marked: black dots."""
    return [line.get_xydata()[0] for line in axes.lines if line.get_color() == "0"
            and line.get_marker() == "o"]  # fmt: skip


def crossings(axes):
    """By marker, where ratios pass 1: markers with a black edge."""
    marks = [line for line in axes.lines if line.get_markeredgecolor() == "0"]
    return {mark.get_marker(): mark.get_xydata()[0] for mark in marks}


# Ratios ---------------------------------------------------------------------------------------


def test_the_ratio_is_drawn_with_its_interval_and_crossover():
    table, found = compared(simulated(1))
    (axes,) = draw.ratios({"training": [(table, found)]}).axes
    assert line_of(axes, "softmax, fused") == pytest.approx(np.c_[N, table.value])
    (band,) = [c for c in axes.collections if isinstance(c, FillBetweenPolyCollection)]
    drawn = band.get_paths()[0].vertices
    assert drawn[:, 1].min() == pytest.approx(table.low.min())
    assert drawn[:, 1].max() == pytest.approx(table.high.max())
    assert crossings(axes) == {look_of("softmax").marker: pytest.approx([found.at, 1])}
    assert axes.get_legend().texts[0].get_text() == (
        f"softmax, fused: {rounded(found.at)} ({rounded(found.low)}–{rounded(found.high)})"
    )


def test_a_crossover_has_the_colour_and_marker_of_its_opponent():
    fused = compared(simulated(1))
    textbook = fused[0], replace(fused[1], opponent="softmax-textbook")
    (axes,) = draw.ratios({"": [fused, textbook]}).axes
    names = ("softmax", "softmax-textbook")
    assert set(crossings(axes)) == {look_of(name).marker for name in names}
    bars = [tuple(bar.get_color()[0][:3]) for bar in axes.collections if len(bar.get_paths()) == 1
            and not isinstance(bar, FillBetweenPolyCollection)]  # fmt: skip
    assert bars == [to_rgb(look_of(name).colour) for name in names]


def test_without_a_crossover_none_is_marked():
    rows = simulated(1).query("N < 200")
    table, found = compared(rows)
    (axes,) = draw.ratios({"short": [(table, found)]}).axes
    assert found.status == "beyond"
    assert crossings(axes) == {}
    assert axes.get_legend().texts[0].get_text().endswith(": >128")


def test_an_interval_without_an_end_does_not_stretch_the_axes():
    table, found = compared(simulated(1))
    (axes,) = draw.ratios({"": [(table, replace(found, low=0.0, high=math.inf))]}).axes
    assert axes.get_xlim() == pytest.approx((N[0] / 1.3, N[-1] * 1.3))
    ends = [line for line in axes.lines if line.get_marker() in ("<", ">")]
    arrows = {line.get_marker(): line.get_xdata()[0] for line in ends}
    assert arrows == {"<": 0, ">": 1}  # at the edges of the panel


def test_the_axis_names_those_that_are_compared():
    table, found = compared(simulated(1))
    tiled = table, replace(found, opponent="softmax-tiled")
    same = draw.ratios({"a": [(table, found), tiled]})
    assert same.axes[0].get_ylabel() == "time, softmax / linear"
    lsh = table, replace(found, opponent="lsh-4")
    others = draw.ratios({"a": [(table, found), lsh]})
    assert others.axes[0].get_ylabel() == "time, others / linear"


def test_one_panel_a_title_and_costs_named_where_they_differ():
    time = compared(simulated(1))
    memory = time[0], replace(time[1], quantity="peak_bytes", low=None, high=None)
    figure = draw.ratios({"a": [time], "b": [time], "c": [time]})
    assert [axes.get_title() for axes in figure.axes] == ["a", "b", "c"]
    assert figure.axes[0].get_ylabel() == "time, softmax / linear"
    mixed = draw.ratios({"a": [time], "b": [memory]})
    assert mixed.axes[0].get_ylabel() == "cost, softmax / linear"


def test_nothing_to_draw_is_told():
    with pytest.raises(ValueError, match="nothing to draw"):
        draw.ratios({})


# Fits -----------------------------------------------------------------------------------------


def test_the_earlier_points_and_crossover_are_drawn():
    figure = draw.extrapolations({"theirs": earlier_crossover()}, "s", names={"softmax": "softmax"})
    (axes,) = figure.axes
    assert line_of(axes, "linear: seen") == pytest.approx(np.c_[TABLE_1["N"], TABLE_1["linear"]])
    assert line_of(axes, "softmax: seen") == pytest.approx(np.c_[TABLE_1["N"], TABLE_1["softmax"]])
    (dot,) = dots(axes)
    assert dot == pytest.approx([3148.7, 597.57 + 148.298 * 3148.7], rel=1e-4)
    assert [text.get_text() for text in axes.texts] == ["3149† (2402–4558)"]
    assert axes.get_xlim()[1] > 4558


def test_what_no_fit_has_seen_lies_on_grey_ground():
    (axes,) = draw.extrapolations({"": earlier_crossover(PARABOLA)}, "s").axes
    (ground,) = axes.patches
    assert (ground.get_x(), ground.get_x() + ground.get_width()) == pytest.approx(
        (64, axes.get_xlim()[1])
    )


def test_fits_without_a_crossing_say_so_and_costs_below_zero_are_not_drawn():
    never = earlier_crossover(((0, 1), (0, 1)))
    (axes,) = draw.extrapolations({"": never}, "s").axes
    assert dots(axes) == []
    assert axes.texts[0].get_text() == "never"
    steep = dict(TABLE_1) | {"linear": (1.0, 2.0, 40.0, 90.0)}
    (axes,) = draw.extrapolations({"": earlier_crossover(table=steep)}, "s").axes
    assert min(np.nanmin(line.get_ydata()) for line in axes.lines) > 0


def test_what_was_measured_later_is_hollow_and_its_crossover_a_line():
    rows = simulated(3)
    predicted, found = (f(rows, "linear", "softmax", **more) for f, more in
                       ((earlier_method, {"longest": 128}), (measured_crossover, {})))  # fmt: skip
    costs = rows.pivot_table("time_ms", "N", "contender", aggfunc="median")
    (axes,) = draw.extrapolations({"ours": predicted}, "ms", {"ours": (costs, found)}).axes
    assert line_of(axes, "linear: beyond")[:, 0] == pytest.approx(N[N > 128])
    upright = [line.get_xdata()[0] for line in axes.lines if len(set(line.get_xdata())) == 1
               and len(line.get_xdata()) == 2]  # fmt: skip
    assert upright == [pytest.approx(found.at)]
    said = f"predicted: {brief(predicted)}\nmeasured: {brief(found)}"
    assert [text.get_text() for text in axes.texts] == [said]


def test_panels_with_units_of_their_own_have_axes_of_their_own():
    fits = {"theirs": earlier_crossover(), "ours": earlier_method(simulated(3), longest=128)}
    units = {"theirs": "seconds", "ours": "ms"}
    left, right = draw.extrapolations(fits, units).axes
    assert (left.get_ylabel(), right.get_ylabel()) == ("seconds", "ms")
    assert left.get_ylim() != right.get_ylim()
    left, right = draw.extrapolations(fits, "time").axes
    assert (left.get_ylabel(), right.get_ylabel()) == ("time", "")
    assert left.get_ylim() == right.get_ylim()


def test_another_s_softmax_is_named_as_theirs():
    names = {"softmax": "softmax, theirs"}
    figure = draw.extrapolations({"": earlier_crossover()}, "s", names=names)
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == ["linear: seen", "softmax, theirs: seen"]


# Coverage -------------------------------------------------------------------------------------


def test_coverage_counts_the_intervals_that_hold_the_truth():
    runs = pd.DataFrame({"method": ["measured"] * 3, "at": [400, 390, 500],
                         "low": [380, 350, 450], "high": [420, 402, 600]})  # fmt: skip
    (axes,) = draw.coverage(runs, TRUE).axes
    assert axes.get_title() == "measured: 1 of 3 cover"
    missed = [line for line in axes.lines if line.get_marker() == "X"]
    assert [*missed[0].get_xdata()] == [390, 500]


@pytest.mark.parametrize(("name", "shown"), [("lsh-4", "LSH, 4 rounds"),
                                             ("softmax", "softmax, fused"),
                                             ("authors", "linear, authors' kernel")])  # fmt: skip
def test_every_contender_has_a_name(name, shown):
    assert draw.label(name) == shown
