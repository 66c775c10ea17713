"""Causal softmax attention with the same care as linear attention: the same tiles, threads and
compiler.

It tells how much of a difference in time is that of the mechanisms, and how much that of the
kernels. ``softmax_blocks`` says what is computed.
"""

from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from replication.attention.card import Look, Mechanism
from replication.attention.checks import check_attention, confined, hidden_keys, once
from replication.attention.compiled import Sizes, call, places_of, rows_dense, share
from replication.attention.feature_maps import elu_plus_one
from replication.attention.kernels import SOFTMAX, choose_kernel, passes, wanted_kernel
from replication.attention.softmax import CACHE, softmax_attention

BLOCK = 64
"""Queries, and keys, that are worked on at a time."""


def softmax_attention_tiled(
    Q: Float[Tensor, "B H N D"],
    K: Float[Tensor, "B H N D"],
    V: Float[Tensor, "B H N M"],
    *,
    causal: bool = True,
    key_lengths: Int[Tensor, " B"] | None = None,
) -> Float[Tensor, "B H N M"]:
    """Eq. (2) where query i sees the keys up to i, for float32 on a processor. O(N) memory.

    Keys from ``key_lengths`` on are padding.
    """
    check_attention(Q, K, V, causal)
    if not causal or Q.dtype != torch.float32 or Q.device.type != "cpu":
        raise ValueError(
            f"causal is {causal} and the inputs are {Q.dtype} on {Q.device}, but tiled softmax "
            "attention is causal, for torch.float32 on a processor. Use softmax_attention."
        )
    hidden = hidden_keys(key_lengths, K)
    lengths = torch.full(K.shape[:1], K.shape[2]) if key_lengths is None else key_lengths
    lengths = torch.as_tensor(lengths, dtype=torch.int64, device="cpu").contiguous()
    if hidden is not None:
        K, V = K.masked_fill(hidden, 0), V.masked_fill(hidden, 0)

    def attend(*tensors: Tensor) -> tuple[Tensor]:
        return (TiledSoftmax.apply(*map(rows_dense, tensors), lengths),)

    return confined(attend, Q, K, V, causal)[0]


class TiledSoftmax(torch.autograd.Function):
    """Q, K, V, lengths of keys -> V'."""

    @staticmethod
    def forward(ctx, Q, K, V, lengths: Tensor):
        (B, H, N, D), M = Q.shape, V.shape[-1]
        C, W, T = (-(-n // 16) * 16 for n in (D, M, min(BLOCK, N)))
        ctx.sizes = Sizes(B, H, N, D, M, C, W, block=T, segment=1)
        out, log_sums = torch.empty_like(V), V.new_empty(B, H, N)
        _run("forward", ctx.sizes, lengths, log_sums, Q, K, V, out)
        ctx.save_for_backward(Q, K, V, out, log_sums, lengths)
        return out

    @staticmethod
    @once
    def backward(ctx, G):
        Q, K, V, out, log_sums, lengths = ctx.saved_tensors
        gradients = tuple(torch.empty_like(x) for x in (Q, K, V))
        _run("backward", ctx.sizes, lengths, log_sums, Q, K, V, out, rows_dense(G), *gradients)
        return *gradients, None


def _run(name: str, s: Sizes, lengths: Tensor, log_sums: Tensor, *tensors: Tensor) -> None:
    kernel = passes(SOFTMAX)[name]
    run = partial(call, kernel, places_of(tensors), lengths.numpy(), (log_sums.data_ptr(),), s)
    share(run, s.B * s.H, s.B * s.H * s.N**2 * (s.D + s.M), kernel.floats(s), log_sums)


def tiled_or_fused(
    Q: Float[Tensor, "B H N D"],
    K: Float[Tensor, "B H L D"],
    V: Float[Tensor, "B H L M"],
    *,
    causal: bool = False,
    key_lengths: Int[Tensor, " B"] | None = None,
) -> Float[Tensor, "B H N M"]:
    """Eq. (2) by tiles where the compiled kernel of linear attention, with its elu + 1, would run,
    else by PyTorch's fused kernel."""
    if choose_kernel(Q, V, causal, elu_plus_one, group=SOFTMAX).kernel == "compiled":
        return softmax_attention_tiled(Q, K, V, causal=True, key_lengths=key_lengths)
    return softmax_attention(Q, K, V, causal=causal, key_lengths=key_lengths)


def unavailable(dtype: str = "float32") -> str | None:
    if dtype != "float32":
        return "Our tiles are for float32 only"
    found = wanted_kernel(SOFTMAX)
    return None if found.kernel == "compiled" else f"Our tiles are not compiled: {found.reason}"


CARD = Mechanism(
    name="softmax-tiled",
    attend=tiled_or_fused,
    look=Look("softmax, our tiles", "softmax by our tiles", "#e08fd0", "P", "-.", True),
    time_power=2,
    memory_power=1,
    reference="softmax",
    memory=CACHE,
    unavailable=unavailable,
    order=25,
)
