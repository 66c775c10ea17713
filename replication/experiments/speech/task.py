"""The task: from frames of sound to phonemes, by connectionist temporal classification (CTC).

Batches hold utterances of similar length. Which ones, in what order, and what is hidden of them
depends on the seed and the step alone.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from replication.experiments.speech.corpus import Corpus, Utterance
from replication.experiments.speech.decoding import BLANK, Errors, error_rate, errors, greedy
from replication.experiments.speech.features import stacked
from replication.train import hashed

UNKNOWN = "?"
"""The class of a phoneme that training never heard."""
POOL = 8
"""Batches that are sorted by length together, so that little is filled up."""


class Batch(NamedTuple):
    """Utterances filled up to the longest; frames [B, N, F] and targets [B, L]."""

    frames: Float[Tensor, "B N F"]
    lengths: Int[Tensor, " B"]
    targets: Int[Tensor, "B L"]
    target_lengths: Int[Tensor, " B"]

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(x.to(device) for x in self))


class SpeechTask:
    """Utterances in parts, the classes, and what a model makes of them."""

    def __init__(self, corpus: Corpus, stack: int, longest: int, hide: tuple[int, int] = (0, 0)):
        self.stack, self.hide = stack, hide
        known = {p for one in corpus.parts["train"] for p in one.phonemes}
        self.symbols = ("", UNKNOWN, *sorted(known))
        """By class; the blank is class 0."""
        self.index = {symbol: i for i, symbol in enumerate(self.symbols)}
        self.counts = Counter(corpus.counts)
        self.parts = dict(corpus.parts)
        self.parts["train"] = [
            one for one in corpus.parts["train"] if self._can_train(one, longest)
        ]
        if not self.parts["train"]:
            raise ValueError(f"No utterance can be trained on: {dict(self.counts)}.")
        heard = (p for part in ("dev", "test") for one in corpus.parts[part] for p in one.phonemes)
        self.counts["unknown phonemes"] = sum(p not in known for p in heard)

    def _can_train(self, one: Utterance, longest: int) -> bool:
        """CTC needs a frame for every phoneme, and one between two that are the same."""
        long = len(one.features) > longest
        short = -(-len(one.features) // self.stack) < needed_frames(one.phonemes)
        self.counts["too long to train on"] += long
        self.counts["shorter than its phonemes"] += short
        return not (long or short)

    def labels(self, phonemes: Sequence[str]) -> list[int]:
        return [self.index.get(p, self.index[UNKNOWN]) for p in phonemes]

    # Batches ------------------------------------------------------------------------------------

    def batch(self, stream: str, seed: int, step: int, size: int) -> Batch:
        """``step`` counts from 1 in training, from 0 in evaluation."""
        if stream != "train":
            return self.lay_out(self.parts["dev"][step * size : (step + 1) * size])
        mine = self.parts["train"]
        a_epoch = -(-len(mine) // size)
        epoch, place = divmod(step - 1, a_epoch)
        random = torch.Generator().manual_seed(hashed("order", seed, epoch))
        chosen = [mine[i] for i in self._order(size, random)[place]]
        hidden = torch.Generator().manual_seed(hashed("hide", seed, step))
        return self.lay_out([self._hide(one, hidden) for one in chosen])

    def _order(self, size: int, random: torch.Generator) -> list[list[int]]:
        """Batches of an epoch: shuffled, sorted by length in pools, and batches shuffled."""
        mine = self.parts["train"]
        shuffled, batches = torch.randperm(len(mine), generator=random).tolist(), []
        for start in range(0, len(mine), POOL * size):
            pool = shuffled[start : start + POOL * size]
            pool = sorted(pool, key=lambda i: len(mine[i].features))
            batches += [pool[i : i + size] for i in range(0, len(pool), size)]
        return [batches[i] for i in torch.randperm(len(batches), generator=random).tolist()]

    def _hide(self, one: Utterance, random: torch.Generator) -> Utterance:
        """Two bands of filters and two stretches of time set to the mean (Park et al. 2019)."""
        if not any(self.hide):
            return one
        x = one.features.clone()
        for axis, most in enumerate(reversed(self.hide)):
            most = min(most, x.shape[axis] // 4)
            for _ in range(2):
                width = int(torch.randint(most + 1, (), generator=random))
                start = int(torch.randint(x.shape[axis] - width + 1, (), generator=random))
                x.narrow(axis, start, width).zero_()
        return one._replace(features=x)

    def lay_out(self, chosen: Sequence[Utterance]) -> Batch:
        if not chosen:
            raise ValueError("There is no utterance for this batch. Ask for fewer batches.")
        for one in chosen:
            if not len(one.features):
                raise ValueError(f"{one.id} has no frames: it would be padding only. Leave it out.")
        frames = [stacked(one.features, self.stack) for one in chosen]
        targets = [torch.tensor(self.labels(one.phonemes)) for one in chosen]
        fill = nn.utils.rnn.pad_sequence
        lengths = (torch.tensor([len(x) for x in some]) for some in (frames, targets))
        lengths, target_lengths = lengths
        return Batch(fill(frames, True), lengths, fill(targets, True, BLANK), target_lengths)

    # What a model makes of them -------------------------------------------------------------------

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """Nats a phoneme, and one minus the error rate of the most probable paths."""
        scores = model(batch.frames, batch.lengths)
        found = self._errors(scores.detach(), batch)
        return _ctc(scores, batch) / batch.target_lengths.sum(), torch.tensor(1 - error_rate(found))

    def _errors(self, scores: Tensor, batch: Batch) -> list[Errors]:
        heard = greedy(scores, batch.lengths)
        said = (
            row[:n].tolist() for row, n in zip(batch.targets, batch.target_lengths, strict=True)
        )
        return [errors(a, b) for a, b in zip(said, heard, strict=True)]

    @torch.no_grad()
    def evaluate(self, model: nn.Module, batch_size: int, batches: int) -> dict[str, float]:
        """On utterances of dev, of levels that training never hears."""
        model.eval()
        device = next(model.parameters()).device
        loss, phonemes, found = 0.0, 0, []
        for i in range(min(batches, -(-len(self.parts["dev"]) // batch_size))):
            batch = self.batch("evaluate", 0, i, batch_size).to(device)
            scores = model(batch.frames, batch.lengths)
            loss += _ctc(scores, batch, zero_infinity=True).item()
            phonemes += int(batch.target_lengths.sum())
            found += self._errors(scores, batch)
        return {"eval_loss": loss / phonemes, "error_rate": error_rate(found)}

    @torch.no_grad()
    def posteriors(self, model: nn.Module, one: Utterance) -> Float[Tensor, "N V"]:
        """The log probability of every class at every frame, of one utterance."""
        model.eval()
        batch = self.lay_out([one]).to(next(model.parameters()).device)
        return model(batch.frames, batch.lengths)[0].log_softmax(-1).cpu()


def _ctc(scores: Float[Tensor, "B N V"], batch: Batch, zero_infinity: bool = False) -> Tensor:
    """The sum over a batch of -log P(phonemes), all paths that say them added up."""
    logs = scores.log_softmax(-1).transpose(0, 1)
    return F.ctc_loss(logs, batch.targets, batch.lengths, batch.target_lengths, BLANK, "sum",
                      zero_infinity)  # fmt: skip


def needed_frames(phonemes: Sequence[str]) -> int:
    """The shortest path that says these phonemes."""
    same = sum(a == b for a, b in pairwise(phonemes))
    return max(1, len(phonemes) + same)
