"""The earlier estimate re-derived; exponents and models of growth."""

import math
from dataclasses import replace

import numpy as np
import pytest
from crossover_cases import SOFTMAX, N, machine_noise, rows_of, simulated
from scipy import stats

from replication.crossover import (
    TABLE_1,
    compare_models,
    earlier_crossover,
    earlier_method,
    growth_exponent,
)
from replication.crossover.growth import log_likelihood

# The earlier replication ----------------------------------------------------------------------


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
        found = earlier_method(rows_of(costs, lengths))
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


# Growth ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [1.0, 1.05, 1.87, 2.0])
@pytest.mark.parametrize("quantity", ["time_ms", "peak_bytes"])
def test_exponent_of_a_power_law_is_exact(power, quantity):
    found = growth_exponent(rows_of({"a": 3 * N**power}, quantity=quantity), "a", quantity)
    assert (found.low, found.value, found.high) == pytest.approx((power,) * 3, abs=1e-9)


def test_exponent_without_short_lengths_is_free_of_overhead():
    rows = rows_of({"a": 50.0 + N**2 / 100})
    assert growth_exponent(rows, "a").value < 1.6
    late = growth_exponent(rows, "a", shortest=512)
    assert (late.shortest, late.longest) == (512, 4096)
    assert late.value == pytest.approx(2, abs=0.02)


def test_exponent_interval_covers():
    """The lengths, not the repeats, are the evidence: each length has an error of its own."""
    rng, covered = np.random.default_rng(2), 0
    for _ in range(300):
        noise = machine_noise(rng, 10, 0.05)[..., :1] + rng.normal(0, 0.05, (len(N), 1, 1))
        found = growth_exponent(rows_of({"a": 0.01 * N**1.1}, noise=noise), "a")
        covered += found.low <= 1.1 <= found.high
    assert 0.92 <= covered / 300 <= 0.99


@pytest.mark.parametrize(("name", "powers"), [("linear", (0, 1)), ("softmax", (0, 1, 2))])
def test_model_comparison_finds_the_model_that_made_the_rows(name, powers):
    found = [compare_models(simulated(seed), name).preferred for seed in range(100)]
    assert found.count(powers) >= 90


def test_share_of_the_square_is_that_of_the_cost():
    share = compare_models(rows_of({"a": SOFTMAX}), "a").quadratic_share
    assert share == pytest.approx(2e-5 * N[-1] ** 2 / SOFTMAX[-1])


def test_an_exact_line_is_preferred_to_a_parabola():
    """Both fit to the last digit; what is left is rounding, and must not decide."""
    found = compare_models(
        rows_of({"a": 4096.0 + 2560 * N}, quantity="peak_bytes"), "a", "peak_bytes"
    )
    assert found.preferred == (0, 1)
    assert found.delta_aicc > -10


def test_likelihood_is_that_of_statsmodels():
    found = compare_models(simulated(4), "linear")
    for fit in (found.line, found.parabola):
        assert log_likelihood(fit) == pytest.approx(fit.llf)


def test_growth_sentences():
    exponent = growth_exponent(rows_of({"lsh-4": 3.0 * N}), "lsh-4").sentence({"lsh-4": "LSH"})
    assert exponent == (
        "the time of LSH grows as N^1.00 (95 % interval 1.00 to 1.00; 9 lengths from 16 to 4096)"
    )
    comparison = compare_models(rows_of({"softmax": SOFTMAX}), "softmax").sentence()
    assert comparison.startswith(
        "for the time of softmax a + b N + c N^2 is preferred to a + b N (AICc lower by "
    )
    assert comparison.endswith("c N^2 is 95 % of the fitted cost at N = 4096")


def test_a_close_comparison_says_so_and_where_the_criteria_differ():
    found = replace(compare_models(simulated(3), "linear"), delta_aicc=-1.2, delta_bic=0.6)
    assert (
        "a + b N is barely preferred to a + b N + c N^2 (AICc lower by 1.2, but BIC higher by 0.6)"
        in found.sentence()
    )
