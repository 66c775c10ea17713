"""The benchmark on disk: it goes on after anything, and notebooks use what it saved if they may."""

import json
import os
import shutil

import pandas as pd
import pytest
import torch

from replication import measure, results, sources
from replication.benchmark import CELL
from replication.results import ResultsError
from replication.scaling import apart, finished, is_stale, load_scaling, obtain, run_scaling
from replication.scaling_config import resolve

TINY = {"contenders": "linear, softmax", "lengths": [8], "seconds": 2, "threads": 1}


# From a notebook ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run, measured by a process that this one started."""
    folder = tmp_path_factory.mktemp("scaling")
    obtain(folder, "smoke", **TINY)
    return folder


def with_facts(folder, **changed) -> None:
    """The same rows, as if they had come about otherwise."""
    file = folder / "scaling_plan.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))


def test_a_process_of_its_own_has_the_allocator_s_settings_and_says_so(folder):
    found = obtain(folder, "smoke", "saved")
    assert found.facts["machine"]["allocator"] == found.facts["allocator"] == measure.ALLOCATOR
    assert found.facts["threads"] == 1
    assert finished(found.plan)
    assert set(found.rows["N"]) == {8, 16}  # 16 are the models'
    assert found.facts["source"] == sources.hash_of("benchmark")


def test_finished_rows_of_the_present_source_are_used_and_not_measured_again(folder, monkeypatch):
    monkeypatch.setattr(apart, "_measure", lambda *_: pytest.fail("measured again"))
    assert len(obtain(folder, "smoke", **TINY).rows) > 0


@pytest.mark.parametrize(
    ("changed", "asked", "again"),
    [
        ({"source": "another"}, TINY, True),
        ({}, TINY | {"lengths": [16]}, False),
        ({}, TINY | {"threads": 2}, False),
    ],
)
def test_stale_rows_are_measured_again_and_others_are_left_to_the_process_to_judge(
    folder, monkeypatch, changed, asked, again
):
    before = (folder / "scaling_plan.json").read_text()
    words = []
    monkeypatch.setattr(apart, "_measure", lambda _, typed: words.extend(typed))
    with_facts(folder, **changed)
    try:
        obtain(folder, "smoke", **asked)
    finally:
        (folder / "scaling_plan.json").write_text(before)
    assert ("--again" in words) == again
    assert words[:4] == ["--profile", "smoke", "--out", str(folder)]
    assert words[words.index("--contenders") + 1] == "linear,softmax"


def test_what_the_process_says_is_told(folder):
    with pytest.raises(ResultsError, match=r"another config.*rows fresh"):
        obtain(folder, "smoke", **TINY | {"lengths": [16]})


def test_saved_rows_are_used_whatever_their_source_but_not_for_other_questions(folder):
    before = (folder / "scaling_plan.json").read_text()
    with_facts(folder, source="another")
    try:
        assert is_stale(obtain(folder, "smoke", "saved", **TINY).facts)
    finally:
        (folder / "scaling_plan.json").write_text(before)
    with pytest.raises(ResultsError, match="another lengths than"):
        obtain(folder, "smoke", "saved", lengths=[8, 16])
    with pytest.raises(ResultsError, match="another threads than"):
        obtain(folder, "smoke", "saved", threads=7)


def test_without_rows_saved_says_how_to_get_some(tmp_path):
    with pytest.raises(ResultsError, match=r"Measure them with\n    replication bench scaling"):
        obtain(tmp_path, "smoke", "saved")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rows": "stale"}, "rows='stale' is unknown"),
        ({"profile": "huge"}, "profile='huge' is unknown"),
        ({"contenders": ["magic"]}, "contenders='magic' is unknown"),
        ({"device": "abacus"}, "device='abacus' cannot be used"),
    ],
)
def test_what_cannot_be_measured_is_told_before_a_process_starts(
    tmp_path, monkeypatch, wrong, said
):
    monkeypatch.setattr(apart, "_measure", lambda *_: pytest.fail("started"))
    with pytest.raises(ValueError, match=said):
        obtain(tmp_path, **{"profile": "smoke"} | wrong)


@pytest.mark.parametrize("way", ["auto", "fresh"])
def test_rows_that_were_deleted_and_files_that_are_damaged_are_measured_anew(folder, tmp_path, way):
    here = tmp_path / "run"
    shutil.copytree(folder, here)
    (here / "scaling.csv").unlink()
    if way == "fresh":
        for name in ("scaling_plan.csv", "scaling_plan.json"):
            (here / name).write_bytes(b"\xff damaged")
    found = obtain(here, "smoke", way, **TINY)
    assert finished(found.plan)
    assert set(found.rows["N"]) == {8, 16}


# On disk -----------------------------------------------------------------------------------

CPU = torch.device("cpu")
LENGTHS = {"lengths": "8, 16, 65536", "directions": "forward", "causal": [True]}
SMALL = resolve("smoke", models=[], contenders="linear, softmax", **LENGTHS)
MEMORY = 2e7  # too little for the longest
FINISH = ("finished", "measured_seconds", "gemm_flops_per_s")


@pytest.fixture
def run(tmp_path):
    run_scaling(SMALL, tmp_path, CPU, memory_bytes=MEMORY)
    return tmp_path


def files(folder) -> dict:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"}


def at(rows, N) -> pd.DataFrame:
    return rows[rows["N"] == N].reset_index(drop=True)


def broken_off(folder, N) -> None:
    """As if the run had ended before it measured this length."""
    plan = load_scaling(folder).plan
    plan.loc[plan["N"] == N, "status"] = "planned"
    plan.to_csv(folder / "scaling_plan.csv", index=False)


def test_rows_that_were_deleted_are_measured_again(run):
    before = load_scaling(run)
    assert set(before.plan["status"]) > {"skipped"}
    for name in ("scaling.csv", "scaling.json"):
        (run / name).unlink()
    after = run_scaling(SMALL, run, CPU)
    assert set(after.rows[[*CELL]].itertuples(index=False)) == set(
        before.rows[[*CELL]].itertuples(index=False)
    )
    pd.testing.assert_frame_equal(at(after.rows, 65536), at(before.rows, 65536))
    assert finished(after.plan)
    assert len(after.facts["sessions"]) == 2


def test_a_cell_that_lost_its_rows_is_measured_again_with_those_it_is_compared_to(run):
    before = load_scaling(run)
    lost = (before.rows["N"] == 8) & (before.rows["contender"] == "softmax")
    before.rows[~lost].to_csv(run / "scaling.csv", index=False)
    after = run_scaling(SMALL, run, CPU)
    for N in (16, 65536):
        pd.testing.assert_frame_equal(at(after.rows, N), at(before.rows, N))
    new = at(after.rows, 8)
    assert set(new["contender"]) == {"linear", "softmax"}
    old = at(before.rows, 8)
    assert not set(new["time_ms"]) & set(old["time_ms"])
    assert not after.rows.duplicated([*CELL, "round"]).any()


def test_again_forgets_what_is_finished_and_goes_on_with_what_was_broken_off(run):
    first = load_scaling(run)
    broken_off(run, 8)
    second = run_scaling(SMALL, run, CPU, again=True)
    pd.testing.assert_frame_equal(at(second.rows, 16), at(first.rows, 16))
    assert not set(at(second.rows, 8)["time_ms"]) & set(at(first.rows, 8)["time_ms"])
    third = run_scaling(SMALL, run, CPU, again=True, memory_bytes=MEMORY)
    assert not set(at(third.rows, 16)["time_ms"]) & set(at(second.rows, 16)["time_ms"])
    broken_off(run, 8)
    with_facts(run, source="another")
    fourth = run_scaling(SMALL, run, CPU, again=True, memory_bytes=MEMORY)
    assert not is_stale(fourth.facts)
    assert not set(at(fourth.rows, 16)["time_ms"]) & set(at(third.rows, 16)["time_ms"])


def test_a_run_that_cannot_begin_leaves_the_earlier_one(run):
    before = files(run)
    with pytest.raises(ValueError, match="nothing can be measured"):
        run_scaling(SMALL, run, CPU, again=True, memory_bytes=1.0)
    assert files(run) == before


def test_a_run_that_was_killed_after_its_last_group_is_brought_to_its_end(run):
    before = load_scaling(run)
    facts = {name: before.facts[name] for name in before.facts if name not in FINISH}
    (run / "scaling_plan.json").write_text(json.dumps(facts))
    after = run_scaling(SMALL, run, CPU)
    assert after.facts.keys() == before.facts.keys()
    pd.testing.assert_frame_equal(after.rows, before.rows)


def test_two_do_not_measure_into_one_folder(run):
    before = files(run)
    with results.held(run, "scaling"), pytest.raises(ResultsError, match=str(os.getpid())) as said:
        run_scaling(SMALL, run, CPU, again=True)
    assert str(run) in str(said.value)
    assert files(run) == before
