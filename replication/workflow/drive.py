"""Snakemake as a child: what it would do, what it has done, and why it stopped."""

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tqdm import tqdm

from replication import notebooks
from replication.results import ROOT
from replication.workflow.alone import MARK, WorkflowError

PROFILES = ROOT / "workflow"
LOG = "snakemake.log"
WAITS = "It waits for what could not be made."
CHECKSUMS = 100 * 2**20
"""Bytes. Below this a file counts as changed if its content has, not if it was touched."""


@dataclass(frozen=True)
class Drive:
    """Snakemake at work in one folder."""

    folder: Path
    settings: dict[str, object]
    """What the Snakefile finds in ``config``, beside the executor. Snakemake reads it as YAML."""
    cores: int
    executor: str = "local"
    """The name of a folder in workflow/, or "local"."""

    def pending(self) -> dict[str, str]:
        """The files that are to be made, each with the reason."""
        command = self._command("--summary")
        asked = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if asked.returncode:
            raise WorkflowError(f"Snakemake cannot plan the work:\n{_tail(asked.stderr)}")
        rows = csv.DictReader(asked.stdout.splitlines(), delimiter="\t")
        return {row["output_file"]: row["status"] for row in rows if row["plan"] != "no update"}

    def run(self, files: list[str], unit: str) -> dict[str, str]:
        """Make these files, showing progress; those that could not be made, and why."""
        if not files:
            return {}
        before, start = {name: self._stamp(name) for name in files}, time.time()
        waiting = dict(before)
        bar = tqdm(total=len(files), unit=unit, disable=None)
        with bar, (self.folder / LOG).open("w") as log, self._snakemake(log) as child:
            while child.poll() is None:
                time.sleep(0.2)
                self._show(bar, waiting)
            self._show(bar, waiting)
        left = [name for name, stamp in before.items() if self._stamp(name) <= stamp]
        if child.returncode and not left:
            raise WorkflowError(
                f"All files were made, but Snakemake ended with code {child.returncode}:\n"
                f"{_end_of(self.folder / LOG)}\nCall the same again."
            )
        return self._reasons(left, start)

    def _show(self, bar: tqdm, waiting: dict[str, int]) -> None:
        """Count what has been made since, and forget it; a line each where no bar is shown."""
        for name in [name for name, stamp in waiting.items() if self._stamp(name) > stamp]:
            del waiting[name]
            bar.update()
            if bar.disable:
                print(f"{name.removesuffix('.done')} is made; {len(waiting)} to go", flush=True)

    def _stamp(self, name: str) -> int:
        """When a file was made, in nanoseconds; 0 if it does not exist."""
        try:
            return (self.folder / name).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    @contextmanager
    def _snakemake(self, log: IO) -> Iterator[subprocess.Popen]:
        """The child, in a session of its own, so that Ctrl-C reaches it through us alone."""
        child = subprocess.Popen(
            self._command(), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env=os.environ | notebooks.allocator() | {MARK: str(self.folder.resolve())},
            start_new_session=True,
        )  # fmt: skip
        try:
            yield child
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGINT)  # it cancels what waits in a cluster's queue
                _wait(child, 10)

    def _command(self, *more: str) -> list[str]:
        profile = "none" if self.executor == "local" else str(PROFILES / self.executor)
        settings = self.settings | {"executor": self.executor}
        return [
            sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"),
            "--profile", profile, "--cores", str(self.cores), "--nolock", "--rerun-incomplete",
            "--keep-going", "--nocolor", "--max-checksum-file-size", str(CHECKSUMS), *more,
            "--config", *(f"{name}={value}" for name, value in settings.items()),
        ]  # fmt: skip

    def _reasons(self, left: Iterable[str], start: float) -> dict[str, str]:
        """Errors come from files that are new; what has none only waits for what has one."""
        found = {name: self._why(self.folder / name, start) for name in left}
        others = WAITS if any(found.values()) else _end_of(self.folder / LOG)
        return {name: why or others for name, why in found.items()}

    def _why(self, out: Path, start: float) -> str:
        """The error of the notebook, or the end of its log; the page of a whole one has its own."""
        is_page = out.suffix == ".html" and out.with_suffix(".done").exists()
        partial, log = notebooks.partial(out), out.with_suffix(".page.log" if is_page else ".log")
        if partial.exists() and partial.stat().st_mtime > start:
            return notebooks.failure(partial, _end_of(log))
        return _end_of(log) if log.exists() and log.stat().st_mtime > start else ""


def explain(reasons: dict[str, str]) -> int:
    """Tell what could not be made, equal errors once; the exit code."""
    for reason in dict.fromkeys(reasons.values()):
        names = [name.removesuffix(".done") for name, why in reasons.items() if why == reason]
        print(f"\nNot made: {', '.join(names)}\n{reason.rstrip()}", file=sys.stderr)
    if reasons:
        print("\nWhat was made stays; what was begun lies beside it as .part.ipynb. Mend this, "
              "then call the same again.", file=sys.stderr)  # fmt: skip
    return 1 if reasons else 0


def _wait(child: subprocess.Popen, seconds: float) -> None:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _end_of(log: Path) -> str:
    return f"{_tail(log.read_text(errors='replace'))}\nAll of it: {log}" if log.exists() else ""


def _tail(text: str, lines: int = 20) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
