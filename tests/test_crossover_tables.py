"""Tables of estimates: ratios, what too few lengths leave empty, and estimates in few words."""

import math

import numpy as np
import pandas as pd
import pytest
from crossover_cases import LINEAR, SOFTMAX, TRUE, N, rows_of, simulated

from replication.crossover import (
    compare_models,
    earlier_crossover,
    growth_exponent,
    measured_crossover,
)
from replication.crossover.tables import (
    FEWEST,
    brief,
    crossovers,
    forecasts,
    growth,
    miss,
    ratios,
)

NAMES = ["softmax", "lsh-4"]


def three(lengths=N, rounds=7, seed=0):
    """Noisy rows of linear, softmax and a rival that is always twice as dear as linear."""
    n = np.asarray(lengths)
    costs = {"linear": 0.05 + 0.012 * n, "softmax": 0.03 + 0.004 * n + 2e-5 * n**2}
    costs["lsh-4"] = 2 * costs["linear"]
    noise = np.random.default_rng(seed).normal(0, 0.03, (len(n), rounds, 3))
    return rows_of(costs, n, noise=noise)


# Ratios ---------------------------------------------------------------------------------------


def test_ratios_are_opponent_over_contender():
    found = ratios(rows_of({"linear": LINEAR, "softmax": SOFTMAX}, rounds=6), "linear", "softmax")
    assert [*found.index] == [*N]
    assert found.ratio.to_numpy() == pytest.approx(SOFTMAX / LINEAR)
    assert found.low.to_numpy() == pytest.approx(found.high.to_numpy())


@pytest.mark.parametrize(("rounds", "chance"), [(6, 0.9688), (7, 0.9844), (10, 0.9785)])
def test_intervals_of_ratios_cover_as_often_as_order_statistics_do(rounds, chance):
    covered = []
    for seed in range(60):
        found = ratios(simulated(seed, rounds), "linear", "softmax")
        covered += [*((found.low <= SOFTMAX / LINEAR) & (found.high >= SOFTMAX / LINEAR))]
    assert np.mean(covered) == pytest.approx(chance, abs=0.03)


def test_lower_levels_narrow_the_interval_of_a_ratio():
    wide, narrow = (ratios(simulated(1), "linear", "softmax", level=x) for x in (0.95, 0.5))
    assert ((wide.low < narrow.low) & (narrow.high < wide.high)).all()


def test_ratios_have_no_interval_without_rounds_or_noise():
    few = ratios(simulated(1, rounds=4), "linear", "softmax")
    costs = {"linear": LINEAR, "softmax": SOFTMAX}
    exact = ratios(rows_of(costs, quantity="peak_bytes"), "linear", "softmax", "peak_bytes")
    for found in (few, exact):
        assert found[["low", "high"]].isna().all(axis=None)
        assert found.ratio.notna().all()


def test_ratio_and_crossover_agree_on_who_is_cheaper():
    rows = simulated(2)
    found, at = ratios(rows, "linear", "softmax"), measured_crossover(rows, "linear", "softmax").at
    assert ((found.ratio > 1) == (found.index > at)).all()


# Tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimate", "fewest"), FEWEST.items(), ids=lambda x: getattr(x, "__name__", str(x))
)
def test_the_fewest_lengths_are_those_that_an_estimate_asks_for(estimate, fewest):
    names = ["linear", "softmax"] if "crossover" in estimate.__name__ else ["linear"]
    names = ["linear", "softmax"] if estimate.__name__ == "earlier_method" else names
    lengths = np.array([8, 16, 24, 32, 40, 48, 56, 64, 72])
    estimate(three(lengths[:fewest]), *names)
    if estimate.__name__ != "earlier_method":  # which would take three
        with pytest.raises(ValueError, match=rf"at least {fewest}"):
            estimate(three(lengths[: fewest - 1]), *names)


def test_crossovers_are_those_of_each_question():
    rows = three()
    found = crossovers(rows, "linear", NAMES, resamples=200)
    assert [*found.index] == [("softmax", "time_ms"), ("lsh-4", "time_ms")]
    asked = measured_crossover(rows, "linear", "softmax", resamples=200)
    assert found.measured["softmax", "time_ms"] == asked
    assert found.measured["lsh-4", "time_ms"].status == "below"


def test_what_too_few_lengths_leave_open_is_empty_and_absent_rivals_have_no_line():
    found = crossovers(three([8, 64, 512]), "linear", [*NAMES, "authors"])
    assert found.measured.notna().all()
    assert found.fitted.isna().all()
    assert "authors" not in found.index.get_level_values("opponent")
    assert crossovers(three([8]), "linear", NAMES).empty


def test_bad_questions_are_not_taken_for_missing_rows():
    with pytest.raises(ValueError, match="level=95"):
        crossovers(three(), "linear", NAMES, level=95.0)
    mixed = three().assign(causal=lambda rows: rows["round"] > 2)
    with pytest.raises(ValueError, match="mix causal"):
        growth(mixed, ["linear"])


def test_growth_takes_exponents_from_long_lengths_and_models_from_all():
    found = growth(three(), ["linear", "softmax"], shortest=512)
    assert (found.exponent["softmax"].shortest, found.comparison["softmax"].shortest) == (512, 16)
    assert growth(three(), ["linear"], shortest=2048).exponent.isna().all()


def test_forecasts_see_short_lengths_only():
    lengths = 2 ** np.arange(3, 12)
    rows = three(lengths)
    found = forecasts(rows, "linear", ["softmax"]).loc["softmax"]
    assert (found.predicted.longest, found.measured.longest) == (64, 2048)
    changed = rows.assign(time_ms=rows["time_ms"].mask(rows["N"] > 64, 1.0))
    again = forecasts(changed, "linear", ["softmax"]).loc["softmax"]
    assert again.predicted == found.predicted
    assert again["with b N"] == found["with b N"]
    assert again.measured != found.measured


def test_a_miss_needs_two_lengths():
    found = crossovers(three(), "linear", NAMES)
    crosses, below = found.measured
    assert miss(earlier_crossover(), crosses) == pytest.approx(3148.7 / crosses.at, rel=1e-4)
    assert math.isnan(miss(earlier_crossover(), below))
    assert math.isnan(miss(None, crosses))


# In few words ---------------------------------------------------------------------------------


def test_crossovers_in_few_words():
    rows = rows_of({"linear": LINEAR, "softmax": SOFTMAX, "dear": 3 * SOFTMAX + LINEAR}, rounds=6)
    found = {
        "below": measured_crossover(rows, "linear", "dear"),
        "beyond": measured_crossover(rows, "dear", "linear"),
        "few": measured_crossover(rows.query("round < 4"), "linear", "softmax"),
        "exact": measured_crossover(rows, "linear", "softmax"),
    }
    assert {name: brief(x) for name, x in found.items()} == {
        "below": "<16",
        "beyond": ">4096",
        "few": f"{TRUE:.0f}",
        "exact": f"{TRUE:.0f} ({TRUE:.0f}–{TRUE:.0f})",
    }


def test_extrapolated_crossovers_are_marked():
    assert brief(earlier_crossover()) == "3149† (2402–4558)"
    assert brief(earlier_crossover(((0, 1), (0, 1, 2)))) == "6219† (1696–∞)"
    assert brief(earlier_crossover(((0, 1), (0, 1)))) == "never"


def test_the_last_of_several_crossovers_is_marked():
    again = np.where(N <= 32, 0.9, np.where(N <= 256, 1.1, 0.5)) * SOFTMAX
    rows = rows_of({"linear": again, "softmax": SOFTMAX}, quantity="peak_bytes")
    assert brief(measured_crossover(rows, "linear", "softmax", "peak_bytes")).endswith("‡")


def test_growth_in_few_words():
    rows = rows_of({"line": 5.0 + N, "square": 5.0 + N + N**2 / 1000})
    assert brief(growth_exponent(rows_of({"a": 3.0 * N}), "a")) == "1.00 (1.00–1.00)"
    assert brief(compare_models(rows, "line")).startswith("line by ")
    assert brief(compare_models(rows, "line")).endswith("(0%)")
    square = brief(compare_models(rows, "square"))
    assert (square.split()[0], square.split()[-1]) == ("parabola", "(80%)")


@pytest.mark.parametrize("nothing", [None, math.nan, pd.NA])
def test_what_is_no_estimate_is_a_dash(nothing):
    assert brief(nothing) == "–"
