"""Files: written whole or not at all, and locked while they are made."""

import errno
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "results"
BUILD = ROOT / "build"
PAPER = ROOT / "paper"
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system says that cannot lock, as some of a network."""


class StoreError(RuntimeError):
    """Something on disk is missing, damaged, in use, or of another kind. It says what to do."""


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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


def writable(folder: Path) -> Path:
    """The folder, made if need be; refused, before minutes are spent, if it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error.strerror}. Choose another folder, or "
                         "see to it that this one can.") from None  # fmt: skip


def to_json(content: Any) -> bytes:
    return (json.dumps(content, indent=2, sort_keys=True, default=str) + "\n").encode()


def plain(content: Any) -> Any:
    """As it comes back from a JSON file: tuples are lists."""
    return json.loads(to_json(content))


@contextmanager
def locked(path: Path, what: str, *, wait: bool = False) -> Iterator[None]:
    """Let no other process make ``path`` meanwhile; the system lets go of it at the latest when
    this process ends. Who comes second waits, or is told that it is in use."""
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.parent / f".{path.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not wait:
            raise StoreError(
                f"{what} is being written by another process ({path}). Wait until it ends, or stop "
                "it; then call again. Nothing was changed."
            ) from None
        print(f"{what} is in use by another process. Waiting until it ends ...", file=sys.stderr)
        lock.acquire()
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        print(f"{path.parent} knows no locks ({error.strerror}): see to it that nothing else makes "
              f"{what} meanwhile.", file=sys.stderr)  # fmt: skip
    try:
        yield
    finally:
        lock.release()
