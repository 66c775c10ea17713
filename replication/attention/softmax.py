"""Softmax attention, Eq. (2): the baseline, as a textbook writes it and as PyTorch fuses it."""

from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from replication.attention.card import Look, Mechanism, Memory
from replication.attention.checks import check_attention, confined, hidden_keys


def softmax_attention(
    Q: Float[Tensor, "B H N D"],
    K: Float[Tensor, "B H L D"],
    V: Float[Tensor, "B H L M"],
    *,
    causal: bool = False,
    key_lengths: Int[Tensor, " B"] | None = None,
    fused: bool = True,
) -> Float[Tensor, "B H N M"]:
    """V' = softmax(Q K^T / sqrt(D)) V, Eq. (2). O(N^2 max(D, M)) time.

    ``fused=True`` is PyTorch's ``scaled_dot_product_attention``, which works in blocks and
    needs O(N) memory, but for a mask of N x N where ``causal`` meets padding; ``fused=False``
    writes the N x L matrix down, as the equation does. Keys from ``key_lengths`` on are padding.
    """
    check_attention(Q, K, V, causal)
    hidden = hidden_keys(key_lengths, K)
    if hidden is not None:
        K, V = K.masked_fill(hidden, 0), V.masked_fill(hidden, 0)
    attend = _fused if fused else _textbook
    visible = _visible(Q, hidden, causal, fused)
    return confined(lambda q, k, v: (attend(q, k, v, visible, causal),), Q, K, V, causal)[0]


def _visible(Q: Tensor, hidden: Tensor | None, causal: bool, fused: bool) -> Tensor | None:
    """True where a query may see a key: [B or 1, 1, N or 1, L]; None where no mask is needed."""
    past = None
    if causal and not (fused and hidden is None):
        past = torch.ones(Q.shape[-2], Q.shape[-2], dtype=torch.bool, device=Q.device).tril_()
        past = past[None, None]
    if hidden is None:
        return past
    shown = ~hidden.mT
    return shown if past is None else shown & past


def _textbook(Q: Tensor, K: Tensor, V: Tensor, visible: Tensor | None, causal: bool) -> Tensor:
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return scores.softmax(-1) @ V


def _fused(Q: Tensor, K: Tensor, V: Tensor, visible: Tensor | None, causal: bool) -> Tensor:
    """The fused kernels want D = M, so zeros fill up the smaller of the two."""
    D, M = Q.shape[-1], V.shape[-1]
    Q, K = (F.pad(x, (0, max(0, M - D))) for x in (Q, K))
    V = F.pad(V, (0, max(0, D - M)))
    result = F.scaled_dot_product_attention(
        Q, K, V, attn_mask=visible, is_causal=causal and visible is None, scale=D**-0.5
    )
    return result[..., :M]


class Cache(NamedTuple):
    """Keys and values, with room for all positions."""

    k: Float[Tensor, "B H L D"]
    v: Float[Tensor, "B H L M"]


def _begin(like: Tensor, batch: int, heads: int, length: int, size: int) -> Cache:
    return Cache(*(like.new_zeros(batch, heads, length, size) for _ in range(2)))


def _look(memory: Cache, q: Float[Tensor, "B H D"], length: int) -> Float[Tensor, "B H M"]:
    """Softmax attention of one query, Eq. (2)."""
    k, v = memory.k[:, :, :length], memory.v[:, :, :length]
    return F.scaled_dot_product_attention(q.unsqueeze(2), k, v).squeeze(2)


def _step(memory: Cache, position: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    memory.k[:, :, position], memory.v[:, :, position] = k, v
    return _look(memory, q, position + 1)


def _nbytes(memory: Cache, N: int) -> int:
    return sum(part[:, :, :N].numel() * part.element_size() for part in memory)


CACHE = Memory("cache", _begin, _step, _look, Cache, _nbytes)
"""The paper's "stateful softmax" (its supplement): it grows with every token."""

CARDS = (
    Mechanism(
        name="softmax",
        attend=softmax_attention,
        look=Look("softmax, fused", "fused softmax", "#de8f05", "s", "--"),
        time_power=2,
        memory_power=1,
        memory=CACHE,
        order=20,
    ),
    Mechanism(
        name="softmax-textbook",
        attend=partial(softmax_attention, fused=False),
        look=Look("softmax, textbook", "textbook softmax", "#7f2704", "D", ":"),
        time_power=2,
        memory_power=2,
        reference="softmax",
        memory=CACHE,
        order=30,
    ),
)
