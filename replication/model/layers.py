"""Layers: projections, heads, a mechanism by name, and what follows attention.

A layer can be run over a whole sequence or as an RNN, a token at a time. What it then
remembers is called its memory: of constant size for linear attention, Eqs. (16)-(20), a
growing cache of keys and values for softmax attention.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from replication.attention import ATTENTIONS, State, elu_plus_one
from replication.attention.linear import read

ACTIVATIONS = {"relu": F.relu, "elu_plus_one": elu_plus_one}
RECURRENT = ("linear", "softmax", "softmax-textbook")
"""Mechanisms that can go on from a memory."""


class Sizes(NamedTuple):
    """What a model is made of."""

    attention: str
    cross_attention: str
    vocabulary: int
    length: int
    d_model: int
    n_heads: int
    n_layers: int
    d_ff: int
    dropout: float
    activation: str
    positions: str
    options: dict


class Cache(NamedTuple):
    """Keys and values, with room for all positions."""

    k: Float[Tensor, "B H L D"]
    v: Float[Tensor, "B H L D"]


class Projection(nn.Linear):
    """Several linear maps of one input in one product; ``parts`` of them."""

    def __init__(self, d_in: int, d_out: int, parts: int):
        super().__init__(d_in, parts * d_out)
        self.parts = parts

    def drop(self, part: int) -> None:
        """Take one map out."""
        for name in ("weight", "bias"):
            kept = list(getattr(self, name).data.chunk(self.parts))
            del kept[part]
            setattr(self, name, nn.Parameter(torch.cat(kept)))
        self.parts -= 1
        self.out_features = len(self.bias)


class SelfAttention(nn.Module):
    """A_l of Eq. (1): queries, keys and values of one input, heads, and their mixture.

    One product makes queries, keys and values. It draws its weights as three ``nn.Linear`` of
    the authors' library would, and training clips their gradients one by one all the same.
    """

    def __init__(self, sizes: Sizes, causal: bool, layer: int):
        super().__init__()
        self.mechanism, self.name = ATTENTIONS[sizes.attention], sizes.attention
        self.causal, self.heads, self.options = causal, sizes.n_heads, sizes.options
        self.layer = layer
        self.project = Projection(sizes.d_model, sizes.d_model, parts=3)
        self.mix = nn.Linear(sizes.d_model, sizes.d_model)
        if self.mechanism.shared_keys:
            self.project.drop(1)

    def forward(self, x: Float[Tensor, "B N d"]) -> Float[Tensor, "B N d"]:
        return self.mix(join_heads(self.attend(*self.queries_keys_values(x))))

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, *k, v = split_heads(self.project(x), self.project.parts, self.heads)
        return q, *(k or (q,)), v

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.mechanism(q, k, v, causal=self.causal, **self.options, **self.hashing())

    def hashing(self) -> dict:
        """LSH draws new hash functions in every training step, and keeps to one in evaluation."""
        if not self.mechanism.shared_keys:
            return {}
        return {"seed": int(torch.randint(2**31, ())) if self.training else self.layer}

    def pattern(self, x: Float[Tensor, "B N d"]) -> Float[Tensor, "B H N N"]:
        """The weight of every key for every query: what attention makes of V = identity."""
        q, k, _ = self.queries_keys_values(x)
        return self.attend(q, k, identity_like(q))

    def begin(self, batch: int, length: int) -> State | Cache:
        """The memory before the first token."""
        if self.name not in RECURRENT:
            raise ValueError(
                f'"{self.name}" attention sorts the whole sequence, so it cannot go on from a '
                f"memory. Decode it by full forward passes, or choose one of {RECURRENT}."
            )
        size = self.mix.in_features // self.heads
        new, shape = self.mix.weight.new_zeros, (batch, self.heads, length, size)
        if self.name == "linear":
            return State(new(batch, self.heads, size, size), new(batch, self.heads, size))
        return Cache(new(shape), new(shape))

    def step(
        self, x: Float[Tensor, "B d"], position: int, memory: State | Cache
    ) -> Float[Tensor, "B d"]:
        """One token. The memory takes it in, in place."""
        qkv = F.linear(x, self.project.weight, self.project.bias).view(len(x), 3, self.heads, -1)
        v = qkv[:, 2]
        if self.name == "linear":
            q, k = elu_plus_one(qkv[:, :2]).unbind(1)
            memory.s.addcmul_(k.unsqueeze(-1), v.unsqueeze(-2))
            memory.z.add_(k)
            y = read(memory, q)
        else:
            q, k = qkv[:, 0], qkv[:, 1]
            memory.k[:, :, position], memory.v[:, :, position] = k, v
            y = look_up(q, memory.k[:, :, : position + 1], memory.v[:, :, : position + 1])
        return F.linear(y.flatten(1), self.mix.weight, self.mix.bias)


class CrossAttention(nn.Module):
    """Queries of the decoder, keys and values of what the encoder has read."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.mechanism, self.name = ATTENTIONS[sizes.cross_attention], sizes.cross_attention
        self.heads = sizes.n_heads
        self.query = nn.Linear(sizes.d_model, sizes.d_model)
        self.project = Projection(sizes.d_model, sizes.d_model, parts=2)
        self.mix = nn.Linear(sizes.d_model, sizes.d_model)

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        (q,) = split_heads(self.query(x), 1, self.heads)
        k, v = split_heads(self.project(source), 2, self.heads)
        return self.mix(join_heads(self.mechanism(q, k, v)))

    def pattern(self, x: Tensor, source: Tensor) -> Float[Tensor, "B H L N"]:
        """The weight of every token of the source for every query."""
        (q,) = split_heads(self.query(x), 1, self.heads)
        k, _ = split_heads(self.project(source), 2, self.heads)
        return self.mechanism(q, k, identity_like(k))

    def begin(self, source: Float[Tensor, "B N d"]) -> State | Cache:
        """All that a query will need of the source."""
        k, v = split_heads(self.project(source), 2, self.heads)
        if self.name != "linear":
            return Cache(k, v)
        k = elu_plus_one(k)
        return State(k.mT @ v, k.sum(-2))

    def step(self, x: Float[Tensor, "B d"], memory: State | Cache) -> Float[Tensor, "B d"]:
        q = self.query(x).unflatten(1, (self.heads, -1))
        linear = self.name == "linear"
        y = read(memory, elu_plus_one(q)) if linear else look_up(q, memory.k, memory.v)
        return self.mix(y.flatten(1))


class Layer(nn.Module):
    """T_l(x) = f_l(A_l(x) + x), Eq. (1), normalised after every sum.

    A decoder's layer also looks at the ``source`` between its own attention and f_l.
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

    def forward(self, x: Tensor, source: Tensor | None = None) -> Tensor:
        x = self.norm(x + self.dropout(self.attention(x)))
        if self.cross is not None:
            x = self.norm_cross(x + self.dropout(self.cross(x, source)))
        wide = self.dropout(self.activation(self.widen(x)))
        return self.norm_ff(x + self.dropout(self.narrow(wide)))

    def begin(self, batch: int, length: int, source: Tensor | None) -> tuple:
        """The memories of self attention and, if there is one, of cross attention."""
        seen = None if self.cross is None else self.cross.begin(source)
        return self.attention.begin(batch, length), seen

    def step(self, x: Float[Tensor, "B d"], position: int, memory: tuple) -> Tensor:
        own, seen = memory
        x = normalise(self.norm, x + self.attention.step(x, position, own))
        if seen is not None:
            x = normalise(self.norm_cross, x + self.cross.step(x, seen))
        wide = self.activation(F.linear(x, self.widen.weight, self.widen.bias))
        y = F.linear(wide, self.narrow.weight, self.narrow.bias)
        return normalise(self.norm_ff, x + y)


def split_heads(x: Float[Tensor, "B N d"], parts: int, heads: int) -> list[Tensor]:
    """``parts`` views [B, H, N, D] of x."""
    return [y.unflatten(-1, (heads, -1)).transpose(1, 2) for y in x.chunk(parts, -1)]


def join_heads(x: Float[Tensor, "B H N D"]) -> Float[Tensor, "B N d"]:
    return x.transpose(1, 2).flatten(2)


def identity_like(k: Float[Tensor, "B H N D"]) -> Float[Tensor, "B H N N"]:
    """Values that make attention return its weights."""
    return torch.eye(k.shape[2], dtype=k.dtype, device=k.device).expand(*k.shape[:2], -1, -1)


def look_up(q: Float[Tensor, "B H D"], k: Tensor, v: Tensor) -> Float[Tensor, "B H D"]:
    """Softmax attention of one query, Eq. (2)."""
    return F.scaled_dot_product_attention(q.unsqueeze(2), k, v).squeeze(2)


def normalise(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    return F.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
