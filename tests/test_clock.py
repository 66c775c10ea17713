"""A repeat knows what disturbed it; rounds are random, bounded, and refuse to answer when busy."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from replication import stats
from replication.measure import clock, rounds
from replication.measure.clock import Sentinel, disturbed, pinned, repeat
from replication.measure.rounds import measure_rounds

A = torch.ones(200, 200)
torch.set_num_threads(1)  # a busy machine makes two wait for each other
SPIN = "import time; end = time.time() + {}\nwhile time.time() < end: pass"
linux = pytest.mark.skipif(sys.platform != "linux", reason="binds programs to a core")


def work(seconds=0.02):
    """Products until so much CPU time has gone: about the same work on any machine."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        A @ A


def spinning(core, count, seconds=20):
    """Programs that compute on this core, and end by themselves."""

    def bind():
        os.sched_setaffinity(0, {core})

    command = [sys.executable, "-c", SPIN.format(seconds)]
    return [subprocess.Popen(command, preexec_fn=bind) for _ in range(count)]


def row(**changed):
    quiet = {"wall_ms": 10.0, "cpu_ms": 10.0, "wait_ms": 0.0, "slowed": 1.0}
    return quiet | changed


# One repeat -----------------------------------------------------------------------------------


@linux
def test_a_repeat_beside_two_programs_on_its_core_is_disturbed():
    with pinned() as facts:
        others = spinning(facts["core"], 2)
        try:
            time.sleep(1.0)
            found = [repeat(lambda: work(0.1), 1, Sentinel(), "thread") for _ in range(3)]
        finally:
            for other in others:
                other.kill()
                other.wait()
    assert sum(each["disturbed"] for each in found) >= 2
    for each in found:
        assert each["involuntary"] > 0
        assert each["wait_ms"] > 0.3 * each["wall_ms"]
        assert each["time_ms"] == pytest.approx(100, rel=0.05), "CPU time is not wall time"


def test_what_disturbs_a_repeat():
    assert not disturbed(row())
    assert not disturbed(row(wall_ms=19.0, wait_ms=9.0)), "one other program on the core"
    assert disturbed(row(wall_ms=30.0, wait_ms=20.0)), "two of them"
    assert not disturbed(row(slowed=1.6)), "a host slows the sentinel alone"
    assert disturbed(row(wall_ms=12.0)), "two of 12 ms neither computing nor queued"
    assert not disturbed(row(cpu_ms=20.0), "wall"), "two threads have twice the CPU time"
    assert not disturbed(row(wait_ms=np.nan)), "systems without the counter"


def test_most_repeats_on_a_free_core_are_undisturbed():
    with pinned():
        found = [repeat(work, 1, Sentinel(), "thread") for _ in range(15)]
    waited = np.median([each["wait_ms"] / each["wall_ms"] for each in found])
    if waited > 0.3:
        pytest.skip(f"no core is free here: {waited:.0%} of the time in the run queue")
    assert np.mean([each["disturbed"] for each in found]) < 0.5


def test_time_is_of_one_call_and_short_calls_are_warm():
    calls = []
    with pinned():
        found = repeat(lambda: calls.append(work(0.002)), 5, Sentinel(), "thread")
    assert len(calls) == 6
    assert found["time_ms"] == pytest.approx(2, rel=0.2)
    assert found["cpu_ms"] == pytest.approx(5 * found["time_ms"])


def test_sentinel_knows_its_quiet_time_though_once_it_was_slow_or_impossibly_quick():
    sentinel = Sentinel()
    sentinel.seen = [1e-9] + [0.1] * 99 + [5.0] * 100
    assert sentinel.slowed(0.1, 0.15) == pytest.approx(1.5)


@linux
def test_pinned_has_one_thread_on_one_core_and_gives_all_back():
    threads, cores = torch.get_num_threads(), os.sched_getaffinity(0)
    with pinned() as facts:
        assert os.sched_getaffinity(0) == {facts["core"]}
        assert torch.get_num_threads() == 1
        with pinned(facts["core"]) as inner:
            assert inner["pinned"] == "yes"
    assert (torch.get_num_threads(), os.sched_getaffinity(0)) == (threads, cores)


def test_pinned_says_so_where_it_cannot_bind(monkeypatch):
    monkeypatch.delattr(clock.psutil.Process, "cpu_affinity")
    with pinned() as facts:
        assert facts["pinned"].startswith("no: this system")
        assert torch.get_num_threads() == 1


# Rounds ---------------------------------------------------------------------------------------


@pytest.fixture
def clockwork(monkeypatch):
    """Repeats without a clock: a call returns (time_ms, disturbed), and takes no time."""

    def told(call, loops, sentinel, kind):
        time_ms, bad = call() or (1.0, False)
        waited = {"wall_ms": 3 * time_ms if bad else time_ms, "wait_ms": 2 * time_ms if bad else 0}
        return {"time_ms": time_ms, **waited, "faults": 0.0, "disturbed": bad}

    monkeypatch.setattr(rounds, "repeat", told)
    monkeypatch.setattr(rounds.time, "sleep", lambda seconds: None)


def contenders(noise, lengths=(32, 64, 128), share=0.0, seed=0):
    """Calls with this relative noise and share of disturbed repeats, those at twice the time."""
    rng = np.random.default_rng(seed)

    def call(cost):
        bad = bool(rng.random() < share)
        return cost * (1 + bad) * (1 + noise * rng.random()), bad

    costs = {(name, N): N ** (1 + (name == "b")) / 1000 for N in lengths for name in "ab"}
    return {cell: lambda cost=cost: call(cost) for cell, cost in costs.items()}


def rounds_of(calls, **changed):
    options = {"budget_s": 20.0, "repeats": 10, "patience_s": 0.0}
    return measure_rounds(calls, rng=np.random.default_rng(1), **options | changed)


def test_every_round_has_every_cell_in_random_order(clockwork):
    rows = rounds_of(contenders(0.01), repeats=12).rows
    orders = [
        tuple(zip(own["contender"], own["N"], strict=True)) for _, own in rows.groupby("round")
    ]
    assert all(sorted(order) == sorted(orders[0]) for order in orders)
    assert len(set(orders)) > 8


def test_disturbed_repeats_are_kept_marked_made_again_and_not_used(clockwork):
    found = rounds_of(contenders(0.01, share=0.4))
    assert found.state == "measured"
    assert 0.2 < found.rows["disturbed"].mean() < 0.6
    counts = (~found.rows["disturbed"]).groupby([found.rows["contender"], found.rows["N"]]).sum()
    assert (counts == 10).all()
    assert stats.location(found.rows).loc[("a", 64), "value"] == pytest.approx(0.064, rel=0.02)


def test_a_machine_that_stays_busy_gives_no_numbers(clockwork):
    found = rounds_of(contenders(0.01, share=1.0), budget_s=1.0)
    assert found.state == "too busy"
    assert stats.location(found.rows)[["value", "low", "high"]].isna().all(axis=None)
    with pytest.raises(stats.TooFewError):
        stats.measured_crossover(found.rows, "a", "b")
    said = found.sentence()
    assert said.startswith("No answer, this machine is too busy to measure on: in 1 s ")
    assert "repeats were disturbed by other programs (in the run queue for 67% of" in said


def test_who_believes_everything_marks_nothing(clockwork):
    found = rounds_of(contenders(0.01, share=0.9), believe=True)
    assert found.state == "measured"
    assert not found.rows["disturbed"].any()


def test_a_budget_that_ends_before_the_first_repeat_names_the_load():
    calls = {(name, N): lambda: work(0.2) for name in "ab" for N in (1, 2)}
    found = measure_rounds(calls, budget_s=0.1, repeats=3, rng=np.random.default_rng(0))
    assert found.state == "too busy"
    assert "ended before the first repeat, with a load of " in found.sentence()


def test_of_lengths_that_do_not_fit_the_longest_are_left_out_and_two_stay(clockwork):
    calls = {("a", N): lambda N=N: (N * 10.0, False) for N in (10, 20, 400, 800)}
    found = rounds_of(calls, budget_s=20.0, repeats=3)
    assert {("a", 800)} <= set(found.skipped)
    assert not {("a", 10), ("a", 20)} & set(found.skipped)
    assert all(why.startswith("time: ") for why in found.skipped.values())


def test_time_is_planned_by_calls_that_find_their_memory_there(clockwork, monkeypatch):
    seen = []

    def told(call, *_):
        seen.append(call)
        faulted = seen.count(call) == 1
        time_ms = 5000.0 if faulted else 100.0
        return {"time_ms": time_ms, "wall_ms": time_ms, "wait_ms": 0.0,
                "faults": 1000.0 * faulted, "disturbed": False}  # fmt: skip

    monkeypatch.setattr(rounds, "repeat", told)
    calls = {("a", N): lambda N=N: None for N in (10, 20, 40)}
    assert not rounds_of(calls, budget_s=20.0, repeats=3).skipped


def test_what_does_not_fit_into_memory_is_left_out_with_a_reason(clockwork):
    def too_large():
        raise MemoryError("can't allocate 9 GB")

    calls = contenders(0.01) | {("a", 4096): too_large, ("a", 8192): too_large}
    found = rounds_of(calls)
    assert found.skipped["a", 4096] == "memory: can't allocate 9 GB"
    assert ("a", 8192) in found.skipped
    assert set(found.rows["N"]) == {32, 64, 128}


def test_the_budget_is_a_limit():
    calls = {(name, N): lambda: work(0.05) for name in "ab" for N in (1, 2, 3)}
    start = time.perf_counter()
    found = measure_rounds(calls, budget_s=2.0, repeats=1000, rng=np.random.default_rng(0))
    took = time.perf_counter() - start
    assert found.state != "measured"
    longest = found.rows["wall_ms"].max() / 1e3 if len(found.rows) else 0.5
    assert took < 2.0 + 0.2 + 3 * longest, "no call is begun that would end late, but a first one"


def test_short_calls_are_looped_and_waiting_ends_with_patience():
    calls = {(name, N): lambda: A @ A for name in "ab" for N in (1, 2)}
    found = measure_rounds(calls, budget_s=2.0, repeats=4, rng=np.random.default_rng(0))
    if len(found.rows):
        assert found.rows["loops"].median() > 1
        assert found.rows["cpu_ms"].median() > 1.0
