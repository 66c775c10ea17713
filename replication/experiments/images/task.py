"""The task: predict every byte of an image from those before it (paper, Sec. 4.2).

An image is read row by row, the colours of a pixel one after another. As in the authors' code the
model is given all bytes but the last and predicts all but the first, which is never predicted.
Batches are those of an epoch in an order that depends on the seed and the epoch alone, so that
any of them can be had without those before it. Bits are means over predicted bytes.
"""

import math
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from replication.data import Images
from replication.experiments.images import likelihood
from replication.model import DecoderOnly, Sizes
from replication.train import hashed

Stream = Literal["train", "evaluate"]


class PixelModel(DecoderOnly):
    """Causal layers over bytes, embedded beside sinusoidal positions; at each a mixture."""

    def __init__(self, sizes: Sizes, mixtures: int):
        super().__init__(sizes)
        self.predict = nn.Linear(sizes.d_model, likelihood.parameters(mixtures))


class Pixels(NamedTuple):
    """Images as sequences of bytes."""

    values: UInt8[Tensor, "B n"]

    def to(self, device: torch.device) -> "Pixels":
        return Pixels(self.values.to(device, non_blocking=True))

    @property
    def inputs(self) -> Int[Tensor, "B N"]:
        return self.values[:, :-1].long()

    @property
    def targets(self) -> Int[Tensor, "B N"]:
        return self.values[:, 1:].long()


class ImageTask:
    """A data set at a size, in the form that ``train`` asks for."""

    def __init__(self, images: Images, side: int):
        self.side, self.colours = side, images.train.shape[-1]
        self.train, self.test = (sequences(x, side) for x in (images.train, images.test))
        self.test_labels = images.test_labels

    def batch(self, stream: Stream, seed: int, step: int, size: int) -> Pixels:
        """Of an update (from 1 on), or of an evaluation (from 0 on): test images in order."""
        if stream == "evaluate":
            return Pixels(self.test[step * size : (step + 1) * size])
        epoch, place = divmod((step - 1) * size, len(self.train) - len(self.train) % size)
        return Pixels(self.train[_order(len(self.train), seed, epoch)[place : place + size]])

    def loss(self, model: nn.Module, batch: Pixels) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Nats a byte, and the share of bytes that are the likeliest component's mean."""
        outputs, targets = model(batch.inputs), batch.targets
        right = likelihood.likeliest(outputs.detach()) == targets
        return -likelihood.log_probability(outputs, targets).mean(), right.float().mean()

    @torch.no_grad()
    def evaluate(self, model: nn.Module, batch_size: int, batches: int) -> dict[str, float]:
        """Bits per dimension on the first images of the test set, the same every time, and the
        standard error of that mean over images."""
        model.eval()
        device, bits = next(model.parameters()).device, []
        for i in range(batches):
            batch = self.batch("evaluate", 0, i, batch_size).to(device)
            nats = -likelihood.log_probability(model(batch.inputs), batch.targets).mean(1)
            bits.append(nats.double().cpu() / math.log(2))
        found = torch.cat(bits)
        error = float(found.std() / len(found) ** 0.5) if len(found) > 1 else math.nan
        return {"bits_per_dim": float(found.mean()), "bits_error": error, "images": len(found)}

    def picture(self, values: Any) -> UInt8[np.ndarray, "*B side side colours"]:
        """Sequences back to images."""
        values = np.asarray(values, np.uint8)
        return values.reshape(*values.shape[:-1], self.side, self.side, self.colours)


def sequences(images: UInt8[np.ndarray, "n s s c"], side: int) -> UInt8[Tensor, "n L"]:
    """Images made smaller by the mean over blocks, row by row."""
    block, rest = divmod(images.shape[1], side)
    if rest:
        raise ValueError(f"side={side} does not divide {images.shape[1]}: choose one that does.")
    if block > 1:
        n, _, _, c = images.shape
        sums = images.reshape(n, side, block, side, block, c).sum((2, 4), dtype=np.uint32)
        images = ((sums + block**2 // 2) // block**2).astype(np.uint8)
    return torch.from_numpy(images.reshape(len(images), -1).copy())


@lru_cache(maxsize=2)
def _order(count: int, seed: int, epoch: int) -> Int[Tensor, " count"]:
    generator = torch.Generator().manual_seed(hashed("images", seed, epoch))
    return torch.randperm(count, generator=generator)
