"""The drawings of notebook 03 show the rows that they receive."""

import numpy as np
import pandas as pd
import pytest

from replication.attention import look_of
from replication.experiments.copy_task import figures as draw

LEVELS = {8: {"frequencies": 2.3, "bag": 1.2}, 64: {"frequencies": 2.3, "bag": 2.2}}
DROPS = {8: 300, 64: 400}
ENDS = {8: {"softmax": 1.3, "linear": 0.0}, 64: {"softmax": 2.24, "linear": 2.19}}


def evaluations() -> pd.DataFrame:
    """Three seeds at two lengths; medians fall from 2 to 0.02 (linear) and 0.002 (softmax)."""
    cells = [
        {"attention": name, "length": N, "seed": seed, "step": step}
        | {"eval_loss": 2 * end ** (step / 400) * (1 + 0.2 * (seed - 1))}
        for name, end in (("softmax", 1e-3), ("linear", 1e-2))
        for N in (8, 64)
        for seed in range(3)
        for step in range(0, 401, 100)
    ]
    return pd.DataFrame(cells)


def median_line(axes, label: str) -> np.ndarray:
    (line,) = (line for line in axes.get_lines() if line.get_label() == label)
    return line.get_xydata()


def hollow(axes) -> dict[str, np.ndarray]:
    """By marker, where hollow ones are drawn: x on the panel, y a loss."""
    drawn = [line for line in axes.get_lines() if line.get_markerfacecolor() == "white"]
    return {line.get_marker(): line.get_xydata()[0] for line in drawn}


# Losses ---------------------------------------------------------------------------------------


def test_a_hundredfold_gap_is_seen_on_both_kinds_of_panels():
    for figure in (draw.curves(evaluations(), DROPS), draw.lengths(evaluations(), LEVELS, 8, {})):
        for axes in figure.axes[:2]:
            assert axes.get_yscale() == "log"
            assert median_line(axes, "softmax")[-1] == pytest.approx([400, 0.002])
            assert median_line(axes, "linear")[-1] == pytest.approx([400, 0.02])
            assert axes.get_ylim()[0] < 0.002 * 0.8  # the lowest seed


def test_levels_lie_in_every_panel_and_are_named_in_the_legend():
    figure = draw.lengths(evaluations(), LEVELS, 8, {})
    for axes, found in zip(figure.axes, LEVELS.values(), strict=False):
        for name, value in found.items():
            assert set(median_line(axes, draw.LEVELS[name]["label"])[:, 1]) == {value}
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "softmax", "linear", "knows the frequencies", "knows which digits, not their order",
    ]  # fmt: skip


def test_the_right_hand_scale_is_summed_over_the_batch():
    figure = draw.lengths(evaluations(), LEVELS, 8, {})
    figure.draw_without_rendering()
    (right,) = figure.axes[1].child_axes
    assert right.get_ylim() == pytest.approx([8 * y for y in figure.axes[1].get_ylim()])


def test_published_ends_are_hollow_and_in_the_legend():
    figure = draw.lengths(evaluations(), LEVELS, 8, ENDS)
    ends = hollow(figure.axes[1])
    assert ends[look_of("softmax").marker][1] == 2.24
    assert ends[look_of("linear").marker][1] == 2.19
    assert min(x for x, _ in ends.values()) > 0.8
    assert figure.legends[0].get_texts()[-1].get_text() == draw.ENDS


def test_an_end_below_the_scale_stands_at_its_foot_with_its_number():
    short = draw.lengths(evaluations(), LEVELS, 8, ENDS).axes[0]
    assert 1 < hollow(short)[look_of("linear").marker][1] / short.get_ylim()[0] < 2
    assert [text.get_text() for text in short.texts] == ["0.00"]


def test_where_the_learning_rate_falls_is_marked_unless_it_never_did():
    marked = draw.curves(evaluations(), DROPS)
    assert set(median_line(marked.axes[0], draw.DROP)[:, 0]) == {DROPS[8]}
    assert draw.DROP not in [line.get_label() for line in marked.axes[1].get_lines()]
    (legend,) = marked.legends
    assert [text.get_text() for text in legend.get_texts()] == ["softmax", "linear", draw.DROP]


def test_in_thick_lines_softmax_is_dashed_and_lsh_dotted():
    assert draw._line("softmax", 60)["linestyle"] == "--"
    assert draw._line("lsh", 60)["linestyle"] == (0, (1, 1))


# Spikes ---------------------------------------------------------------------------------------


def test_spikes_are_circled_and_counted():
    steps = evaluations().query("length == 8").rename(columns={"eval_loss": "loss"})
    steps = steps.assign(grad_norm=1.0)
    figure = draw.side_by_side(steps, steps.query("attention == 'linear' and step == 200"))
    assert [axes.get_title() for axes in figure.axes[:2]] == ["softmax: 0 spikes",
                                                              "linear: 3 spikes"]  # fmt: skip
    (circles,) = figure.axes[1].collections
    assert circles.get_offsets()[:, 0].tolist() == [200] * 3


def test_a_form_is_named_only_where_another_one_is_shown():
    assert draw.short_names(["softmax", "lsh"]) == {"softmax": "softmax", "lsh": "LSH"}
    both = draw.short_names(["softmax", "softmax-textbook", "linear"])
    assert list(both.values()) == ["softmax, fused", "softmax, textbook", "linear"]
