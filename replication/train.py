"""Training: a model, a task and numbers go in, rows come out, and nothing that was done is lost.

Everything random is derived from the seed and the step: the weights, the data, dropout. So
a run that is stopped at any moment and called again resumes at its last checkpoint and ends
with the same bits, on the same machine with the same number of threads.
"""

import hashlib
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import pandas as pd
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from replication.attention import watch_denominators
from replication.store import StoreError, write_whole


@runtime_checkable
class Run(Protocol):
    """The numbers of one run, a frozen dataclass: name, seed, steps, batch_size, lr (times lr_drop
    after lr_drop_after updates), betas, eps, weight_decay, clip, eval_every, eval_batches, threads,
    device. A checkpoint belongs to the run that has the same ones."""


@runtime_checkable
class Task(Protocol):
    """What is learnt."""

    def batch(self, stream: str, seed: int, step: int, size: int) -> Any:
        """Inputs and targets, of the stream "train" or "evaluate"; can be moved by ``.to``."""

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        """What is to become small, and the share of right predictions."""

    def evaluate(self, model: nn.Module, batch_size: int, batches: int) -> dict[str, float]:
        """How good the model is on what training can never draw: columns of its rows."""


class Outcome(NamedTuple):
    """What a run left: rows, one a step; evaluations; and why it stopped early, if it did."""

    model: nn.Module
    rows: list[dict]
    evaluations: list[dict]
    failure: str | None


def train(
    model: nn.Module, task: Task, run: Run, checkpoint: str | PathLike | None = None, *,
    checkpoint_every: int = 100, progress: bool = True,
) -> Outcome:  # fmt: skip
    """Train a model, resuming at the file ``checkpoint`` if it exists.

    A loss or gradient that is not finite ends the run before it spoils the weights; what was
    measured is kept and ``failure`` says what was seen.
    """
    with _undisturbed(run):
        training = Training(model, task, run)
        if checkpoint and Path(checkpoint).exists():
            training.restore(checkpoint)
        else:
            training.evaluate()
        quiet = None if progress else True
        with tqdm(total=run.steps, initial=training.step, desc=run.name, unit="step", leave=False,
                  disable=quiet) as bar:  # fmt: skip
            while training.is_open():
                row = training.advance()
                seen = f"loss {row['loss']:.3g}, accuracy {row['accuracy']:.1%}"
                bar.set_postfix_str(seen, refresh=False)
                bar.update()
                if checkpoint and (training.step % checkpoint_every == 0 or not training.is_open()):
                    training.save(checkpoint)
    if training.failure:
        warnings.warn(training.failure, stacklevel=2)
    return Outcome(training.model, training.rows, training.evaluations, training.failure)


class Training:
    """A run between two steps."""

    def __init__(self, model: nn.Module, task: Task | None, run: Run):
        """Without a task it can be restored, and neither advance nor evaluate."""
        self.run, self.task, self.device = run, task, torch.device(run.device)
        self.model = model.to(self.device)
        self.optimiser = OPTIMISERS[getattr(run, "optimiser", "radam")](
            self.model.parameters(), lr=run.lr, betas=run.betas, eps=run.eps,
            weight_decay=run.weight_decay, decoupled_weight_decay=True, foreach=True,
        )  # fmt: skip
        self.step, self.failure = 0, None
        self.rows, self.evaluations = [], []

    def is_open(self) -> bool:
        return self.step < self.run.steps and self.failure is None

    def advance(self) -> dict:
        """One update; the row that describes it."""
        start, self.step = time.perf_counter(), self.step + 1
        torch.manual_seed(hashed("dropout", self.run.seed, self.step))
        self.optimiser.param_groups[0]["lr"] = lr = self._lr()
        batch = self.task.batch("train", self.run.seed, self.step, self.run.batch_size)
        self.model.train()
        self.optimiser.zero_grad()
        with watch_denominators() as seen:
            loss, accuracy = self.task.loss(self.model, batch.to(self.device))
            loss.backward()
        grad_norm = clip_each(self.model, self.run.clip).item()
        ends = (seen.smallest, seen.largest) if seen.smallest <= seen.largest else (None, None)
        row = {"step": self.step, "loss": loss.item(), "accuracy": accuracy.item(),
               "grad_norm": grad_norm, "lr": lr,
               "smallest_denominator": ends[0], "largest_denominator": ends[1]}  # fmt: skip
        self.rows.append(row)
        if math.isfinite(row["loss"]) and math.isfinite(grad_norm):
            self.optimiser.step()
        else:
            self.failure = diagnosis(self.run, self.rows)
        row["seconds"] = time.perf_counter() - start
        if self.step % self.run.eval_every == 0 or self.step == self.run.steps:
            self.evaluate()
        return row

    def evaluate(self) -> None:
        found = self.task.evaluate(self.model, self.run.batch_size, self.run.eval_batches)
        self.evaluations.append({"step": self.step, **found})

    def _lr(self) -> float:
        """lr, and lr x lr_drop from the update after ``lr_drop_after`` on, or by every plateau."""
        drops = int(self.step > self.run.lr_drop_after)
        if patience := getattr(self.run, "plateau", None):
            drops = plateaus([one["eval_loss"] for one in self.evaluations], patience)
        return self.run.lr * self.run.lr_drop**drops if drops else self.run.lr

    def save(self, path: str | PathLike) -> None:
        """Write a checkpoint, after the hash of its content. Random numbers need none."""
        saved = {"run": asdict(self.run)} | {name: getattr(self, name) for name in STATE}
        torch.save(saved | {name: getattr(self, name).state_dict() for name in PARTS},
                   buffer := BytesIO())  # fmt: skip
        content = buffer.getvalue()
        write_whole(Path(path), hashlib.sha256(content).digest() + content)

    def restore(self, path: str | PathLike) -> None:
        """Go back to a checkpoint, if it is undamaged and of this very run."""
        saved = read_checkpoint(Path(path), self.run)
        try:
            for name in PARTS:
                getattr(self, name).load_state_dict(saved[name])
            for name in STATE:
                setattr(self, name, saved[name])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise _damaged(path, "it does not hold the weights of this model") from error


# Checkpoints ----------------------------------------------------------------------------------

STATE, PARTS = ("step", "rows", "evaluations", "failure"), ("model", "optimiser")


class CheckpointError(StoreError):
    """A checkpoint is damaged or of another run."""


def read_checkpoint(path: Path, run: Run) -> dict[str, Any]:
    """What a checkpoint holds. Nothing in it is run: it is data, or it is refused."""
    stored = path.read_bytes()
    digest, content = stored[:32], stored[32:]
    if hashlib.sha256(content).digest() != digest:
        raise _damaged(path, "its content does not match its hash")
    try:
        saved = torch.load(BytesIO(content), map_location=run.device, weights_only=True)
        there, here = dict(saved["run"]), asdict(run)
    except Exception:  # torch's own words would advise to load it unsafely
        raise _damaged(path, "it holds something else than tensors and numbers") from None
    for name in sorted(there.keys() | here.keys()):
        if there.get(name) != here.get(name):
            raise CheckpointError(
                f"The checkpoint {path} belongs to another run: {name} is {there.get(name)!r} "
                f"there and {here.get(name)!r} here. Use another file, or delete this one."
            )
    return saved


def _damaged(path: str | PathLike, why: str) -> CheckpointError:
    return CheckpointError(
        f"The checkpoint {path} is damaged: {why}. Delete it and call again to train from the "
        f"start:\n    rm '{path}'"
    )


# Rows -----------------------------------------------------------------------------------------

STEP = ["step", "loss", "accuracy", "grad_norm", "lr", "smallest_denominator",
        "largest_denominator", "seconds"]  # fmt: skip


def table(outcome: Outcome, evaluated: Sequence[str]) -> pd.DataFrame:
    """One row a step, rounded where rows are many; beside it what was evaluated, in full."""
    steps = pd.DataFrame([{name: _round(x) for name, x in row.items()} for row in outcome.rows],
                         columns=STEP)  # fmt: skip
    found = pd.DataFrame(outcome.evaluations, columns=list(evaluated))
    return steps.merge(found, on="step", how="outer")


def _round(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


# Parts ----------------------------------------------------------------------------------------

OPTIMISERS = {"radam": torch.optim.RAdam, "adam": torch.optim.Adam}


def plateaus(losses: Sequence[float], patience: int) -> int:
    """How often ``patience`` evaluations in a row have brought no loss below the lowest before."""
    lowest, waited, found = math.inf, 0, 0
    for loss in losses:
        lowest, waited = (loss, 0) if loss < lowest else (lowest, waited + 1)
        if waited == patience:
            found, waited = found + 1, 0
    return found


def hashed(*key: object) -> int:
    """A seed that depends on ``key`` alone."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


@torch.no_grad()
def clip_each(model: nn.Module, limit: float) -> Tensor:
    """Scale every tensor's gradient down to norm ``limit``; the norm of them all before that.

    As the authors' RAdam does; the parts of a joint projection are clipped one by one, as if
    they were the separate ones of the authors' library.
    """
    parts = [part for module in model.modules()
             for parameter in module.parameters(recurse=False) if parameter.grad is not None
             for part in parameter.grad.chunk(getattr(module, "parts", 1))]  # fmt: skip
    norms = torch.stack(torch._foreach_norm(parts))
    torch._foreach_mul_(parts, (limit / (norms + 1e-6)).clamp(max=1).unbind())
    return torch.linalg.vector_norm(norms)


def diagnosis(run: Run, rows: list[dict]) -> str:
    """What was seen when a run went out of bounds, and what to try."""
    row, seen = rows[-1], ""
    ranges = [(r["smallest_denominator"], r["largest_denominator"]) for r in rows]
    if known := [ends for ends in ranges if ends[0] is not None]:
        seen = ", denominators last from {:.3g} to {:.3g}".format(*known[-1])
    return (
        f"{run.name} stopped at step {row['step']}: loss {row['loss']:.3g}, gradient norm "
        f"{row['grad_norm']:.3g}, lr {row['lr']:.3g}{seen}. The weights are those before this "
        f"step and all rows are kept. Try a smaller learning rate (lr={row['lr'] / 3:.1g}) or a "
        "smaller clip; if only some seeds fail, report that."
    )


@contextmanager
def _undisturbed(run: Run) -> Iterator[None]:
    """The run's own number of threads and random numbers, whatever was before, and after."""
    threads, device = torch.get_num_threads(), torch.device(run.device)
    torch.set_num_threads(run.threads)
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        torch.set_num_threads(threads)
