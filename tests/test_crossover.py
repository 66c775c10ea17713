"""Where linear becomes cheaper for good: measured between lengths, and by fits."""

import math

import numpy as np
import pytest
from crossover_cases import LINEAR, SOFTMAX, TRUE, N, machine_noise, measured, rows_of, simulated

from replication.crossover import (
    fitted_crossover,
    measured_crossover,
)
from replication.crossover.fits import last_root, weighted_coefficients, weighted_fit

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
    assert (
        found.sentence()
        == "linear is not faster than softmax at N = 4096, the longest that both reached"
    )


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
    assert "(no interval: too few rounds or runs for 95 %)" in found.sentence()


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
