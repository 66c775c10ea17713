"""The drawings of notebook 04 show the rows that they receive."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from replication import attention
from replication.experiments.scaling import figures as draw
from replication.experiments.scaling import numbers as published
from replication.experiments.scaling.numbers import CONTENDERS


def rows(contender: str, direction: str = "training", causal: bool = True) -> pd.DataFrame:
    """Three runs of two repeats at three lengths; the time is N, the memory 2 N MB."""
    cells = [
        {"contender": contender, "direction": direction, "causal": causal, "N": N, "round": i}
        | {"time_ms": float(N), "peak_bytes": 2e6 * N, "disturbed": False, "run": run}
        for N in (512, 1024, 2048)
        for run in range(3)
        for i in range(2)
    ]
    return pd.DataFrame(cells)


def lines(axes, label: str) -> np.ndarray:
    """The points of the line with this label."""
    (line,) = (line for line in axes.get_lines() if line.get_label() == label)
    return line.get_xydata()


def test_every_contender_has_a_look_of_its_own():
    looks = [draw.look(name) for name in CONTENDERS]
    for part in ("color", "label"):
        assert len({look[part] for look in looks}) == len(CONTENDERS)
    assert len({look["marker"] for look in looks}) == len(CONTENDERS)
    assert to_rgb(draw.look("linear")["color"]) == to_rgb(attention.look_of("linear").colour)
    assert to_rgb(draw.look("lsh-4")["color"]) == to_rgb(attention.look_of("lsh").colour)
    assert draw.look("lsh-1")["label"] == "LSH, 1 round"
    assert set(CONTENDERS) <= set(attention.contenders())


def test_growth_shows_levels_a_sample_on_log_scales():
    time, memory = draw.growth(rows("linear")).axes
    assert lines(time, "linear") == pytest.approx(np.array([[512] * 2, [1024] * 2, [2048] * 2]))
    assert lines(memory, "linear")[:, 1] == pytest.approx([1024, 2048, 4096])
    assert {time.get_xscale(), time.get_yscale(), memory.get_yscale()} == {"log"}


def test_growth_shows_the_points_of_the_paper_in_grey():
    time, memory = draw.growth(rows("linear"), published.figure_1()).axes
    points = published.figure_1().query("contender == 'softmax'")
    assert lines(time, "paper: softmax").tolist() == points[["N", "time_ms"]].to_numpy().tolist()
    assert lines(memory, "paper: softmax")[-1, 1] == 2620
    (line,) = (x for x in time.get_lines() if x.get_label() == "paper: linear")
    assert 0 < float(line.get_color()) < 1
    assert line.get_marker() in draw.CROSSES.values()  # not to be taken for a noisy cell


def test_guides_do_not_move_the_scales():
    figure = draw.growth(rows("linear"))
    axes = figure.axes[0]
    guides = [line.get_xydata() for line in axes.get_lines() if line.get_label().startswith("_")]
    slopes = [
        np.diff(np.log(points[:, 1]))[0] / np.diff(np.log(points[:, 0]))[0]
        for points in guides
        if len(points) == 2
    ]
    assert slopes == pytest.approx([1, 2])
    low, high = axes.get_ylim()
    assert all(low <= y <= high for points in guides for y in points[:, 1])


def test_guides_and_their_names_lie_where_no_curve_does():
    table = rows("linear")
    table[["time_ms", "peak_bytes"]] /= 100
    figure = draw.growth(table, published.figure_1())
    figure.draw_without_rendering()
    for axes in figure.axes:
        curves = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
        points = np.concatenate([axes.transData.transform(x.get_xydata()) for x in curves])
        for text in axes.texts:
            assert not any(text.get_window_extent().contains(*point) for point in points)


def legend(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_contenders_without_a_claim_are_drawn_finer():
    widths = {name: draw.look(name)["lw"] for name in CONTENDERS}
    assert widths["lsh-1"] < widths["lsh-4"] == widths["linear"]
    hollow = {name for name in CONTENDERS if draw.look(name).get("mfc") == "white"}
    assert hollow == {name for name in CONTENDERS if attention.look_of(name).fine}


def test_settings_have_a_panel_each():
    table = pd.concat(
        [rows("linear", d, c) for d in ("forward", "training") for c in (True, False)]
    )
    figure = draw.settings(table, "time_ms", paper_from=512)
    assert [axes.get_title() for axes in figure.axes] == [
        "forward and backward, causal", "forward and backward, all keys",
        "forward, causal", "forward, all keys",
    ]  # fmt: skip
    assert len(draw.settings(rows("linear"), "time_ms").axes) == 1


def test_steps_show_what_was_published_beside_our_own():
    index = pd.MultiIndex.from_tuples([("earlier", 8), ("paper", 8)], names=["subject", "N"])
    columns = [("here", "linear"), ("here", "softmax"), ("published", "linear")]
    columns = pd.MultiIndex.from_tuples(columns, names=["where", "contender"])
    table = pd.DataFrame([[10.0, 5.0, 579.0], [20.0, 8.0, np.nan]], index, columns)
    earlier, paper = draw.steps(table).axes
    assert lines(earlier, "published: linear").tolist() == [[8, 579]]
    assert lines(paper, "softmax, fused").tolist() == [[8, 8]]
    assert "published: linear" not in {line.get_label() for line in paper.get_lines()}
