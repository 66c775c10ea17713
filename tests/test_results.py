"""Files appear whole or not at all; damage is told, with what to do."""

import fcntl
import os

import pandas as pd
import pytest

from replication import results

ROWS = pd.DataFrame({"N": [8, 16], "time_ms": [1.5, 2.5]})


def test_what_was_saved_is_loaded(tmp_path):
    results.save(tmp_path, "a", ROWS, {"seed": 3})
    rows, facts = results.load(tmp_path, "a", "make it")
    pd.testing.assert_frame_equal(rows, ROWS)
    assert facts == {"seed": 3}


def test_missing_results_name_the_command_that_makes_them(tmp_path):
    with pytest.raises(results.ResultsError, match=r"No results at .*a\.csv(.|\n)*replication run"):
        results.load(tmp_path, "a", "replication run 03")


def test_damaged_results_are_told(tmp_path):
    results.save(tmp_path, "a", ROWS, {})
    (tmp_path / "a.json").write_text("{ broken")
    with pytest.raises(results.ResultsError, match="cannot be read"):
        results.load(tmp_path, "a", "make it")


def test_no_rows_are_not_saved(tmp_path):
    with pytest.raises(results.ResultsError, match="no rows"):
        results.save(tmp_path, "a", ROWS.head(0), {})
    assert not list(tmp_path.iterdir())


def test_a_write_that_fails_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    results.write_whole(path, b"old")

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        results.write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_line_cut_by_a_crash_is_dropped_and_appending_goes_on(tmp_path):
    path = tmp_path / "rows.csv"
    results.append(path, [{"N": 8, "time_ms": 1.0}])
    with path.open("a") as file:
        file.write("16,2.")
    assert results.read_partial(path).N.tolist() == [8]
    results.append(path, [{"N": 32, "time_ms": 3.0}])
    assert results.read_partial(path).N.tolist() == [8, 32]


def test_rows_that_cannot_be_read_are_told(tmp_path):
    (tmp_path / "rows.csv").write_bytes(b"\xff\xfe\x00\n")
    with pytest.raises(results.ResultsError, match=r"rows\.csv cannot be read .*Delete this file"):
        results.read_partial(tmp_path / "rows.csv")


def test_a_table_is_there_if_its_rows_and_its_provenance_are(tmp_path):
    results.save(tmp_path, "a", ROWS, {})
    results.save(tmp_path, "b", ROWS, {})
    assert results.has(tmp_path, "a", "b")
    (tmp_path / "b.json").unlink()
    assert results.has(tmp_path, "a")
    assert not results.has(tmp_path, "a", "b")


def test_two_do_not_write_the_same_at_once(tmp_path):
    folder = tmp_path / "new"
    said = rf"rows in {folder} is being written by process {os.getpid()} on .*Wait until it ends"
    with results.held(folder, "rows"):
        with results.held(folder, "others"), pytest.raises(results.ResultsError, match=said):
            results.held(folder, "rows").__enter__()
        results.save(folder, "a", ROWS, {})
        (folder / "more").mkdir()
        results.forget(folder)
        assert not [path for path in folder.iterdir() if path.suffix != ".lock"]
        with pytest.raises(results.ResultsError, match=said):
            results.held(folder, "rows").__enter__()
    with results.held(folder, "rows"):
        pass


def test_a_file_system_without_locks_is_told_and_does_not_stop_the_work(
    tmp_path, monkeypatch, capsys
):
    def no_locks(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with results.held(tmp_path, "rows"):
        results.save(tmp_path, "a", ROWS, {})
    said = capsys.readouterr().err
    assert f"{tmp_path / '.rows.lock'} cannot be locked here (No locks available)" in said
    assert results.has(tmp_path, "a")
