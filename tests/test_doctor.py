"""What this machine can do is tried; how long a profile takes is reckoned from real steps."""

from dataclasses import asdict, replace

import pandas as pd
import psutil
import pytest

from replication import doctor, results
from replication.cli import main
from replication.config import ORIGINS, PROFILES
from replication.doctor import checks
from replication.doctor.durations import Basis, _basis, _work, training_seconds


def test_the_doctor_tries_everything_and_finds_what_a_test_needs(capsys):
    """Only what the report needs may be missing here; tests need the rest."""
    found = {check.name: check for check in doctor.examine()}
    for name in ("Python", "PyTorch", "notebook kernel", "papermill", "Snakemake", "disk"):
        assert found[name].is_fine, found[name]
        assert found[name].is_needed
    assert str(results.ROOT) in found["notebook kernel"].found
    assert not found["CUDA"].is_needed


def test_only_what_is_needed_and_missing_makes_the_doctor_fail(monkeypatch, capsys):
    fine = checks.Check("a", True, True, "here")
    unused = checks.Check("b", False, False, "not here", "get it there")
    needed = unused._replace(name="c", is_needed=True)
    for found, code in (((fine, unused), 0), ((fine, needed), 1)):
        monkeypatch.setattr(checks, "CHECKS", [lambda check=check: check for check in found])
        assert main(["doctor"]) == code
        said = capsys.readouterr().out
        assert ("MISSING" in said) == bool(code)
        assert "-> get it there" in said
        assert "GFLOP/s here" in said


def test_a_disk_that_is_too_small_is_found(monkeypatch):
    monkeypatch.setattr(checks, "DISK_GB", 1e9)
    (disk,) = (check for check in doctor.examine() if check.name == "disk")
    assert not disk.is_fine


def test_a_kernel_that_does_not_answer_is_told_and_ended(monkeypatch):
    monkeypatch.setattr(checks, "QUESTION", "import time; time.sleep(600)")
    monkeypatch.setattr(checks, "PATIENCE", 1)
    before = set(psutil.Process().children())
    found = checks._kernel()
    assert not found.is_fine
    assert found.found == "it starts, but does not answer"
    assert set(psutil.Process().children()) <= before


A_TENSOR, AN_OPERATION = 2e-5, 3e-11


def seconds_of(run, factor):
    tensors, operations = _work(run)
    return factor * run.steps * (A_TENSOR * tensors + AN_OPERATION * operations)


@pytest.fixture
def made(tmp_path):
    """The reference run of a machine whose steps take what the two constants say."""
    for setting in ORIGINS:
        e = replace(PROFILES[setting, "reference"], attentions=("softmax", "linear", "lsh"))
        rows = [
            {"attention": run.attention, "length": run.length, "seed": run.seed,
             "updates": run.steps, "seconds": seconds_of(run, 2 if run.attention == "lsh" else 1)}
            for run in e.runs() if run.seed == e.seeds[0]
        ]  # fmt: skip
        machine = {"processor": "a 386", "cores": 4}
        facts = {"config": asdict(e), "workers": 4, "machine": machine}
        folder = tmp_path / "reference" / "copy_task" / setting
        results.save(folder, "runs", pd.DataFrame(rows), facts)
    results.write_whole(tmp_path / "reference" / "scaling.json", b'{"gemm_flops_per_s": 1e12}')
    return tmp_path


def test_durations_follow_from_the_steps_of_other_runs(made):
    basis = _basis(made / "reference")
    for profile in ("smoke", "quick", "reference"):
        runs = [run for setting in ORIGINS for run in PROFILES[setting, profile].runs()]
        expected = sum(seconds_of(run, 2 if run.attention == "lsh" else 1) for run in runs)
        assert training_seconds(profile, basis) == pytest.approx(expected / 4, rel=1e-6)


def test_a_mechanism_that_was_not_run_takes_as_long_as_the_dearest_in_each_run():
    """Of two others, one is dear in calls and one in arithmetic; which is dearer depends."""
    sizes = [(10, 1e9), (20, 1e10)]
    rows = [("a", A_TENSOR * t, t, o) for t, o in sizes]
    rows += [("b", AN_OPERATION * o, t, o) for t, o in sizes]
    steps = pd.DataFrame(rows, columns=["attention", "seconds", "tensors", "operations"])
    runs = [run for setting in ORIGINS for run in PROFILES[setting, "paper"].runs()]
    found = [(A_TENSOR * t, AN_OPERATION * o, run.steps) for run in runs for t, o in [_work(run)]]
    expected = sum(max(calls, arithmetic) * steps for calls, arithmetic, steps in found)
    assert training_seconds("paper", Basis("x", steps, {}, 1, None)) == pytest.approx(expected)


def test_durations_say_what_they_rest_on(made, tmp_path):
    said = doctor.durations(made)
    assert "from the steps of profile reference, made on a 386, 4 cores at 1000 GFLOP/s" in said
    assert all(f"  {profile} " in said for profile in ("smoke", "quick", "reference", "paper"))
    assert "not known before one has run" in doctor.durations(tmp_path / "empty")
