"""Units of timed runs: each in a process of its own, one after the other."""

import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from replication import measure, store
from replication.experiments.base import one_of
from replication.store import Kept, StoreError, Unit


def runs_of(experiment: str, own: dict, code: tuple, make: Callable[[int], Callable]) -> list[Unit]:
    """A unit a run, with numbers of its own. How many runs there are is no property of one."""
    count, profile = own.pop("runs"), own["profile"]
    return [Unit(experiment, f"run-{i}", profile, own | {"run": i}, code, make(i))
            for i in range(count)]  # fmt: skip


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
