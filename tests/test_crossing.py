"""Where linear becomes cheaper for good, in words; and the interval of a median."""

import math
from dataclasses import replace

import numpy as np
import pytest
from crossover_cases import LINEAR, SOFTMAX, TRUE, N, machine_noise, measured, rows_of, simulated

from replication.stats import brief, measured_crossover, ratios


@pytest.mark.parametrize("lengths", [N, [100, 1000], [64, 128, 700], [7, 50, 299, 301, 9000]])
def test_crossing_of_power_laws_is_exact(lengths):
    lengths = np.array(lengths)
    assert measured(lengths / 1.0, lengths**2 / 300, lengths).at == pytest.approx(300, rel=0.01)


def test_crossing_of_curves_is_exact_to_a_hundredth():
    assert measured(LINEAR, SOFTMAX).at == pytest.approx(TRUE, rel=0.01)


def test_linear_cheaper_throughout_is_below_the_shortest():
    found = measured(N, N * 2.0)
    assert (found.status, found.at, found.crossings) == ("below", 0, 0)
    assert found.sentence().startswith(
        "linear is faster than softmax at every length measured, from N = 16 on"
    )


def test_a_brief_answer_says_at_which_lengths_it_is_open():
    found = measured(N, N * 2.0)
    assert brief(found) == f"<{N[0]}"
    assert brief(replace(found, unsure=(16, 64))) == f"<{N[0]} (open at 16, 64)"
    crossing = measured(LINEAR, SOFTMAX)
    assert brief(replace(crossing, unsure=(256,))) == brief(crossing)


def test_linear_dearer_at_the_longest_is_beyond():
    found = measured(N * 2.0, N)
    assert (found.status, found.at, found.crossings) == ("beyond", math.inf, 0)
    assert found.sentence().startswith(
        "linear is not faster than softmax at N = 4096, the longest that both reached"
    )


def test_of_several_crossings_the_last_counts():
    found = measured(np.array([2, 0.5, 2, 2, 0.5, 0.4, 0.3, 0.2, 0.1]), np.ones(9))
    assert found.crossings == 3
    assert N[3] < found.at < N[4]
    assert found.sentence().endswith("; the ratio passes 1 at 3 places, and this is the last")
    assert "‡" in brief(found)


def test_a_ratio_that_returns_above_1_is_not_a_crossing():
    found = measured([2, 0.5, 0.4, 2], np.ones(4), N[:4])
    assert (found.status, found.crossings) == ("beyond", 2)
    assert found.sentence().endswith("; the ratio passes 1 at 2 places, but not for good")


def test_an_interval_may_end_outside_of_what_was_measured():
    noise = machine_noise(5, between=0.08, lengths=4)
    costs = {"linear": np.array([3, 2, 1.5, 0.97]), "softmax": np.ones(4)}
    found = measured_crossover(rows_of(costs, N[:4], noise=noise), "linear", "softmax")
    assert math.isinf(found.high)


def test_a_crossing_at_the_shortest_length_that_noise_explains_is_told_as_such():
    found = measured(LINEAR, SOFTMAX)
    at = replace(found, at=2.1, low=0.0, high=2.4, shortest=2, crossings=1)
    assert at.sentence().endswith(
        "at every length measured above N = 2, where they cannot be told apart"
    )
    for other in (replace(at, low=2.05), replace(at, high=4.0), replace(at, at=0.0)):
        assert other.edge == ""


def test_memory_is_exact_and_has_no_interval():
    rows = rows_of({"linear": LINEAR, "softmax": SOFTMAX}, quantity="peak_bytes")
    found = measured_crossover(rows, "linear", "softmax", "peak_bytes")
    assert (found.low, found.high) == (None, None)
    assert found.sentence().endswith("from N = 402 on (counted exactly: no interval)")


def test_lengths_of_one_contender_alone_are_left_out():
    rows = simulated(3)
    alone = rows[~((rows.contender == "softmax") & (rows.N > 1024))]
    assert measured_crossover(alone, "linear", "softmax").longest == 1024


def test_intervals_cover_the_true_crossover():
    found = [measured_crossover(simulated(seed), "linear", "softmax") for seed in range(100)]
    assert 0.88 <= np.mean([x.low <= TRUE <= x.high for x in found]) <= 1


def test_a_lower_level_narrows_the_interval_and_the_sentence_names_it():
    wide, narrow = (measured_crossover(simulated(15), "linear", "softmax", level=level)
                    for level in (0.95, 0.8))  # fmt: skip
    assert narrow.high - narrow.low < wide.high - wide.low
    assert "(80 % interval " in narrow.sentence()
    assert wide.sentence({"softmax": "fused softmax"}) == (
        f"linear is faster than fused softmax from N = {wide.at:.0f} on "
        f"(95 % interval {wide.low:.0f} to {wide.high:.0f})"
    )


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_what_is_no_estimate_is_a_dash(nothing):
    assert brief(nothing) == "–"


@pytest.mark.parametrize("seed", range(8))
def test_the_interval_holds_the_lengths_at_which_the_ratio_may_be_1(seed):
    rows = rows_of({"linear": LINEAR, "softmax": SOFTMAX}, noise=machine_noise(seed, between=0.2))
    found, table = measured_crossover(rows, "linear", "softmax"), ratios(rows, "linear", "softmax")
    unsure = table.index[(table.low <= 1) & (table.high >= 1)]
    assert found.unsure == tuple(unsure)
    slower = max(table.index[table.high < 1], default=0)
    after = [length for length in unsure if length > slower]
    assert found.low <= min(after, default=found.at) <= max(after, default=found.at) <= found.high
    assert found.low <= found.at <= found.high
