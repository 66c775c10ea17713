"""Parameters are checked before any compute, and names tell what ran."""

import math
import subprocess
import sys
from dataclasses import fields, replace

import pytest
import yaml

from replication.attention import mechanism
from replication.experiments.base import PROFILES
from replication.experiments.copy_task import EXPERIMENT, numbers
from replication.experiments.copy_task.numbers import ORIGINS
from replication.experiments.copy_task.studies import STUDIES, Study, resolve, study_of
from replication.store import ROOT


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"attentions": ["softmax", "fast"]}, "attention='fast' is unknown.*softmax, "),
        ({"lengths": [32, 7]}, "length=7 is too short.*at least 8"),
        ({"d_model": 250}, "2 features would be left over.*multiple of 8, for example 256"),
        ({"steps": -1}, "steps=-1 is too small"),
        ({"steps": 2.5}, "steps=2.5 is not a whole number"),
        ({"batch_size": 0}, "batch_size=0 is too small"),
        ({"seeds": []}, "seeds is empty"),
        ({"seeds": [1, 1]}, "seeds holds 1 more than once"),
        ({"lr": 0}, "lr=0.0 must be positive"),
        ({"lr": "fast"}, "lr='fast' is not a number"),
        ({"lr": float("nan")}, "lr=nan"),
        ({"dropout": 1.0}, "dropout=1.0 is a share"),
        ({"attention_dropout": 0.1}, "attention_dropout=0.1 cannot be had.*Set it to 0"),
        ({"device": "nonsense"}, "device='nonsense' cannot be used here"),
        ({"activation": "gelu"}, "activation='gelu' is unknown"),
        ({"lsh_buckets": 7}, "lsh_buckets=7 is odd"),
        ({"stepz": 3}, "parameter='stepz' is unknown.*steps"),
    ],
)
def test_bad_parameters_are_refused_in_words(overrides, complaint):
    with pytest.raises(ValueError, match=complaint):
        resolve("paper", "paper", **overrides)


def test_unknown_settings_and_profiles_are_refused():
    with pytest.raises(ValueError, match=r"setting='papers' is unknown.*paper, earlier"):
        resolve("papers")
    with pytest.raises(ValueError, match=r"profile='fast' is unknown.*smoke, quick"):
        resolve("paper", "fast")
    with pytest.raises(ValueError, match=r"length=3 is too short.*earlier.*at least 4"):
        resolve("earlier", "smoke", lengths=3)


@pytest.mark.parametrize(("setting", "profile"), STUDIES)
def test_every_profile_can_be_run(setting, profile):
    study = resolve(setting, profile)
    assert study.name.startswith(f"{setting}-{profile}-")
    assert not study.changes()


def test_overrides_may_come_as_papermill_passes_them():
    lists = resolve("paper", "smoke", attentions=["linear", "lsh"], seeds=[3], lengths=[16, 32])
    texts = resolve("paper", "smoke", attentions="linear, lsh", seeds=3, lengths="16,32", lr=None)
    assert lists == texts
    assert lists.seeds == (3,)


def test_the_order_in_which_values_are_given_does_not_matter():
    given = {"attentions": "lsh, linear, softmax", "seeds": [2, 0, 1], "lengths": "32, 16"}
    study = resolve("paper", "smoke", **given)
    assert study.attentions == ("softmax", "linear", "lsh")
    assert (study.seeds, study.lengths) == ((0, 1, 2), (16, 32))
    assert study_of(list(study.runs())[::-1]) == study


def test_any_changed_value_changes_the_name():
    base = resolve("paper", "smoke")
    names = {base.name}
    for field in fields(Study):
        value = getattr(base, field.name)
        several = isinstance(value, tuple)
        other = (value[:1] or ("lr",)) * 2 if several else value * 2 or type(value)(1)
        if field.name not in ("setting", "profile"):
            names.add(replace(base, **{field.name: other}).name)
    assert len(names) == len(fields(Study)) - 1


def test_a_name_says_what_differs_from_the_profile():
    name = resolve("paper", "smoke", steps=5, attentions="linear").name
    assert name.startswith("paper-smoke-steps=5-attentions=linear-")
    assert resolve("paper", "smoke", steps=STUDIES["paper", "smoke"].steps).name == (
        resolve("paper", "smoke").name
    )


def test_runs_have_names_of_their_own():
    runs = list(resolve("earlier", "paper").runs())
    assert len({run.name for run in runs}) == len(runs) == 2 * 4 * 3


def test_numbers_of_one_length_hold_there_alone_unless_chosen_otherwise():
    study = resolve("paper", "reference")
    steps = {run.length: run.steps for run in study.runs()}
    assert steps == {64: 2600, 128: 10_000}
    assert {run.attention for run in study.runs() if run.length == 128} == {"softmax", "linear"}
    listed = {row["name"]: row["this profile"] for row in study.deviations()}
    assert listed["steps at N = 64"] == "2600"
    chosen = resolve("paper", "reference", steps=5, attentions="lsh")
    assert {(run.length, run.steps, run.attention) for run in chosen.runs()} == {
        (64, 5, "lsh"), (128, 5, "lsh")
    }  # fmt: skip
    assert "steps at N = 64" not in {row["name"] for row in chosen.deviations()}


def test_a_number_that_is_set_to_its_usual_value_holds_at_every_length_too():
    usual = STUDIES["paper", "reference"]
    given = {"lr": usual.lr, "attentions": usual.attentions}
    runs = list(resolve("paper", "reference", **given).runs())
    assert {run.lr for run in runs} == {1e-3}
    assert {run.attention for run in runs if run.length == 128} == {"softmax", "linear", "lsh"}
    assert {run.steps for run in runs if run.length == 64} == {2600}


@pytest.mark.parametrize(
    "chosen",
    [
        {"lr": 1e-3},
        {"attentions": "softmax, linear, lsh"},
        {},
        {"lengths": 64},
        {"lengths": 128},
        {"attentions": "lsh"},
        {"seeds": 1},
    ],
)
def test_runs_with_numbers_of_their_own_make_up_the_study_again(chosen):
    runs = list(resolve("paper", "reference", **chosen).runs())
    assert list(study_of(runs[::-1]).runs()) == runs


def test_lsh_has_softmax_as_its_cross_attention_and_says_so():
    study = resolve("earlier", "smoke", attentions="lsh, linear", seeds=0, lengths=8)
    crossing = [mechanism(name).cross_attention or name for name in study.attentions]
    assert crossing == ["linear", "softmax"]
    assert any(row["name"] == "cross attention of lsh" for row in study.deviations())


@pytest.mark.parametrize(("setting", "profile"), STUDIES)
def test_every_deviation_has_a_reason(setting, profile):
    rows = resolve(setting, profile).deviations()
    assert all(row["reason"].strip("–") for row in rows)
    assert len({tuple(row) for row in rows}) == 1


@pytest.mark.parametrize("profile", PROFILES)
def test_whatever_is_not_as_published_is_listed(profile):
    study = resolve("paper", profile)
    listed = {row["name"] for row in study.deviations()}
    for name, origin in ORIGINS["paper"].items():
        if origin.published is not None:
            assert (getattr(study, name) != origin.published) == (name in listed)


def test_an_override_is_listed_as_such():
    rows = {row["name"]: row for row in resolve("paper", "paper", batch_size=16).deviations()}
    assert rows["batch_size"]["paper"] == "64"
    assert rows["batch_size"]["this profile"] == "16"
    assert rows["batch_size"]["reason"] == "set for this run"


def test_the_paper_profile_has_the_published_sizes():
    paper = resolve("paper", "paper")
    assert (paper.lengths, paper.batch_size, paper.steps) == ((128,), 64, 10_000)
    assert (paper.n_layers, paper.n_heads, paper.lr, paper.lr_drop_after) == (4, 8, 1e-3, 3000)
    earlier = resolve("earlier", "paper")
    assert (earlier.lengths, earlier.batch_size, earlier.steps) == ((8, 16, 32, 64), 8, 3000)
    assert (earlier.d_model, earlier.n_layers, earlier.n_heads) == (512, 4, 8)


# The notebook's parameters --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"own_sequence": "1 eleven 2"}, "does not know eleven"),
        ({"own_sequence": "3 11"}, "does not know 11"),
        ({"own_sequence": ""}, "has 0 symbols"),
        ({"rows": "old"}, "rows='old' is unknown. Choose one of: auto, saved, fresh"),
        ({"workers": 0}, "workers=0 is too small"),
        ({"workers": "300"}, "workers=300 is too large"),
        ({"workers": "two"}, "workers='two' is not a whole number"),
        ({"setting": "paper, mine"}, "setting='mine' is unknown"),
        ({"steps": -1}, "steps=-1 is too small"),
    ],
)
def test_bad_parameters_of_the_notebook_are_refused_before_anything_is_trained(
    parameters, complaint
):
    with pytest.raises(ValueError, match=complaint):
        EXPERIMENT.check(profile="smoke", **parameters)


def test_good_parameters_of_the_notebook_name_the_studies():
    found = EXPERIMENT.check(profile="smoke", setting="earlier", own_sequence="1, 2", seeds=None)
    assert found == {"earlier": resolve("earlier", "smoke")}
    assert EXPERIMENT.check(profile="smoke", setting="earlier", workers="3") == found


def test_numbers_and_the_experiment_are_read_without_pytorch():
    """So help and errors about arguments come at once."""
    code = "import sys; import replication.experiments.copy_task.studies; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert "replication.experiments.copy_task" in loaded.split()
    assert not {"torch", "pandas", "matplotlib"} & set(loaded.split())


def test_the_words_of_the_rule_are_its_numbers():
    """paper/claims.yaml says in words what the rules count by."""
    claims = {
        claim["id"]: claim for claim in yaml.safe_load((ROOT / "paper/claims.yaml").read_text())
    }
    rule = " ".join(claims["C1"]["rule"].split())
    ten = math.log(10)
    assert f"at least {100 * numbers.LEARNT:g} % of the symbols" in rule
    assert f"the {100 * (1 - 2 * numbers.ALPHA):g} % interval" in rule
    assert ("(b) below a hundredth of ln 10" in rule) == (ten / 100 == numbers.MARGIN)
    assert f"(c) below {numbers.FACTOR:g} as a ratio" in rule
    assert ("in the last tenth of its updates" in rule) == (numbers.LAST == 0.1)
    assert ("once in a thousand updates" in rule) == (numbers.MOST_SPIKES == 1)
    assert ("above twice the median" in rule) == (numbers.SPIKE_FACTOR == 2)
    assert f"of the {numbers.SPIKE_WINDOW} before it" in rule
    assert ("by at least a tenth of ln 10" in rule) == (ten / 10 == numbers.SPIKE_RISE)
    assert ("Fewer than three seeds" in rule) == (numbers.FEWEST_SEEDS == 3)
