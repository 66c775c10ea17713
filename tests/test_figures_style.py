"""Every figure can be read in print: letters large enough, nothing cut, told apart in grey."""

from itertools import combinations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from crossover_cases import simulated
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from test_figures_scaling import rows
from test_figures_training import ENDS, LEVELS, evaluations

from replication.attention import contenders, mechanisms
from replication.experiments.copy_task import figures as convergence
from replication.experiments.crossover import figures as crossover
from replication.experiments.crossover.earlier import earlier_crossover, earlier_method
from replication.experiments.decoding import figures as decoding
from replication.experiments.scaling import figures as scaling
from replication.experiments.scaling.numbers import figure_1
from replication.stats import measured_crossover, ratios
from replication.style import SMALL, log_ticks, plain, use_style

OURS, THEIRS = "the same method, our rows", "the earlier replication's table"


def lengths() -> Figure:
    return convergence.lengths(evaluations(), LEVELS, 8, ENDS)


def stability() -> Figure:
    steps = evaluations().query("length == 64").rename(columns={"eval_loss": "loss"})
    return convergence.side_by_side(steps.assign(grad_norm=steps.loss), steps.iloc[:0])


def growth() -> Figure:
    return scaling.growth(pd.concat(map(rows, contenders())), figure_1())


def steps() -> Figure:
    index = pd.MultiIndex.from_product([["earlier", "paper"], [8, 16, 64]], names=["subject", "N"])
    columns = [("here", "linear"), ("here", "softmax"), ("published", "linear")]
    columns = pd.MultiIndex.from_tuples(columns, names=["where", "contender"])
    return scaling.steps(pd.DataFrame(np.geomspace(200, 2000, 18).reshape(6, 3), index, columns))


def ratio() -> Figure:
    question = simulated(1), "linear", "softmax"
    return crossover.ratios({"time": [(ratios(*question), measured_crossover(*question))]})


def extrapolations() -> Figure:
    cells = simulated(3)
    costs = cells.pivot_table("time_ms", "N", "contender", aggfunc="median")
    found = {THEIRS: earlier_crossover(), OURS: earlier_method(cells, longest=128)}
    later = {OURS: (costs, measured_crossover(cells, "linear", "softmax"))}
    units = {THEIRS: "time of 3000 steps (s)", OURS: "time per sequence (ms)"}
    return crossover.extrapolations(found, units, later, {"softmax": "softmax, theirs"})


def tokens() -> Figure:
    cells = [
        {"contender": name, "N": N, "run": i % 3, "round": i, "time_ms": slow, "disturbed": False}
        | {"state_bytes": 0 if name == "softmax-again" else 1e6 * slow}
        for N in (64, 1024, 16384)
        for name, slow in (("linear", 1), ("softmax", N / 64), ("softmax-again", N))
        for i in range(6)
    ]
    return decoding.tokens(pd.DataFrame(cells))


FIGURES = {
    "curves": lambda: convergence.curves(evaluations(), {8: 300, 64: 100}),
    "lengths": lengths,
    "stability": stability,
    "growth": growth,
    "steps": steps,
    "ratio": ratio,
    "extrapolations": extrapolations,
    "tokens": tokens,
}
"""Those of the report."""


@pytest.fixture(params=FIGURES.values(), ids=FIGURES)
def drawn(request):
    with mpl.rc_context():
        use_style()
        figure = request.param()
        figure.draw_without_rendering()
        yield figure


def test_letters_are_large_enough(drawn):
    written = [text for text in drawn.findobj(Text) if text.get_visible() and text.get_text()]
    assert len(written) > 10
    assert [text for text in written if text.get_fontsize() < SMALL] == []


def test_nothing_is_cut(drawn):
    (left, low), (right, high) = drawn.get_tightbbox().get_points()
    width, height = drawn.get_size_inches()
    slack = 0.01
    assert -slack < left < right < width + slack
    assert -slack < low < high < height + slack


def test_colours_are_told_apart_in_grey():
    colours = {name: to_rgb(card.look.colour) for name, card in mechanisms().items()}
    grey = {name: np.dot(rgb, (0.299, 0.587, 0.114)) for name, rgb in colours.items()}
    gaps = {pair: abs(grey[pair[0]] - grey[pair[1]]) for pair in combinations(grey, 2)}
    assert min(gaps.values()) > 0.06
    assert gaps["softmax", "softmax-textbook"] > 0.3


@pytest.mark.parametrize(
    ("x", "text"), [(0.01, "0.01"), (2.5, "2.5"), (1.0, "1"), (100.0, "100"), (65536.0, "65,536")]
)
def test_ticks_are_plain_numbers(x, text):
    assert plain(x) == text


@pytest.mark.parametrize(("high", "shown"), [(900, [200, 500]), (90_000, [1000, 10_000])])
def test_a_log_axis_has_more_than_one_tick(high, shown):
    axes = Figure().subplots()
    axes.set(yscale="log", ylim=(150, high))
    log_ticks(axes.yaxis)
    low, high = axes.get_ylim()
    assert [y for y in axes.get_yticks() if low <= y <= high] == shown
