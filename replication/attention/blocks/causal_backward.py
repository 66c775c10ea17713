"""Gradients of causal linear attention, block by block; ``causal_blocks`` says how."""

from collections import namedtuple

import numpy as np

from replication.attention.blocks.causal_blocks import (
    DK,
    DQ,
    DV,
    OUT,
    G,
    K,
    Q,
    V,
    get_state,
    pass_type,
    place,
    put_state,
    read,
)
from replication.attention.blocks.registers import (
    compiled,
    fma,
    load,
    mul,
    number,
    repeat,
    slope,
    store,
    total,
    write,
)
from replication.attention.blocks.tile_rows import TILE_ROWS
from replication.attention.blocks.tiles import (
    LOWER,
    NO,
    UPPER,
    at,
    clear,
    copy,
    product,
    put_row,
    scores,
    transpose,
    up,
)
from replication.attention.compiled import Sizes

ZERO, ONE = np.float32(0), np.float32(1)
BESIDE = 8
"""Columns beside v and w: ones or u, then zeros that fill a register."""

BackwardBuffers = namedtuple("BackwardBuffers", "k v St q w kt vt A E d Rt R")
"""Addresses; k, v and S^T are those of all blocks of a segment."""


def floats(s):
    """How many floats each buffer has."""
    T, C, W, X = s.block, s.C, s.W, s.W + BESIDE
    sums = (W + TILE_ROWS) * C
    segment = (s.segment * x for x in (T * C, T * X, sums))
    return *segment, T * C, T * X, C * T, X * T, T * T, T * T, T * max(C, W), sums, C * W + C


@compiled
def divide_gradient(w, step, out, W, den, rows):
    """w = G / den in place, and u = -sum(w V') beside it."""
    for i in range(rows):
        x, t = repeat(ONE / number(den, i)), repeat(ZERO)
        for j in range(0, W, 8):
            y = mul(load(w, i * step + j), x)
            store(w, i * step + j, y)
            t = fma(y, load(out, i * W + j), t)
        write(w, i * step + W, -total(t))
    for i in range(rows, up(rows, 8)):
        write(w, i * step + W, ZERO)


@compiled
def transpose_state(St, S, s):
    """S^T, z as its next row, and zeros up to whole tiles."""
    transpose(St, s.C, S, s.C, s.W)
    copy(at(St, s.W * s.C), at(S, s.C * s.W), s.C)
    clear(at(St, (s.W + 1) * s.C), (TILE_ROWS - 1) * s.C)


@compiled
def write_slopes(places, which, p, s, i, d, x):
    """d times the derivative of phi, where phi is x, to the rows of a tensor from i on."""
    a, step = place(places, which, p, s.H, i)
    full = s.D // 8 * 8
    for r in range(min(s.block, s.N - i)):
        o = r * s.C
        for j in range(0, full, 8):
            store(a, j, mul(load(d, o + j), slope(load(x, o + j))))
        for j in range(full, s.D):
            write(a, j, number(d, o + j) * min(number(x, o + j), ONE))
        a = at(a, step)


@compiled
def read_segment(first, last, p, places, length, s, b, seen):
    """k and v of the blocks from ``first`` to ``last``, and S^T before each but the first."""
    T, C, X, size = s.block, s.C, s.W + BESIDE, (s.W + TILE_ROWS) * s.C
    for n in range(last - first):
        i = (first + n) * T
        L = min(T, s.N - i)
        k, v, St = at(b.k, n * T * C), at(b.v, n * T * X), at(b.St, n * size)
        keys = max(0, min(L, length - i))
        read(k, C, C, places, K, p, s, i, keys, s.D, True)
        read(v, X, s.W, places, V, p, s, i, keys, s.M, False)
        if first + n + 1 < last:
            base = St if seen or n > 0 else 0
            product(at(St, size), C, base, s.W + TILE_ROWS, C, v, 1, X, k, L, 0, T, NO, 0, 0)


@compiled
def block_gradients(i, p, places, den, s, b, k, v, St, seen, more):
    """dq, dk and dv of the block that begins at i; ``seen`` if S, ``more`` if R is not 0."""
    T, C, W, X = s.block, s.C, s.W, s.W + BESIDE
    L = min(T, s.N - i)
    rows, filled = up(L, TILE_ROWS), up(L, 8)
    read(b.q, C, C, places, Q, p, s, i, L, s.D, True)
    read(b.w, X, W, places, G, p, s, i, L, s.M, False)
    read(b.d, W, W, places, OUT, p, s, i, L, s.M, False)
    divide_gradient(b.w, X, b.d, W, at(den, p * s.N + i), L)
    transpose(b.kt, T, k, filled, C)
    transpose(b.vt, T, v, filled, X)
    scores(b.A, T, b.q, C, b.kt, C, rows)
    scores(b.E, T, b.w, X, b.vt, W + 1, rows)
    product(b.d, C, 0, rows, C, b.w, X, 1, St, W + 1 if seen else 0, b.E, T, LOWER, k, C)
    write_slopes(places, DQ, p, s, i, b.d, b.q)
    product(b.d, C, 0, rows, C, v, X, 1, b.Rt, W + 1 if more else 0, b.E, T, UPPER, b.q, C)
    write_slopes(places, DK, p, s, i, b.d, k)
    if more:
        transpose(b.R, W, b.Rt, W, C)
    product(b.d, W, 0, rows, W, k, C, 1, b.R, C if more else 0, b.A, T, UPPER, b.w, X)
    a, step = place(places, DV, p, s.H, i)
    for r in range(L):
        put_row(at(a, r * step), at(b.d, r * W), s.M)


@compiled
def set_beside(a, step, W, rows, x):
    """x and zeros in the columns beside v or w."""
    for i in range(rows):
        clear(at(a, i * step + W), BESIDE)
        write(a, i * step + W, x)


def backward(first, last, places, lengths, kept, sizes, buffers):
    """Sequences ``first`` to ``last``, each from its end to its beginning."""
    den, edges, s0, z0, ds1, dz1, ds0, dz0 = kept
    s, b = Sizes(*sizes), BackwardBuffers(*buffers)
    T, C, W, X = s.block, s.C, s.W, s.W + BESIDE
    set_beside(b.v, X, W, s.segment * T, ONE)
    set_beside(b.w, X, W, T, ZERO)
    blocks, cuts = (s.N - 1) // T + 1, (s.N - 1) // (T * s.segment)
    for p in range(first, last):
        more = ds1 != 0
        if more:
            get_state(b.R, (ds1, dz1), p, s)
            transpose_state(b.Rt, b.R, s)
        for cut in range(cuts, -1, -1):
            begin, end, seen = cut * s.segment, min(blocks, (cut + 1) * s.segment), cut > 0 or s0
            if cut > 0:
                transpose_state(b.St, at(edges, (p * cuts + cut - 1) * C * (W + 1)), s)
            elif s0:
                get_state(b.R, (s0, z0), p, s)
                transpose_state(b.St, b.R, s)
            read_segment(begin, end, p, places, lengths[p // s.H], s, b, seen)
            for n in range(end - begin - 1, -1, -1):
                k, v, St = at(b.k, n * T * C), at(b.v, n * T * X), at(b.St, n * (W + TILE_ROWS) * C)
                i, before = (begin + n) * T, n > 0 or seen
                block_gradients(i, p, places, den, s, b, k, v, St, before, more)
                if begin + n > 0 or ds0:
                    L, base = min(T, s.N - i), b.Rt if more else 0
                    product(b.Rt, C, base, W + TILE_ROWS, C, b.w, 1, X, b.q, L, 0, T, NO, 0, 0)
                more = True
        if ds0:
            transpose(b.R, W, b.Rt, W, C)
            copy(at(b.R, C * W), at(b.Rt, W * C), C)
            put_state((ds0, dz0), b.R, p, s)
    return True


def compile_passes(**options):
    """The pass, and how many floats its buffers have."""
    kind = pass_type(8, BackwardBuffers)
    return {"backward": (compiled(backward, kind, **options), floats)}
