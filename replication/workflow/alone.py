"""One driver a folder at a time, and nothing of a killed one left running beside it."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil

from replication.results import ResultsError, lock

MARK = "REPLICATION_FOLDER"
"""All that a driver starts finds its folder in this variable, and can be found by it."""


class WorkflowError(ResultsError):
    """The work cannot begin, or did not end well. The message says what to do."""


@contextmanager
def alone(folder: Path, executor: str = "local", *, wait: bool = False) -> Iterator[None]:
    """Hold the folder; the system lets go of it however this process ends.

    What a killed predecessor has left running is ended first. If what this one leaves cannot be
    ended, the next one finds out whose it is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a") as file:
        _acquire(file, folder, wait)
        before = _read(folder)
        _check_same_host(folder, before)
        end_all(folder, {executor, before.get("executor", "local")} != {"local"})
        me = {"pid": os.getpid(), "host": socket.gethostname(), "executor": executor}
        _write(file, json.dumps(me))
        try:
            with _stopped_like_ctrl_c():
                yield
        finally:
            end_all(folder, executor != "local")
            _write(file, "")


def _acquire(file: IO, folder: Path, wait: bool) -> None:
    if lock(file):
        return
    holder = _read(folder)
    used = f"{folder} is in use by process {holder.get('pid')} on {holder.get('host')}."
    if not wait:
        raise WorkflowError(f"{used} Wait until it ends, or stop it. Nothing was changed.")
    print(f"{used} Waiting until it ends ...", flush=True)
    lock(file, wait=True)


def _read(folder: Path) -> dict:
    """Who holds the folder, or was killed while it did."""
    try:
        return json.loads((folder / ".lock").read_text() or "{}")
    except ValueError:  # cut while it was written
        return {}


def _write(file: IO, text: str) -> None:
    file.truncate(0)
    file.write(text)
    file.flush()


def _check_same_host(folder: Path, before: dict) -> None:
    """What was broken off elsewhere may still run there, where it cannot be seen."""
    here = socket.gethostname()
    if (host := before.get("host", here)) != here:
        raise WorkflowError(
            f"The work in {folder} was broken off on {host}, and parts of it may still run there. "
            f"Call again on {host}; or see that nothing of it runs, and delete {folder / '.lock'}."
        )


@contextmanager
def _stopped_like_ctrl_c() -> Iterator[None]:
    """A kill, or a terminal that is closed, ends the work in order."""

    def stop(*_) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_all(folder: Path, on_cluster: bool, patience: float = 30) -> None:
    """End every process here, and every job on the cluster, that was started for this folder.

    They write files whole or not at all, so they may be ended at any moment.
    """
    deadline = time.monotonic() + patience
    while left := [*_processes(folder), *(_jobs(folder) if on_cluster else ())]:
        for one in left:
            _end(one)
        if time.monotonic() > deadline:
            names = ", ".join(str(getattr(one, "pid", one)) for one in left)
            raise WorkflowError(f"These work in {folder} and cannot be ended: {names}.")
        time.sleep(0.1)


def _end(one: psutil.Process | str) -> None:
    if isinstance(one, str):
        subprocess.run(["scancel", one], check=False)
        return
    with suppress(psutil.NoSuchProcess):
        one.kill()


def _processes(folder: Path) -> list[psutil.Process]:
    """Those that carry the folder's mark, but neither this one nor its parents."""
    me, mark = psutil.Process(), str(folder.resolve())
    ours = [me, *me.parents()]
    return [p for p in psutil.process_iter() if _mark(p) == mark and p not in ours]


def _mark(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARK)
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return None


def _jobs(folder: Path) -> list[str]:
    """The Slurm jobs of this user whose working directory is the folder."""
    asked = ["squeue", "--me", "--noheader", "--format=%i %Z"]
    try:
        found = subprocess.run(asked, capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise WorkflowError(
            f"squeue does not say which jobs work in {folder}: {said.strip()}\nCall the same again "
            "where it does: what may still run is then ended first."
        ) from None
    pairs = [line.split(maxsplit=1) for line in found.stdout.splitlines()]
    return [job for job, where in pairs if Path(where) == folder.resolve()]
