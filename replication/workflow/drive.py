"""Snakemake as a child: what it is to do, what it has done and why it stopped. One a folder, and
nothing of a killed one left running beside it.

Snakemake's own lock outlives a killed driver and has to be removed by hand; the system's, which
``store.locked`` takes, does not. So Snakemake is told not to lock.
"""

import csv
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from replication.store import ROOT, StoreError, locked

LOG, MARK = "snakemake.log", "REPLICATION_FOLDER"
"""All that a driver starts finds its folder in this variable, and can be found by it."""
CHECKSUMS = 100 * 2**20
"""Bytes. Below this a file counts as changed if its content has, not if it was touched."""
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a kill, a terminal that is closed."""
QUIET = {"capture_output": True, "text": True}


@dataclass(frozen=True)
class Drive:
    """Snakemake at work in one folder. It makes NAME.done for every job."""

    folder: Path
    settings: dict[str, object]
    """What the Snakefile finds in ``config``, beside the executor. Snakemake reads it as YAML."""
    cores: int
    executor: str = "local"
    """The name of a folder in workflow/, or "local"."""

    def pending(self) -> dict[str, str]:
        """The jobs that are to be done, each with the reason."""
        asked = subprocess.run(self._command("--summary"), cwd=self.folder, **QUIET)
        if asked.returncode:
            raise StoreError(f"Snakemake cannot plan the work:\n{asked.stderr.strip()[-2000:]}")
        rows = csv.DictReader(asked.stdout.splitlines(), delimiter="\t")
        return {row["output_file"].removesuffix(".done"): row["status"]
                for row in rows if row["plan"] != "no update"}  # fmt: skip

    def run(self, names: list[str], unit: str) -> int:
        """Do these jobs, showing progress; tell why some could not be done: the exit code. Who
        breaks it off must end the child, too, as ``alone`` does."""
        from tqdm import tqdm

        if not names:
            return 0
        for path in (self.folder / f"{name}{kind}" for name in names for kind in (".done", ".log")):
            path.unlink(missing_ok=True)
        child, left, running, is_over = self._start(), list(names), [], False
        with tqdm(total=len(names), unit=unit, disable=None) as bar:
            while not is_over:
                is_over = child.poll() is not None
                began = [name for name in left if (self.folder / f"{name}.log").exists()]
                if bar.disable and set(began) - set(running):
                    print(f"running: {', '.join(began)}", flush=True)
                bar.set_postfix_str(", ".join(began))
                running = began
                for name in [name for name in left if (self.folder / f"{name}.done").exists()]:
                    left.remove(name)
                    bar.update()
                    if bar.disable:
                        print(f"{name} is made; {len(left)} to go", flush=True)
                time.sleep(0 if is_over else 0.2)
        return self._explain(left) if left or child.returncode else 0

    def _start(self) -> subprocess.Popen:
        """The child, in a session of its own, so that Ctrl-C reaches it through us alone."""
        env = os.environ | {MARK: str(self.folder.resolve())}
        with (self.folder / LOG).open("w") as log:
            return subprocess.Popen(
                self._command(), cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip

    def _command(self, *more: str) -> list[str]:
        here = self.executor == "local"
        settings = self.settings | {"executor": self.executor}
        return [
            sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"),
            "--profile", "none" if here else str(ROOT / "workflow" / self.executor),
            "--cores", str(self.cores), "--nolock", "--rerun-incomplete", "--keep-going",
            "--nocolor", "--max-checksum-file-size", str(CHECKSUMS), *more,
            "--config", *(f"{name}={value}" for name, value in settings.items()),
        ]  # fmt: skip

    def _explain(self, left: list[str]) -> int:
        """Errors are in logs, equal ones are told once; a job without one waits for another."""
        said = {name: _tail(self.folder / f"{name}.log", 1000) for name in left}
        own = f"{_tail(self.folder / LOG)}\nAll of it: {self.folder / LOG}"
        other, told = "It waits for what could not be made." if any(said.values()) else own, {}
        for name in left or ["Snakemake's own last step"]:
            told.setdefault(said.get(name) or other, []).append(name)
        for why, names in told.items():
            print(f"\nNot made: {', '.join(names)}\n{why}", file=sys.stderr)
        print("\nWhat was made stays; what was begun lies beside it as .part.ipynb. Mend this, "
              "then call the same again.", file=sys.stderr)  # fmt: skip
        return 1


def _tail(log: Path, lines: int = 20) -> str:
    text = log.read_text(errors="replace") if log.exists() else ""
    return "\n".join(text.strip().splitlines()[-lines:])


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder; what a killed predecessor has left running is ended first."""
    for number in ENDS:
        signal.signal(number, signal.default_int_handler)
    with locked(folder / "work", str(folder)):
        end_all(folder)
        try:
            yield
        finally:  # in which a second signal must not break it off
            before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDS}
            end_all(folder)
            for number, handler in before.items():
                signal.signal(number, handler)


def end_all(folder: Path) -> None:
    """End every process here, and every job on the cluster, that was started for this folder.

    They write files whole or not at all, so they may be ended at any moment.
    """
    deadline = time.monotonic() + 30
    while left := [*_processes(folder), *_jobs(folder)]:
        for command in left:
            subprocess.run(command, check=False, **QUIET)
        if time.monotonic() > deadline:
            names = ", ".join(command[-1] for command in left)
            raise StoreError(f"These work in {folder} and cannot be ended: {names}.")
        time.sleep(0.1)


def _processes(folder: Path) -> Iterator[list[str]]:
    """How to end those that carry the folder's mark, but neither this one nor its parents."""
    import psutil

    me, mark = psutil.Process(), str(folder.resolve())
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and process not in [me, *me.parents()]:
                yield ["kill", "-KILL", str(process.pid)]


def _jobs(folder: Path) -> list[list[str]]:
    """How to end the Slurm jobs of this user whose working directory is the folder."""
    if not shutil.which("squeue"):
        return []
    asked = subprocess.run(["squeue", "--me", "--noheader", "--format=%i %Z"], **QUIET)
    if asked.returncode:
        raise StoreError(f"squeue does not say which jobs work in {folder}: {asked.stderr.strip()}")
    pairs = [line.split(maxsplit=1) for line in asked.stdout.splitlines()]
    return [["scancel", job] for job, where in pairs if Path(where) == folder.resolve()]
