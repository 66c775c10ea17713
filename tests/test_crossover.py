"""Crossover: the earlier numbers, known crossovers covered, censored cases said plainly."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from replication.crossover import (
    TABLE_1,
    compare_models,
    earlier_crossover,
    earlier_method,
    fitted_crossover,
    growth_exponent,
    measured_crossover,
)
from replication.crossover.fits import last_root, weighted_coefficients, weighted_fit
from replication.crossover.growth import log_likelihood

N = 2 ** np.arange(4, 13)
LINEAR = 0.05 + 0.012 * N
SOFTMAX = 0.03 + 0.004 * N + 2e-5 * N**2
TRUE = (0.008 + math.sqrt(0.008**2 + 4 * 2e-5 * 0.02)) / 4e-5  # 402.5


def rows_of(costs, lengths=N, quantity="time_ms", rounds=1, noise=None):
    """One row a repeat; noise [lengths, rounds, contenders] is added to the logarithms."""
    noise = np.zeros((len(lengths), rounds, len(costs))) if noise is None else noise
    values = np.exp(np.log(np.stack([*costs.values()], -1))[:, None] + noise)
    length, number, name = (i.ravel() for i in np.indices(values.shape))
    return pd.DataFrame(
        {
            "contender": np.array([*costs])[name],
            "direction": "training",
            "causal": True,
            "N": np.asarray(lengths)[length],
            "round": number,
            quantity: values.ravel(),
        }
    )


def machine_noise(rng, rounds, sigma, lengths=9):
    """Lognormal repeats, rounds that slow both contenders, and 3 % of repeats far too slow."""
    shape = (lengths, rounds, 2)
    repeat, common = rng.normal(0, sigma, shape), rng.normal(0, 0.08, (*shape[:2], 1))
    return repeat + common + (rng.random(shape) < 0.03) * np.log(rng.uniform(1.5, 4, shape))


def simulated(seed, rounds=10, sigma=0.05):
    noise = machine_noise(np.random.default_rng(seed), rounds, sigma)
    return rows_of({"linear": LINEAR, "softmax": SOFTMAX}, noise=noise)


def measured(linear, softmax, lengths=N, **options):
    rows = rows_of({"linear": np.asarray(linear), "softmax": np.asarray(softmax)}, lengths)
    return measured_crossover(rows, "linear", "softmax", **options)


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


# The measured crossover -----------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [N, [100, 1000], [64, 128, 700], [7, 50, 299, 301, 9000]])
def test_crossing_of_power_laws_is_exact(lengths):
    lengths = np.array(lengths)
    assert measured(lengths / 1.0, lengths**2 / 300, lengths).at == pytest.approx(300)


def test_crossing_of_curves_is_closer_than_a_straight_line_gets():
    assert measured(LINEAR, SOFTMAX).at == pytest.approx(TRUE, rel=1e-3)
    straight = np.interp(0, np.log(SOFTMAX / LINEAR), np.log(N))
    assert abs(math.log(math.exp(straight) / TRUE)) > 0.015


def test_linear_cheaper_throughout_is_below_the_shortest():
    found = measured(N, N * 2.0)
    assert (found.status, found.at, found.crossings) == ("below", 0, 0)
    assert found.sentence() == (
        "linear is faster than softmax at every length measured, from N = 16 on"
    )


def test_linear_dearer_at_the_longest_is_beyond():
    found = measured(N * 2.0, N)
    assert (found.status, found.at, found.crossings) == ("beyond", math.inf, 0)
    assert found.sentence() == "linear is not faster than softmax at N = 4096, the longest measured"


def test_of_several_crossings_the_last_counts():
    ratio = np.array([2, 0.5, 2, 2, 0.5, 0.4, 0.3, 0.2, 0.1])
    found = measured(ratio, np.ones(9))
    assert found.crossings == 3
    assert N[3] < found.at < N[4]
    assert found.sentence().endswith("; the ratio passes 1 at 3 places, and this is the last")


def test_a_ratio_that_returns_above_1_is_not_a_crossing():
    found = measured([2, 0.5, 0.4, 2], np.ones(4), N[:4])
    assert (found.status, found.crossings) == ("beyond", 2)
    assert found.sentence().endswith("; the ratio passes 1 at 2 places, but not for good")
    once = measured([0.5, 2], np.ones(2), N[:2]).sentence()
    assert once.endswith("; the ratio passes 1 at 1 place, but not for good")


def test_equality_at_a_length_is_not_yet_cheaper():
    assert measured([4, 2, 1, 0.5, 0.25], np.ones(5), N[:5]).at == pytest.approx(N[2])
    assert measured([4, 2, 1], np.ones(3), N[:3]).status == "beyond"
    assert measured([1, 0.5], np.ones(2), N[:2]).at == pytest.approx(N[0])


def test_an_interval_may_end_outside_of_what_was_measured():
    noise = machine_noise(np.random.default_rng(5), 10, 0.08, lengths=4)
    costs = {"linear": np.array([3, 2, 1.5, 0.99]), "softmax": np.ones(4)}
    found = measured_crossover(rows_of(costs, N[:4], noise=noise), "linear", "softmax")
    assert math.isinf(found.high)
    assert "to beyond 128)" in found.sentence()
    swapped = measured_crossover(
        rows_of({"linear": 1 / costs["linear"][::-1], "softmax": np.ones(4)}, N[:4], noise=noise),
        "linear",
        "softmax",
    )
    assert "(95 % interval below 16" in swapped.sentence()


def test_memory_is_exact_and_has_no_interval():
    costs = {"linear": LINEAR * 1e4, "softmax": SOFTMAX * 1e4}
    rows = rows_of(costs, quantity="peak_bytes", rounds=7).drop(columns="round")
    found = measured_crossover(rows, "linear", "softmax", "peak_bytes")
    assert (found.low, found.high) == (None, None)
    assert found.sentence() == (
        "linear needs less memory than softmax from N = 402 on (counted exactly: no interval)"
    )
    fitted = fitted_crossover(rows, "linear", "softmax", "peak_bytes")
    assert (fitted.at, fitted.low) == (pytest.approx(TRUE), None)


def test_few_rounds_give_no_interval():
    found = measured_crossover(simulated(6, rounds=4), "linear", "softmax")
    assert (found.low, found.high) == (None, None)
    assert "(no interval: fewer than 5 rounds)" in found.sentence()


def test_lengths_of_one_contender_alone_are_left_out():
    rows = simulated(7)
    short = rows[(rows["contender"] == "linear") | (rows["N"] <= 1024)]
    found = measured_crossover(short, "linear", "softmax")
    assert found == measured_crossover(rows[rows["N"] <= 1024], "linear", "softmax")
    assert found.longest == 1024


# The fitted crossover -------------------------------------------------------------------------


def fitted(linear, softmax, lengths=N, **options):
    rows = rows_of({"linear": np.asarray(linear), "softmax": np.asarray(softmax)}, lengths)
    return fitted_crossover(rows, "linear", "softmax", **options)


def test_fitted_crossover_of_the_true_models_is_exact():
    found = fitted(LINEAR, SOFTMAX)
    assert found.at == pytest.approx(TRUE)
    assert (found.extrapolated, found.factor) == (False, 1.0)
    assert found.misfit < 1e-9
    assert "extrapolated" not in found.sentence()


def test_a_root_beyond_the_longest_is_marked():
    found = fitted(LINEAR[:5], SOFTMAX[:5], N[:5])
    assert found.at == pytest.approx(TRUE)
    assert found.extrapolated
    assert found.factor == pytest.approx(TRUE / 256)
    assert ", extrapolated 1.6 times beyond the longest measurement, N = 256;" in found.sentence()


def test_a_root_below_the_shortest_is_marked():
    found = fitted(LINEAR[5:], SOFTMAX[5:], N[5:], powers=((0, 1), (1, 2)))
    assert found.extrapolated
    assert found.factor == 1
    assert ", extrapolated below the shortest measurement, N = 512;" in found.sentence()


def test_fits_that_never_cross_say_so():
    dearer = fitted(1 + 2.0 * N, 1.0 + N, powers=((0, 1), (0, 1)))
    assert dearer.status == "beyond"
    assert "there is no N from which on linear is faster than softmax" in dearer.sentence()
    cheaper = fitted(1.0 + N, 2.0 + N, powers=((0, 1), (0, 1)))
    assert cheaper.status == "below"
    assert "linear is faster than softmax at every N," in cheaper.sentence()


def test_closed_form_is_the_weighted_regression_of_statsmodels():
    costs = SOFTMAX * np.exp(np.random.default_rng(8).normal(0, 0.05, (20, len(N))))
    for powers in ((0, 1), (0, 2), (0, 1, 2)):
        together = weighted_coefficients(N, costs, powers)
        for coefficients, cost in zip(together, costs, strict=True):
            assert coefficients == pytest.approx(weighted_fit(N, cost, powers).params, rel=1e-8)


def test_last_root_is_where_the_saving_becomes_positive_for_good():
    saved = np.random.default_rng(9).normal(size=(400, 3)) * [100, 10, 0.1]
    saved[::4, 2] = 0
    n = np.geomspace(1, 1e8, 4000)
    for root, (d0, d1, d2) in zip(last_root(saved), saved, strict=True):
        not_yet = n[d0 + d1 * n + d2 * n**2 <= 0]
        if math.isinf(root) or root == 0:
            assert not_yet.size == 0 if root == 0 else not_yet[-1] == n[-1]
        else:
            assert not_yet[-1] == pytest.approx(root, rel=6e-3)


# Noise ----------------------------------------------------------------------------------------


def test_intervals_cover_the_true_crossover():
    """500 runs of 10 rounds, repeats of 3 to 8 %: seen 95.2 % measured, 98.6 % fitted."""
    covered = np.zeros(2)
    for seed in range(500):
        rows = simulated(seed, sigma=0.03 + 0.05 * seed / 500)
        for i, crossover in enumerate((measured_crossover, fitted_crossover)):
            found = crossover(rows, "linear", "softmax", resamples=400, seed=seed)
            covered[i] += found.low <= TRUE <= found.high
    assert np.all((covered / 500 >= 0.90) & (covered / 500 <= 0.99)), covered / 500


@pytest.mark.parametrize("crossover", [measured_crossover, fitted_crossover])
def test_slow_outliers_hardly_move_the_estimate(crossover):
    rows = simulated(10, rounds=11)
    clean = crossover(rows, "linear", "softmax")
    rows.loc[(rows["round"] == 3) & (rows["contender"] == "linear"), "time_ms"] *= 50
    spoilt = crossover(rows, "linear", "softmax")
    assert spoilt.at == pytest.approx(clean.at, rel=0.06)


def test_a_slow_round_at_one_length_hardly_moves_the_fits():
    rows = simulated(10, rounds=11)
    clean = fitted_crossover(rows, "linear", "softmax"), growth_exponent(rows, "linear")
    rows.loc[(rows["round"] == 3) & (rows["N"] == 4096), "time_ms"] *= 50
    spoilt = fitted_crossover(rows, "linear", "softmax"), growth_exponent(rows, "linear")
    assert spoilt[0].at == pytest.approx(clean[0].at, rel=0.01)
    assert spoilt[0].misfit < 0.1
    assert spoilt[1].value == pytest.approx(clean[1].value, abs=0.01)


def test_what_slows_a_whole_round_does_not_matter():
    rows = simulated(11)
    speed = np.random.default_rng(12).uniform(1, 9, (N[-1] + 1, 10))
    slowed = rows.assign(time_ms=rows["time_ms"] * speed[rows["N"], rows["round"]])
    a, b = (measured_crossover(each, "linear", "softmax") for each in (rows, slowed))
    assert (a.at, a.low, a.high) == pytest.approx((b.at, b.low, b.high))


def test_estimates_repeat_with_their_seed_whatever_the_order_of_rows():
    rows = simulated(13)
    shuffled = rows.sample(frac=1, random_state=1)
    for crossover in (measured_crossover, fitted_crossover):
        first = crossover(rows, "linear", "softmax", seed=1)
        assert first == crossover(shuffled, "linear", "softmax", seed=1)
        assert first.low != crossover(rows, "linear", "softmax", seed=2).low


def test_more_rounds_and_lower_levels_narrow_the_interval():
    def width(rows, **options):
        found = measured_crossover(rows, "linear", "softmax", **options)
        return found.high / found.low

    widths = [width(simulated(14, rounds=rounds)) for rounds in (5, 20, 80)]
    assert all(wide > narrow for wide, narrow in pairwise(widths))
    assert width(simulated(14), level=0.5) < width(simulated(14), level=0.95)


def test_sentence_names_the_level():
    found = measured_crossover(simulated(15), "linear", "softmax", level=0.8)
    assert "(80 % interval " in found.sentence()


def test_sentence_of_a_measured_crossover():
    found = measured_crossover(simulated(15), "linear", "softmax")
    assert found.sentence({"softmax": "fused softmax"}) == (
        f"linear is faster than fused softmax from N = {found.at:.0f} on "
        f"(95 % interval {found.low:.0f} to {found.high:.0f})"
    )


# Bad input ------------------------------------------------------------------------------------


def changed(column, value, at=0):
    rows = simulated(16)
    rows[column] = rows[column].astype(object if isinstance(value, str | bool) else float)
    rows.loc[at, column] = value
    return rows


TWICE = pd.concat([simulated(16), simulated(16).iloc[:1]])


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (simulated(16).query("contender == 'softmax'"), 'No rows of contender "linear".*: softmax'),
        (simulated(16).iloc[:0], "Measured are: none"),
        (simulated(16).drop(columns="round"), "no column round"),
        (simulated(16).query("N == 16"), "1 lengths were measured for both linear and softmax"),
        (changed("N", 0), "N = 0.0 is no length"),
        (changed("N", 16.5), "N = 16.5 is no length"),
        (changed("time_ms", math.nan), "1 of 180 rows .* linear at N = 16: nan"),
        (changed("time_ms", math.inf), "not positive and finite"),
        (changed("time_ms", 0), "not positive and finite"),
        (changed("time_ms", -1), "not positive and finite"),
        (changed("direction", "forward"), r"mix direction \['forward', 'training'\]"),
        (changed("causal", False), r"mix causal \[False, True\]"),
        (simulated(16).drop(index=0), "at N = 16 round 0 has no row of linear"),
        (TWICE, "linear at N = 16 has several rows in round 0"),
    ],
)
@pytest.mark.parametrize("estimate", [measured_crossover, fitted_crossover, earlier_method])
def test_bad_rows_are_refused_in_words(rows, told, estimate):
    with pytest.raises(ValueError, match=told):
        estimate(rows, "linear", "softmax")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda rows: measured_crossover(rows, "linear", "linear"), "compared with itself"),
        (lambda rows: measured_crossover(rows, "linear", "softmax", "speed"), "no quantity"),
        (lambda rows: measured_crossover(rows, "linear", "softmax", "flops"), "no column flops"),
        (lambda rows: measured_crossover(rows, "linear", "softmax", level=95.0), "level=95.0"),
        (lambda rows: fitted_crossover(rows, "linear", "softmax", resamples=20), "at least 40"),
        (lambda rows: fitted_crossover(rows, "linear", "softmax", powers=((0, 1), (3,))), "powers"),
        (lambda rows: fitted_crossover(rows[rows.N < 128], "linear", "softmax"), "at least 4"),
        (lambda rows: earlier_method(rows, longest=32), "2 lengths .* at N <= 32"),
        (lambda rows: growth_exponent(rows, "lsh-4"), "Measured are: linear, softmax"),
        (lambda rows: growth_exponent(rows, "linear", shortest=2048), "at least 3 are needed"),
        (lambda rows: growth_exponent(rows, "linear", level=0.0), "level=0.0"),
        (lambda rows: compare_models(rows, "linear", shortest=64), "7 lengths .* at least 8"),
        (
            lambda rows: measured_crossover(
                rows.rename(columns={"time_ms": "peak_bytes"}), "linear", "softmax", "peak_bytes"
            ),
            "must be one value a cell",
        ),
    ],
)
def test_bad_questions_are_refused_in_words(call, told):
    with pytest.raises(ValueError, match=told):
        call(simulated(17))
