"""Causal softmax attention, Eq. (2), in blocks, compiled with the tiles of linear attention.

So that the baseline gets the same care: nothing of size N x N is stored, scores are made of a
block of T queries and a block of T keys while both are in the cache, and every product is that of
``tiles``. With p = exp(s - m) and the largest score m of a row so far,

    s = q k^T    o = o e^(m - m') + p v    l = l e^(m - m') + p 1        V' = o / l
    P = exp(s - m - log l)    X = P (g v^T - sum(g V'))    dv = P^T g    dk = X^T q    dq = X k

where q holds Q / sqrt(D). Blocks of keys behind a block of queries are left out.
"""

from collections import namedtuple

import numpy as np

from replication.attention.blocks.causal_blocks import DK, DQ, DV, OUT, G, K, Q, V, pass_type, place
from replication.attention.blocks.registers import (
    add,
    compiled,
    exp,
    fma,
    greater,
    largest,
    load,
    mul,
    number,
    repeat,
    store,
    total,
    write,
)
from replication.attention.blocks.tile_rows import TILE_ROWS
from replication.attention.blocks.tiles import NO, at, clear, fetch, product, put_row, transpose, up
from replication.attention.compiled import Sizes

ZERO, ONE, LOW = np.float32(0), np.float32(1), np.float32(-1e30)
ForwardBuffers = namedtuple("ForwardBuffers", "kt v q k p o m")
BackwardBuffers = namedtuple("BackwardBuffers", "q g dq delta k v kt vt p x dk dv")


def forward_floats(s):
    T, keys = s.block, up.py_func(s.N, s.block)
    return keys * s.C, keys * s.W, T * s.C, T * s.C, T * T, T * s.W, 2 * T


def backward_floats(s):
    T, rows = s.block, up.py_func(s.N, s.block)
    blocks = T * s.C, T * s.W, s.C * T, s.W * T, T * T, T * T, T * s.C, T * s.W
    return rows * s.C, rows * s.W, rows * s.C, rows, *blocks


@compiled
def read(c, columns, places, which, p, s, i, rows, width, filled):
    a, step = place(places, which, p, s.H, i)
    fetch(c, columns, columns, a, step, max(0, rows), width, filled, False)


@compiled
def write_rows(places, which, p, s, i, c, columns, rows, width):
    a, step = place(places, which, p, s.H, i)
    for r in range(rows):
        put_row(at(a, r * step), at(c, r * columns), width)


@compiled
def scale(c, size, x):
    x = repeat(x)
    for j in range(0, size, 8):
        store(c, j, mul(load(c, j), x))


@compiled
def visible(s, keys, i, r, j):
    """How many keys of the block at j row i + r sees."""
    return max(0, min(s.block, keys - j, i + r - j + 1))


@compiled
def exp_row(p, T, n, less):
    """p = exp(p - less) for n of T numbers, zeros behind them; returns their sum."""
    x, t = repeat(-less), repeat(ZERO)
    for c in range(0, T, 8):
        store(p, c, exp(add(load(p, c), x)))
    for c in range(n, T):
        write(p, c, ZERO)
    for c in range(0, T, 8):
        t = add(t, load(p, c))
    return total(t)


@compiled
def add_block(b, s, rows, i, j, keys):
    """o, l and m of a block of queries take in the block of keys at j."""
    T = s.block
    for r in range(rows):
        p, o, n = at(b.p, r * T), at(b.o, r * s.W), visible(s, keys, i, r, j)
        for c in range(n, T):
            write(p, c, LOW)
        top = load(p, 0)
        for c in range(8, T, 8):
            top = greater(top, load(p, c))
        before = number(b.m, r)
        m = max(before, largest(top))
        shrink = exp(repeat(before - m))
        for c in range(0, s.W, 8):
            store(o, c, mul(load(o, c), shrink))
        new = exp_row(p, T, n, m)
        write(b.m, T + r, number(b.m, T + r) * total(shrink) * np.float32(0.125) + new)
        write(b.m, r, m)


def forward(first, last, places, lengths, kept, sizes, buffers):
    """Sequences ``first`` to ``last``."""
    (lse,) = kept
    s, b = Sizes(*sizes), ForwardBuffers(*buffers)
    T, C, W = s.block, s.C, s.W
    root = ONE / np.sqrt(np.float32(s.D))
    for p in range(first, last):
        keys = lengths[p // s.H]
        for j in range(0, keys, T):
            read(b.k, C, places, K, p, s, j, min(T, keys - j), s.D, T)
            transpose(at(b.kt, j * C), T, b.k, T, C)
            read(at(b.v, j * W), W, places, V, p, s, j, min(T, keys - j), s.M, T)
        for i in range(0, s.N, T):
            rows = min(T, s.N - i)
            filled = up(rows, TILE_ROWS)
            read(b.q, C, places, Q, p, s, i, rows, s.D, filled)
            scale(b.q, rows * C, root)
            clear(b.o, T * W)
            clear(b.m, 2 * T)
            for r in range(rows):
                write(b.m, r, LOW)
            for j in range(0, min(keys, i + T), T):
                product(b.p, T, 0, filled, T, b.q, C, 1, at(b.kt, j * C), C, 0, T, NO, 0, 0)
                add_block(b, s, rows, i, j, keys)
                product(b.o, W, b.o, filled, W, b.p, T, 1, at(b.v, j * W), T, 0, T, NO, 0, 0)
            for r in range(rows):
                t = number(b.m, T + r)
                scale(at(b.o, r * W), W, ONE / t)
                write(lse, p * s.N + i + r, number(b.m, r) + np.log(t))
            write_rows(places, OUT, p, s, i, b.o, W, rows, s.M)
    return True


@compiled
def read_queries(places, p, s, b, root):
    """q, g and sum(g V') of a whole sequence; dq is zero."""
    rows = up(s.N, s.block)
    read(b.q, s.C, places, Q, p, s, 0, s.N, s.D, rows)
    scale(b.q, s.N * s.C, root)
    read(b.g, s.W, places, G, p, s, 0, s.N, s.M, rows)
    clear(b.dq, rows * s.C)
    for i in range(0, s.N, s.block):
        n = min(s.block, s.N - i)
        read(b.v, s.W, places, OUT, p, s, i, n, s.M, n)
        for r in range(n):
            t = repeat(ZERO)
            for c in range(0, s.W, 8):
                t = fma(load(b.g, (i + r) * s.W + c), load(b.v, r * s.W + c), t)
            write(b.delta, i + r, total(t))


@compiled
def pull_back(b, s, rows, i, j, keys, lse):
    """p = exp(s - lse) and x = p (x - delta)."""
    T = s.block
    for r in range(rows):
        p, x = at(b.p, r * T), at(b.x, r * T)
        exp_row(p, T, visible(s, keys, i, r, j), number(lse, i + r))
        less = repeat(-number(b.delta, i + r))
        for c in range(0, T, 8):
            store(x, c, mul(load(p, c), add(load(x, c), less)))
    clear(at(b.p, rows * T), (up(rows, TILE_ROWS) - rows) * T)
    clear(at(b.x, rows * T), (up(rows, TILE_ROWS) - rows) * T)


def backward(first, last, places, lengths, kept, sizes, buffers):
    """Sequences ``first`` to ``last``."""
    (lse,) = kept
    s, b = Sizes(*sizes), BackwardBuffers(*buffers)
    T, C, W = s.block, s.C, s.W
    root = ONE / np.sqrt(np.float32(s.D))
    for p in range(first, last):
        keys = lengths[p // s.H]
        read_queries(places, p, s, b, root)
        for j in range(0, s.N, T):
            some = min(T, s.N - j)
            read(b.k, C, places, K, p, s, j, min(some, keys - j), s.D, T)
            read(b.v, W, places, V, p, s, j, min(some, keys - j), s.M, T)
            transpose(b.kt, T, b.k, T, C)
            transpose(b.vt, T, b.v, T, W)
            clear(b.dk, T * C)
            clear(b.dv, T * W)
            for i in range(j, s.N if j < keys else 0, T):
                rows = min(T, s.N - i)
                n, q, g, dq = up(rows, TILE_ROWS), at(b.q, i * C), at(b.g, i * W), at(b.dq, i * C)
                product(b.p, T, 0, n, T, q, C, 1, b.kt, C, 0, T, NO, 0, 0)
                product(b.x, T, 0, n, T, g, W, 1, b.vt, W, 0, T, NO, 0, 0)
                pull_back(b, s, rows, i, j, keys, at(lse, p * s.N))
                product(b.dv, W, b.dv, T, W, b.p, 1, T, g, rows, 0, T, NO, 0, 0)
                product(b.dk, C, b.dk, T, C, b.x, 1, T, q, rows, 0, T, NO, 0, 0)
                product(dq, C, dq, n, C, b.x, T, 1, b.k, T, 0, T, NO, 0, 0)
            write_rows(places, DK, p, s, j, b.dk, C, some, s.D)
            write_rows(places, DV, p, s, j, b.dv, W, some, s.M)
        scale(b.dq, s.N * C, root)
        write_rows(places, DQ, p, s, 0, b.dq, C, s.N, s.D)
    return True


def compile_passes(**options):
    """Both, for the one kind of arguments that they get, and the floats of their buffers."""
    one, two = pass_type(1, ForwardBuffers), pass_type(1, BackwardBuffers)
    return {
        "forward": (compiled(forward, one, **options), forward_floats),
        "backward": (compiled(backward, two, **options), backward_floats),
    }
