"""The same question in several runs: all there, gone on with where it was broken off."""

import os

import pandas as pd
import pytest
import torch

from replication import results
from replication.measure import ALLOCATOR
from replication.scaling import obtain_repeats, repeats
from replication.scaling_config import RUNS, for_crossover, for_repeats, resolve

CPU = torch.device("cpu")
TINY = for_crossover(
    6.0, heads=1, head_dim=4, lengths=(8, 64), directions="training", causal=[True]
)


class StoppedError(Exception):
    """What breaks a run off."""


@pytest.fixture
def measured(monkeypatch):
    """Made-up runs that count themselves; at ``stop`` one is broken off."""
    done, real = {"runs": 0, "stop": None}, repeats.measure_now

    def measure_now(scaling, device):
        if done["runs"] == done["stop"]:
            raise StoppedError
        done["runs"] += 1
        return real(scaling, device) if done["runs"] == 1 else kept[0].assign(time_ms=done["runs"])

    kept = [pd.DataFrame({"contender": ["linear"], "N": [8], "round": [0], "status": ["measured"],
                          "reason": [""], "time_ms": [1.0]})]  # fmt: skip
    monkeypatch.setattr(repeats, "measure_now", measure_now)
    return done


def test_every_run_is_kept_and_whole(tmp_path, measured):
    found = repeats.run_repeats(TINY, tmp_path, CPU)
    assert measured["runs"] == RUNS == found.facts["runs"]
    assert sorted(found.rows["run"].unique()) == list(range(RUNS))
    assert {"linear", "softmax", "softmax-textbook"} == set(repeats.timed(found)["contender"])
    assert {"peak_bytes", "flops", "threads"} & {*found.rows, *found.facts} == {
        "peak_bytes", "flops", "threads"
    }  # fmt: skip


def test_runs_that_were_broken_off_go_on_and_finished_ones_begin_anew(tmp_path, measured):
    measured["stop"] = 4
    with pytest.raises(StoppedError):
        repeats.run_repeats(TINY, tmp_path, CPU)
    assert repeats.load_repeats(tmp_path).facts["runs"] == 4
    measured["stop"] = None
    first = repeats.run_repeats(TINY, tmp_path, CPU)
    assert measured["runs"] == RUNS
    assert sorted(first.rows["run"].unique()) == list(range(RUNS))
    repeats.run_repeats(TINY, tmp_path, CPU)
    assert measured["runs"] == 2 * RUNS


def test_runs_of_another_question_are_not_gone_on_with(tmp_path, measured):
    measured["stop"] = 2
    with pytest.raises(StoppedError):
        repeats.run_repeats(TINY, tmp_path, CPU)
    measured["stop"] = None
    other = for_crossover(6.0, heads=1, head_dim=4, lengths=(8, 32), directions="training")
    repeats.run_repeats(other, tmp_path, CPU)
    assert measured["runs"] == 2 + RUNS


def test_damaged_rows_are_measured_anew(tmp_path, measured):
    (tmp_path / "repeats.csv").write_text("a,b\n1,2,3\n")
    (tmp_path / "repeats.json").write_text("{")
    assert repeats.run_repeats(TINY, tmp_path, CPU).facts["runs"] == RUNS


def test_a_notebook_measures_apart_once_and_reads_after_that(tmp_path, monkeypatch):
    scaling = resolve("smoke")
    found = obtain_repeats(tmp_path / "crossover", scaling, threads=1)
    assert repeats.beside(tmp_path, "smoke").is_dir()
    assert found.facts["machine"]["allocator"] == ALLOCATOR
    assert found.facts["config"]["lengths"] == list(for_repeats(scaling).lengths)
    monkeypatch.setattr(os, "environ", {})  # a process without a path cannot start
    for rows in ("auto", "saved"):
        again = obtain_repeats(tmp_path / "crossover", scaling, rows, threads=1)
        pd.testing.assert_frame_equal(again.rows, found.rows)


def test_saved_repeats_that_are_not_there_are_told(tmp_path):
    with pytest.raises(results.ResultsError, match="No results at"):
        obtain_repeats(tmp_path, resolve("smoke"), "saved")
