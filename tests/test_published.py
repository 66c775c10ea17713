"""What others have published: the earlier estimate re-derived, and the paper's Figure 1."""

import math

import numpy as np
import pytest
from crossover_cases import rows_of, simulated
from scipy import stats

from replication.experiments.crossover.earlier import (
    earlier_crossover,
    earlier_method,
    earlier_steps,
    forecasts,
    last_root,
)
from replication.experiments.crossover.numbers import TABLE_1
from replication.experiments.scaling import numbers as published
from replication.stats import brief, measured_crossover, miss


def test_earlier_crossover_is_re_derived_to_four_digits():
    earlier = earlier_crossover()
    linear, softmax = earlier.fits
    assert earlier.at == pytest.approx(3148.7, abs=0.05)
    assert softmax.params == pytest.approx([225.8955, 0.0471356], rel=1e-4)
    assert linear.params == pytest.approx([597.5652, 148.2978], rel=1e-4)
    assert (softmax.rsquared, linear.rsquared) == pytest.approx((0.98981, 0.99989), abs=1e-5)
    assert softmax.resid == pytest.approx([-7.912, -1.962, 12.838, -2.963], abs=1e-3)
    assert softmax.df_resid == linear.df_resid == 2
    assert earlier.extrapolated
    assert earlier.factor == pytest.approx(49.2, abs=0.05)


def test_earlier_crossover_doubles_with_a_term_linear_in_N():
    parabola = earlier_crossover(powers=((0, 1), (0, 1, 2)))
    assert parabola.at == pytest.approx(6219.2, abs=0.05)
    assert parabola.fits[1].df_resid == 1
    assert math.isinf(parabola.high)  # one degree of freedom bounds nothing from above
    assert parabola.low < 3149


def test_earlier_times_cannot_tell_a_line_from_a_square():
    by_line = earlier_crossover(powers=((0, 1), (0, 1))).fits[1]
    by_square = earlier_crossover().fits[1]
    assert (by_line.rsquared, by_square.rsquared) == pytest.approx((0.990, 0.990), abs=5e-4)


@pytest.mark.parametrize("powers", [((0, 1), (0, 2)), ((0, 1), (0, 1, 2))])
def test_earlier_interval_ends_where_equal_costs_are_just_rejected(powers):
    earlier = earlier_crossover(powers)
    ends = np.array([earlier.low, earlier.high])
    ends = ends[np.isfinite(ends)]
    linear, softmax = (
        fit.get_prediction(ends[:, None] ** p) for fit, p in zip(earlier.fits, powers, strict=True)
    )
    saved = softmax.predicted_mean - linear.predicted_mean
    error = np.sqrt(linear.var_pred_mean + softmax.var_pred_mean)
    t = stats.t.ppf(0.975, 4 - len(powers[1]))
    assert abs(saved / error) == pytest.approx(t, rel=1e-8)


def test_earlier_interval_covers_when_its_models_are_right():
    rng, lengths, covered = np.random.default_rng(1), np.array(TABLE_1["N"]), 0
    linear, softmax = 600 + 150 * lengths, 225 + 0.05 * lengths**2
    true = max(np.roots([0.05, -150, -375]))
    for _ in range(300):
        costs = {
            "linear": linear + rng.normal(0, 40, 4),
            "softmax": softmax + rng.normal(0, 8, 4),
        }
        found = earlier_crossover(table=costs | {"N": lengths})
        covered += found.low <= true <= found.high
    assert covered / 300 >= 0.93  # at least 95 % by construction


def test_earlier_method_sees_only_short_lengths():
    costs = {name: np.array([*TABLE_1[name], 1.0]) for name in ("linear", "softmax")}
    ours = earlier_method(rows_of(costs, [*TABLE_1["N"], 4096]))
    published = earlier_crossover()
    assert (ours.at, ours.low, ours.high) == pytest.approx(
        (published.at, published.low, published.high)
    )
    assert ours.longest == 64
    assert "3149 on (95 % interval 2402 to 4558), extrapolated 49 times" in ours.sentence()


def test_earlier_method_may_find_no_crossing():
    lengths = np.array([8, 16, 32, 64])
    rows = rows_of({"linear": 1.0 + lengths, "softmax": 5.0 - lengths**2 / 1000}, lengths)
    found = earlier_method(rows)
    assert (found.status, found.at, found.low, found.extrapolated) == (
        "beyond",
        math.inf,
        None,
        True,
    )
    assert "there is no N from which on linear is faster than softmax" in found.sentence()


def test_earlier_method_on_noiseless_rows_is_exact():
    lengths = np.array([8, 16, 32, 64])
    rows = rows_of({"linear": 1.0 + lengths, "softmax": 1.0 + lengths**2 / 1000}, lengths)
    found = earlier_method(rows)
    assert (found.low, found.at, found.high) == pytest.approx((1000, 1000, 1000), rel=1e-5)


def test_last_root_is_where_the_saving_becomes_positive_for_good():
    saved = np.random.default_rng(9).normal(size=(400, 3)) * [100, 10, 0.1]
    saved[::4, 2] = 0
    n = np.geomspace(1, 1e8, 4000)
    for root, (d0, d1, d2) in zip(map(last_root, saved), saved, strict=True):
        not_yet = n[d0 + d1 * n + d2 * n**2 <= 0]
        if math.isinf(root) or root == 0:
            assert not_yet.size == 0 if root == 0 else not_yet[-1] == n[-1]
        else:
            assert not_yet[-1] == pytest.approx(root, rel=6e-3)


def test_forecasts_see_short_lengths_only_and_say_whether_they_are_of_use():
    rows = rows_of({"linear": 1.0 + np.arange(2, 9), "softmax": 0.5 + np.arange(2, 9) ** 2 / 9},
                   2 ** np.arange(2, 9))  # fmt: skip
    found = forecasts(rows, "linear", ["softmax"]).loc["softmax"]
    assert found.predicted.longest == 64
    assert found.measured.longest == 256
    assert earlier_crossover().says_where
    assert not earlier_crossover(((0, 1), (0, 1, 2))).says_where


def test_a_miss_needs_two_lengths():
    crosses = measured_crossover(simulated(1), "linear", "softmax")
    assert miss(earlier_crossover(), crosses) == pytest.approx(3148.7 / crosses.at, rel=1e-4)
    assert math.isnan(miss(None, crosses))


def test_extrapolated_crossovers_are_marked():
    assert brief(earlier_crossover()) == "3149† (2402–4558)"
    assert brief(earlier_crossover(((0, 1), (0, 1, 2)))) == "6219† (1696–∞)"
    assert brief(earlier_crossover(((0, 1), (0, 1)))) == "never"


@pytest.mark.parametrize(
    ("contender", "quantity", "slope"),
    [
        ("linear", "time_ms", 1.05),
        ("softmax", "time_ms", 1.87),
        ("linear", "peak_bytes", 1.00),
        ("softmax", "peak_bytes", 1.95),
    ],
)
def test_the_points_of_figure_1_grow_as_its_lines_do(contender, quantity, slope):
    points = published.figure_1().query(f"contender == '{contender}'")
    found = np.polyfit(np.log(points.N), np.log(points[quantity]), 1)[0]
    assert found == pytest.approx(slope, abs=0.01)


def test_figure_1_reaches_as_far_as_memory_did():
    reached = published.figure_1().groupby("contender")["N"].max()
    assert reached.to_dict() == {name: published.LONGEST[name] for name in reached.index}


def test_the_earlier_steps_are_a_3000th_of_the_earlier_seconds():
    table = earlier_steps().pivot(index="N", columns="contender", values="step_ms")
    assert table["softmax"][64] == pytest.approx(416 / 3)
    assert table["linear"][8] == pytest.approx(1738 / 3)
    assert list(table.index) == [8, 16, 32, 64]
