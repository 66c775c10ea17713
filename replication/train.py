"""Training: a run goes in, rows come out, and nothing that was done is lost.

Everything random is derived from the seed and the step: the weights, the data, dropout. So
a run that is stopped at any moment and called again goes on from its last checkpoint and
ends with the same bits, on the same machine with the same number of threads.
"""

import math
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm.auto import tqdm

from replication.attention import watch_denominators
from replication.checkpoint import Checkpoint, CheckpointError, CheckpointFile
from replication.config import Run
from replication.model import MODELS, Sizes
from replication.tasks import TASKS, Batch, hashed


class Outcome(NamedTuple):
    """What a run left behind."""

    model: nn.Module
    rows: list[dict]
    """One a step: step, loss, accuracy, grad_norm, denominators, lr, seconds."""
    evaluations: list[dict]
    """One an evaluation: step, eval_loss, token_accuracy, exact_match."""
    failure: str | None
    """Why the run stopped early; None if it did not."""


def train(
    run: Run,
    checkpoint: str | PathLike | None = None,
    *,
    checkpoint_every: int = 100,
    progress: bool = True,
) -> Outcome:
    """Train one model, going on from the file ``checkpoint`` if it exists.

    A loss or gradient that is not finite ends the run before it spoils the weights; what was
    measured is kept and ``failure`` says what was seen.
    """
    with _alone(run):
        training, file = Training(run), checkpoint and CheckpointFile(checkpoint)
        if file and file.exists():
            training.restore(file.load(run))
        else:
            training.evaluate()
        with progress_bar(run, training.step, progress) as bar:
            while training.goes_on():
                row = training.advance()
                seen = f"loss {row['loss']:.3g}, accuracy {row['accuracy']:.1%}"
                bar.set_postfix_str(seen, refresh=False)
                bar.update()
                if file and (training.step % checkpoint_every == 0 or not training.goes_on()):
                    file.save(training.snapshot())
    if training.failure:
        warnings.warn(training.failure, stacklevel=2)
    return Outcome(training.model, training.rows, training.evaluations, training.failure)


class Training:
    """A run between two steps."""

    def __init__(self, run: Run):
        self.run, self.device = run, torch.device(run.device)
        self.task = TASKS[run.setting](run.length, run.symbols)
        self.model = new_model(run).to(self.device)
        self.optimiser = torch.optim.RAdam(
            self.model.parameters(), lr=run.lr, betas=run.betas, eps=run.eps,
            weight_decay=run.weight_decay, decoupled_weight_decay=True, foreach=True,
        )  # fmt: skip
        self.step, self.failure = 0, None
        self.rows, self.evaluations = [], []

    def goes_on(self) -> bool:
        return self.step < self.run.steps and self.failure is None

    def advance(self) -> dict:
        """One update; the row that describes it."""
        start, self.step = time.perf_counter(), self.step + 1
        torch.manual_seed(hashed("dropout", self.run.seed, self.step))
        lr = self._set_lr()
        batch = self.task.batch("train", self.run.seed, self.step, self.run.batch_size)
        with watch_denominators() as seen:
            loss, accuracy = self._backward(batch.to(self.device))
        grad_norm = clip_each(self.model, self.run.clip).item()
        row = {"step": self.step, "loss": loss.item(), "accuracy": accuracy.item()}
        row |= {"grad_norm": grad_norm, "lr": lr}
        used = seen.smallest <= seen.largest
        row["smallest_denominator"] = seen.smallest if used else None
        row["largest_denominator"] = seen.largest if used else None
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
        found = evaluate(self.model, self.task, self.run.batch_size, self.run.eval_batches)
        self.evaluations.append({"step": self.step, **found})

    def _set_lr(self) -> float:
        """lr, and lr x lr_drop from the update after ``lr_drop_after`` on."""
        dropped = self.step > self.run.lr_drop_after
        lr = self.run.lr * self.run.lr_drop if dropped else self.run.lr
        self.optimiser.param_groups[0]["lr"] = lr
        return lr

    def _backward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        self.model.train()
        self.optimiser.zero_grad()
        logits, targets = self.model(*batch.inputs)[batch.mask], batch.targets[batch.mask]
        loss = F.cross_entropy(logits, targets)
        loss.backward()
        return loss.detach(), (logits.detach().argmax(-1) == targets).float().mean()

    def snapshot(self) -> Checkpoint:
        return Checkpoint(
            self.run, self.step, self.model.state_dict(), self.optimiser.state_dict(),
            self.rows, self.evaluations, self.failure,
        )  # fmt: skip

    def restore(self, saved: Checkpoint) -> None:
        self.model.load_state_dict(saved.model)
        self.optimiser.load_state_dict(saved.optimiser)
        self.step, self.failure = saved.step, saved.failure
        self.rows, self.evaluations = saved.rows, saved.evaluations


def trained_model(run: Run, checkpoint: str | PathLike) -> nn.Module:
    """The model that a finished run has left in its checkpoint, ready to be used."""
    saved = CheckpointFile(checkpoint).load(run)
    if saved.step < run.steps:
        raise CheckpointError(
            f"{run.name} has done {saved.step} of {run.steps} steps. "
            f"{saved.failure or 'Call train() again to go on.'}"
        )
    model = new_model(run).to(run.device)
    model.load_state_dict(saved.model)
    return model.eval()


def new_model(run: Run) -> nn.Module:
    """The model at the start. For one seed, mechanisms differ in no weight that they share."""
    vocabulary = TASKS[run.setting](run.length, run.symbols).vocabulary
    hashing = {"rounds": run.lsh_rounds, "buckets": run.lsh_buckets, "chunk": run.lsh_chunk}
    sizes = Sizes(
        run.attention, run.cross_attention, vocabulary, run.length, run.d_model, run.n_heads,
        run.n_layers, run.d_ff, run.dropout, run.activation, run.positions,
        hashing if run.attention == "lsh" else {},
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(hashed("weights", run.seed))
        return MODELS[run.setting](sizes)


@torch.no_grad()
def evaluate(model: nn.Module, task, batch_size: int, batches: int) -> dict[str, float]:
    """On the same words every time, none of which training can draw."""
    model.eval()
    device = next(model.parameters()).device
    loss = right = whole = tokens = 0
    for i in range(batches):
        batch = task.batch("evaluate", 0, i, batch_size).to(device)
        logits = model(*batch.inputs)
        hits = logits.argmax(-1) == batch.targets
        loss += F.cross_entropy(logits[batch.mask], batch.targets[batch.mask], reduction="sum")
        right, tokens = right + hits[batch.mask].sum(), tokens + batch.mask.sum()
        whole += (hits | ~batch.mask).all(1).sum()
    return {
        "eval_loss": (loss / tokens).item(),
        "token_accuracy": (right / tokens).item(),
        "exact_match": (whole / (batches * batch_size)).item(),
    }


@torch.no_grad()
def clip_each(model: nn.Module, limit: float) -> Tensor:
    """Scale every tensor's gradient down to norm ``limit``; the norm of them all before that.

    As the authors' RAdam does; the parts of a joint projection are clipped one by one, as if
    they were the separate ones of the authors' library.
    """
    parts = [
        part
        for module in model.modules()
        for parameter in module.parameters(recurse=False)
        for part in parameter.grad.chunk(getattr(module, "parts", 1))
    ]
    norms = torch.stack(torch._foreach_norm(parts))
    torch._foreach_mul_(parts, (limit / (norms + 1e-6)).clamp(max=1).unbind())
    return torch.linalg.vector_norm(norms)


def diagnosis(run: Run, rows: list[dict]) -> str:
    """What was seen when a run went out of bounds, and what to try."""
    row, seen = rows[-1], ""
    ranges = [(r["smallest_denominator"], r["largest_denominator"]) for r in rows]
    if known := [r for r in ranges if r[0] is not None]:
        seen = f", denominators last from {known[-1][0]:.3g} to {known[-1][1]:.3g}"
    return (
        f"{run.name} stopped at step {row['step']}: loss {row['loss']:.3g}, gradient norm "
        f"{row['grad_norm']:.3g}, lr {row['lr']:.3g}{seen}. The weights are those before this "
        f"step and all rows are kept. Try a smaller learning rate (lr={row['lr'] / 3:.1g}) or a "
        "smaller clip; if only some seeds fail, report that."
    )


def progress_bar(run: Run, done: int, wanted: bool) -> tqdm:
    """In a terminal and in JupyterLab; none where the output is a file."""
    what = f"{run.attention} {run.length} seed {run.seed}"
    quiet = None if wanted else True
    return tqdm(total=run.steps, initial=done, desc=what, unit="step", leave=False, disable=quiet)


@contextmanager
def _alone(run: Run) -> Iterator[None]:
    """The run's own number of threads and random numbers, whatever was before, and after."""
    threads = torch.get_num_threads()
    device = torch.device(run.device)
    torch.set_num_threads(run.threads)
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        torch.set_num_threads(threads)
