"""Models that hear: a frame of sound in, a score for every class out, at every frame at once."""

from collections.abc import Callable
from dataclasses import asdict

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from replication import train
from replication.attention import mechanism
from replication.experiments.speech.numbers import MELS
from replication.experiments.speech.studies import Numbers, Run, Timing
from replication.model import Layer, Sizes, sinusoids


class FrameEncoder(nn.Module):
    """Layers that are not causal, over frames of which the first ``lengths`` are not padding."""

    def __init__(self, sizes: Sizes, inputs: int):
        super().__init__()
        self.added = sizes.positions == "added"
        half = sizes.d_model // 2
        widths = (sizes.d_model, sizes.d_model) if self.added else (half, sizes.d_model - half)
        self.enter = nn.Linear(inputs, widths[0])
        self.register_buffer("table", sinusoids(sizes.length, widths[1]), persistent=False)
        layers = (Layer(sizes, layer, causal=False) for layer in range(sizes.n_layers))
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(sizes.d_model)
        self.predict = nn.Linear(sizes.d_model, sizes.vocabulary)

    def forward(
        self, frames: Float[Tensor, "B N F"], lengths: Int[Tensor, " B"]
    ) -> Float[Tensor, "B N V"]:
        if frames.shape[1] > len(self.table):
            raise ValueError(
                f"The model knows {len(self.table)} positions, but came {frames.shape[1]} frames. "
                "Shorten the utterance or build the model for a larger length."
            )
        x, table = self.enter(frames), self.table[: frames.shape[1]]
        x = x + table if self.added else torch.cat((x, table.expand(len(x), -1, -1)), -1)
        padded = None if bool((lengths == frames.shape[1]).all()) else lengths
        for layer in self.layers:
            x = layer(x, key_lengths=padded)
        return self.predict(self.norm(x))


class BidirectionalLSTM(nn.Module):
    """The paper's recurrent baseline: layers that read forwards and backwards, side by side.

    For the one that reads backwards, the frames of an utterance are turned round and its padding
    stays behind them. So no frame is read after padding, and both are whole calls of a compiled
    LSTM: PyTorch's own sequences of several lengths take five times as long on a CPU.
    """

    def __init__(self, inputs: int, size: int, layers: int, classes: int, dropout: float = 0.0):
        super().__init__()
        widths = [inputs, *[2 * size] * (layers - 1)]
        self.forwards, self.backwards = (
            nn.ModuleList(nn.LSTM(width, size, batch_first=True) for width in widths)
            for _ in range(2)
        )
        self.dropout = nn.Dropout(dropout)
        self.predict = nn.Linear(2 * size, classes)

    def forward(
        self, frames: Float[Tensor, "B N F"], lengths: Int[Tensor, " B"]
    ) -> Float[Tensor, "B N V"]:
        x, turned = frames, _turned(lengths.to(frames.device), frames.shape[1])
        for i, (ahead, back) in enumerate(zip(self.forwards, self.backwards, strict=True)):
            x = self.dropout(x) if i else x
            read_back = back(x.take_along_dim(turned, 1))[0].take_along_dim(turned, 1)
            x = torch.cat((ahead(x)[0], read_back), -1)
        return self.predict(x)


def _turned(lengths: Int[Tensor, " B"], frames: int) -> Int[Tensor, "B N 1"]:
    """Where each frame is found when utterances are read backwards; padding stays in its place."""
    here = torch.arange(frames, device=lengths.device)
    there = lengths[:, None] - 1 - here
    return torch.where(there >= 0, there, here)[..., None]


def new_model(run: Run, classes: int, length: int) -> nn.Module:
    """At the start. For one seed, mechanisms differ in no weight that they share."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(train.hashed("weights", run.seed))
        return build(run, run.model, MELS * run.stack, classes, length, run.dropout)


def build(
    sizes: Numbers | Timing, model: str, inputs: int, classes: int, length: int, dropout: float
) -> nn.Module:
    if model == "bilstm":
        return BidirectionalLSTM(inputs, sizes.lstm_size, sizes.lstm_layers, classes, dropout)
    options = {}
    if model == "lsh":
        options = {name.removeprefix("lsh_"): value for name, value in asdict(sizes).items()
                   if name.startswith("lsh_")}  # fmt: skip
    return FrameEncoder(
        Sizes(model, sizes.d_model, sizes.n_heads, sizes.n_layers, sizes.d_ff, classes, length,
              dropout, positions=sizes.positions, options=options), inputs,
    )  # fmt: skip


def functions_of(model: str) -> tuple[Callable, ...]:
    """The functions that are looked up by name, and so must be named."""
    return () if model == "bilstm" else (mechanism(model).attend,)
