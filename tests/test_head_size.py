"""Head sizes: which runs are made, and how the verdict on X2 follows from them."""

from dataclasses import replace

import pandas as pd
import pytest

from replication import claims, store
from replication.experiments import every
from replication.experiments.base import INCONCLUSIVE, NOT, PARTLY, SUPPORTED
from replication.experiments.head_size import figures, run
from replication.experiments.head_size.numbers import FEATURES

EXPERIMENT = every()["head_size"]


def runs(fit: float, longer: float, softmax: float, seeds: int = 3) -> pd.DataFrame:
    """Shares of words by cell, a little apart from seed to seed."""
    rows = []
    for seed in range(seeds):
        for D in (8, 32):
            for n in (14, 30):
                share = (fit if n <= D else longer) - 0.01 * seed
                rows.append({"attention": "linear", "features": D, "symbols": n, "seed": seed,
                             "exact_match": share})  # fmt: skip
        rows.append({"attention": "softmax", "features": 8, "symbols": 30, "seed": seed,
                     "exact_match": softmax - 0.01 * seed})  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("shares", "outcome"),
    [
        ((1.0, 0.2, 1.0), SUPPORTED),
        ((0.7, 0.2, 1.0), PARTLY),
        ((1.0, 0.2, 0.5), PARTLY),
        ((1.0, 0.99, 1.0), NOT),
        ((0.5, 0.9, 1.0), NOT),
    ],
)
def test_the_verdict_follows_from_shares_of_words(shares, outcome):
    assert claims.judge_with("head_size", runs(*shares))["X2"].outcome == outcome


def test_words_must_be_lost_at_every_size_at_which_they_are_longer():
    rows = runs(1.0, 0.2, 1.0)
    rows.loc[(rows.features == 8) & (rows.symbols == 14), "exact_match"] = 0.99
    found = claims.judge_with("head_size", rows)["X2"]
    assert found.outcome == PARTLY
    assert (
        "Words are longer than heads have features at 2 sizes; 10 points fewer of them are "
        "certainly copied at 1: D = 8 and 30 symbols. On average"
    ) in found.evidence
    assert (found.values["lost_at"], found.values["sizes"]) == (1, 2)


def test_a_difference_across_the_limit_is_open():
    noisy = runs(1.0, 0.9, 1.0)
    noisy.loc[(noisy.seed == 2) & (noisy.features == 8), "exact_match"] += 0.1
    assert claims.judge_with("head_size", noisy)["X2"].outcome == INCONCLUSIVE


def test_intervals_of_shares_end_at_0_and_100_percent():
    uneven = runs(1.0, 0.2, 0.95)
    uneven.loc[(uneven.attention == "softmax") & (uneven.seed == 2), "exact_match"] = 0.4
    found = claims.judge_with("head_size", uneven)["X2"]
    assert "Softmax with heads of 8 copies 76 % (0 to 100)." in found.evidence
    softmax = found.values["softmax"]
    assert (softmax["low"], softmax["high"]) == (0.0, 1.0)
    assert found.values["difference"]["high"] < 1


def test_two_seeds_decide_nothing_and_a_seed_that_lacks_a_run_does_not_count():
    for rows in (runs(1.0, 0.2, 1.0, seeds=2), runs(1.0, 0.2, 1.0).iloc[:-1]):
        found = claims.judge_with("head_size", rows)["X2"]
        assert found.outcome == INCONCLUSIVE
        assert "Seeds with all runs: 2 of 3" in found.evidence
        assert "Of words of 14 symbols" in found.evidence


def test_all_sizes_have_the_parameters_of_one():
    units = run.units_of(run.studies("quick"))
    widths = {unit.numbers["d_model"] for unit in units}
    heads = {unit.numbers["d_model"] // unit.numbers["n_heads"] for unit in units}
    assert len(widths) == 1
    assert heads == set(FEATURES["quick"])
    names = {unit.numbers["attention"]: [] for unit in units}
    for unit in units:
        names[unit.numbers["attention"]].append(unit.numbers["n_heads"])
    assert len(set(names["softmax"])) == 1, "the control has the smallest heads alone"


def test_it_trains_and_its_rows_become_a_figure(tmp_path):
    small = {"steps": 2, "seeds": (0,)}
    studies = {D: replace(one, eval_batches=1) for D, one in run.studies("smoke", **small).items()}
    kept = run.ensure(studies, tmp_path, workers=1)
    found = EXPERIMENT.evidence(kept)
    assert sorted(found.features.unique()) == [8, 16]
    assert set(found.symbols) == {6}
    (cost,) = EXPERIMENT.costs(found)
    assert cost["Part"] == "head sizes (3 runs)"
    drawn = figures.words(found).axes
    assert [axes.get_title() for axes in drawn] == ["linear", "softmax"]
    assert [len(axes.patches) for axes in drawn] == [2, 1]
    assert len(run.ensure(studies, tmp_path, rows="saved")) == len(kept)
    assert all(store.is_current(one.unit, tmp_path) for one in kept)


def test_what_the_notebook_shares_with_it_is_checked():
    assert EXPERIMENT.check(profile="smoke", seeds=[3], lengths=[9], own_sequence="1")[8].seeds == (
        3,
    )
    with pytest.raises(ValueError, match="steps"):
        EXPERIMENT.check(profile="smoke", steps=-1)
