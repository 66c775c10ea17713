"""A benchmark that the system kills leaves out what it dies of, and goes on."""

import signal
import subprocess
import sys

import pandas as pd
import pytest

from replication import results
from replication.benchmark import Budget, Cost, plan
from replication.benchmark.run import open_groups
from replication.scaling import apart
from replication.scaling.deaths import BEGUN, MOST_DEATHS, mark, unmark, without_the_deadly
from replication.scaling_config import resolve

SMALL = resolve("smoke", contenders="linear, softmax", lengths="8, 16", directions="forward",
                models=[])  # fmt: skip


def planned() -> pd.DataFrame:
    """Softmax needs more memory than linear attention."""
    size = {"linear": 1.0, "softmax": 2e9}
    return plan(SMALL, lambda name, _: Cost(1e-3, size[name]), Budget(1e9, 1e9, 1e12))


def died(times: int) -> tuple[pd.DataFrame, dict]:
    table, facts = planned(), {}
    for _ in range(times):
        mark(table, facts)
    return table, facts


def test_after_one_death_the_same_is_tried_again():
    table, facts = died(MOST_DEATHS - 1)
    assert set(without_the_deadly(table, facts).status) == {"planned"}


def test_after_two_deaths_the_largest_cell_of_the_group_is_left_out_with_a_reason():
    found = without_the_deadly(*died(MOST_DEATHS))
    gone = found[found.status == "skipped"]
    assert gone[["contender", "N"]].to_numpy().tolist() == [["softmax", 8]]
    assert "killed 2 times" in gone.reason.item()
    assert "2 GB predicted" in gone.reason.item()


def test_what_was_stopped_has_not_died():
    table, facts = died(MOST_DEATHS)
    unmark(facts)
    assert set(without_the_deadly(table, facts).status) == {"planned"}


def test_deaths_in_different_groups_are_not_added_up():
    table, facts = died(1)
    first = next(iter(open_groups(table)))
    table.loc[table.N == first.N, "status"] = "measured"
    mark(table, facts)
    assert facts[BEGUN] == [str(next(iter(open_groups(table)))), 1]


KILLER = """
import inspect, os, signal, sys
from replication.benchmark import rounds
from replication.cli import main

honest = rounds.peak_bytes


def deadly(call, device):
    cell = inspect.currentframe().f_back.f_locals
    if (cell["name"], cell["group"].direction) == ("linear", "training"):
        os.kill(os.getpid(), signal.SIGKILL)
    return honest(call, device)


rounds.peak_bytes = deadly
sys.exit(main(sys.argv[1:]))
"""


def test_a_process_that_is_killed_is_started_again_until_it_gets_through(tmp_path, monkeypatch):
    """Whoever measures linear attention's memory is killed, as by a system that has none left."""
    killer = tmp_path / "killer.py"
    killer.write_text(KILLER)
    started, real = [], subprocess.Popen

    def popen(command, **options):
        started.append(command)
        options["cwd"] = results.ROOT
        return real([sys.executable, str(killer), *command[3:]], **options)

    monkeypatch.setattr(apart.subprocess, "Popen", popen)
    monkeypatch.setenv("PYTHONPATH", str(results.ROOT))
    given = {"contenders": ["linear", "softmax"], "lengths": [8]}
    found = apart.obtain(tmp_path / "rows", "smoke", **given).plan
    gone = found[found.status == "skipped"]
    assert gone[["contender", "direction"]].to_numpy().tolist() == [["linear", "training"]]
    assert "planned" not in set(found.status)
    assert len(started) == 1 + MOST_DEATHS


def test_another_failure_is_told_and_not_repeated(tmp_path, monkeypatch):
    ends = []

    def ended(words, watch):
        ends.append(words)
        return -signal.SIGTERM, ""

    monkeypatch.setattr(apart, "_apart", ended)
    with pytest.raises(results.ResultsError, match=r"ended with the code -15"):
        apart.obtain(tmp_path / "rows", "smoke")
    assert len(ends) == 1
