"""Transformers made of layers, for training in parallel and for decoding token by token."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from replication.model.layers import Layer, Sizes, normalise


class Embedding(nn.Module):
    """Tokens and sinusoidal positions (Vaswani et al. 2017), side by side or added up."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.added = sizes.positions == "added"
        half = sizes.d_model // 2
        widths = (sizes.d_model, sizes.d_model) if self.added else (half, sizes.d_model - half)
        self.tokens = nn.Embedding(sizes.vocabulary, widths[0])
        self.register_buffer("table", sinusoids(sizes.length, widths[1]), persistent=False)

    def forward(self, tokens: Int[Tensor, "B N"]) -> Float[Tensor, "B N d"]:
        if tokens.shape[1] > len(self.table):
            raise ValueError(
                f"The model knows {len(self.table)} positions, but came {tokens.shape[1]} tokens. "
                "Shorten the sequence or build the model for a larger length."
            )
        x, table = self.tokens(tokens), self.table[: tokens.shape[1]]
        return x + table if self.added else torch.cat((x, table.expand(len(x), -1, -1)), -1)

    def step(self, token: Int[Tensor, " B"], position: int) -> Float[Tensor, "B d"]:
        x, here = self.tokens.weight[token], self.table[position]
        return x + here if self.added else torch.cat((x, here.expand(len(x), -1)), -1)


class DecoderOnly(nn.Module):
    """Causal layers over one sequence, as in the authors' copy task."""

    def __init__(self, sizes: Sizes, cross: bool = False):
        super().__init__()
        self.sizes = sizes
        self.embedding = Embedding(sizes)
        layers = (Layer(sizes, layer, True, cross) for layer in range(sizes.n_layers))
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(sizes.d_model)
        self.predict = nn.Linear(sizes.d_model, sizes.vocabulary)

    def forward(self, tokens: Int[Tensor, "B N"]) -> Float[Tensor, "B N V"]:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.predict(self.norm(x))

    def begin(self, batch: int, length: int) -> list[tuple]:
        """The memory of every layer before the first of at most ``length`` tokens."""
        return [layer.begin(batch, length, None) for layer in self.layers]

    def step(
        self, token: Int[Tensor, " B"], position: int, memory: list[tuple]
    ) -> Float[Tensor, "B V"]:
        """Logits for what follows ``token``, which the memory takes in. Not differentiable."""
        x = self.embedding.step(token, position)
        for layer, remembered in zip(self.layers, memory, strict=True):
            x = layer.step(x, position, remembered)
        return self.predict(normalise(self.norm, x))

    def patterns(self, tokens: Int[Tensor, "B N"]) -> list[Float[Tensor, "B H N N"]]:
        """Which keys every query looks at, layer by layer."""
        x, found = self.embedding(tokens), []
        for layer in self.layers:
            found.append(layer.attention.pattern(x))
            x = layer(x)
        return found


class EncoderDecoder(DecoderOnly):
    """A bidirectional encoder reads the source; the causal decoder writes the copy."""

    def __init__(self, sizes: Sizes):
        super().__init__(sizes, cross=True)
        layers = (Layer(sizes, layer, causal=False) for layer in range(sizes.n_layers))
        self.encoder = nn.ModuleList(layers)

    def encode(self, source: Int[Tensor, "B N"]) -> Float[Tensor, "B N d"]:
        x = self.embedding(source)
        for layer in self.encoder:
            x = layer(x)
        return x

    def forward(self, source: Int[Tensor, "B N"], tokens: Int[Tensor, "B L"]) -> Tensor:
        x, read_source = self.embedding(tokens), self.encode(source)
        for layer in self.layers:
            x = layer(x, read_source)
        return self.predict(self.norm(x))

    def begin(self, source: Int[Tensor, "B N"], batch: int, length: int) -> list[tuple]:
        read_source = self.encode(source)
        return [layer.begin(batch, length, read_source) for layer in self.layers]

    def patterns(self, source: Int[Tensor, "B N"], tokens: Int[Tensor, "B L"]) -> list[Tensor]:
        """Which tokens of the source every query looks at, layer by layer: [B, H, L, N]."""
        x, read_source, found = self.embedding(tokens), self.encode(source), []
        for layer in self.layers:
            asking = layer.norm(x + layer.dropout(layer.attention(x)))
            found.append(layer.cross.pattern(asking, read_source))
            x = layer(x, read_source)
        return found


def sinusoids(length: int, width: int) -> Float[Tensor, "length width"]:
    """Sines at even places and cosines at odd ones, wavelengths from 2 pi to 20000 pi."""
    rate = 10000 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(length, dtype=torch.float64).unsqueeze(1) * rate
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)[:, :width].float()
