"""All runs of an experiment, some side by side, each in a process of its own."""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import NamedTuple

from tqdm.auto import tqdm

from replication.config import Experiment, Run
from replication.measure import ALLOCATOR
from replication.train import train


class Rows(NamedTuple):
    """Rows of all runs; attention, length and seed say which run a row is from."""

    steps: list[dict]
    evaluations: list[dict]
    failures: list[dict]


def checkpoint_path(folder: Path, run: Run) -> Path:
    return Path(folder) / f"{run.name}.pt"


def train_all(experiment: Experiment, folder: Path, *, workers: int = 2) -> Rows:
    """Train every run, at most ``workers`` at a time; finished or broken-off ones go on.

    Each leaves its checkpoint, and with it its model, in ``folder``. If one breaks off, or
    the user does, all end at once; what they have saved stays.
    """
    if workers < 1:
        raise ValueError(f"workers={workers} is too small. Choose at least 1.")
    runs, found, before = list(experiment.runs()), {}, set(active_children())
    context, me = get_context("spawn"), (os.getpid(),)
    with _allocator(), ProcessPoolExecutor(workers, context, _end_with, me) as pool:
        dearest_first = sorted(runs, key=lambda run: run.attention != "lsh")
        jobs = {pool.submit(_train_one, run, Path(folder)): run for run in dearest_first}
        try:
            with tqdm(total=len(runs), unit="run", leave=False, disable=None) as bar:
                for job in as_completed(jobs):
                    found[jobs[job]] = job.result()
                    bar.set_postfix_str(_summary(jobs[job], found[jobs[job]]))
                    bar.update()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(active_children()) - before:
                child.terminate()
            raise
    return _joined(runs, found)


def _end_with(parent: int) -> None:
    """From now on this process ends soon after its parent, however that ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _train_one(run: Run, folder: Path) -> tuple[list[dict], list[dict], str | None]:
    _, *rest = train(run, checkpoint_path(folder, run), progress=False)
    return tuple(rest)


def _joined(runs: list[Run], found: dict) -> Rows:
    rows = Rows([], [], [])
    for run in runs:
        which = {"attention": run.attention, "length": run.length, "seed": run.seed}
        steps, evaluations, failure = found[run]
        rows.steps.extend(which | row for row in steps)
        rows.evaluations.extend(which | row for row in evaluations)
        if failure:
            rows.failures.append(which | {"step": len(steps), "diagnosis": failure})
    return rows


def _summary(run: Run, result: tuple) -> str:
    last = result[1][-1]
    what = f"{run.attention} {run.length} seed {run.seed}"
    return f"{what}: loss {last['eval_loss']:.3g}, accuracy {last['token_accuracy']:.1%}"


@contextmanager
def _allocator() -> Iterator[None]:
    """Processes started in this block keep freed memory instead of faulting it in again."""
    before = {name: os.environ.get(name) for name in ALLOCATOR}
    os.environ.update(ALLOCATOR)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
