"""The published width: which runs are made, how they are set beside the narrow ones, and how C1
is judged by them; and runs at other learning rates."""

from types import SimpleNamespace

import pandas as pd
import pytest
from convergence_cases import GOOD, UPDATES, evidence_of, near, summary

from replication.experiments import training
from replication.experiments.base import INCONCLUSIVE, NOT, PARTLY
from replication.experiments.copy_task import EXPERIMENT, figures, rules, run
from replication.experiments.copy_task.numbers import ORDER, ORIGINS, WIDER
from replication.experiments.copy_task.studies import STUDIES, rated, resolve, wider


def test_the_reference_run_has_the_published_sizes_and_the_others_numbers():
    code = {name: ORIGINS["paper"][name].code for name in ("d_model", "n_heads", "d_ff")}
    narrow, (study,) = STUDIES["paper", "reference"], wider("reference")
    assert study.attentions == ("softmax", "linear")
    assert {name: getattr(study, name) for name in code} == code
    assert set(study.changes()) - set(WIDER["reference"]) == {"attentions"}
    assert (study.batch_size, study.lr) == (narrow.batch_size, narrow.lr)
    assert study.d_model // study.n_heads == narrow.d_model // narrow.n_heads
    (run_of_narrow,) = {run.steps for run in narrow.runs() if run.length == 128}
    assert study.steps == narrow.published_updates == run_of_narrow


@pytest.mark.parametrize("profile", ["quick", "paper"])
def test_profiles_that_have_no_such_runs_make_none(profile):
    assert wider(profile) == []
    assert not any(unit.name.startswith(run.WIDE) for unit in run.units(profile))


def ended(losses: dict[tuple[str, int], float], length: int = 16) -> pd.DataFrame:
    """Of every mechanism and seed how a run ended."""
    return pd.DataFrame(
        {"attention": name, "length": length, "seed": seed, "final_loss": loss,
         "token_accuracy": 1 - loss, "exact_match": 0.5}
        for (name, seed), loss in losses.items()
    )  # fmt: skip


def test_both_widths_are_compared_by_the_same_lengths_and_seeds():
    wide = ended({("linear", 0): 0.2, ("softmax", 0): 0.1, ("softmax", 2): 5.0})
    narrow = ended({("linear", 0): 0.4, ("linear", 1): 7.0, ("softmax", 0): 0.3})
    narrow = pd.concat([narrow, ended({("linear", 0): 6.0}, length=32)])
    study = SimpleNamespace(lengths=(16,))
    found = rules.by_width(SimpleNamespace(runs=wide, study=study), SimpleNamespace(runs=narrow))
    assert found.final_loss.to_dict() == pytest.approx({
        ("narrow", "linear"): 0.4, ("narrow", "softmax"): 0.3,
        ("wide", "linear"): 0.2, ("wide", "softmax"): 0.1,
    })  # fmt: skip


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


def test_before_the_published_number_of_updates_the_width_does_not_decide():
    early = summary(near(0.012), near(0.010), updates=UPDATES // 2)
    assert not judged(early).values["by_width"]


def test_of_no_seeds_nothing_is_said():
    assert judged(summary(near(0.012)[:1], [])).outcome == NOT
    assert judged(summary([], near(0.002)), summary([GOOD], [GOOD])).outcome == INCONCLUSIVE
