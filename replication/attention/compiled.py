"""Causal linear attention by the compiled kernel: memory for it, threads, and autograd.

What is computed stands in ``causal_blocks``; here tensors become addresses. The kernel holds no
lock of Python, so that plain threads share the sequences (heads of batch entries), a few at a
time: whoever is free takes the next. Nobody waits at barriers, and on a busy machine a thread
that gets no processor leaves its share to the others.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, partial
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from replication.attention.checks import once
from replication.attention.kernels import TOKENS, Pass, passes

BLOCK = 32
"""Positions that are worked on at a time. Fewer mean less arithmetic, but more sums of blocks."""

WHOLE = 64
"""Up to this length, or up to 3 D M / (D + M), a sequence is best left whole."""

SEGMENT, SEGMENT_FLOATS = 8, 2**16
"""Blocks between the sums that are kept, or as many as have their sums in the cache together."""

PIECES, WORTH = 4, 1e6
"""Pieces a thread, and the operations from which on a further thread pays."""


GAP = 80
"""Floats between buffers: at distances of 4096 bytes a processor takes them for each other."""


class Sizes(NamedTuple):
    """How a problem is cut. C, W: D and M rounded up to what registers hold."""

    B: int
    H: int
    N: int
    D: int
    M: int
    C: int
    W: int
    block: int
    segment: int


def sizes_of(Q: Tensor, V: Tensor) -> Sizes:
    (B, H, N, D), M = Q.shape, V.shape[-1]
    C, W = _up(D, 16), _up(M, 16)
    whole = max(WHOLE, 3 * D * M // (D + M))
    block = _up(N, 16) if whole >= N else BLOCK
    least = -(-C * W // (C + W) // block)  # so that the sums kept take no more than Q and V
    segment = min(max(min(SEGMENT, SEGMENT_FLOATS // (C * W)), least), -(-N // block))
    return Sizes(B, H, N, D, M, C, W, block, segment)


def cuts(s: Sizes) -> int:
    """Places in a sequence at which the sums are kept."""
    return (s.N - 1) // (s.block * s.segment)


class CompiledSums(torch.autograd.Function):
    """Q, K, V, S, Z, lengths -> V', its denominators, whether all is finite, S and Z at the end.

    Q, K [B, H, N, D], V [B, H, N, M], S [B, H, D, M], Z [B, H, D] are float32. ``lengths`` [B]
    says where the padding of keys begins. S and Z, dense, may be None; so are those returned
    unless ``return_state``. Features of a position must lie side by side: ``rows_dense``.
    """

    @staticmethod
    def forward(ctx, Q, K, V, S, Z, lengths: Tensor, return_state: bool):
        ctx.set_materialize_grads(False)
        sizes = sizes_of(Q, V)
        B, H, N, D, M, C, W, *_ = sizes
        out, denominators = torch.empty_like(V), V.new_empty(B, H, N, 1)
        kept = V.new_empty(B * H * cuts(sizes) * C * (W + 1))
        after = (V.new_empty(B, H, D, M), V.new_empty(B, H, D)) if return_state else (None, None)
        finite = _run("forward", sizes, lengths, (Q, K, V, out), (denominators, kept, S, Z, *after))
        ctx.save_for_backward(Q, K, V, out, denominators, kept, S, Z, lengths)
        ctx.mark_non_differentiable(denominators)
        ctx.sizes = sizes
        return out, denominators, finite, *after

    @staticmethod
    @once
    def backward(ctx, G, _, __, dS_after, dZ_after):
        Q, K, V, out, denominators, kept, S, Z, lengths = ctx.saved_tensors
        sizes = ctx.sizes
        dQ, dK, dV = (torch.empty_like(x) for x in (Q, K, V))
        G = torch.zeros_like(out) if G is None else rows_dense(G)
        later = _pair(dS_after, dZ_after, sizes, V)
        before = (None, None) if S is None else (torch.empty_like(S), torch.empty_like(Z))
        tensors = Q, K, V, out, G, dQ, dK, dV
        _run("backward", sizes, lengths, tensors, (denominators, kept, S, Z, *later, *before))
        return dQ, dK, dV, *before, None, None


def compiled_step(S: Tensor, Z: Tensor, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """V' [B, H, M] of one token and its denominators [B, H, 1]; S and Z take it in, in place."""
    (B, H, D), M = q.shape, v.shape[-1]
    kernel, rows = passes(TOKENS)["step"], [rows_dense(x) for x in (q, k, v)]
    out, denominators = v.new_empty(B, H, M), v.new_empty(B, H, 1)
    strides = [n for x in rows for n in (x.data_ptr(), *x.stride()[:2])]
    places = (*strides, *(x.data_ptr() for x in (S, Z, denominators, out)))

    def run(part: tuple[int, int], room: Tensor) -> bool:
        return kernel.run(*part, places, D, M, H, room.data_ptr())

    share(run, B * H, B * H * D * M, kernel.floats(D), out)
    return out, denominators


def _run(name: str, s: Sizes, lengths: Tensor, tensors: tuple, extra: tuple) -> bool:
    """One pass over all sequences."""
    kernel = passes()[name]
    addresses = tuple(0 if x is None else x.data_ptr() for x in extra)
    run = partial(call, kernel, places_of(tensors), lengths.numpy(), addresses, s)
    return share(run, s.B * s.H, s.B * s.H * s.N * s.D * s.M, kernel.floats(s), tensors[0])


def places_of(tensors: tuple[Tensor, ...]) -> np.ndarray:
    """Where each [B, H, N, F] begins, and its steps by batch entry, head and position."""
    return np.array([(x.data_ptr(), *x.stride()[:3]) for x in tensors], dtype=np.int64)


def call(kernel: Pass, places, lengths, extra, sizes: tuple, part, room: Tensor) -> bool:
    """The kernel for one part of the sequences, with buffers one after another in ``room``."""
    sizes_of_buffers = (4 * (n + GAP) for n in kernel.floats(sizes)[:-1])
    buffers = tuple(accumulate(sizes_of_buffers, initial=room.data_ptr()))
    return kernel.run(*part, places, lengths, extra, tuple(sizes), buffers)


def share(run: Callable, count: int, work: int, floats: tuple[int, ...], like: Tensor) -> bool:
    """run(part, room) for all parts of range(count), by as many threads as PyTorch uses and the
    ``work``, in multiplications, is worth. True if all were.

    A room is a thread's memory for buffers: a tensor, so that PyTorch's profiler sees it.
    """
    threads = max(1, min(torch.get_num_threads(), count, int(work / WORTH)))
    rooms = like.new_empty(threads, sum(floats) + GAP * len(floats))
    if threads == 1:
        return run((0, count), rooms)
    pieces = min(count, PIECES * threads)
    parts = list(pairwise(count * i // pieces for i in range(pieces + 1)))[::-1]

    def take(room: Tensor) -> bool:
        good = True
        while parts:
            try:
                part = parts.pop()
            except IndexError:  # another thread was faster
                break
            good &= run(part, room)
        return good

    others = [_pool().submit(take, room) for room in rooms[1:]]
    try:
        good = take(rooms[0])
    finally:  # nobody writes any more when this returns, whatever happened
        parts.clear()
        wait([other for other in others if not other.cancel()])
    return all((good, *(other.result() for other in others if not other.cancelled())))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), "linear-attention")


if hasattr(os, "register_at_fork"):  # the threads of a process are not in its copy
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _up(n: int, m: int) -> int:
    return -(-n // m) * m


def rows_dense(x: Tensor) -> Tensor:
    """x, copied if the features of a position do not lie side by side."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _pair(dS: Tensor | None, dZ: Tensor | None, s: Sizes, like: Tensor) -> tuple:
    """Both gradients by the last state, or neither: zeros stand for one that is absent."""
    if dS is None and dZ is None:
        return None, None
    dS = like.new_zeros(s.B, s.H, s.D, s.M) if dS is None else dS
    dZ = like.new_zeros(s.B, s.H, s.D) if dZ is None else dZ
    return dS.contiguous(), dZ.contiguous()
