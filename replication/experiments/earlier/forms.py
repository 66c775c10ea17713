"""The switches on our model: every deviation of their model and of their attention, one by one."""

from collections.abc import Collection
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from replication.attention import elu_plus_one
from replication.experiments.earlier.numbers import HEAD
from replication.model import ACTIVATIONS, Embedding, EncoderDecoder, Sizes

EPS = 1e-8
"""Their constant in the denominator: the literal that is of double precision."""


class Disturbed(EncoderDecoder):
    """Encoder and decoder of the earlier setting with some of the suspects switched on.

    It starts from the weights that it would have without them.
    """

    def __init__(self, sizes: Sizes, switches: Collection[str]):
        if "heads" in switches:
            sizes = sizes._replace(n_heads=sizes.d_model // HEAD)
        super().__init__(sizes)
        for layer in self.layers:
            if "mask" in switches:
                layer.attention.causal = False
            if "activation" in switches:
                layer.activation = ACTIVATIONS["elu_plus_one"]
        if "encoder" in switches:
            self.encoder = self.encoder[: max(1, sizes.n_layers // 2)]
        if {"scaled", "positions"} & set(switches):
            self.embedding = TheirEmbedding(self.embedding, sizes, switches)
        if {"double", "generic"} & set(switches):
            forms = {name: name in switches for name in ("double", "generic")}
            for part in self.modules():
                if hasattr(part, "card"):
                    part.card = replace(part.card, attend=partial(their_attention, **forms))


class TheirEmbedding(Embedding):
    """Tokens divided by the root of the width beside positions of size one; positions trained."""

    def __init__(self, ours: Embedding, sizes: Sizes, switches: Collection[str]):
        super().__init__(sizes)
        self.tokens, self.scale = ours.tokens, 1.0
        if "scaled" in switches:
            self.scale = sizes.d_model**-0.5
        if "positions" in switches:
            del self.table
            self.table = nn.Parameter(ours.table.clone())

    def forward(self, tokens: Int[Tensor, "B N"]) -> Float[Tensor, "B N d"]:
        return self.scale * self.tokens(tokens) + self.table[: tokens.shape[1]]

    def step(self, token: Int[Tensor, " B"], position: int) -> Float[Tensor, "B d"]:
        return self.scale * self.tokens.weight[token] + self.table[position]


def their_attention(
    Q: Float[Tensor, "B H N D"],
    K: Float[Tensor, "B H L D"],
    V: Float[Tensor, "B H L M"],
    *,
    causal: bool = False,
    double: bool = False,
    generic: bool = False,
) -> Float[Tensor, "B H N M"]:
    """Linear attention without a mask, Eqs. (5) and (6), in the three contractions of their code.

    ``double``: the constant in the denominator is of double precision, and so is the result.
    ``generic``: every product of a contraction is written down before they are summed up.
    """
    if causal:
        raise ValueError("Their attention knows no causal mask. Switch the mask off as well.")
    q, k = elu_plus_one(Q), elu_plus_one(K)
    Z = k.sum(-2).to(torch.float64 if double else k.dtype) + EPS
    if not generic:
        z = 1 / (q.to(Z.dtype) @ Z.unsqueeze(-1))
        return (q @ (k.mT @ V)) * z
    S = (k.unsqueeze(-1) * V.unsqueeze(-2)).sum(-3)
    z = 1 / (q * Z.unsqueeze(-2)).sum(-1)
    return (q.unsqueeze(-1) * S.unsqueeze(-3) * z[..., None, None]).sum(-2)


class Promoting(TorchFunctionMode):
    """Products and norms of mixed types take the wider one, as in Julia, where PyTorch refuses."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (F.linear, F.layer_norm):
            tensors = [x for x in args if isinstance(x, Tensor)]
            tensors += [x for x in (kwargs or {}).values() if isinstance(x, Tensor)]
            if len({x.dtype for x in tensors}) > 1:
                args = [x.double() if isinstance(x, Tensor) else x for x in args]
                kwargs = {name: x.double() if isinstance(x, Tensor) else x
                          for name, x in (kwargs or {}).items()}  # fmt: skip
        return func(*args, **kwargs or {})
