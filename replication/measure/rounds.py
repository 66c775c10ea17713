"""Contenders and lengths in random order, round after round, disturbed repeats made again."""

import gc
import time
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import psutil

from replication.measure.clock import SHORTEST_MS, Kind, Sentinel, repeat
from replication.store import StoreError

Cell = tuple[str, int]
"""(contender, N)"""
FEWEST = 3
"""Undisturbed repeats that a cell needs in a process."""
LONG_MS = 200.0
"""A call that takes longer fills the caches itself, and its repeats differ less."""
PATIENCE_S = 20.0
"""How long a busy machine is waited for, of the budget, in a process."""


class TooBusyError(StoreError):
    """There is no answer, because other programs had the machine; the message says how much."""


class Outcome(NamedTuple):
    """Rows, one a repeat, what they are good for, and why cells were left out."""

    rows: pd.DataFrame
    state: Literal["measured", "imprecise", "too busy"]
    seconds: float
    skipped: dict[Cell, str]

    def sentence(self) -> str:
        if self.rows.empty:
            return (
                f"No answer: {self.seconds:.0f} s ended before the first repeat, with a load of "
                f"{psutil.getloadavg()[0]:.1f} on {psutil.cpu_count()} cores. Allow more time, or "
                "close what computes beside it."
            )
        waiting = self.rows["wait_ms"].sum() / self.rows["wall_ms"].sum()
        seen = f"{self.rows['disturbed'].mean():.0%} of {len(self.rows)} repeats were disturbed by "
        seen += f"other programs (in the run queue for {waiting:.0%} of the time)"
        if self.state == "too busy":
            return (
                f"No answer, this machine is too busy to measure on: in {self.seconds:.0f} s "
                f"{seen}. Close what computes beside it, or ask again later."
            )
        wide = "" if self.state == "measured" else "; the budget ended before all repeats were made"
        return f"Measured in {self.rows['round'].nunique()} rounds; {seen}{wide}."


def measure_rounds(
    calls: Mapping[Cell, Callable[[], object]], *, budget_s: float, repeats: int,
    rng: np.random.Generator, run: int = 0, patience_s: float = PATIENCE_S, kind: Kind = "thread",
    believe: bool = False, warm: bool = False,
) -> Outcome:  # fmt: skip
    """All cells once a round; to be called inside ``clock.pinned`` if ``kind`` is thread.

    A cell rests after so many undisturbed ``repeats``, one of long calls after the fewest. The
    budget is a limit: of what does not fit into it the costliest is left out, two lengths stay; and
    no call is begun that would pass it if it took its longest time so far. To ``believe`` is to
    mark no repeat as disturbed: good for trying things out, and for nothing else. ``warm`` calls
    are made once before each repeat.
    """
    start, collecting = time.perf_counter(), gc.isenabled()
    calm_by = start if believe else start + min(patience_s, budget_s / 3)
    work = _Work(calls, run, kind, start + budget_s, calm_by, believe, warm)
    gc.disable()
    try:
        work.prepare()
        left = set(work.loops)
        while left and work.round(left, rng):
            few = FEWEST if not believe else repeats
            wanted = {cell: few if cell in work.long else repeats for cell in left}
            left = {cell for cell in left if work.undisturbed[cell] < wanted[cell]}
    finally:
        gc.enable() if collecting else None
    rows = work.frame()
    lacking = not work.loops or min(work.undisturbed[cell] for cell in work.loops) < FEWEST
    busy = lacking and (rows.empty or rows["disturbed"].mean() > 0.5)
    state = "too busy" if busy else "imprecise" if left or lacking else "measured"
    return Outcome(rows, state, time.perf_counter() - start, work.skipped)


class _Work:
    """What one ``measure_rounds`` has done so far."""

    def __init__(
        self, calls: Mapping[Cell, Callable], run: int, kind: Kind, end: float, calm: float,
        believe: bool, warm: bool,
    ):  # fmt: skip
        self.calls, self.run, self.kind, self.end, self.calm_by = calls, run, kind, end, calm
        self.believe, self.warm = believe, warm
        self.rows, self.rounds, self.sentinel = [], 0, Sentinel()
        self.loops: dict[Cell, int] = {}
        self.long: set[Cell] = set()
        self.skipped: dict[Cell, str] = {}
        self.longest_s, self.undisturbed = dict.fromkeys(calls, 0.0), dict.fromkeys(calls, 0)

    def prepare(self) -> None:
        """Every cell once, the shortest first: caches, allocator, how many calls make a repeat.

        A contender ends where its next length, were it four times the last, passes the budget.
        """
        last: dict[str, float] = {}
        full: dict[str, str] = {}
        for name, N in sorted(self.calls, key=lambda cell: cell[1]):
            left = self.end - time.perf_counter()
            expected = 4 * last.get(name, 0.0)
            if name in full:
                self.skipped[name, N] = full[name]
            elif expected * FEWEST > left:
                why = f"a call might take {expected:.2g} s, {max(left, 0.0):.0f} s were left"
                self.skipped[name, N] = f"time: {why}"
            elif not self.try_out((name, N)):
                full[name] = self.skipped[name, N]
            else:
                last[name] = self.longest_s[name, N]
        self.fit_into_budget()

    def try_out(self, cell: Cell) -> bool:
        try:
            once = repeat(self.calls[cell], 1, self.sentinel, self.kind)
            if once["wall_ms"] < 50 or once["faults"]:  # the next call finds its memory there
                once = repeat(self.calls[cell], 1, self.sentinel, self.kind)
        except (MemoryError, RuntimeError) as error:  # PyTorch tells want of memory by words alone
            why = (str(error) or type(error).__name__).splitlines()[0]
            if isinstance(error, RuntimeError) and not ("allocate" in why or "out of mem" in why):
                raise
            self.skipped[cell] = f"memory: {why}"
            return False
        self.long |= {cell} if once["time_ms"] > LONG_MS else set()
        self.loops[cell] = max(1, int(np.ceil(SHORTEST_MS / max(once["time_ms"], 1e-3))))
        self.longest_s[cell] = self.loops[cell] * once["wall_ms"] / 1e3
        return True

    def fit_into_budget(self) -> None:
        """Leave out what costs most as long as the fewest rounds do not fit: of every contender
        its longest length comes first, and two stay."""
        left = self.end - time.perf_counter()
        while FEWEST * sum(self.longest_s[cell] for cell in self.loops) > left:
            lengths: dict[str, list[int]] = {}
            for name, N in self.loops:
                lengths.setdefault(name, []).append(N)
            ends = [(name, max(own)) for name, own in lengths.items() if len(own) > 2]
            if not ends:
                return
            costliest = max(ends, key=self.longest_s.__getitem__)
            del self.loops[costliest]
            self.skipped[costliest] = f"time: {FEWEST} rounds of all do not fit into it"

    def round(self, cells: set[Cell], rng: np.random.Generator) -> bool:
        """These cells in random order; False if the budget ended it."""
        self.wait_for_quiet()
        order = [cell for cell in self.loops if cell in cells]
        for i in rng.permutation(len(order)):
            if time.perf_counter() + self.longest_s[order[i]] > self.end:
                return False
            self.measure(order[i])
        self.rounds += 1
        return True

    def wait_for_quiet(self) -> None:
        """Until 20 ms of computing are undisturbed; but no longer than patience and budget."""
        probe = lambda: [self.sentinel() for _ in range(100)]  # noqa: E731
        while time.perf_counter() < min(self.calm_by, self.end) - 0.5:
            if not repeat(probe, 1, self.sentinel, "thread")["disturbed"]:
                return
            time.sleep(0.5)

    def measure(self, cell: Cell) -> None:
        if self.rows and self.rows[-1]["disturbed"]:
            time.sleep(0.01)  # who slept gets the core soon, and for a whole time slice
        if self.warm and cell not in self.long:
            self.calls[cell]()
        row = repeat(self.calls[cell], self.loops[cell], self.sentinel, self.kind)
        row["disturbed"] &= not self.believe
        self.longest_s[cell] = max(self.longest_s[cell], row["wall_ms"] / 1e3)
        self.undisturbed[cell] += not row["disturbed"]
        names = {"contender": cell[0], "N": cell[1], "run": self.run, "round": self.rounds}
        self.rows.append(names | row)

    def frame(self) -> pd.DataFrame:
        return pd.DataFrame(self.rows)
