"""V' of causal linear attention, block by block; ``causal_blocks`` says how."""

from collections import namedtuple

import numpy as np

from replication.attention.blocks.causal_blocks import (
    OUT,
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
    add,
    compiled,
    fma,
    load,
    mul,
    number,
    repeat,
    store,
    total,
    write,
)
from replication.attention.blocks.tile_rows import TILE_ROWS
from replication.attention.blocks.tiles import LOWER, NO, at, copy, product, scores, transpose, up
from replication.attention.compiled import Sizes

EPS, ZERO, ONE = np.float32(1e-6), np.float32(0), np.float32(1)
ForwardBuffers = namedtuple("ForwardBuffers", "q k kt v o A S")
"""Addresses; a t is for transposed. z follows S without a gap."""


def floats(s):
    """How many floats each buffer has."""
    T, C, W = s.block, s.C, s.W
    return T * C, T * C, C * T, T * W, T * W, T * T, C * W + C


@compiled
def denominators(den, q, z, C, A, T, rows):
    """q z + A 1 + EPS"""
    for i in range(rows):
        t = repeat(ZERO)
        for j in range(0, C, 8):
            t = fma(load(q, i * C + j), load(z, j), t)
        for j in range(0, i // 8 * 8 + 8, 8):
            t = add(t, load(A, i * T + j))
        write(den, i, total(t) + EPS)


@compiled
def divide(a, step, o, W, den, rows, width):
    """Rows of o / den go to a. True if their sum is finite: then all of them are."""
    check, full = repeat(ZERO), width // 8 * 8
    for i in range(rows):
        x = repeat(ONE / number(den, i))
        for j in range(0, W, 8):
            y = mul(load(o, i * W + j), x)
            check = add(check, y)
            if j < full:
                store(a, i * step + j, y)
            else:
                store(o, i * W + j, y)
        for j in range(full, width):
            write(a, i * step + j, number(o, i * W + j))
    return np.isfinite(total(check))


@compiled
def add_rows(z, k, C, rows):
    """z += k^T 1"""
    for j in range(0, C, 8):
        t = repeat(ZERO)
        for i in range(rows):
            t = add(t, load(k, i * C + j))
        store(z, j, add(load(z, j), t))


def forward(first, last, places, lengths, kept, sizes, buffers):
    """Sequences ``first`` to ``last``. True if all that is written is finite."""
    den, edges, s0, z0, s1, z1 = kept
    s, b = Sizes(*sizes), ForwardBuffers(*buffers)
    T, C, W, stride = s.block, s.C, s.W, s.block * s.segment
    z, cuts, finite = at(b.S, C * W), (s.N - 1) // stride, True
    for p in range(first, last):
        get_state(b.S, (s0, z0), p, s)
        for i in range(0, s.N, T):
            L, seen = min(T, s.N - i), i > 0 or s0 != 0
            keys = max(0, min(L, lengths[p // s.H] - i))
            if i > 0 and i % stride == 0:
                copy(at(edges, (p * cuts + i // stride - 1) * C * (W + 1)), b.S, C * (W + 1))
            read(b.q, C, C, places, Q, p, s, i, L, s.D, True)
            read(b.k, C, C, places, K, p, s, i, keys, s.D, True)
            read(b.v, W, W, places, V, p, s, i, keys, s.M, False)
            transpose(b.kt, T, b.k, up(L, 8), C)
            scores(b.A, T, b.q, C, b.kt, C, up(L, TILE_ROWS))
            sums = C if seen else 0
            product(b.o, W, 0, up(L, TILE_ROWS), W, b.q, C, 1, b.S, sums, b.A, T, LOWER, b.v, W)
            denominators(at(den, p * s.N + i), b.q, z, C, b.A, T, L)
            a, step = place(places, OUT, p, s.H, i)
            finite &= divide(a, step, b.o, W, at(den, p * s.N + i), L, s.M)
            if i + T < s.N or s1:
                product(b.S, W, b.S if seen else 0, C, W, b.k, 1, C, b.v, L, 0, T, NO, 0, 0)
                add_rows(z, b.k, C, L)
        if s1:
            put_state((s1, z1), b.S, p, s)
    return finite


def compile_passes(**options):
    """The pass, and how many floats its buffers have."""
    kind = pass_type(6, ForwardBuffers)
    return {"forward": (compiled(forward, kind, **options), floats)}
