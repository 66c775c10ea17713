"""How long models of published size take for an utterance, whatever the profile trains.

A unit is a run: all contenders and lengths in turn, on one pinned thread, in a process of its own.
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn

from replication import measure
from replication.experiments.speech.decoding import BLANK, greedy
from replication.experiments.speech.models import build, functions_of
from replication.experiments.speech.numbers import MELS, NAME
from replication.experiments.speech.studies import Timing
from replication.experiments.speech.task import Batch
from replication.measure.clock import pinned
from replication.measure.rounds import TooBusyError, measure_rounds
from replication.store import Result, Unit

SHARES = {"train": 0.75, "infer": 1.0}
"""Of the time that is left, for a training step and then for hearing an utterance."""


def times_of(numbers: Timing) -> list[Unit]:
    own = {name: value for name, value in asdict(numbers).items() if name != "runs"}
    code = (timed, *(part for name in numbers.contenders for part in functions_of(name)))
    return [Unit(NAME, f"times-{i}", numbers.profile, own | {"timing": i}, code,
                 partial(timed, numbers, i)) for i in range(numbers.runs)]  # fmt: skip


def timed(numbers: Timing, run: int, _: Path) -> Result:
    """A row a repeat: contender, direction, N, time_ms and peak_bytes of an utterance, and what
    the clock saw. Bytes are the same in every run, and counted in the first."""
    rng, left, found, said = np.random.default_rng(run), numbers.seconds, [], {}
    with pinned() as where:
        for direction, share in SHARES.items():
            calls = {(name, N): _call(numbers, name, _noise(numbers, N), direction)
                     for N in numbers.lengths for name in numbers.contenders}  # fmt: skip
            peaks = {cell: measure.peak_bytes(call) for cell, call in calls.items() if run == 0}
            outcome = measure_rounds(calls, budget_s=share * left, repeats=numbers.repeats, rng=rng,
                                     run=run, believe=numbers.profile == "smoke")  # fmt: skip
            if outcome.state == "too busy":
                raise TooBusyError(outcome.sentence())
            left -= outcome.seconds
            said[direction] = outcome.sentence()
            rows = outcome.rows.assign(direction=direction)
            rows["peak_bytes"] = [peaks.get(cell, np.nan) for cell in
                                  zip(rows.contender, rows.N, strict=True)]  # fmt: skip
            found.append(rows)
    rows = pd.concat(found, ignore_index=True)
    rows[["time_ms", "peak_bytes"]] /= numbers.batch_size
    return Result(rows, {"machine": measure.machine(), "pinned": where, "outcomes": said})


def _noise(numbers: Timing, length: int) -> Batch:
    """Utterances of one length; what they say does not matter to the clock."""
    random, size = torch.Generator().manual_seed(0), numbers.batch_size
    said = max(1, length // numbers.frames_a_phoneme)
    targets = torch.randint(BLANK + 1, numbers.phonemes, (size, said), generator=random)
    n, m = (torch.full((size,), count) for count in (length, said))
    return Batch(torch.randn(size, length, MELS, generator=random), n, targets, m)


def _call(numbers: Timing, name: str, batch: Batch, direction: str) -> Callable[[], object]:
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
