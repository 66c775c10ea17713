"""The causal sums of linear attention, exact and in chunks: Eqs. (8)-(15).

A sequence is cut into chunks of ``CHUNK`` positions. Within a chunk the masked product
phi(Q) phi(K)^T is small and dense; from chunk to chunk only the sum S travels. The backward
pass is written by hand: the gradients (13)-(15) are causal sums as well, (13) of what came
before, (14) and (15) of what comes after.

The value 1 is appended to every V_j. Then the denominator is one more column of the
numerator, Z one more column of S, and one set of equations serves both.

Chunks are worked off a tile at a time: several heads and positions, as many as stay in the
processor's cache. phi is applied to a tile there, and only S at its left edge is kept for
the backward pass. So memory is O(N (D + M)): neither the N x C x M sums nor the N x C
features are ever stored.
"""

from collections.abc import Iterator
from itertools import pairwise
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from replication.attention.checks import once
from replication.attention.feature_maps import FeatureMap

CHUNK = 32
"""Positions in a chunk. With fewer there is less arithmetic, but more sums between chunks."""

WHOLE = 3 * CHUNK
"""Up to this length a sequence is one chunk: the order of Eq. (8), which needs no sums S."""

TILE = 4096
"""Positions in a tile, over all its heads, where C = M = 64 and a buffer of it takes 1 MB."""

ROWS = 8
"""Sequences (heads of batch entries) that a tile holds side by side, if there are as many."""

EPS = 1e-6
"""Added to every denominator, as in the authors' code; the paper's Eq. (8) has none."""


def chunk_of(N: int) -> int:
    """Positions in a chunk of a sequence of length N."""
    return N if N <= WHOLE else CHUNK


class Tile(NamedTuple):
    """A part of [B, H, N, ...]: some batch entries, some heads, a stretch of whole chunks."""

    batch: slice
    heads: slice
    positions: slice

    def chunks(self, x: Tensor) -> Tensor:
        """This part of x [B, H, N, F] as a view [n, b, h, c, F]: chunk by chunk."""
        part, chunk = x[self], chunk_of(x.shape[2])
        return part.unflatten(2, (-1, min(chunk, part.shape[2]))).movedim(2, 0)


def tiles(Q: Tensor, V: Tensor, C: int) -> Iterator[Tile]:
    """The tiles of [B, H, N, ...], left before right.

    A tile is at most a quarter of a larger whole, so that its buffers stay small beside it. A
    stretch is at least C M / (D + M) long, so that the sums kept at the edges never take more
    memory than Q and V themselves.
    """
    (B, H, N, D), M = Q.shape, V.shape[-1]
    chunk = chunk_of(N)
    positions = min(TILE, max(TILE // 4, B * H * N // 4)) * 64 // max(C, M)
    rows = max(min(ROWS, positions // chunk), positions // N, 1)
    rows = min(rows, B * H) if V.device.type == "cpu" else B * H
    length = max(positions // rows, C * M // (D + M))
    length = -(-length // chunk) * chunk
    batch, heads = max(1, rows // H), min(rows, H)
    edges = sorted({*range(0, N, length), N // chunk * chunk, N})
    for b in range(0, B, batch):
        for h in range(0, H, heads):
            for start, stop in pairwise(edges):
                yield Tile(slice(b, b + batch), slice(h, h + heads), slice(start, stop))


class Buffers:
    """Memory for the products of a tile, by name, used again for the next tile.

    Fresh memory costs page faults, which can take longer than the products themselves.
    """

    def __init__(self, like: Tensor, dtype: torch.dtype):
        self.like, self.dtype, self.flat = like, dtype, {}

    def __call__(self, name: str, *shape: int) -> Tensor:
        size = prod(shape)
        if name not in self.flat or self.flat[name].numel() < size:
            self.flat[name] = self.like.new_empty(size, dtype=self.dtype)
        return self.flat[name][:size].view(shape)


def load(tile, Q, K, V, phi, hidden, buffers) -> tuple[Tensor, Tensor, Tensor]:
    """phi(Q), phi(K) [P, c, C] and (V, 1) [P, c, M + 1] of the tile's P = n b h chunks."""
    q, k, v = (tile.chunks(x).to(buffers.dtype) for x in (Q, K, V))
    C, M = phi.size(q.shape[-1]), v.shape[-1]
    q = phi.write(q, buffers("q", *q.shape[:-1], C))
    k = phi.write(k, buffers("k", *k.shape[:-1], C))
    v1 = buffers("v1", *v.shape[:-1], M + 1)
    v1[..., :M] = v
    v1[..., M] = 1
    if hidden is not None:
        k.masked_fill_(tile.chunks(hidden.expand(*K.shape[:3], 1)), 0)
    return q.flatten(0, 2), k.flatten(0, 2), v1.flatten(0, 2)


def masked_product(q: Tensor, k: Tensor, buffers: Buffers) -> Tensor:
    """phi(Q_i)^T phi(K_j) for j <= i of the same chunk, zero elsewhere: [P, c, c]."""
    return torch.bmm(q, k.mT, out=buffers("a", *q.shape[:2], q.shape[1])).tril_()


def running_sums(k, v, edge: Tensor, buffers: Buffers, reverse: bool = False) -> Tensor:
    """S before every chunk, Eq. (10), and after the last: [n + 1, b h, C, M + 1].

    ``edge`` [b h, C, M + 1] is S where the tile begins. If ``reverse`` the sums run from the
    right: the first is over the whole tile, the last is ``edge``.
    """
    sums = buffers("S", len(k) // len(edge) + 1, *edge.shape)
    own = sums[:-1] if reverse else sums[1:]
    torch.bmm(k.mT, v, out=own.flatten(0, 1))
    order = sums.unbind(0)[:: -1 if reverse else 1]
    order[0].copy_(edge)
    for before, here in pairwise(order):
        here += before
    return sums


class CausalSums(torch.autograd.Function):
    """Q, K, V, (S, Z), phi -> V', its denominators, (S, Z) after the last position.

    Q, K [B, H, N, D] and V [B, H, N, M] may be of a half type; (S, Z) [B, H, C, M + 1] and
    all arithmetic are of type ``dtype``. ``hidden`` [B, 1, N, 1] marks the padded keys, whose
    values must be zero. (S, Z) may be None where neither is wanted and one chunk holds all.
    """

    @staticmethod
    def forward(ctx, Q, K, V, S, phi: FeatureMap, hidden: Tensor | None, dtype: torch.dtype):
        out, M = torch.empty_like(V), V.shape[-1]
        denominators = V.new_empty(*V.shape[:3], 1, dtype=dtype)
        S = None if S is None else S.clone()
        buffers, edges = Buffers(V, dtype), []
        for tile in tiles(Q, V, phi.size(Q.shape[-1])):
            q, k, v1 = load(tile, Q, K, V, phi, hidden, buffers)
            sums = torch.bmm(masked_product(q, k, buffers), v1, out=buffers("sums", *v1.shape))
            if S is not None:
                here = S[tile[:2]]
                edges.append(here.flatten(0, 1).clone())
                s = running_sums(k, v1, edges[-1], buffers)
                sums.baddbmm_(q, s[:-1].flatten(0, 1))
                here.copy_(s[-1].view_as(here))
            here, denominator = tile.chunks(out), tile.chunks(denominators)
            sums = sums.view(*here.shape[:-1], M + 1)
            torch.add(sums[..., M:], EPS, out=denominator)
            torch.div(sums[..., :M], denominator, out=here)
        ctx.save_for_backward(Q, K, V, out, denominators, hidden, *edges)
        ctx.phi, ctx.dtype = phi, dtype
        ctx.mark_non_differentiable(denominators)
        return out, denominators, S

    @staticmethod
    @once
    def backward(ctx, G, _, R):
        """R [B, H, C, M + 1] sums phi(Q_j) w_j^T over later j; w is as in ``gradient``."""
        Q, K, V, out, denominators, hidden, *edges = ctx.saved_tensors
        dQ, dK, dV = (torch.empty_like(x) for x in (Q, K, V))
        R = R.clone() if edges else None
        buffers, phi = Buffers(V, ctx.dtype), ctx.phi
        for tile in reversed(list(tiles(Q, V, phi.size(Q.shape[-1])))):
            q, k, v1 = load(tile, Q, K, V, phi, hidden, buffers)
            w = gradient(tile, G, out, denominators, buffers)
            a = masked_product(q, k, buffers)
            dv = torch.bmm(a.mT, w[..., :-1], out=buffers("dv", *w.shape[:2], w.shape[2] - 1))
            a = torch.bmm(w, v1.mT, out=a).tril_()
            dq = torch.bmm(a, k, out=buffers("dq", *q.shape))
            dk = torch.bmm(a.mT, q, out=buffers("dk", *k.shape))
            if edges:
                s = running_sums(k, v1, edges.pop(), buffers)
                dq.baddbmm_(w, s[:-1].flatten(0, 1).mT)
                here = R[tile[:2]]
                r = running_sums(q, w, here.flatten(0, 1), buffers, reverse=True)
                dk.baddbmm_(v1, r[1:].flatten(0, 1).mT)
                dv.baddbmm_(k, r[1:].flatten(0, 1)[..., :-1])
                here.copy_(r[0].view_as(here))
            store(phi, tile, dQ, Q, q, dq)
            store(phi, tile, dK, K, k, dk)
            place = tile.chunks(dV)
            place.copy_(dv.view(place.shape))
        return dQ, dK, dV, R, None, None, None


def gradient(tile, G, out, denominators, buffers) -> Tensor:
    """w [P, c, M + 1], the loss's gradient by the numerators and denominators of V'."""
    g, M = tile.chunks(G), G.shape[-1]
    w = buffers("w", *g.shape[:-1], M + 1)
    torch.div(g, tile.chunks(denominators), out=w[..., :M])
    torch.sum(w[..., :M] * tile.chunks(out), -1, keepdim=True, out=w[..., M:]).neg_()
    return w.flatten(0, 2)


def store(phi: FeatureMap, tile: Tile, dX: Tensor, X: Tensor, x: Tensor, dx: Tensor) -> None:
    """Write the gradient by X, given phi(X) = x and the gradient dx by it."""
    X, place = tile.chunks(X).to(x.dtype), tile.chunks(dX)
    shape = (*X.shape[:-1], x.shape[-1])
    phi.pull_back(X, x.view(shape), dx.view(shape), place)
