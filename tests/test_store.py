"""Units are written whole, told when damaged, and stale by what they really run alone."""

import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from types import SimpleNamespace

import pandas as pd
import pytest

from replication import store
from replication.store import Result, StoreError, Unit, code


def rows_of(N, scratch):
    RUNS.append(N)
    return Result(pd.DataFrame({"N": [N, N], "time_ms": [0.1 + 0.2, 1e-17]}), {"machine": "here"})


RUNS = []


@pytest.fixture(autouse=True)
def _nothing_ran():
    RUNS.clear()


def unit(N=8, **numbers):
    return Unit("toy", f"N{N}", "smoke", {"N": N, **numbers}, (rows_of,), partial(rows_of, N))


# Made, loaded, made again -------------------------------------------------------------------


def test_what_was_made_is_loaded_to_the_last_digit_and_not_made_again(tmp_path):
    kept = store.ensure(unit(), tmp_path)
    assert kept.rows.time_ms.tolist() == [0.1 + 0.2, 1e-17]
    assert kept.is_current
    assert kept.facts["machine"] == "here"
    assert kept.facts["numbers"] == {"N": 8}
    assert {"commit", "started", "seconds", "source", "table"} <= set(kept.facts)
    again = store.ensure(unit(), tmp_path)
    pd.testing.assert_frame_equal(again.rows, kept.rows)
    assert RUNS == [8]
    store.ensure(unit(), tmp_path, rows="fresh")
    assert RUNS == [8, 8]


def test_other_numbers_are_another_unit(tmp_path):
    assert unit(8).id != unit(8, seed=1).id
    assert unit(8).id.startswith("N8-")
    assert unit().path(tmp_path).parent == tmp_path / "toy"
    assert Unit("toy", "a", "smoke", {"x": (1, 2)}, (), rows_of).id == Unit(
        "toy", "a", "smoke", {"x": [1, 2]}, (), rows_of
    ).id  # fmt: skip


def test_many_are_made_in_any_order_and_loaded_in_theirs_missing_ones_alone(tmp_path):
    wanted, told = [unit(N) for N in (8, 16, 63)], []
    store.ensure(wanted[1], tmp_path)
    with ThreadPoolExecutor(2) as pool:
        kept = store.ensure_all(wanted, tmp_path, pool=pool, made=lambda *x: told.append(x[1:]))
    assert [one.rows.N[0] for one in kept] == [8, 16, 63]
    assert sorted(RUNS) == [8, 16, 63]
    assert told == [(1, 2), (2, 2)]


def test_retired_units_are_made_anew_and_saved_ones_serve_until_then(tmp_path):
    wanted, begun = [unit(8), unit(16)], unit(63)
    store.ensure_all(wanted, tmp_path)
    for one in (wanted[0], begun):
        one.scratch(tmp_path).write_text("begun")
    store.retire([*wanted, begun], tmp_path)
    assert not any(one.scratch(tmp_path).exists() for one in (wanted[0], begun))
    assert not any(store.is_current(one, tmp_path) for one in wanted)
    assert len(store.ensure_all(wanted, tmp_path, rows="saved")) == 2
    store.ensure(wanted[0], tmp_path)
    assert [store.is_current(one, tmp_path) for one in wanted] == [True, False]
    assert RUNS == [8, 16, 8]


def test_what_another_process_has_made_meanwhile_is_not_made_again(tmp_path):
    """Both have planned it, the second gets the lock when the first is done."""
    for _ in range(2):
        store.make(unit(), tmp_path)
    assert RUNS == [8]
    store.retire([unit()], tmp_path)
    store.make(unit(), tmp_path)
    assert RUNS == [8, 8]


def test_an_interrupted_unit_leaves_its_scratch_and_the_old_rows(tmp_path):
    store.ensure(unit(), tmp_path)
    before = unit().path(tmp_path).read_bytes()

    def broken(scratch):
        scratch.write_text("half-way")
        raise KeyboardInterrupt

    again = Unit("toy", "N8", "smoke", {"N": 8}, (rows_of,), broken)
    with pytest.raises(KeyboardInterrupt):
        store.ensure(again, tmp_path, rows="fresh")
    assert unit().path(tmp_path).read_bytes() == before
    assert unit().scratch(tmp_path).read_text() == "half-way"


def test_no_rows_are_not_saved(tmp_path):
    empty = Unit("toy", "x", "smoke", {}, (), lambda _: Result(pd.DataFrame({"N": []}), {}))
    with pytest.raises(StoreError, match="no rows to save"):
        store.ensure(empty, tmp_path)
    assert not store.exists(empty, tmp_path)


# Missing and stale; what is damaged is in test_damage.py ------------------------------------

REMEDY = "\n    replication run toy --profile smoke"


def test_missing_results_name_the_command_that_makes_them(tmp_path):
    with pytest.raises(StoreError, match=r"No results at .*N8-\w+\.csv") as told:
        store.load(unit(), tmp_path)
    assert str(told.value).endswith(REMEDY)


def test_stale_rows_are_refused_where_current_ones_are_asked_for(tmp_path):
    store.ensure(unit(), tmp_path)
    store.retire([unit()], tmp_path)
    with pytest.raises(StoreError, match=r"is stale: it comes from the code retired") as told:
        store.load(unit(), tmp_path, current=True)
    assert str(told.value).endswith(REMEDY)


def test_a_folder_gives_back_all_its_units(tmp_path):
    store.ensure_all([unit(8), unit(16)], tmp_path / "point" / "smoke")
    found = store.read_folder(tmp_path)
    assert [one.unit.name for one in found] == ["N16", "N8"]
    assert [one.unit.numbers for one in found] == [{"N": 16}, {"N": 8}]
    found[0].unit.path(tmp_path / "point" / "smoke").with_suffix(".json").unlink()
    with pytest.raises(StoreError, match=r"N16-\w+\.csv has no provenance that can be read"):
        store.read_folder(tmp_path)
    assert store.read_folder(tmp_path / "nowhere") == []


# Files --------------------------------------------------------------------------------------


def test_a_write_that_fails_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    store.write_whole(path, b"old")

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        store.write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_do_not_make_the_same_at_once(tmp_path):
    path = unit().path(tmp_path)
    said = r"toy N8 is being written by another process \(.*\)\. Wait until it ends"
    with store.locked(path, "toy N8"):
        with pytest.raises(StoreError, match=said):
            store.ensure(unit(), tmp_path)
        store.ensure(unit(16), tmp_path)
    store.ensure(unit(), tmp_path)


def test_who_may_wait_waits(tmp_path, monkeypatch):
    said = SimpleQueue()
    monkeypatch.setattr("sys.stderr", SimpleNamespace(write=said.put, flush=lambda: None))
    with ThreadPoolExecutor(1) as pool:
        with store.locked(tmp_path / "x", "It"):
            second = pool.submit(_hold, tmp_path / "x")
            assert "Waiting" in said.get(timeout=30)
            assert not second.done()
        assert second.result(30) == "held"


def _hold(path):
    with store.locked(path, "It", wait=True):
        return "held"


def test_a_file_system_without_locks_is_told_and_does_not_stop_the_work(
    tmp_path, monkeypatch, capsys
):
    def no_locks(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert store.ensure(unit(), tmp_path).is_current
    assert "knows no locks (No locks available)" in capsys.readouterr().err


def test_the_commit_is_told_and_unknown_without_git(monkeypatch, tmp_path):
    assert store.commit()
    monkeypatch.setattr(code, "PACKAGE", tmp_path / "replication")
    assert store.commit() == "unknown"
