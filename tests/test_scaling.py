"""The benchmark from a notebook: saved rows where they may be used, else a process of its own."""

import json

import pytest

from replication import measure, sources
from replication.results import ResultsError
from replication.scaling import apart, finished, is_stale, obtain

TINY = {"contenders": "linear, softmax", "lengths": [8], "seconds": 2, "threads": 1}


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
