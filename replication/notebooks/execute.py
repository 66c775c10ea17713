"""Run a notebook by papermill, and tell why one failed."""

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import papermill
from nbclient.exceptions import DeadKernelError
from papermill.exceptions import PapermillExecutionError

from replication.results import ResultsError, held

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
HINTS = {
    "No space left on device": "The disk is full: free some space",
    "Disk quota exceeded": "The disk quota is used up: free some space",
    "File too large": "A file may not grow so large here: see ulimit -f",
    "Read-only file system": "The folder cannot be written: choose another one",
    "Permission denied": "The folder cannot be written: choose another one",
    "Not a directory": "A file stands where a folder is needed: move it away",
    "File exists": "A file stands where a folder is needed: move it away",
    **dict.fromkeys(
        ("out of memory", "can't allocate memory", "MemoryError: "),
        "Memory ran out: use a smaller profile or fewer cores",
    ),
    **dict.fromkeys(
        ("Kernel died", "BrokenProcessPool: "),
        "Its process was ended, mostly for want of memory: use a smaller profile or fewer cores",
    ),
}
"""What a known trouble asks for."""


class NotebookError(ResultsError):
    """A notebook stopped. The message holds the whole error, and last where the notebook is."""


def partial(out: Path) -> Path:
    """Where a notebook is while it runs, and stays if it fails."""
    return out.with_suffix(".part.ipynb")


def run(notebook: Path, parameters: dict, out: Path) -> Path:
    """Execute a notebook to ``out``, which is replaced only by a whole one."""
    with held(out.parent, out.name):
        _execute(notebook, parameters, partial(out))
        os.replace(partial(out), out)
    return out


def _execute(notebook: Path, parameters: dict, to: Path) -> None:
    try:
        with _environment(allocator()):
            papermill.execute_notebook(
                str(notebook), str(to), parameters, cwd=str(notebook.parent),
                kernel_name="python3", progress_bar=sys.stderr.isatty(),
                extra_arguments=["--log-level=CRITICAL"],
            )  # fmt: skip
    except (PapermillExecutionError, DeadKernelError) as error:
        what = failure(to, str(error))
        raise NotebookError(f"{what}The notebook up to there: {to}") from None
    except KeyboardInterrupt:
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # that its kernel died is no news
        raise


def allocator() -> dict[str, str]:
    """What a process finds in its environment if it is to keep freed memory, as timing wants it."""
    from replication.measure import ALLOCATOR  # not above: Snakemake need not wait for PyTorch

    return ALLOCATOR


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """What processes started in this block find in their environment."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def failure(executed: Path, otherwise: str = "") -> str:
    """Why a notebook stopped: the whole traceback, and what may help."""
    text = _traceback(executed) or otherwise
    plain = COLOURS.sub("", text)
    return f"{(text if sys.stderr.isatty() else plain).rstrip()}\n{hint(plain)}"


def hint(text: str) -> str:
    """What to do about a known trouble, as a line; nothing about an unknown one."""
    found = [advice for known, advice in HINTS.items() if known in text]
    return f"{found[0]}, then call again. What was saved before stays.\n" if found else ""


def _traceback(executed: Path) -> str:
    try:
        cells = nbformat.read(executed, 4).cells
    except (OSError, ValueError):  # it was stopped before, or while, it was written
        return ""
    for cell in cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "error":
                where = f"Cell [{cell.execution_count}] failed:\n"
                return where + "\n".join(output.traceback)
    return ""
