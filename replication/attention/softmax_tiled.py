"""Softmax attention with the same care as linear attention: the same tiles, threads and compiler.

Notebook 02 and ``bench attention`` show by it how much of a difference in time is that of the
mechanisms, and how much that of the kernels. ``softmax_blocks`` says what is computed.
"""

from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from replication.attention.checks import check_attention, confined, hidden_keys, once
from replication.attention.compiled import call, places_of, rows_dense, share
from replication.attention.kernels import SOFTMAX, passes

BLOCK = 64
"""Queries, and keys, that are worked on at a time."""


class SoftmaxSizes(NamedTuple):
    """How a problem is cut. C, W: D and M rounded up to what registers hold."""

    B: int
    H: int
    N: int
    L: int
    D: int
    M: int
    C: int
    W: int
    T: int
    causal: int


def softmax_attention_tiled(
    Q: Float[Tensor, "B H N D"],
    K: Float[Tensor, "B H L D"],
    V: Float[Tensor, "B H L M"],
    *,
    causal: bool = False,
    key_lengths: Int[Tensor, " B"] | None = None,
) -> Float[Tensor, "B H N M"]:
    """V' = softmax(Q K^T / sqrt(D)) V, Eq. (2), for float32 on a processor. O(N) memory.

    Keys from ``key_lengths`` on are padding.
    """
    check_attention(Q, K, V, causal)
    if Q.dtype != torch.float32 or Q.device.type != "cpu":
        raise ValueError(
            f"The inputs are {Q.dtype} on {Q.device}, but tiled softmax attention is for "
            "torch.float32 on a processor. Use softmax_attention."
        )
    hidden = hidden_keys(key_lengths, K)
    lengths = torch.full(K.shape[:1], K.shape[2]) if key_lengths is None else key_lengths
    lengths = torch.as_tensor(lengths, dtype=torch.int64, device="cpu").contiguous()
    if hidden is not None:
        K, V = K.masked_fill(hidden, 0), V.masked_fill(hidden, 0)

    def attend(*tensors: Tensor) -> tuple[Tensor]:
        return (TiledSoftmax.apply(*map(rows_dense, tensors), lengths, causal),)

    return confined(attend, Q, K, V, causal)[0]


class TiledSoftmax(torch.autograd.Function):
    """Q, K, V, lengths of keys, causal -> V'."""

    @staticmethod
    def forward(ctx, Q, K, V, lengths: Tensor, causal: bool):
        (B, H, N, D), (L, M) = Q.shape, V.shape[2:]
        C, W, T = (-(-n // 16) * 16 for n in (D, M, min(BLOCK, max(N, L))))
        ctx.sizes = SoftmaxSizes(B, H, N, L, D, M, C, W, T, int(causal))
        out = torch.empty_like(V) if N == L else V.new_empty(B, H, N, M)
        log_sums = V.new_empty(B, H, N)
        _run("forward", ctx.sizes, lengths, log_sums, Q, K, V, out)
        ctx.save_for_backward(Q, K, V, out, log_sums, lengths)
        return out

    @staticmethod
    @once
    def backward(ctx, G):
        Q, K, V, out, log_sums, lengths = ctx.saved_tensors
        gradients = tuple(torch.empty_like(x) for x in (Q, K, V))
        _run("backward", ctx.sizes, lengths, log_sums, Q, K, V, out, rows_dense(G), *gradients)
        return *gradients, None, None


def _run(name: str, s: SoftmaxSizes, lengths: Tensor, log_sums: Tensor, *tensors: Tensor) -> None:
    kernel = passes(SOFTMAX)[name]
    run = partial(call, kernel, places_of(tensors), lengths.numpy(), log_sums.data_ptr(), s)
    share(run, s.B * s.H, s.B * s.H * s.N * s.L * (s.D + s.M), kernel.floats(s), log_sums)
