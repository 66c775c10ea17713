"""For notebooks: saved rows where they may be used, else a process of its own that measures.

A process takes glibc's settings when it starts. The kernel of a notebook is running already, and
cannot replace itself by another as a command can.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryFile

import pandas as pd
from tqdm.auto import tqdm

from replication import results
from replication.config.validate import one_of
from replication.measure import ALLOCATOR, machine, pick_device
from replication.scaling.repeats import ROWS as REPEATS
from replication.scaling.repeats import Repeats, beside, load_repeats
from replication.scaling.run import (
    PLAN,
    ROWS,
    Outcome,
    as_json,
    is_stale,
    is_whole,
    load_scaling,
)
from replication.scaling_config import RUNS, for_repeats, repeated, resolve

WAYS = ("auto", "saved", "fresh")
RESTARTS = 9
"""Each second one leaves out a cell, so that these are enough for several that need too much."""
PAUSE = 0.5
"""Seconds between two looks at how far the measurement is."""
MEASURE = 'replication bench scaling (in a notebook: rows "auto")'


def obtain(
    folder: Path,
    profile: str,
    rows: str = "auto",
    *,
    device: str = "auto",
    threads: int | None = None,
    **given,
) -> Outcome:
    """What ``folder`` holds of a profile with some values ``given``, and measured if need be.

    auto takes saved rows if they are whole and come from the present source, and measures
    otherwise; saved takes rows of any source; fresh measures, without a look at what is saved but
    for a run of the same that was broken off, which goes on. None leaves the profile's value.
    """
    one_of("rows", rows, WAYS)
    folder, config = Path(folder).resolve(), as_json(resolve(profile, **given))
    named = {name: config[name] for name, value in given.items() if value is not None}
    on = _on(device, threads)
    if rows == "saved":
        return _saved(folder, named | on)
    found = None if rows == "fresh" else _found(folder)
    again = rows == "fresh" or (found is not None and is_stale(found[1]))
    if again or not _usable(folder, found, config | on):
        words = {"profile": profile, "out": folder, "device": device, "threads": threads, **named}
        _measure(folder, [*_typed(words), *(["--again"] if again else [])])
    return load_scaling(folder, MEASURE)


def _on(device: str, threads: int | None) -> dict:
    """What is asked of the machine, by the names of the provenance."""
    asked = {} if threads is None else {"threads": threads}
    if device != "auto":
        asked["device"] = machine(pick_device(device))["device"]
    return asked


def _saved(folder: Path, asked: dict) -> Outcome:
    outcome = load_scaling(folder, MEASURE)
    _check_same(folder, outcome.facts, asked)
    return outcome


def _check_same(folder: Path, facts: dict, asked: dict) -> None:
    if differing := _differing(facts, asked):
        raise results.ResultsError(
            f"The rows in {folder} were measured with another {', '.join(differing)} than is "
            'asked for. Leave that to the rows, or measure: rows "fresh", in another folder.'
        )


def _found(folder: Path) -> tuple[pd.DataFrame, dict] | None:
    """Plan and provenance of a run, finished or not; None without one."""
    return results.load(folder, PLAN, MEASURE) if results.has(folder, PLAN) else None


def _usable(folder: Path, found: tuple[pd.DataFrame, dict] | None, asked: dict) -> bool:
    """Whether a run is whole, and what is asked for."""
    if found is None or _differing(found[1], asked) or not results.has(folder, ROWS):
        return False
    return is_whole(*found, results.load(folder, ROWS, MEASURE)[0])


def _differing(facts: dict, asked: dict) -> list[str]:
    stored = facts | facts["config"]
    return [name for name, value in asked.items() if stored.get(name) != value]


def obtain_repeats(
    folder: Path,
    profile: str,
    rows: str = "auto",
    *,
    device: str = "auto",
    threads: int | None = None,
) -> Repeats:
    """The repeats of a profile's main question, beside its benchmark in ``folder``.

    ``rows`` is as in ``obtain``. What else a benchmark was given does not change them.
    """
    one_of("rows", rows, WAYS)
    place, on = beside(Path(folder).resolve(), profile), _on(device, threads)
    remedy = f'replication run 04 --profile {profile} (in a notebook: rows "auto")'
    if rows == "saved":
        found = load_repeats(place, remedy)
        _check_same(place, found.facts, on)
        return found
    if rows == "fresh" or not _repeats_usable(place, as_json(for_repeats(profile)) | on):
        words = repeated(profile) | {"out": place.parent, "device": device, "threads": threads}
        typed = ["crossover", *_typed(words)]
        _check_end(*_apart(typed, lambda process: _watch_runs(process, place)))
    return load_repeats(place, remedy)


def _repeats_usable(place: Path, asked: dict) -> bool:
    """Whether all runs are there, whole, of the present source, and what is asked for."""
    try:
        found = load_repeats(place)
        whole = found.runs == RUNS and not is_stale(found.facts)
        return whole and not _differing(found.facts, asked)
    except (results.ResultsError, KeyError):  # not there, or damaged
        return False


# The process -------------------------------------------------------------------------------


def _typed(words: dict) -> list[str]:
    """Options as they are typed; lists with commas, None not at all."""
    text = {
        name: ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        for name, value in words.items()
        if value is not None
    }
    return [word for name, value in text.items() for word in (f"--{name}".replace("_", "-"), value)]


def _measure(folder: Path, words: list[str]) -> None:
    """``replication bench scaling``, its progress shown here; if it fails, its words are told.

    If the system kills it, most likely for want of memory, it is started again and goes on.
    """
    for _ in range(1 + RESTARTS):
        code, said = _apart(["bench", "scaling", *words], lambda process: _watch(process, folder))
        if code != -signal.SIGKILL:
            break
        words = [word for word in words if word != "--again"]
    _check_end(code, said)


def _check_end(code: int, said: str) -> None:
    if code:
        trouble = said.strip().removeprefix("replication: ")
        raise results.ResultsError(trouble or f"The measurement ended with the code {code}.")


def _apart(words: list[str], watch: Callable[[subprocess.Popen], None]) -> tuple[int, str]:
    """How a process of ``replication`` ended, and what it said."""
    command = [sys.executable, "-m", "replication", *words]
    options = {"cwd": results.ROOT, "env": os.environ | ALLOCATOR, "stderr": subprocess.STDOUT}
    with (
        TemporaryFile("w+") as said,
        subprocess.Popen(command, stdout=said, **options) as process,
    ):
        try:
            watch(process)
        except BaseException:
            process.send_signal(signal.SIGINT)
            raise
        said.seek(0)
        return process.returncode, said.read()


def _watch(process: subprocess.Popen, folder: Path) -> None:
    """A bar over the cells of the plan."""
    with tqdm(desc="calibration", unit="cell", leave=False, disable=None) as bar:
        for _ in _changes(process, folder / f"{PLAN}.json"):
            _show(bar, _found(folder)[0]["status"])


def _watch_runs(process: subprocess.Popen, place: Path) -> None:
    """A bar over the runs."""
    with tqdm(desc="run after run", total=RUNS, unit="run", leave=False, disable=None) as bar:
        for _ in _changes(process, place / f"{REPEATS}.json"):
            bar.update(load_repeats(place).runs - bar.n)


def _changes(process: subprocess.Popen, path: Path) -> Iterator[None]:
    """Whenever a provenance was written, which comes last, until the process ends. What it belongs
    to is read only then, so as not to disturb what is timed."""
    seen = time.time()
    while process.poll() is None:
        time.sleep(PAUSE)
        if (written := _written(path)) > seen:
            seen = written
            yield


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _show(bar: tqdm, status: pd.Series) -> None:
    bar.set_description("measuring")
    bar.total = int((status != "skipped").sum())
    bar.n = int(status.isin(("measured", "noisy")).sum())
    bar.refresh()
