"""One token after another, compiled by numba: the state of Eqs. (18)-(20) and dense layers.

A step does little arithmetic on much memory. Every number of the state is read, changed, used
and written once, while it is in a register. Weights are kept in panels of 16 columns, in the
order in which they are used, so that memory delivers them as fast as it can.
"""

import numpy as np
from numba import types

from replication.attention.blocks.registers import (
    add,
    compiled,
    fma,
    inlined,
    load,
    mul,
    number,
    phi,
    positive,
    repeat,
    store,
    total,
    write,
)
from replication.attention.blocks.tile_rows import (
    TILE_ROWS,
    add_to_rows,
    positive_rows,
    store_rows,
    zeros_of,
)
from replication.attention.blocks.tiles import add_product, at, clear, up, zeros

EPS, ZERO, ONE = np.float32(1e-6), np.float32(0), np.float32(1)
four = zeros_of(4)


@compiled
def features(c, a, D):
    """phi of D floats, and zeros up to the next multiple of 8."""
    full = D // 8 * 8
    for j in range(0, full, 8):
        store(c, j, phi(load(a, j)))
    if full < D:
        clear(at(c, full), 8)
        for j in range(full, D):
            write(c, j, number(a, j))
        store(c, full, phi(load(c, full)))
        for j in range(D, full + 8):
            write(c, j, ZERO)


@compiled
def take_in(z, k, q, D):
    """z += k, Eq. (19); returns q z + EPS."""
    t, full = ZERO, D // 8 * 8
    sums = repeat(ZERO)
    for j in range(0, full, 8):
        x = add(load(z, j), load(k, j))
        store(z, j, x)
        sums = fma(load(q, j), x, sums)
    for j in range(full, D):
        write(z, j, number(z, j) + number(k, j))
        t += number(q, j) * number(z, j)
    return total(sums) + t + EPS


@compiled
def columns_32(S, M, D, k, q, v, o, scale):
    """S += k v^T, Eq. (18), and o = q S times a number, for 32 columns."""
    v0, v1, v2, v3 = load(v, 0), load(v, 8), load(v, 16), load(v, 24)
    o0 = o1 = o2 = o3 = repeat(ZERO)
    for i in range(D):
        x, y = repeat(number(k, i)), repeat(number(q, i))
        s0, s1 = fma(x, v0, load(S, 0)), fma(x, v1, load(S, 8))
        s2, s3 = fma(x, v2, load(S, 16)), fma(x, v3, load(S, 24))
        store(S, 0, s0)
        store(S, 8, s1)
        store(S, 16, s2)
        store(S, 24, s3)
        o0, o1, o2, o3 = fma(y, s0, o0), fma(y, s1, o1), fma(y, s2, o2), fma(y, s3, o3)
        S = at(S, M)
    x = repeat(scale)
    store(o, 0, mul(o0, x))
    store(o, 8, mul(o1, x))
    store(o, 16, mul(o2, x))
    store(o, 24, mul(o3, x))


@compiled
def column(S, M, D, k, q, v, o, scale):
    """The same for one column."""
    t = ZERO
    for i in range(D):
        s = number(S, i * M) + number(k, i) * number(v, 0)
        write(S, i * M, s)
        t += number(q, i) * s
    write(o, 0, t * scale)


def step(first, last, tensors, D, M, H, room):
    """Sequences ``first`` to ``last``: addresses and steps by batch entry and head of q, k and v,
    then S [., D, M], z [., D], the denominators [.] and o [., M] without gaps.
    """
    q_, qb, qh, k_, kb, kh, v_, vb, vh, S_, z_, den, o_ = tensors
    q, k = room, at(room, up(D, 8))
    for p in range(first, last):
        b, h = p // H, p % H
        features(q, at(q_, b * qb + h * qh), D)
        features(k, at(k_, b * kb + h * kh), D)
        d = take_in(at(z_, p * D), k, q, D)
        write(den, p, d)
        v, S, o, full = at(v_, b * vb + h * vh), at(S_, p * D * M), at(o_, p * M), M // 32 * 32
        for j in range(0, full, 32):
            columns_32(at(S, j), M, D, k, q, at(v, j), at(o, j), ONE / d)
        for j in range(full, M):
            column(at(S, j), M, D, k, q, at(v, j), at(o, j), ONE / d)
    return True


# Dense layers ------------------------------------------------------------------------------


@inlined
def finish(c, x, y, bias, relu):
    """16 floats of x W^T + bias, and of these the positive part if ``relu``."""
    x, y = add(x, load(bias, 0)), add(y, load(bias, 8))
    store(c, 0, positive(x) if relu else x)
    store(c, 8, positive(y) if relu else y)


@inlined
def some_rows(sums, c, cs, x, xs, panel, bias, width, relu):
    """16 columns of as many rows as ``sums``, zeros, has."""
    sums = add_to_rows(add_product(sums, x, xs, 1, panel, 16, width), bias, 0)
    store_rows(positive_rows(sums) if relu else sums, c, cs)


@compiled
def one_row(c, x, panel, bias, width, panels, relu):
    """For 4 panels side by side, or fewer: then the same one again, whose sums are not used."""
    size = 16 * width
    n1, n2, n3 = min(1, panels - 1) * size, min(2, panels - 1) * size, min(3, panels - 1) * size
    x0 = x1 = x2 = x3 = y0 = y1 = y2 = y3 = repeat(ZERO)
    for i in range(width):
        s = repeat(number(x, i))
        x0, y0 = fma(s, load(panel, 0), x0), fma(s, load(panel, 8), y0)
        x1, y1 = fma(s, load(panel, n1), x1), fma(s, load(panel, n1 + 8), y1)
        x2, y2 = fma(s, load(panel, n2), x2), fma(s, load(panel, n2 + 8), y2)
        x3, y3 = fma(s, load(panel, n3), x3), fma(s, load(panel, n3 + 8), y3)
        panel = at(panel, 16)
    finish(c, x0, y0, bias, relu)
    if panels > 1:
        finish(at(c, 16), x1, y1, at(bias, 16), relu)
    if panels > 2:
        finish(at(c, 32), x2, y2, at(bias, 32), relu)
    if panels > 3:
        finish(at(c, 48), x3, y3, at(bias, 48), relu)


@compiled
def dense(c, x, panels, bias, rows, width, columns, relu):
    """C [rows, columns] = X [rows, width] W^T + bias; panels [columns / 16, width, 16] hold W."""
    most, full = rows // TILE_ROWS * TILE_ROWS, rows // 4 * 4
    for j in range(0, columns if full else 0, 16):
        panel, b = at(panels, j * width), at(bias, j)
        for i in range(0, most, TILE_ROWS):
            place, row = at(c, i * columns + j), at(x, i * width)
            some_rows(zeros(), place, columns, row, width, panel, b, width, relu)
        for i in range(most, full, 4):
            place, row = at(c, i * columns + j), at(x, i * width)
            some_rows(four(), place, columns, row, width, panel, b, width, relu)
    for i in range(full, rows):
        for j in range(0, columns, 64):
            some, panel = min(4, (columns - j) // 16), at(panels, j * width)
            one_row(at(c, i * columns + j), at(x, i * width), panel, at(bias, j), width, some, relu)


@compiled
def add_and_normalise(x, y, weight, bias, eps, rows, width):
    """x = LayerNorm(x + y)"""
    for _ in range(rows):
        t = repeat(ZERO)
        for j in range(0, width, 8):
            a = add(load(x, j), load(y, j))
            store(x, j, a)
            t = add(t, a)
        less, t = repeat(-total(t) / np.float32(width)), repeat(ZERO)
        for j in range(0, width, 8):
            a = add(load(x, j), less)
            t = fma(a, a, t)
        scale = repeat(ONE / np.sqrt(total(t) / np.float32(width) + eps))
        for j in range(0, width, 8):
            a = mul(add(load(x, j), less), scale)
            store(x, j, fma(a, load(weight, j), load(bias, j)))
        x, y = at(x, width), at(y, width)


def layer(first, last, weights, x, y, qkv, d, wide, eps, room):
    """From attention's y on to the next layer's queries, keys and values, rows first to last.

    x [., d] is changed in place. ``weights``: pairs of mixture, norm, the two dense layers, norm,
    and of the next projection, 0 if there is none.
    """
    mix, mix_b, n1, n1_b, w1, b1, w2, b2, n2, n2_b, project, project_b = weights
    rows, x, y, qkv = last - first, at(x, first * d), at(y, first * d), at(qkv, first * 3 * d)
    t, h = room, at(room, rows * d)
    if mix:
        dense(t, y, mix, mix_b, rows, d, d, False)
        add_and_normalise(x, t, n1, n1_b, np.float32(eps), rows, d)
        dense(h, x, w1, b1, rows, d, wide, True)
        dense(t, h, w2, b2, rows, wide, d, False)
        add_and_normalise(x, t, n2, n2_b, np.float32(eps), rows, d)
    if project:
        dense(qkv, x, project, project_b, rows, d, 3 * d, False)
    return True


def compile_passes(**options):
    """Both, for the one kind of arguments that they get, and the floats of a thread's buffers."""
    i8, f8 = types.int64, types.float64
    places, weights = types.UniTuple(i8, 13), types.UniTuple(i8, 12)
    one = types.boolean(i8, i8, places, i8, i8, i8, i8)
    two = types.boolean(i8, i8, weights, i8, i8, i8, i8, i8, f8, i8)
    return {
        "step": (compiled(step, one, **options), lambda D: (D + 8, D + 8)),
        "layer": (compiled(layer, two, **options), lambda rows, d, wide: (rows * d, rows * wide)),
    }
