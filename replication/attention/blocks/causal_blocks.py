"""Causal linear attention in blocks, compiled by numba: Eqs. (7)-(15).

A sequence is cut into blocks of T positions. A block is read once into buffers that stay in the
cache, phi is applied on the way, and all else are products of small dense matrices there. With
q = phi(Q), k = phi(K) and w = G / denominator, the gradient by the numerators,

    A = tril(q k^T)        V' = (q S + A v) / (q z + A 1)              S += k^T v, z += k^T 1
    E = tril(w v^T + u)    dq = w S^T + u z + E k
                           dk = v R^T + r + E^T q,   dv = k R + A^T w,
                                                     R += q^T w, r += q^T u, from the right

where u = -sum(w V') is the gradient by the denominators.

- If one block holds the sequence, S = R = 0, and this is the order of Eq. (8), not of Eq. (9).
- A column of ones beside v, and u beside w, make z, u and r a further row or column of S^T, w and
  R^T. So u meets w v^T inside of E: there the two nearly cancel, and later it would cost digits.
- S is kept for the backward pass once a segment of blocks, and computed again in between, where
  S^T comes without a transposition. That takes less time than to write and read all S.
- Rows and columns are filled up with zeros to what registers hold, so that nothing is masked.
"""

from numba import types

from replication.attention.blocks.registers import compiled
from replication.attention.blocks.tiles import at, clear, fetch, put_row, up
from replication.attention.compiled import Sizes

Q, K, V, OUT, G, DQ, DK, DV = range(8)
"""Rows of ``places``: a tensor's address and its steps by batch entry, head and position."""


@compiled
def place(places, which, p, H, i):
    """The address of position i in sequence p, a head of a batch entry, and the step from there."""
    start, batch, head, step = places[which]
    return at(start, p // H * batch + p % H * head + i * step), step


@compiled
def read(c, cs, columns, places, which, p, s, i, rows, width, feature):
    """Rows i, i + 1, ... of a tensor into a buffer; zeros fill its block up."""
    a, step = place(places, which, p, s.H, i)
    fetch(c, cs, columns, a, step, rows, width, up(min(s.block, s.N - i), 8), feature)


@compiled
def get_state(S, state, p, s):
    """S [C, W] and, next to it, z [C] of a given state. Without one z is zero and S not used."""
    clear(at(S, s.C * s.W), s.C)
    if state[0]:
        fetch(S, s.W, s.W, at(state[0], p * s.D * s.M), s.M, s.D, s.M, s.C, False)
        fetch(at(S, s.C * s.W), s.C, s.C, at(state[1], p * s.D), s.D, 1, s.D, 1, False)


@compiled
def put_state(state, S, p, s):
    for i in range(s.D):
        put_row(at(state[0], (p * s.D + i) * s.M), at(S, i * s.W), s.M)
    put_row(at(state[1], p * s.D), at(S, s.C * s.W), s.D)


def pass_type(addresses, buffers):
    """The one kind of arguments that a pass gets."""
    i8 = types.int64
    groups = (types.UniTuple(i8, n) for n in (addresses, len(Sizes._fields), len(buffers._fields)))
    return types.boolean(i8, i8, types.Array(i8, 2, "C"), types.Array(i8, 1, "C"), *groups)
