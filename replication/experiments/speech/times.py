"""How long models of published size take for an utterance, and how much memory, by its length."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn

from replication import measure
from replication.experiments.speech.decoding import BLANK, greedy
from replication.experiments.speech.models import build, functions_of
from replication.experiments.speech.numbers import MELS, NAME
from replication.experiments.speech.studies import Timing
from replication.experiments.speech.task import Batch
from replication.store import Result, Unit


def times_of(numbers: Timing) -> list[Unit]:
    """A unit a length; all contenders in it."""
    shared = {k: v for k, v in asdict(numbers).items() if k != "lengths"}
    code = (_timed, *(part for name in numbers.contenders for part in functions_of(name)))
    return [
        Unit(NAME, f"times-{n}", numbers.profile, shared | {"length": n}, code,
             partial(_timed, numbers, n))
        for n in numbers.lengths
    ]  # fmt: skip


def _timed(numbers: Timing, length: int, scratch: Path) -> Result:
    """Contenders in turn: a training step, and hearing an utterance; and their memory."""
    torch.set_num_threads(numbers.threads)
    batch, rows = _noise(numbers, length), []
    for direction in ("train", "infer"):
        calls = {name: _call(numbers, name, batch, direction) for name in numbers.contenders}
        peaks = {name: measure.peak_bytes(call) for name, call in calls.items()}
        for i, name, seconds in measure.interleaved(calls, numbers.rounds):
            rows.append({"contender": name, "direction": direction, "N": length, "round": i,
                         "time_ms": 1e3 * seconds / numbers.batch_size,
                         "peak_bytes": peaks[name] / numbers.batch_size})  # fmt: skip
    return Result(pd.DataFrame(rows), {"machine": measure.machine()})


def _noise(numbers: Timing, length: int) -> Batch:
    """Utterances of one length; what they say does not matter to the clock."""
    random, size = torch.Generator().manual_seed(0), numbers.batch_size
    said = max(1, length // numbers.frames_a_phoneme)
    targets = torch.randint(BLANK + 1, numbers.phonemes, (size, said), generator=random)
    lengths = (torch.full((size,), n) for n in (length, said))
    n, m = lengths
    return Batch(torch.randn(size, length, MELS, generator=random), n, targets, m)


def _call(numbers: Timing, name: str, batch: Batch, direction: str) -> Any:
    model = build(numbers, name, MELS, numbers.phonemes, batch.frames.shape[1], 0.0)
    if direction == "infer":
        return partial(_infer, model.eval(), batch)
    return partial(_step, model.train(), batch)


@torch.no_grad()
def _infer(model: nn.Module, batch: Batch) -> object:
    return greedy(model(batch.frames, batch.lengths), batch.lengths)


def _step(model: nn.Module, batch: Batch) -> object:
    """Forward, CTC and backward; without the optimiser, which does not depend on the length."""
    model.zero_grad()
    logs = model(batch.frames, batch.lengths).log_softmax(-1).transpose(0, 1)
    loss = nn.functional.ctc_loss(logs, batch.targets, batch.lengths, batch.target_lengths)
    loss.backward()
    return loss
