"""The notebooks: their parameters, what they import, and how one is run and shown."""

from replication.notebooks.execute import NotebookError, allocator, failure, hint, partial, run
from replication.notebooks.files import (
    BUILD,
    NOTEBOOKS,
    Job,
    every,
    find,
    role,
    source_files,
)
from replication.notebooks.parameters import accepts, describe, parameters, read

__all__ = [
    "BUILD",
    "NOTEBOOKS",
    "Job",
    "NotebookError",
    "accepts",
    "allocator",
    "describe",
    "every",
    "failure",
    "find",
    "hint",
    "parameters",
    "partial",
    "read",
    "role",
    "run",
    "source_files",
]
