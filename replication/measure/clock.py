"""The clock: what a repeat cost, what else the machine did meanwhile, and when to believe it.

Other programs compute beside every measurement. So one pinned thread is timed by its CPU time,
which stands still while others have the core; and a repeat is *disturbed*, marked and measured
again, where even that is not to be believed: caches and memory were not its own either.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import psutil
import torch

try:
    import resource
except ImportError:  # Windows
    resource = None

Kind = Literal["thread", "wall"]
"""CPU time of one pinned thread; or wall time, for all threads and for GPUs that a call awaits."""

SHORTEST_MS = 2.0
"""Calls are looped up to this: reading all counters takes about 0.05 ms."""
MOST_WAITING = 0.5
"""Of the wall time, in the run queue: more than one other program on the core. Recordings on a
2-core machine: up to there CPU time is 1 to 2 % above that of a quiet core, at 0.8 it is 18 %."""
MOST_ASLEEP = 0.1
"""Of the CPU time, neither running nor queued: a host's theft, or work in other threads."""


@contextmanager
def pinned(core: int | None = None) -> Iterator[dict]:
    """One thread on one core, by default the quietest of the fastest. Yields what was done."""
    threads, process = torch.get_num_threads(), psutil.Process()
    before = process.cpu_affinity() if hasattr(process, "cpu_affinity") else None
    facts = {"threads": 1, "core": None, "pinned": "no: this system cannot bind threads to cores"}
    if before:
        core = _quietest(before) if core is None else core
        facts |= {"core": core, "pinned": "yes"}
        process.cpu_affinity([core])
    torch.set_num_threads(1)
    try:
        yield facts
    finally:
        torch.set_num_threads(threads)
        if before:
            process.cpu_affinity(before)


def _quietest(cores: list[int]) -> int:
    """Among the fastest, for laptops have slow ones too."""
    found, speed = psutil.cpu_times_percent(0.3, percpu=True), {}
    for core in cores:
        file = Path(f"/sys/devices/system/cpu/cpu{core}/cpufreq/cpuinfo_max_freq")
        speed[core] = int(file.read_text()) if file.exists() else 0
    fast = [core for core in cores if speed[core] >= 0.95 * max(speed.values())]
    return max(fast, key=lambda core: found[core].idle)


class Sentinel:
    """A small product that knows what it takes when it has its core for itself."""

    def __init__(self):
        self.a, self.out, self.seen = torch.ones(96, 96), torch.empty(96, 96), []
        for _ in range(50):
            self()

    def __call__(self) -> float:
        """ms, the least of three: what a call left in the caches does not count."""
        self.seen.append(min(self._once() for _ in range(3)))
        return self.seen[-1]

    def slowed(self, *times: float) -> float:
        return max(times) / float(np.quantile(self.seen, 0.05))

    def _once(self) -> float:
        start = time.thread_time_ns()
        for _ in range(3):
            torch.mm(self.a, self.a, out=self.out)
        return (time.thread_time_ns() - start) / 1e6


def _counters(kind: Kind) -> np.ndarray:
    """ms in the run queue, voluntary and involuntary switches, faults; NaN where unknown."""
    found = np.full(4, np.nan)
    who = getattr(resource, "RUSAGE_THREAD" if kind == "thread" else "RUSAGE_SELF", None)
    if who is not None:
        used = resource.getrusage(who)
        found[1:] = used.ru_nvcsw, used.ru_nivcsw, used.ru_minflt + used.ru_majflt
    threads = ["thread-self"] if kind == "thread" else _threads()
    if os.path.exists("/proc/thread-self/schedstat"):
        found[0] = sum(_queued_ns(thread) for thread in threads) / 1e6
    return found


def _threads() -> list[str]:
    return [f"self/task/{task}" for task in os.listdir("/proc/self/task")]


def _queued_ns(thread: str) -> int:
    try:
        with open(f"/proc/{thread}/schedstat") as file:
            return int(file.read().split()[1])
    except OSError:  # it has ended since
        return 0


def repeat(call: Callable[[], object], loops: int, sentinel: Sentinel, kind: Kind) -> dict:
    """One timed repeat. All columns are of the whole repeat, but ``time_ms`` is of one call."""
    cpu_clock = time.thread_time_ns if kind == "thread" else time.process_time_ns
    if loops > 1:
        call()  # short calls notice what others left in the caches
    before, counters = sentinel(), _counters(kind)
    cpu, wall = cpu_clock(), time.perf_counter_ns()
    for _ in range(loops):
        call()
    wall, cpu = (time.perf_counter_ns() - wall) / 1e6, (cpu_clock() - cpu) / 1e6
    wait, *others = (_counters(kind) - counters).tolist()
    row = {"time_ms": (cpu if kind == "thread" else wall) / loops, "loops": loops}
    row |= {"wall_ms": wall, "cpu_ms": cpu}
    row["wait_ms"] = np.fmin(wait, wall - cpu) if kind == "thread" else wait
    row |= zip(("voluntary", "involuntary", "faults"), others, strict=True)
    row["slowed"] = sentinel.slowed(before, sentinel())
    return row | {"disturbed": disturbed(row, kind)}


def disturbed(row: Mapping, kind: Kind = "thread") -> bool:
    """Is the time of this repeat not to be believed?

    The sentinel is recorded, but marks nothing: what slows it on a virtual machine with nothing
    else on it lasts for minutes, and no repeat would be left. It slows calls as well, though not
    all alike: such rows are of a slow machine, and their tables say how slow it was.
    """
    asleep = row["wall_ms"] - row["wait_ms"] - row["cpu_ms"] if kind == "thread" else 0.0
    waited = row["wait_ms"] > MOST_WAITING * row["wall_ms"]
    return bool(waited or asleep > MOST_ASLEEP * row["cpu_ms"])
