"""The same question in several runs: all there, gone on with where it was broken off."""

import pandas as pd
import pytest
import torch

from replication import results
from replication.measure import ALLOCATOR
from replication.scaling import apart, obtain_repeats, repeats
from replication.scaling.run import as_json
from replication.scaling_config import RUNS, for_crossover, for_repeats

CPU = torch.device("cpu")
TINY = for_crossover(
    6.0, heads=1, head_dim=4, lengths=(8, 64), directions="training", causal=[True]
)


class StoppedError(Exception):
    """What breaks a run off."""


@pytest.fixture
def measured(monkeypatch):
    """The first run is real, the others repeat its rows; at ``stop`` one is broken off."""
    done, real, kept = {"runs": 0, "stop": None}, repeats._run, []

    def run(planned, scaling, device):
        if done["runs"] == done["stop"]:
            raise StoppedError
        done["runs"] += 1
        kept.extend([] if kept else [real(planned, scaling, device)])
        return kept[0].copy()

    monkeypatch.setattr(repeats, "_run", run)
    return done


def test_every_run_is_kept_and_whole(tmp_path, measured):
    found = repeats.run_repeats(TINY, tmp_path, CPU)
    assert measured["runs"] == RUNS == found.runs
    assert {"linear", "softmax", "softmax-textbook"} == set(repeats.timed(found)["contender"])
    assert {"contender", "N", "round", "time_ms", "peak_bytes", "flops", "run"} <= set(found.rows)
    assert {"commit", "source", "threads", "allocator", "finished"} <= set(found.facts)
    assert len(found.facts["sessions"]) == 1


def test_runs_that_were_broken_off_go_on_and_finished_ones_begin_anew(tmp_path, measured):
    measured["stop"] = 4
    with pytest.raises(StoppedError):
        repeats.run_repeats(TINY, tmp_path, CPU)
    assert repeats.load_repeats(tmp_path).runs == 4
    measured["stop"] = None
    first = repeats.run_repeats(TINY, tmp_path, CPU)
    assert measured["runs"] == RUNS == first.runs
    assert len(first.facts["sessions"]) == 2
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


@pytest.mark.usefixtures("measured")
def test_damaged_rows_are_measured_anew(tmp_path):
    (tmp_path / "repeats.csv").write_text("a,b\n1,2,3\n")
    (tmp_path / "repeats.json").write_text("{")
    assert repeats.run_repeats(TINY, tmp_path, CPU).runs == RUNS


def test_a_notebook_measures_apart_once_and_reads_after_that(tmp_path, monkeypatch):
    found = obtain_repeats(tmp_path, "smoke", threads=1)
    place = repeats.beside(tmp_path, "smoke")
    assert found.facts["machine"]["allocator"] == ALLOCATOR
    assert found.facts["config"] == as_json(for_repeats("smoke"))
    assert found.runs == RUNS
    monkeypatch.setattr(apart, "_apart", lambda *_: (1, "replication: measured again"))
    for rows in ("auto", "saved"):
        again = obtain_repeats(tmp_path, "smoke", rows, threads=1)
        pd.testing.assert_frame_equal(again.rows, found.rows)
    with pytest.raises(results.ResultsError, match=r"^measured again$"):
        obtain_repeats(tmp_path, "smoke", "fresh", threads=1)
    with pytest.raises(results.ResultsError, match="another threads than is asked for"):
        obtain_repeats(tmp_path, "smoke", "saved", threads=7)
    some = found.rows[found.rows["run"] > 0]
    for left, facts in ((some, found.facts), (found.rows, found.facts | {"source": "another"})):
        results.save(place, "repeats", left, facts)
        with pytest.raises(results.ResultsError, match=r"^measured again$"):
            obtain_repeats(tmp_path, "smoke", threads=1)


def test_saved_repeats_that_are_not_there_are_told_with_what_measures_them(tmp_path):
    with pytest.raises(results.ResultsError, match=r"(?s)No results at.*run 04 --profile smoke"):
        obtain_repeats(tmp_path, "smoke", "saved")
