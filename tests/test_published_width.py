"""The published width: which runs are made, and how they are set beside the narrow ones."""

import pandas as pd
import pytest

from replication import store
from replication.experiments import every
from replication.experiments.copy_task.numbers import ORIGINS
from replication.experiments.copy_task.studies import STUDIES
from replication.experiments.published_width import figures, run
from replication.experiments.published_width.numbers import CHANGES, COMPARED, STEPS

EXPERIMENT = every()["published_width"]


def test_the_reference_run_has_the_published_sizes_and_the_others_numbers():
    found = run.studies("reference")
    assert list(found) == list(COMPARED)
    code = {name: ORIGINS["paper"][name].code for name in ("d_model", "n_heads", "d_ff")}
    narrow = STUDIES["paper", "reference"]
    for name, study in found.items():
        assert {name: getattr(study, name) for name in code} == code
        shorter = {"steps"} if name in STEPS["reference"] else set()
        assert set(study.changes()) - set(CHANGES["reference"]) == {"attentions"} | shorter
        assert (study.batch_size, study.lr) == (narrow.batch_size, narrow.lr)
        assert study.d_model // study.n_heads == narrow.d_model // narrow.n_heads
    assert found["linear"].steps == narrow.published_updates > found["softmax"].steps


@pytest.mark.parametrize("profile", ["quick", "paper"])
def test_profiles_that_have_no_such_runs_make_none(profile, tmp_path):
    assert run.units(profile) == []
    assert run.ensure(run.studies(profile), tmp_path) == []


def evaluations(losses: dict[tuple[str, int], float], last: int) -> pd.DataFrame:
    """Of every mechanism and seed a loss that is constant but for the very beginning."""
    rows = [
        {"attention": name, "length": 16, "seed": seed, "step": step, "token_accuracy": 1 - loss,
         "eval_loss": 9.0 if step == 0 else loss, "exact_match": 0.5}
        for (name, seed), loss in losses.items() for step in range(0, last + 1, 10)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_both_widths_are_compared_at_the_same_update_and_by_the_same_seeds():
    one = next(iter(run.studies("smoke")["linear"].runs()))
    wide = evaluations({("linear", 0): 0.2}, 100), evaluations({("softmax", 0): 0.1}, 50)
    wide = pd.concat(wide)
    narrow = evaluations({("linear", 0): 0.4, ("linear", 1): 7.0, ("softmax", 0): 0.3}, 200)
    narrow.loc[narrow.step > 100, "eval_loss"] = 5.0
    narrow.loc[(narrow.step > 50) & (narrow.attention == "softmax"), "eval_loss"] = 5.0
    elsewhere = narrow.assign(length=32, eval_loss=6.0)
    found = run.beside(run.Wide(one, pd.DataFrame(), wide), pd.concat([narrow, elsewhere]))
    assert found.eval_loss.to_dict() == pytest.approx({
        ("narrow", "linear"): 0.4, ("narrow", "softmax"): 0.3,
        ("wide", "linear"): 0.2, ("wide", "softmax"): 0.1,
    })  # fmt: skip


def test_it_trains_and_its_rows_become_a_figure(tmp_path):
    kept = run.ensure(run.studies("smoke", steps=2), tmp_path, workers=1)
    names = [one.unit.name for one in kept]
    assert names == ["width-64-softmax-16-seed0", "width-64-linear-16-seed0"]
    found = EXPERIMENT.evidence(kept)
    (cost,) = EXPERIMENT.costs(found)
    assert cost["Part"] == "published width (2 runs)"
    narrow = found.evaluations.assign(eval_loss=2 * found.evaluations.eval_loss)
    drawn = figures.curves(found, narrow, 32)
    assert [axes.get_title() for axes in drawn.axes] == ["fused softmax", "linear attention"]
    labels = {text.get_text() for axes in drawn.axes for text in axes.get_legend().get_texts()}
    assert labels == {"width 32", "width 64"}
    assert len(run.ensure(run.studies("smoke", steps=2), tmp_path, rows="saved")) == len(kept)
    assert all(store.is_current(one.unit, tmp_path) for one in kept)


def test_what_the_notebook_shares_with_it_is_checked():
    found = EXPERIMENT.check(profile="smoke", seeds=[3], lengths=[9], own_sequence="1")
    assert {study.seeds for study in found.values()} == {(3,)}
    with pytest.raises(ValueError, match="steps"):
        EXPERIMENT.check(profile="smoke", steps=-1)
