"""The published width: which runs are made, how they are set beside the narrow ones, and how C1
is judged by them; and runs at other learning rates."""

from types import SimpleNamespace

import pandas as pd
import pytest
from convergence_cases import GOOD, UPDATES, evidence_of, near, summary

from replication.experiments import training
from replication.experiments.base import INCONCLUSIVE, NOT, PARTLY
from replication.experiments.copy_task import EXPERIMENT, figures, rules, run
from replication.experiments.copy_task.numbers import ORDER, ORIGINS, WIDER, WIDER_UPDATES
from replication.experiments.copy_task.studies import STUDIES, rated, resolve, wider


def test_the_reference_run_has_the_published_sizes_and_the_others_numbers():
    code = {name: ORIGINS["paper"][name].code for name in ("d_model", "n_heads", "d_ff")}
    narrow, found = STUDIES["paper", "reference"], wider("reference")
    assert [study.attentions for study in found] == [("softmax",), ("linear",)]
    for study in found:
        assert {name: getattr(study, name) for name in code} == code
        shorter = {"steps"} & {"steps" for name in study.attentions
                               if name in WIDER_UPDATES["reference"]}  # fmt: skip
        assert set(study.changes()) - set(WIDER["reference"]) == {"attentions"} | shorter
        assert (study.batch_size, study.lr) == (narrow.batch_size, narrow.lr)
        assert study.d_model // study.n_heads == narrow.d_model // narrow.n_heads
    softmax, linear = found
    assert linear.steps == narrow.published_updates > softmax.steps


@pytest.mark.parametrize("profile", ["quick", "paper"])
def test_profiles_that_have_no_such_runs_make_none(profile):
    assert wider(profile) == []
    assert not any(unit.name.startswith(run.WIDE) for unit in run.units(profile))


def evaluations(losses: dict[tuple[str, int], float], last: int) -> pd.DataFrame:
    """Of every mechanism and seed a loss that is constant but for the very beginning."""
    rows = [
        {"attention": name, "length": 16, "seed": seed, "step": step, "token_accuracy": 1 - loss,
         "eval_loss": 9.0 if step == 0 else loss, "exact_match": 0.5}
        for (name, seed), loss in losses.items() for step in range(0, last + 1, 10)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_both_widths_are_compared_at_the_same_update_and_by_the_same_seeds():
    wide = evaluations({("linear", 0): 0.2}, 100), evaluations({("softmax", 0): 0.1}, 50)
    narrow = evaluations({("linear", 0): 0.4, ("linear", 1): 7.0, ("softmax", 0): 0.3}, 200)
    narrow.loc[narrow.step > 100, "eval_loss"] = 5.0
    narrow.loc[(narrow.step > 50) & (narrow.attention == "softmax"), "eval_loss"] = 5.0
    elsewhere = narrow.assign(length=32, eval_loss=6.0)
    study = SimpleNamespace(lengths=(16,))
    found = rules.by_width(
        SimpleNamespace(evaluations=pd.concat(wide), study=study),
        SimpleNamespace(evaluations=pd.concat([narrow, elsewhere])),
    )
    assert found.eval_loss.to_dict() == pytest.approx({
        ("narrow", "linear"): 0.4, ("narrow", "softmax"): 0.3,
        ("wide", "linear"): 0.2, ("wide", "softmax"): 0.1,
    })  # fmt: skip
    assert found[["first", "last"]].loc["wide"].T.to_dict("list") == {
        "linear": [100, 100], "softmax": [50, 50],
    }  # fmt: skip
    assert found.loc["wide", "last"].equals(found.loc["narrow", "last"])


def test_it_trains_and_its_rows_become_evidence_costs_and_a_figure(tmp_path):
    studies = wider("smoke", steps=2)
    units = [
        *run.units_of([resolve("paper", "smoke", attentions="softmax, linear", seeds=0)]),
        *run.wide_units(studies),
    ]
    kept = training.ensure(units, folder=tmp_path, rows="auto", workers=1, what="widths")
    names = [one.unit.name for one in kept[2:]]
    assert names == ["width-64-softmax-16-seed0", "width-64-linear-16-seed0"]
    found = EXPERIMENT.evidence(kept)
    assert set(found.settings) == {"paper"}
    assert (found.wide.study.d_model, len(found.wide.runs)) == (64, 2)
    assert len(found.settings["paper"].runs) == 2
    assert [cost["Part"] for cost in EXPERIMENT.costs(found)] == [
        "copy task, paper setting (2 runs)",
        "copy task, published width (2 runs)",
    ]
    drawn = figures.widths(found.wide, found.settings["paper"])
    assert [axes.get_title() for axes in drawn.axes] == ["fused softmax", "linear attention"]
    labels = {text.get_text() for axes in drawn.axes for text in axes.get_legend().get_texts()}
    assert labels == {"width 64", "width 32"}


def test_other_rates_are_tried_by_all_mechanisms_alike_and_stand_beside_the_usual_one(tmp_path):
    units = [*run.units_of([resolve("paper", "smoke")]), *run.rate_units(rated("smoke", steps=2))]
    units = [unit for unit in units if unit.numbers["seed"] == 0]
    kept = training.ensure(units, folder=tmp_path, rows="auto", workers=1, what="rates")
    found, usual = EXPERIMENT.evidence(kept), resolve("paper", "smoke").lr
    pairs = found.rates[["attention", "lr", "usual"]].apply(tuple, axis=1).to_list()
    both = ((usual, True), (0.01, False))
    assert sorted(pairs) == sorted((name, *one) for name in ORDER for one in both)
    assert set(found.settings["paper"].runs.updates) == {resolve("paper", "smoke").steps}
    assert [cost["Part"] for cost in EXPERIMENT.costs(found)] == [
        "copy task, paper setting (3 runs)", "copy task, other rates (3 runs)"]  # fmt: skip


def test_the_reference_run_tries_half_the_rate_and_twice_and_four_times():
    (usual,) = {run.lr for run in resolve("paper", "reference", lengths=64).runs()}
    rates = [{run.lr for run in study.runs()} for study in rated("reference")]
    assert rates == [{factor * usual} for factor in (0.5, 2, 4)]
    for study in rated("reference"):
        assert (study.lengths, study.seeds, study.attentions) == ((64,), (0,), ORDER)
    assert rated("quick") == []


def test_what_the_notebook_shares_with_it_is_checked():
    assert {study.seeds for study in wider("smoke", seeds=[3])} == {(3,)}
    with pytest.raises(ValueError, match="steps"):
        wider("smoke", steps=-1)


# C1 -------------------------------------------------------------------------------------------

BAD = [(1.2, 0.55)] * 3


def judged(wide, narrow=None):
    study = SimpleNamespace(published_updates=UPDATES, d_model=256)
    evidence = evidence_of(summary(BAD, [GOOD] * 3) if narrow is None else narrow)
    evidence = evidence._replace(wide=SimpleNamespace(runs=wide, study=study))
    return EXPERIMENT.rules["converges"](evidence, setting="paper")


def cut_short(linear, softmax, updates=UPDATES // 2):
    """Linear runs with all updates, softmax with fewer."""
    whole, early = summary(linear, softmax), summary(linear, softmax, updates=updates)
    parts = whole[whole.attention == "linear"], early[early.attention == "softmax"]
    return pd.concat(parts, ignore_index=True)


def test_three_seeds_of_the_published_width_alone_decide():
    found = judged(summary(near(0.012), near(0.002)))
    assert found.outcome == PARTLY
    assert found.values["by_width"]
    assert found.evidence.startswith("Width 256, N = 32: 3 of 3 linear")
    assert "N = 32 decides nothing, with less width" in found.evidence


def test_fewer_seeds_of_the_published_width_decide_nothing():
    found = judged(summary(near(0.012)[:2], near(0.002)[:2]))
    assert found.outcome == NOT
    assert not found.values["by_width"]
    assert "Width 256, N = 32 decides nothing, with 2 of 3 seeds" in found.evidence


def test_softmax_that_was_cut_short_is_taken_to_lose_nothing():
    runs = cut_short(near(0.012), near(0.010))
    (cell,) = judged(runs).values["wide"]
    linear = runs[runs.attention == "linear"].final_loss
    assert cell["difference"]["mean"] == pytest.approx(linear.mean())
    assert cell["softmax_until"] == UPDATES // 2
    assert cell["reaches"]
    assert cell["same_factor"] is None
    assert "even if softmax lost nothing" in judged(runs).evidence


def test_of_softmax_that_was_cut_short_neither_a_ratio_nor_a_no_is_certain():
    found = judged(cut_short(near(0.012), near(0.001)))
    assert found.values["wide"][0]["same_factor"] is None
    assert (
        f"undecided for lack of updates of softmax: {UPDATES // 2} of {UPDATES}" in found.evidence
    )
    for softmax, answer in ((0.039, None), (0.001, False)):
        (cell,) = judged(cut_short(near(0.04), near(softmax))).values["wide"]
        assert cell["reaches"] is answer


def test_a_single_softmax_run_that_was_cut_short_counts():
    runs = summary(near(0.012), near(0.010))
    short = (runs.attention == "softmax") & (runs.seed == 1)
    (cell,) = judged(runs.assign(updates=runs.updates.where(~short, 7))).values["wide"]
    assert cell["softmax_until"] == 7


def test_before_the_published_number_of_updates_the_width_does_not_decide():
    early = summary(near(0.012), near(0.010), updates=UPDATES // 2)
    assert not judged(early).values["by_width"]


def test_of_no_seeds_nothing_is_said():
    assert judged(summary(near(0.012)[:1], [])).outcome == NOT
    assert judged(summary([], near(0.002)), summary([GOOD], [GOOD])).outcome == INCONCLUSIVE
