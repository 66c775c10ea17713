"""Units of timed runs: each in a process of its own, one after the other."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from replication import measure, store
from replication.experiments.base import one_of
from replication.measure.clock import pinned
from replication.measure.rounds import Cell, Outcome, TooBusyError, measure_rounds
from replication.store import Kept, StoreError, Unit


def runs_of(
    experiment: str, own: dict, code: tuple, make: Callable[[int], Callable], name: str = "run"
) -> list[Unit]:
    """A unit a run, with numbers of its own. How many runs there are is no property of one."""
    count, profile = own.pop("runs"), own["profile"]
    return [Unit(experiment, f"{name}-{i}", profile, own | {"run": i}, code, make(i))
            for i in range(count)]  # fmt: skip


@contextmanager
def clock_of(device: torch.device) -> Iterator[tuple[Callable[..., Outcome], dict]]:
    """What times cells: one pinned thread by its CPU time, a GPU by the wall's; what was pinned."""
    on_cpu = device.type == "cpu"

    def timed(
        calls: Mapping[Cell, Callable[[], object]], numbers: Any, run: int, seconds: float,
        warm: bool = False,
    ) -> Outcome:  # fmt: skip
        waiting = calls if on_cpu else {cell: _awaited(call) for cell, call in calls.items()}
        outcome = measure_rounds(
            waiting, budget_s=seconds, repeats=numbers.repeats, rng=np.random.default_rng(run),
            run=run, kind="thread" if on_cpu else "wall", believe=numbers.profile == "smoke",
            warm=warm,
        )  # fmt: skip
        if outcome.state == "too busy":
            raise TooBusyError(outcome.sentence())
        return outcome

    with pinned() if on_cpu else nullcontext({"threads": torch.get_num_threads()}) as where:
        yield timed, where


def _awaited(call: Callable[[], object]) -> Callable[[], None]:
    def awaited() -> None:
        call()
        torch.cuda.synchronize()

    return awaited


def undecided_in_smoke(answers: Iterable[bool | None], facts: Mapping) -> list[bool | None]:
    """Profile smoke believes every repeat, disturbed or not, so it decides nothing."""
    return [None if facts.get("profile") == "smoke" else answer for answer in answers]


def made_runs(
    every: list[Unit], folder: Path | None, rows: str, add: int | None = None
) -> list[Kept]:
    """Each in a process of its own. If ``add`` leaves some for later, those that are there."""
    one_of("rows", rows, store.WAYS)
    if rows == "fresh":
        store.retire(every, folder)
    todo = [unit for unit in every if rows != "saved" and not store.is_current(unit, folder)]
    for unit in tqdm(todo[:add], unit="run", leave=False, disable=None):
        in_own_process(f"{unit.experiment} {unit.name}", store.make, unit, folder)
    there = [unit for unit in every if store.exists(unit, folder)]
    return [store.load(unit, folder) for unit in there or every]


def in_own_process(what: str, call: Callable, *arguments: Any, end: float | None = None) -> Any:
    """The call's result; a TimeoutError, and the end of the process, at the moment ``end``."""
    try:
        with measure.processes(1) as pool:
            future = pool.submit(call, *arguments)  # returns when a process is there
            return future.result(None if end is None else max(0.0, end - time.time()))
    except (BrokenProcessPool, EOFError, ConnectionError):
        raise StoreError(
            f"The system killed the process of {what}, most likely for want of memory. Choose "
            "shorter lengths or smaller batches; what is done is kept."
        ) from None
