"""What this machine can do is tried; which rows are there is counted."""

import json

import psutil
import pytest

from replication import attention, experiments, store
from replication.cli import main
from replication.experiments.base import Experiment
from replication.workflow import doctor


@pytest.fixture(scope="module")
def found():
    return {check.name: check for check in doctor.examine()}


def test_the_doctor_tries_everything_and_finds_what_a_test_needs(found):
    """Only what the report needs may be missing here; tests need the rest."""
    for name in ("Python", "PyTorch", "notebook kernel", "papermill", "Snakemake", "disk"):
        assert found[name].is_fine, found[name]
        assert found[name].is_needed
    assert str(store.ROOT) in found["notebook kernel"].found
    assert not found["CUDA"].is_needed


def test_typst_and_pandoc_are_really_tried(found, monkeypatch):
    for name in ("pandoc", "Typst", "fonts"):
        assert found[name].is_fine, found[name]
        assert found[name].is_needed
    import typst

    from replication.report import pandoc

    def broken(*_, **__):
        raise OSError("it is not there")

    monkeypatch.setattr(pandoc, "path", broken)
    monkeypatch.setattr(typst, "compile", broken)
    only(monkeypatch, "pandoc", "Typst")
    again = list(doctor.examine())
    assert [(check.is_fine, check.found) for check in again] == [(False, "it is not there")] * 2
    assert all("make setup" in str(check) for check in again)


def only(monkeypatch, *names):
    kept = [check for check in doctor.CHECKS if check[0] in names]
    assert len(kept) == len(names)
    monkeypatch.setattr(doctor, "CHECKS", kept)


def test_every_mechanism_is_asked_for(found):
    for name, card in attention.mechanisms().items():
        check = found[f"attention {name}"]
        assert not check.is_needed
        assert check.is_fine == (card.unavailable("float32") is None)


def test_only_what_is_needed_and_missing_makes_the_doctor_fail(monkeypatch, capsys):
    def missing():
        raise RuntimeError("not here")

    monkeypatch.setattr(experiments, "every", dict)
    for is_needed, code in ((False, 0), (True, 1)):
        checks = [
            ("a", True, lambda: (True, "here"), ""),
            ("b", is_needed, missing, "get it there"),
        ]
        monkeypatch.setattr(doctor, "CHECKS", checks)
        assert main(["doctor"]) == code
        said = capsys.readouterr().out
        assert ("MISSING" in said) == bool(code)
        assert "-> get it there" in said
        assert main(["doctor", "--json"]) == code
        checks = json.loads(capsys.readouterr().out)["checks"]
        assert [check["is_fine"] for check in checks] == [True, False]


def test_a_disk_that_is_too_small_is_found(monkeypatch):
    monkeypatch.setattr(doctor, "DISK_GB", 1e9)
    only(monkeypatch, "disk")
    (disk,) = doctor.examine()
    assert not disk.is_fine


def test_a_kernel_that_does_not_answer_is_told_and_ended(monkeypatch):
    monkeypatch.setattr(doctor, "QUESTION", "import time; time.sleep(600)")
    monkeypatch.setattr(doctor, "PATIENCE", 1)
    only(monkeypatch, "notebook kernel")
    before = set(psutil.Process().children())
    (kernel,) = doctor.examine()
    assert not kernel.is_fine
    assert kernel.found == "it starts, but does not answer"
    assert set(psutil.Process().children()) <= before


def test_durations_are_the_recorded_ones_at_the_speed_of_this_machine(monkeypatch, tmp_path):
    """One that reads the clock has a fixed time. The speed is in the rows of some experiment."""
    minutes = {"smoke": 3.0, "reference": 600.0}
    toys = {name: Experiment(name=name, title="", notebook="09_x", alone=alone, minutes=minutes)
            for name, alone in (("training", False), ("timing", True))}  # fmt: skip
    monkeypatch.setattr(experiments, "every", lambda: toys)
    monkeypatch.setattr(doctor.store, "RESULTS", tmp_path)
    monkeypatch.setattr(doctor.measure, "gemm_rate", lambda *_: 5e10)
    assert doctor.durations() == {"smoke": 6.0, "quick": 0, "reference": 1200.0, "paper": 0}
    store.write_whole(tmp_path / "reference/timing/a.json", b'{"x": 1}')
    store.write_whole(tmp_path / "reference/timing/b.json", b'{"gemm_flops_per_s": 1e11}')
    assert doctor.durations() == {"smoke": 9.0, "quick": 0, "reference": 1800.0, "paper": 0}
    said = "\n".join(doctor._told({}, doctor.durations()))
    assert "smoke      9 minutes" in said
    assert "reference  30.0 hours" in said
    assert "paper      not known" in said
