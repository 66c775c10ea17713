"""Checkpoints: written whole, read without running code, and refused if they do not fit."""

import hashlib
import os
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import torch

from replication.config import Run
from replication.results import write_whole


class CheckpointError(RuntimeError):
    """A checkpoint is damaged or belongs to another run."""


class Checkpoint(NamedTuple):
    """All that a run needs to go on. Random numbers are derived from seed and step."""

    run: Run
    step: int
    model: dict
    optimiser: dict
    rows: list[dict]
    evaluations: list[dict]
    failure: str | None


class CheckpointFile:
    """A file that holds one checkpoint, after the hash of its content."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)

    def exists(self) -> bool:
        return self.path.exists()

    def save(self, checkpoint: Checkpoint) -> None:
        buffer = BytesIO()
        torch.save({**checkpoint._asdict(), "run": asdict(checkpoint.run)}, buffer)
        content = buffer.getvalue()
        write_whole(self.path, hashlib.sha256(content).digest() + content)

    def load(self, run: Run) -> Checkpoint:
        """The checkpoint, if it is undamaged and of this very run."""
        if not self.exists():
            raise CheckpointError(f"There is no checkpoint {self.path}. Train {run.name} first.")
        stored = self.path.read_bytes()
        digest, content = stored[:32], stored[32:]
        if hashlib.sha256(content).digest() != digest:
            raise CheckpointError(
                f"The checkpoint {self.path} is damaged: its content does not match its hash. "
                f"Delete it and call again to train from the start:\n    rm '{self.path}'"
            )
        saved = torch.load(BytesIO(content), map_location=run.device, weights_only=True)
        self._check(saved["run"], asdict(run))
        return Checkpoint(**{**saved, "run": run})

    def _check(self, there: dict, here: dict) -> None:
        for name in sorted(there.keys() | here.keys()):
            if there.get(name) != here.get(name):
                raise CheckpointError(
                    f"The checkpoint {self.path} belongs to another run: {name} is "
                    f"{there.get(name)!r} there and {here.get(name)!r} here. Use another file, or "
                    "delete this one."
                )
