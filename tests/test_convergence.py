"""Convergence: made-up rows yield every outcome of the rule, and the statistics are right."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from convergence_cases import (
    BAD,
    GOOD,
    UPDATES,
    cell_of,
    claim_1,
    evidence_of,
    near,
    one_run,
    summary,
)
from scipy import stats
from statsmodels.stats.weightstats import ttost_paired

from replication import stats as estimates
from replication.experiments.base import INCONCLUSIVE, NOT, NOT_RUN, PARTLY, SUPPORTED, below
from replication.experiments.copy_task import EXPERIMENT, cells, rules
from replication.experiments.copy_task.numbers import ALPHA, MARGIN
from replication.experiments.copy_task.rules import (
    combine,
    compared,
    differences,
    spikes,
    stability,
    summarise,
    table,
)
from replication.experiments.copy_task.run import Evidence, copying_head
from replication.stats import bootstrap, coverage
from replication.store import to_json


def verdict(*arguments, published=UPDATES, **options):
    return claim_1(summary(*arguments, **options), published).outcome


def equivalence(values):
    return estimates.equivalence(values, MARGIN, ALPHA)


# The rule -------------------------------------------------------------------------------------


def test_equal_smooth_and_learnt_runs_support_the_claim():
    claim = claim_1(summary(near(0.006), near(0.005)), UPDATES)
    assert claim.outcome == SUPPORTED
    assert "3 of 3 linear" in claim.evidence
    assert "+0.0010 nats" in claim.evidence
    assert f"margin {MARGIN:.3f}" in claim.evidence


def test_a_loss_that_stays_above_that_of_softmax_is_partly_supported():
    assert verdict(near(0.04), near(0.001)) == PARTLY


def test_spikes_make_it_partly_supported_unless_softmax_has_as_many():
    assert verdict(near(0.006), near(0.005), spikes_at=(100, 200)) == PARTLY
    both = [one_run(a, s, spikes_at=(100, 200)) for a in ("linear", "softmax") for s in range(3)]
    runs = summarise(*map(pd.concat, zip(*both, strict=True)))
    assert claim_1(runs, UPDATES).outcome == SUPPORTED


def test_spikes_are_judged_by_the_interval_of_their_count():
    for spiky, stable in (((), True), ((100, 200), None), (range(100, 1900, 60), False)):
        cell = cell_of(claim_1(summary(near(0.006), near(0.005), spikes_at=spiky)))
        low, high = cell["spike_interval"]
        assert low <= 1000 * len(spiky) / UPDATES <= high
        assert cell["stable"] is stable
    one = pd.DataFrame({"spikes": [3, 10], "updates": [400, 600]})
    exact = stats.chi2.ppf([0.025, 0.975], [2 * 13, 2 * 14]) / 2
    assert rules.spike_interval(one) == pytest.approx(tuple(exact))


def test_a_loss_within_the_margin_that_is_many_times_that_of_softmax_is_not_the_same():
    claim = claim_1(summary(near(0.012), near(0.002)))
    assert cell_of(claim)["reaches"]
    assert cell_of(claim)["same_factor"] is False
    assert claim.outcome == PARTLY
    assert "times that of softmax" in claim.evidence
    open_yet = claim_1(summary(near(0.012), near(0.002)), 10 * UPDATES)
    assert cell_of(open_yet)["same_factor"] is None


def test_a_run_ends_with_the_mean_of_its_last_tenth():
    steps, evaluations = one_run("linear", 0)
    late = evaluations.iloc[[-1, -1]].assign(step=[0.95 * UPDATES, UPDATES], eval_loss=[0.1, 0.3])
    runs = summarise(steps, pd.concat([evaluations.iloc[:-1], late]))
    assert runs.final_loss.to_list() == [pytest.approx(0.2)]


def test_a_run_that_ends_above_its_own_lowest_loss_is_not_stable():
    for rise, stable in ((0.9 * MARGIN, True), (1.1 * MARGIN, False)):
        frames = [one_run(a, s) for a in ("linear", "softmax") for s in range(3)]
        steps, evaluations = map(pd.concat, zip(*frames, strict=True))
        first = (evaluations.attention == "linear") & (evaluations.seed == 0)
        evaluations.loc[first & (evaluations.step == UPDATES), "eval_loss"] += rise
        evaluations.loc[first & (evaluations.step == UPDATES // 2), "eval_loss"] = GOOD[0]
        runs = summarise(steps, evaluations)
        assert runs.above_lowest.max() == pytest.approx(rise)
        assert cell_of(claim_1(runs))["stable"] is stable
    claim = claim_1(runs, UPDATES)
    assert claim.outcome == PARTLY
    assert f"ends {rise:.3f} above its own lowest loss" in claim.evidence


def test_linear_that_does_not_learn_where_softmax_does_is_not_supported():
    assert verdict([BAD] * 3, near(0.001)) == NOT
    assert verdict(near(1.2), near(0.001)) == NOT


def test_before_the_published_number_of_updates_nothing_is_refuted():
    claim = claim_1(summary(near(1.2), near(0.001)), 10 * UPDATES)
    assert claim.outcome == INCONCLUSIVE
    assert f"updates: {UPDATES} of {10 * UPDATES} were made" in claim.evidence
    assert verdict(near(0.006), near(0.005), published=10 * UPDATES) == SUPPORTED
    assert verdict(near(0.04), near(0.001), published=10 * UPDATES) == PARTLY


def test_two_seeds_are_too_few_whatever_they_show():
    for linear in (near(0.002, 2), [BAD] * 2):
        claim = claim_1(summary(linear, near(0.002, 2)), UPDATES)
        assert claim.outcome == INCONCLUSIVE
        assert "at least 3 seeds" in claim.evidence


def test_seeds_must_be_paired():
    runs = summary(near(0.002), near(0.002))
    runs.loc[runs.attention == "softmax", "seed"] += 2
    assert claim_1(runs, UPDATES).outcome == INCONCLUSIVE


def test_equal_losses_of_two_that_have_not_learnt_are_no_evidence():
    claim = claim_1(summary(near(1.2), near(1.2)), UPDATES)
    assert claim.outcome == INCONCLUSIVE
    assert cell_of(claim)["difference"]["same"]
    assert "a mechanism that learns to copy" in claim.evidence


def test_linear_below_softmax_reaches_it():
    claim = claim_1(summary(near(0.002), near(1.2)), UPDATES)
    assert claim.outcome == SUPPORTED
    assert not cell_of(claim)["difference"]["same"]


def test_a_wide_interval_leaves_the_question_open():
    linear = [(0.001, 0.999), (0.001, 0.999), (0.06, 0.991)]
    claim = claim_1(summary(linear, near(0.001)), UPDATES)
    assert cell_of(claim)["reaches"] is None
    assert claim.outcome == PARTLY
    assert "for lack of more seeds" in claim.evidence


def test_a_run_that_stopped_is_neither_convergent_nor_stable():
    failures = [{"attention": "linear", "length": 32, "seed": 1, "step": 7, "diagnosis": "inf"}]
    claim = claim_1(summary(near(0.002, 4), near(0.002, 4), failures), 10 * UPDATES)
    (cell,) = claim.values["lengths"]
    assert (cell["converges"], cell["reaches"], cell["stable"]) == (False, True, False)
    assert claim.outcome == PARTLY
    assert "1 linear runs stopped early" in claim.evidence


def test_a_mechanism_that_was_not_run_leaves_the_claim_inconclusive():
    assert verdict(near(0.002), []) == INCONCLUSIVE
    assert verdict([], near(0.002)) == INCONCLUSIVE


def test_lengths_are_combined():
    assert combine([SUPPORTED, SUPPORTED]) == SUPPORTED
    assert combine([SUPPORTED, NOT]) == combine([SUPPORTED, INCONCLUSIVE]) == PARTLY
    assert combine([NOT, INCONCLUSIVE]) == NOT
    assert combine([INCONCLUSIVE]) == INCONCLUSIVE


def test_lengths_with_the_published_updates_alone_decide():
    short = summary(near(0.002), near(0.002))
    full = summary([BAD] * 3, near(0.002), length=64, updates=2 * UPDATES)
    claim = claim_1(pd.concat([short, full]), 2 * UPDATES)
    assert claim.outcome == NOT
    assert [cell["length"] for cell in claim.values["lengths"]] == [32, 64]
    assert "N = 32 decides nothing, with fewer updates" in claim.evidence
    assert claim_1(short, 2 * UPDATES).outcome == SUPPORTED
    few = summary([BAD] * 2, near(0.002, 2), length=64, updates=2 * UPDATES)
    both = claim_1(pd.concat([short, few]), 2 * UPDATES)
    assert both.outcome == SUPPORTED
    assert "N = 64 decides nothing, with 2 of 3 seeds" in both.evidence


def test_what_is_there_in_part_is_shown_in_part():
    one, alone = summary([GOOD], [GOOD]), summary([GOOD] * 3, [], length=64)
    evidence = evidence_of(pd.concat([one, alone]))
    judged = claim_1(pd.concat([one, alone])).values["lengths"]
    table = cells.overview(evidence, {"paper": judged, "earlier": judged})
    assert table["Difference (90 %)"].tolist() == ["–"] * 4
    assert table["≥ 99 %"].tolist()[:2] == ["1/1, 1/1", "3/3"]


def test_the_claim_can_be_written_down_and_read():
    for linear in (near(0.002), near(0.002, 1), [BAD] * 3):
        claim = claim_1(summary(linear, near(0.002)), UPDATES)
        text = json.dumps(claim.values, allow_nan=False)
        assert json.loads(to_json(claim.values)) == json.loads(text)


def test_a_setting_that_was_not_run_decides_nothing():
    for name, rule in EXPERIMENT.rules.items():
        more = {"opponent": "lsh"} if name == "ends_lower" else {}
        found = rule(Evidence({}), setting="earlier", **more)
        assert found == (NOT_RUN, "Not run here. The setting earlier has no rows.", {})


# E1 and C5 ------------------------------------------------------------------------------------

WIDE = [(0.001, 0.999), (0.001, 0.999), (0.08, 0.995)]


@pytest.mark.parametrize(
    ("linear", "published", "outcome"),
    [
        (near(0.004), UPDATES, NOT),
        (near(1.2), UPDATES, SUPPORTED),
        (near(1.2), 10 * UPDATES, INCONCLUSIVE),
        (WIDE, UPDATES, INCONCLUSIVE),
        (near(0.004, 2), UPDATES, INCONCLUSIVE),
    ],
)
def test_failure_to_converge_needs_an_answer_that_is_no(linear, published, outcome):
    runs = summary(linear, near(0.003, len(linear)))
    found = rules.does_not_converge(evidence_of(runs, published), setting="earlier")
    assert found.outcome == outcome


def test_failing_at_one_of_two_lengths_is_partly_failing():
    two = [summary(near(0.004), near(0.003)), summary(near(1.2), near(0.002), length=64)]
    found = rules.does_not_converge(evidence_of(pd.concat(two)), setting="earlier")
    assert (found.outcome, "times the loss, linear" in found.evidence) == (PARTLY, True)


def against_lsh(linear, lsh, **options):
    runs = summary([(x, 0.9) for x in linear], [(x, 0.9) for x in lsh], **options)
    return runs.replace({"attention": {"softmax": "lsh"}})


LINEAR = [0.10, 0.11, 0.12]


@pytest.mark.parametrize(
    ("lsh", "published", "outcome"),
    [
        ([0.5, 0.6, 0.55], 10 * UPDATES, SUPPORTED),
        ([0.01, 0.02, 0.01], UPDATES, NOT),
        ([0.01, 0.02, 0.01], 10 * UPDATES, INCONCLUSIVE),
        ([0.02, 0.9, 0.05], UPDATES, INCONCLUSIVE),
        ([0.5, 0.6], UPDATES, INCONCLUSIVE),
        ([], UPDATES, INCONCLUSIVE),
    ],
)
def test_a_lower_loss_than_lsh(lsh, published, outcome):
    found = rules.ends_lower(evidence_of(against_lsh(LINEAR, lsh), published), setting="paper",
                             opponent="lsh")  # fmt: skip
    assert found.outcome == outcome


@pytest.mark.parametrize(("lsh", "outcome"), [(0.2, SUPPORTED), (0.005, INCONCLUSIVE)])
def test_a_lower_loss_counts_only_if_it_is_lower_at_the_best_rate_of_each(lsh, outcome):
    ends = [("linear", 0.01), ("linear", 0.3), ("lsh", 0.5), ("lsh", lsh)]
    rates = pd.DataFrame(ends, None, ["attention", "final_loss"]).assign(lr=[1, 2] * 2, seed=0)
    evidence = evidence_of(against_lsh(LINEAR, [0.5, 0.6, 0.55]), UPDATES)._replace(rates=rates)
    found = rules.ends_lower(evidence, setting="paper", opponent="lsh")
    assert found.outcome == outcome
    assert f"linear ends at 0.01 and LSH at {lsh:.2g}" in found.evidence


def test_a_lower_loss_at_one_of_two_lengths_is_partly_lower():
    two = [against_lsh(LINEAR, [0.5, 0.6, 0.55]),
           against_lsh(LINEAR, [0.02, 0.9, 0.05], length=64)]  # fmt: skip
    found = rules.ends_lower(evidence_of(pd.concat(two)), setting="paper", opponent="lsh")
    assert found.outcome == PARTLY
    assert "N = 32: linear minus LSH is \u22120.44 nats per token (95 % interval" in found.evidence


# Tables ---------------------------------------------------------------------------------------


def test_a_run_is_summarised_by_its_last_evaluation():
    runs = summary([(0.3, 0.95)], [GOOD]).set_index("attention")
    assert runs.final_loss.to_dict() == {"linear": 0.3, "softmax": 0.004}
    assert runs.updates_to_99.to_dict() == {"linear": math.inf, "softmax": UPDATES}
    assert (runs.updates == UPDATES).all()
    assert runs.seconds.to_numpy() == pytest.approx(0.01 * UPDATES)
    assert (runs.grad_norm < runs.grad_norm_99).all()
    assert (runs.grad_norm_99 < runs.grad_norm_max).all()


def test_order_of_rows_does_not_matter():
    steps, evaluations = one_run("linear", 0, spikes_at=(100,))
    shuffled = (x.sample(frac=1, random_state=0) for x in (steps, evaluations))
    pd.testing.assert_frame_equal(summarise(steps, evaluations), summarise(*shuffled))


def test_spikes_are_counted_once_each():
    steps, _ = one_run("linear", 0, spikes_at=(100, 101, 102, 300))
    assert list(np.flatnonzero(spikes(steps.loss))) == [100, 300]
    smooth, _ = one_run("linear", 0)
    assert not spikes(smooth.loss).any()


def test_noise_is_no_spike_and_a_loss_that_is_not_finite_is_one():
    rng = np.random.default_rng(0)
    for level, noise in ((2.3, 0.2), (0.001, 0.02)):
        losses = pd.Series(np.abs(level + noise * rng.standard_normal(5000)))
        assert not spikes(losses).any()
    assert spikes(pd.Series([1.0, 2.5])).tolist() == [False, True]  # against those before it
    assert spikes(pd.Series([1.0, 1.0, math.nan])).tolist() == [False, False, True]


def test_stability_counts_all_runs_of_a_mechanism():
    rows = stability(summary(near(0.006), near(0.005), spikes_at=(100, 200)))
    rows = rows.set_index("attention")
    assert rows.spikes.to_dict() == {"linear": 6, "softmax": 0}
    assert rows.spikes_per_1000["linear"] == pytest.approx(1000 * 6 / (3 * UPDATES))


def test_the_table_holds_medians_and_intervals_around_them():
    rows = table(summary([(0.3, 0.95), (0.1, 0.97), (0.2, 0.96)], [GOOD] * 3))
    row = rows[(rows.attention == "linear") & (rows.quantity == "final_loss")].iloc[0]
    assert (row["median"], row.low, row.high, row.seeds) == (0.2, 0.1, 0.3, 3)
    late = rows[(rows.attention == "linear") & (rows.quantity == "updates_to_99")].iloc[0]
    assert late["median"] == late.high == math.inf


# Statistics -----------------------------------------------------------------------------------


def test_bootstrap_agrees_with_scipy():
    values = np.random.default_rng(1).gamma(2.0, size=25)
    options = {"method": "percentile", "n_resamples": 10_000, "rng": 2}
    expected = stats.bootstrap((values,), np.median, **options).confidence_interval
    assert bootstrap(values) == pytest.approx(tuple(expected), abs=0.08)


def test_bootstrap_takes_infinite_values():
    assert bootstrap([100, 200, math.inf]) == (100, math.inf)
    assert bootstrap([math.inf] * 3) == (math.inf, math.inf)


def test_coverage_is_that_of_the_extremes():
    draws = np.random.default_rng(3).standard_normal((200_000, 4))
    enclosed = (draws.min(1) < 0) & (draws.max(1) > 0)
    assert enclosed.mean() == pytest.approx(coverage(4), abs=0.005)


@pytest.mark.parametrize("shift", [-0.05, 0.0, 0.02, 0.05])
def test_equivalence_agrees_with_statsmodels_and_scipy(shift):
    a, b = 0.01 * np.random.default_rng(4).standard_normal((2, 6)) + [[shift], [0]]
    found = equivalence(a - b)
    assert found.p == pytest.approx(ttost_paired(a, b, -MARGIN, MARGIN)[0])
    tests = [stats.ttest_1samp(a - b, bound, alternative=side)
             for bound, side in ((-MARGIN, "greater"), (MARGIN, "less"))]  # fmt: skip
    assert found.p == pytest.approx(max(test.pvalue for test in tests))
    interval = stats.ttest_1samp(a - b, 0).confidence_interval(0.90)
    assert (found.low, found.high) == pytest.approx(tuple(interval))
    assert found.same == (found.p < 0.05)


def test_equivalence_of_equal_differences():
    assert equivalence([0.0, 0.0, 0.0]).same
    far = equivalence([2 * MARGIN] * 3)
    assert below(far.low, far.high, MARGIN) is False
    assert far.p == 1
    alone = equivalence([0.0])
    assert (alone.n, alone.same) == (1, False)
    assert below(alone.low, alone.high, MARGIN) is None
    assert equivalence([]).n == 0


def test_an_interval_of_the_mean_agrees_with_scipy():
    values = np.random.default_rng(6).standard_normal(5)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert estimates.mean_interval(values, 0.05) == pytest.approx(tuple(expected))


def test_differences_pair_seeds():
    runs = summary([(0.3, 0.95), (0.1, 0.97)], [(0.1, 0.97), (0.2, 0.96)])
    found = differences(runs.sample(frac=1, random_state=0))
    assert found.set_index("seed").difference.to_dict() == pytest.approx({0: 0.2, 1: -0.1})
    assert compared(runs).mean == pytest.approx(0.05)


# Heads ----------------------------------------------------------------------------------------


def test_the_head_that_looks_where_it_should_is_found():
    weights = np.random.default_rng(5).uniform(0, 0.1, size=(2, 3, 7, 7))
    due = {4: 0, 5: 1, 6: 2}
    for query, key in due.items():
        weights[1, 2, query, key] = 0.8
    weights[0, 0, 0, 0] = 1.0  # not asked for: large elsewhere
    rows = copying_head(weights, due)
    assert (rows.layer == 2).all()
    assert (rows["head"] == 3).all()
    assert dict(zip(*rows[rows.due][["query", "key"]].T.to_numpy().tolist(), strict=True)) == due
    assert (rows[rows.due].weight == 0.8).all()
    wide = rows.pivot(index="query", columns="key", values="weight")
    np.testing.assert_array_equal(wide, weights[1, 2, 4:])


def test_a_length_at_which_lsh_was_not_trained_decides_nothing_about_it():
    both = against_lsh(LINEAR, [0.5, 0.6, 0.55])
    alone = against_lsh(LINEAR, [], length=64)
    found = rules.ends_lower(evidence_of(pd.concat([both, alone])), setting="paper", opponent="lsh")
    assert (found.outcome, list(found.values)) == (SUPPORTED, ["32"])
