"""The only room that touches the disk: rows as CSV, how they came about as JSON beside them.

A file appears whole or not at all. Rows that arrive one by one are appended a line at a
time, so that an interrupted run loses at most the line it was writing.
"""

import fcntl
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from shutil import rmtree
from typing import IO

import pandas as pd

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
LOCK = ".lock"


class ResultsError(RuntimeError):
    """Results are missing, damaged, or belong to another run."""


def write_whole(path: Path, content: bytes) -> None:
    """Write to a temporary file beside ``path``, then put it in place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def save(
    folder: Path, name: str, rows: pd.DataFrame, provenance: dict, digits: int | None = None
) -> Path:
    """Write folder/name.csv and, after it, folder/name.json. Returns the CSV's path.

    If this is broken off in between, new rows have an old provenance and count as stale; the other
    way round old rows would pass for new ones. ``digits`` keeps so many significant ones of every
    float, where rows are many.
    """
    if rows.empty:
        raise ResultsError(f"There are no rows to save as {folder / name}.csv.")
    buffer = BytesIO()
    rows.to_csv(buffer, index=False, float_format=digits and f"%.{digits}g")
    write_whole(folder / f"{name}.csv", buffer.getvalue())
    write_whole(folder / f"{name}.json", to_json(provenance))
    return folder / f"{name}.csv"


def has(folder: Path, *names: str) -> bool:
    """Whether all these tables are there, each with its provenance."""
    return all(path.exists() for name in names for path in _files(folder, name))


def _files(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.csv", folder / f"{name}.json"


def load(folder: Path, name: str, remedy: str) -> tuple[pd.DataFrame, dict]:
    """Rows and provenance; ``remedy`` is the command that would measure them."""
    table, facts = _files(folder, name)
    for path in (table, facts):
        if not path.exists():
            raise ResultsError(f"No results at {path}. Measure them with\n    {remedy}")
    try:
        rows = pd.read_csv(table)
        return rows, json.loads(facts.read_text())
    except ValueError as error:
        raise ResultsError(
            f"The results at {table} cannot be read ({error}). Delete them and measure again with"
            f"\n    {remedy}"
        ) from error


def load_parts(folder: Path, name: str, parts: Iterable[str], remedy: str) -> pd.DataFrame:
    """The rows of a table that was saved in parts, name-part.csv, below one another."""
    tables = (load(folder, f"{name}-{part}", remedy)[0] for part in parts)
    return pd.concat(tables, ignore_index=True)


def append(path: Path, rows: Iterable[dict]) -> None:
    """Add rows to a CSV of the same columns, creating it if needed, and push them to disk."""
    frame = pd.DataFrame(list(rows))
    text = frame.to_csv(index=False, header=not path.exists())
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def read_partial(path: Path) -> pd.DataFrame:
    """The whole lines of a CSV that may have been cut while a line was written."""
    if not path.exists():
        return pd.DataFrame()
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        write_whole(path, whole)
    try:
        return pd.read_csv(BytesIO(whole)) if whole else pd.DataFrame()
    except ValueError as error:
        raise ResultsError(
            f"The rows at {path} cannot be read ({error}). Delete this file and call again: they "
            "are then measured anew."
        ) from error


def forget(folder: Path) -> None:
    """Delete all that lies in a folder, but for its locks."""
    for path in folder.glob("*"):
        if path.is_dir():
            rmtree(path)
        elif path.suffix != LOCK:
            path.unlink()


def to_json(content: dict) -> bytes:
    return (json.dumps(content, indent=2, sort_keys=True, default=str) + "\n").encode()


# One at a time -----------------------------------------------------------------------------


@contextmanager
def held(folder: Path, what: str) -> Iterator[None]:
    """Let no other process write ``what`` into ``folder`` meanwhile: it is told who does.

    The system lets go of it however this process ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f".{what}{LOCK}"
    with path.open("a") as file:
        if not lock(file):
            raise ResultsError(
                f"{what} in {folder} is being written by process {path.read_text()}. Wait until it "
                "ends, or stop it; then call again."
            )
        file.truncate(0)
        file.write(f"{os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


def lock(file: IO, *, wait: bool = False) -> bool:
    """Keep an open file to this process until it is closed; False if another one has it.

    A file system that knows no locks cannot keep anybody away, which is told.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        print(
            f"{file.name} cannot be locked here ({error.strerror}). See to it that nothing else "
            f"works in {Path(file.name).parent} meanwhile.",
            file=sys.stderr,
        )
    return True


def commit() -> str:
    """The commit that is checked out, with a + if files beside results differ from it.

    "unknown" without git.
    """
    git = ["git", "-C", str(ROOT)]
    try:
        head = subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True
        )
        made = [f":!{folder}" for folder in ("results", "figures", "paper/report.pdf")]
        status = subprocess.run(
            [*git, "status", "--porcelain", "--", ".", *made], capture_output=True, text=True
        )
    except OSError:
        return "unknown"
    if head.returncode:
        return "unknown"
    return head.stdout.strip() + ("+" if status.stdout.strip() else "")
