"""All that holds parameters: transformers that take any attention mechanism by name.

Drawn from the same random numbers, models of different mechanisms start from equal weights. Run
as an RNN, a token at a time, a model has a memory: of constant size for linear attention,
Eqs. (16)-(20), a growing cache for softmax attention. The mechanism's card says how it is kept.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from replication.attention import Mechanism, elu_plus_one, mechanism, trained

ACTIVATIONS = {"relu": F.relu, "elu_plus_one": elu_plus_one}


class Sizes(NamedTuple):
    """What a model is made of."""

    attention: str
    d_model: int
    n_heads: int
    n_layers: int
    d_ff: int
    vocabulary: int = 1
    length: int = 1
    dropout: float = 0.0
    activation: str = "relu"
    positions: str = "added"
    options: dict[str, Any] = {}  # noqa: RUF012 (a tuple's default, never changed)


# Attention ------------------------------------------------------------------------------------


class Projection(nn.Linear):
    """``parts`` linear maps in one product, drawn and clipped as if they were so many."""

    def __init__(self, d: int, parts: int):
        super().__init__(d, parts * d)
        self.parts = parts

    def drop_keys(self) -> None:
        """Of queries, keys and values, when queries are keys too."""
        for name in ("weight", "bias"):
            query, _, value = getattr(self, name).data.chunk(3)
            setattr(self, name, nn.Parameter(torch.cat((query, value))))
        self.parts, self.out_features = 2, len(self.bias)


class SelfAttention(nn.Module):
    """A_l of Eq. (1): queries, keys and values of one input, heads, and their mixture."""

    def __init__(self, sizes: Sizes, causal: bool, layer: int):
        super().__init__()
        self.card, self.options, self.layer = mechanism(sizes.attention), sizes.options, layer
        self.causal, self.heads = causal, sizes.n_heads
        self.project = Projection(sizes.d_model, parts=3)
        self.mix = nn.Linear(sizes.d_model, sizes.d_model)
        if self.card.shared_keys:
            self.project.drop_keys()
        self.own = own_parameters(self.card, sizes)

    def forward(
        self, x: Float[Tensor, "B N d"], key_lengths: Int[Tensor, " B"] | None = None
    ) -> Float[Tensor, "B N d"]:
        """What is at ``key_lengths`` and beyond is padding: no query sees it."""
        y = self.attend(*self.queries_keys_values(x), key_lengths)
        return self.mix(y.transpose(1, 2).flatten(2))

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, *k, v = split_heads(self.project(x), self.project.parts, self.heads)
        return q, *(k or (q,)), v

    def attend(self, q: Tensor, k: Tensor, v: Tensor, key_lengths: Tensor | None = None) -> Tensor:
        more = dict(self.own)
        if key_lengths is not None:
            more["key_lengths"] = key_lengths
        if self.card.seeded:  # anew in every training step, alike in evaluation
            more["seed"] = int(torch.randint(2**31, ())) if self.training else self.layer
        return self.card(q, k, v, causal=self.causal, **self.options, **more)

    def pattern(self, x: Float[Tensor, "B N d"]) -> Float[Tensor, "B H N N"]:
        """The weight of every key for every query: what attention makes of V = identity."""
        q, k, _ = self.queries_keys_values(x)
        return self.attend(q, k, identity_like(q))

    def begin(self, batch: int, length: int) -> Any:
        """The memory before the first token."""
        if self.card.memory is None:
            able = ", ".join(name for name in trained() if mechanism(name).memory)
            raise ValueError(
                f'"{self.card.name}" attention needs the whole sequence and has no memory to go on '
                f"from. Decode it by full forward passes, or choose one of: {able}."
            )
        size = self.mix.in_features // self.heads
        return self.card.memory.begin(self.mix.weight, batch, self.heads, length, size)

    def step(self, x: Float[Tensor, "B d"], position: int, memory: Any) -> Float[Tensor, "B d"]:
        """One token. The memory takes it in, in place."""
        parts = self.project.forward(x).view(len(x), self.project.parts, self.heads, -1)
        q, *k, v = parts.unbind(1)
        return self.mix.forward(self.remember(position, memory, q, *(k or (q,)), v).flatten(1))

    def remember(self, position: int, memory: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The memory takes k and v in, and q [B, H, D] looks at it."""
        return self.card.memory.step(memory, position, q, k, v, **self.options)


class CrossAttention(nn.Module):
    """Queries of the decoder, keys and values of what the encoder has read."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        card, self.heads = mechanism(sizes.attention), sizes.n_heads
        self.card = mechanism(card.cross_attention or card.name)
        self.query = nn.Linear(sizes.d_model, sizes.d_model)
        self.project = Projection(sizes.d_model, parts=2)
        self.mix = nn.Linear(sizes.d_model, sizes.d_model)
        self.own = own_parameters(self.card, sizes)

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        return self.mix(self.attend(x, *self.keys_values(source)).transpose(1, 2).flatten(2))

    def attend(self, x: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.card(*split_heads(self.query(x), 1, self.heads), k, v, **self.own)

    def keys_values(self, source: Float[Tensor, "B N d"]) -> list[Tensor]:
        return split_heads(self.project(source), 2, self.heads)

    def pattern(self, x: Tensor, source: Tensor) -> Float[Tensor, "B H L N"]:
        """The weight of every token of the source for every query."""
        k, _ = self.keys_values(source)
        return self.attend(x, k, identity_like(k))

    def step(self, x: Float[Tensor, "B d"], memory: Any, length: int) -> Float[Tensor, "B d"]:
        q = self.query(x).unflatten(1, (self.heads, -1))
        return self.mix(self.card.memory.look(memory, q, length).flatten(1))


def split_heads(x: Float[Tensor, "B N d"], parts: int, heads: int) -> list[Tensor]:
    """``parts`` views [B, H, N, D] of x."""
    return [y.unflatten(-1, (heads, -1)).transpose(1, 2) for y in x.chunk(parts, -1)]


def identity_like(k: Float[Tensor, "B H N D"]) -> Float[Tensor, "B H N N"]:
    """Values that make attention return its weights."""
    return torch.eye(k.shape[2], dtype=k.dtype, device=k.device).expand(*k.shape[:2], -1, -1)


def own_parameters(card: Mechanism, sizes: Sizes) -> nn.ModuleDict:
    """What a mechanism learns itself, if anything; all else is drawn as it would be without."""
    if card.parameters is None:
        return nn.ModuleDict()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, ())))
        size = sizes.d_model // sizes.n_heads
        return nn.ModuleDict({"own": card.parameters(sizes.n_heads, size, sizes.length)})


# Layers ---------------------------------------------------------------------------------------


class Layer(nn.Module):
    """T_l(x) = f_l(A_l(x) + x), Eq. (1), normalised after every sum.

    A decoder's layer also looks at the ``source`` between its own attention and f_l. A step
    calls ``forward`` of its parts, since what PyTorch does around it takes as long as a token.
    """

    def __init__(self, sizes: Sizes, layer: int, causal: bool, cross: bool = False):
        super().__init__()
        self.attention = SelfAttention(sizes, causal, layer)
        self.norm = nn.LayerNorm(sizes.d_model)
        self.cross = CrossAttention(sizes) if cross else None
        self.norm_cross = nn.LayerNorm(sizes.d_model) if cross else None
        self.widen = nn.Linear(sizes.d_model, sizes.d_ff)
        self.narrow = nn.Linear(sizes.d_ff, sizes.d_model)
        self.norm_ff = nn.LayerNorm(sizes.d_model)
        self.activation, self.dropout = ACTIVATIONS[sizes.activation], nn.Dropout(sizes.dropout)

    def forward(
        self, x: Tensor, source: Tensor | None = None, key_lengths: Tensor | None = None
    ) -> Tensor:
        x = self.norm(x + self.dropout(self.attention(x, key_lengths)))
        if self.cross is not None:
            x = self.norm_cross(x + self.dropout(self.cross(x, source)))
        wide = self.dropout(self.activation(self.widen(x)))
        return self.norm_ff(x + self.dropout(self.narrow(wide)))

    def begin(self, batch: int, length: int, source: Tensor | None) -> tuple:
        """The memory of self attention; and what cross attention needs of the source."""
        own, seen = self.attention.begin(batch, length), None
        if self.cross is not None:
            found = self.cross.card.memory.gather(*self.cross.keys_values(source))
            seen = found, source.shape[1]
        return own, seen

    def step(self, x: Float[Tensor, "B d"], position: int, memory: tuple) -> Tensor:
        own, seen = memory
        x = self.norm.forward(x + self.attention.step(x, position, own))
        if seen is not None:
            x = self.norm_cross.forward(x + self.cross.step(x, *seen))
        y = self.narrow.forward(self.activation(self.widen.forward(x)))
        return self.norm_ff.forward(x + y)


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


def sinusoids(length: int, width: int) -> Float[Tensor, "length width"]:
    """Sines at even places and cosines at odd ones, wavelengths from 2 pi to 20000 pi."""
    rate = 10000 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(length, dtype=torch.float64).unsqueeze(1) * rate
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)[:, :width].float()


# Transformers ---------------------------------------------------------------------------------


class DecoderOnly(nn.Module):
    """Causal layers over one sequence, as in the authors' copy task."""

    def __init__(self, sizes: Sizes, cross: bool = False):
        super().__init__()
        self.sizes = sizes
        self.embedding = Embedding(sizes)
        self.layers = nn.ModuleList(Layer(sizes, i, True, cross) for i in range(sizes.n_layers))
        self.norm = nn.LayerNorm(sizes.d_model)
        self.predict = nn.Linear(sizes.d_model, sizes.vocabulary)

    def forward(self, tokens: Int[Tensor, "B N"], source: Tensor | None = None) -> Tensor:
        """Logits [B, N, V] for what follows every token."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, source)
        return self.predict(self.norm(x))

    def begin(self, batch: int, length: int, source: Tensor | None = None) -> list[tuple]:
        """The memory of every layer before the first of at most ``length`` tokens."""
        return [layer.begin(batch, length, source) for layer in self.layers]

    def step(self, token: Int[Tensor, " B"], position: int, memory: list) -> Float[Tensor, "B V"]:
        """Logits for what follows ``token``, which the memory takes in. Not differentiable."""
        x = self.embedding.step(token, position)
        for layer, remembered in zip(self.layers, memory, strict=True):
            x = layer.step(x, position, remembered)
        return self.predict(self.norm.forward(x))

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
        self.encoder = nn.ModuleList(Layer(sizes, i, False) for i in range(sizes.n_layers))

    def encode(self, source: Int[Tensor, "B N"]) -> Float[Tensor, "B N d"]:
        x = self.embedding(source)
        for layer in self.encoder:
            x = layer(x)
        return x

    def forward(self, source: Int[Tensor, "B N"], tokens: Int[Tensor, "B L"]) -> Tensor:
        return super().forward(tokens, self.encode(source))

    def begin(self, source: Int[Tensor, "B N"], batch: int, length: int) -> list[tuple]:
        return super().begin(batch, length, self.encode(source))

    def patterns(self, source: Int[Tensor, "B N"], tokens: Int[Tensor, "B L"]) -> list[Tensor]:
        """Which tokens of the source every query looks at, layer by layer: [B, H, L, N]."""
        x, read_source, found = self.embedding(tokens), self.encode(source), []
        for layer in self.layers:
            asking = layer.norm(x + layer.dropout(layer.attention(x)))
            found.append(layer.cross.pattern(asking, read_source))
            x = layer(x, read_source)
        return found
