"""Files appear whole or not at all; damage is told, with what to do."""

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
