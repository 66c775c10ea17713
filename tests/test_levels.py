"""Estimates from recorded noise are near the truth, and their intervals contain it.

tests/data/recorded_noise.csv holds repeats of causal linear and fused softmax attention, forward
and backward, 8 heads of 64, one pinned thread of a 2-core x86 machine: CPU time over that of the
cell in quiet sessions (the mean of their lower quartiles), and whether ``clock.disturbed`` marked
them. A session is a process; quiet, light and heavy are those with less than 15, less than 65, and
more per cent disturbed.
"""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from replication import stats
from replication.stats import levels

NOISE = pd.read_csv(Path(__file__).parent / "data" / "recorded_noise.csv")
TRUE = 300.0
COST = {"linear": lambda N: N / 100, "softmax": lambda N: N**2 / (100 * TRUE)}
CELLS = ["contender", "N"]
LEAST = 6
"""Undisturbed repeats at which a simulated process stops, as one of profile quick does."""


def truth(index):
    return np.array([COST[contender](N) for contender, N in index])


def process(rows, rng, run, marked):
    """A session from a random round on, each cell until it has enough undisturbed repeats."""
    numbers = rows["round"].unique()
    turned = np.roll(numbers, rng.integers(len(numbers)))
    rows = rows.assign(run=run, round=rows["round"].map(dict(zip(turned, range(99), strict=False))))
    rows = rows.sort_values("round").assign(disturbed=rows["disturbed"].astype(bool) & marked)
    enough = (~rows["disturbed"]).groupby([rows[c] for c in CELLS]).cumsum() - ~rows["disturbed"]
    times = rows["cpu_ratio"] * truth(rows[CELLS].itertuples(index=False))
    return rows.assign(time_ms=times)[enough < LEAST]


def measurements(state, count, processes=3, marked=True, again=False):
    """No session twice, unless ``again``: two processes never share repeats."""
    sessions = [own for _, own in NOISE[NOISE["state"] == state].groupby("session")]
    for seed in range(count):
        rng = np.random.default_rng(seed)
        drawn = [sessions[i] for i in rng.choice(len(sessions), processes, replace=again)]
        yield pd.concat([process(own, rng, i, marked) for i, own in enumerate(drawn)])


def half_slowed(count, processes=3):
    """Quiet sessions in which every other repeat is slowed as in heavy ones, and nothing marked."""
    slow = NOISE[NOISE["state"] == "heavy"].groupby(CELLS)["cpu_ratio"].apply(np.array)
    for seed, rows in enumerate(measurements("quiet", count, processes, marked=False)):
        rng = np.random.default_rng(seed)
        drawn = np.array([rng.choice(slow[name, N]) for name, N in zip(rows.contender, rows.N)])  # noqa: B905
        slowed = drawn * truth(rows[CELLS].itertuples(index=False))
        yield rows.assign(time_ms=np.where(rng.random(len(rows)) < 0.5, slowed, rows["time_ms"]))


def judged(rows):
    """Errors and whether the intervals contain the truth: time, ratio, exponent, crossover."""
    time, ratio = stats.location(rows), stats.ratios(rows, "linear", "softmax")
    growth, at = (
        stats.growth_exponent(rows, "linear"),
        stats.measured_crossover(rows, "linear", "softmax"),
    )
    times = truth(time.index)
    ratios = np.array([COST["softmax"](N) / COST["linear"](N) for N in ratio.index])
    errors = [
        np.log(time["value"] / times).mean(),
        np.log(ratio["value"] / ratios).mean(),
        growth.value - 1,
        np.log(at.at / TRUE),
    ]
    inside = [
        ((time["low"] <= times) & (times <= time["high"])).mean(),
        ((ratio["low"] <= ratios) & (ratios <= ratio["high"])).mean(),
        growth.low <= 1 <= growth.high,
        at.low <= TRUE <= at.high,
    ]
    return errors, inside


def summary(simulated):
    """Bias and coverage over all measurements that give numbers, and the share that does not."""
    simulated = list(simulated)
    answered = [rows for rows in simulated if stats.location(rows)["value"].notna().all()]
    errors, inside = zip(*map(judged, answered), strict=True) if answered else ([], [])
    refused = 1 - len(answered) / len(simulated)
    return np.mean(errors, 0), np.mean(np.array(inside, float), 0), refused


def test_estimates_are_near_the_truth_and_intervals_contain_it():
    """Seen in 100 measurements of all recordings: bias at most 1.4 %, coverage 93 to 99 %."""
    for state in ("quiet", "light"):
        bias, coverage, refused = summary(measurements(state, 20))
        assert np.all(abs(bias) < 0.03), (state, bias)
        assert 0.90 <= coverage.mean() <= 0.995, (state, coverage)
        assert refused == 0


def test_what_no_counter_sees_moves_estimates_less_than_it_would_move_the_median(monkeypatch):
    """Not within 3 %: 4.1 % in time here, 2.9 % in all recordings. Marks are needed."""
    simulated = list(half_slowed(20))
    bias, _, _ = summary(simulated)
    monkeypatch.setattr(levels, "typical", lambda times: float(times.median()))
    of_median, _, _ = summary(simulated)
    assert max(abs(bias)) < 0.05
    assert max(abs(of_median)) > 1.5 * max(abs(bias)), (bias, of_median)


def test_heavy_load_gives_no_numbers():
    assert summary(measurements("heavy", 5))[2] == 1


def exact(runs=3, repeats=4):
    """Repeats without noise."""
    cells = product(COST, (32, 64, 256, 512), range(runs), range(repeats))
    rows = pd.DataFrame(cells, columns=["contender", "N", "run", "round"])
    return rows.assign(time_ms=truth(rows[CELLS].itertuples(index=False)), disturbed=False)


@pytest.mark.parametrize("runs", [1, 2, 3, 7])
def test_without_noise_all_is_exact(runs):
    rows = exact(runs, repeats=12)
    assert stats.location(rows).loc[("linear", 64)].tolist()[:3] == pytest.approx([0.64] * 3)
    assert stats.ratios(rows, "linear", "softmax")["value"][512] == pytest.approx(512 / TRUE)
    found = stats.growth_exponent(rows, "softmax")
    assert (found.low, found.value, found.high) == pytest.approx((2, 2, 2))
    assert (found.shortest, found.longest, found.lengths) == (32, 512, 4)
    assert found.misfit == pytest.approx(0, abs=1e-9)
    found = stats.measured_crossover(rows, "linear", "softmax")
    assert (found.low, found.at, found.high) == pytest.approx([TRUE] * 3, rel=0.01)


def test_misfit_is_the_distance_from_the_power_law():
    rows = exact()
    rows.loc[(rows.contender == "linear") & (rows.N == 512), "time_ms"] *= 1.5
    assert stats.growth_exponent(rows, "linear").misfit > 0.1


def test_disturbed_repeats_do_not_count():
    rows = exact()
    spoilt = rows.assign(time_ms=rows["time_ms"] * 9, disturbed=True)
    both = pd.concat([rows, spoilt], ignore_index=True)
    pd.testing.assert_frame_equal(stats.location(both), stats.location(rows))


def test_a_cell_of_which_one_process_has_values_has_no_interval_and_no_value():
    rows = exact()
    rows.loc[rows.run > 0, "disturbed"] = True
    assert stats.location(rows[rows.run < 9]).value.isna().all()
    with pytest.raises(stats.TooFewError, match="0 lengths have undisturbed repeats"):
        stats.measured_crossover(rows, "linear", "softmax")


def test_bytes_are_exact_though_one_run_alone_has_counted_them():
    rows = exact()
    rows["peak_bytes"] = np.where(rows.run == 0, rows.time_ms * 1000, np.nan)
    found = stats.growth_exponent(rows, "softmax", "peak_bytes")
    assert (found.low, found.value, found.high) == pytest.approx((2, 2, 2))
    assert stats.brief(found) in ("2.00", "2.00 (2.00–2.00)")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda rows: stats.ratios(rows, "linear", "lsh-4"), "Measured are: linear"),
        (lambda rows: stats.measured_crossover(rows, "linear", "linear"), "with itself"),
        (lambda rows: stats.growth_exponent(rows, "linear", shortest=256), "at least 3 are"),
        (lambda rows: stats.ratios(rows, "linear", "softmax", level=95.0), "level=95.0"),
        (lambda rows: stats.location(rows.assign(causal=rows.N > 64)), r"mix causal .False, True"),
        (lambda rows: stats.measured_crossover(rows[rows.N < 64], "linear", "softmax"),
         "1 lengths have undisturbed repeats enough of both linear and softmax"),
    ],
)  # fmt: skip
def test_bad_questions_are_refused_in_words(call, told):
    with pytest.raises(ValueError, match=told):
        call(exact())


def test_a_length_that_one_run_alone_reached_spoils_nothing():
    """One more cell in one of six runs once turned the exponent of all of them into NaN."""
    rows = pd.concat([_run(i, (512, 1024, 2048, 4096)) for i in range(6)])
    more = pd.concat([rows, _run(0, (8192,))])
    for asked in (rows, more):
        found = stats.growth_exponent(asked, "linear")
        assert (found.longest, found.value) == (4096, pytest.approx(1.0))


def _run(run, lengths):
    return pd.DataFrame([
        {"contender": "linear", "N": N, "run": run, "round": i, "time_ms": N / 100,
         "disturbed": False} for N in lengths for i in range(4)
    ])  # fmt: skip
