"""Products of small dense matrices that stay in registers and in the cache, compiled by numba.

A matrix is memory: an address and the step from row to row, in floats; its columns lie side by
side. Sizes are filled up with zeros to what registers hold. Nothing is checked here: who calls
knows the sizes.
"""

import numpy as np

from replication.attention.blocks.registers import (
    compiled,
    inlined,
    load,
    number,
    phi,
    repeat,
    store,
    transpose8,
    write,
)
from replication.attention.blocks.tile_rows import (
    TILE_ROWS,
    add_outer,
    add_to_rows,
    store_rows,
    zeros_of,
)

ZERO = np.float32(0)
NO, LOWER, UPPER = range(3)
"""What A2 of ``product`` is: absent, lower triangular, or such a one transposed."""


@inlined
def at(start, i):
    """The address of float i after ``start``."""
    return start + 4 * i


@inlined
def up(n, m):
    """The next multiple of m."""
    return (n + m - 1) // m * m


zeros = zeros_of(TILE_ROWS)


@inlined
def add_product(sums, a, ar, ak, b, bs, K):
    """sums [R, 16] + A B for A [R, K], whose rows are ar and columns ak apart, and B [K, 16]."""
    for _ in range(K):
        sums = add_outer(sums, a, ar, b)
        a += 4 * ak
        b += 4 * bs
    return sums


@inlined
def put(c, cs, sums, base):
    """C [R, 16] = base + sums, both with rows cs apart; base 0 is none.

    Added at the end and not at the beginning, so that long sums are rounded once a block.
    """
    if base:
        sums = add_to_rows(sums, base, cs)
    store_rows(sums, c, cs)


@compiled
def transpose(c, cs, a, rows, columns):
    """C [columns, rows] = A^T for A [rows, columns], both multiples of 8."""
    for i in range(0, rows, 8):
        for j in range(0, columns, 8):
            transpose8(at(a, i * columns + j), columns, at(c, j * cs + i), cs)


@compiled
def clear(c, size):
    for j in range(0, size, 8):
        store(c, j, repeat(np.float32(0)))


@compiled
def copy(c, a, size):
    for j in range(0, size, 8):
        store(c, j, load(a, j))


@compiled
def put_row(a, c, width):
    """A [width] = C; C may be read, but A not written up to the next multiple of 8."""
    full = width // 8 * 8
    copy(a, c, full)
    for j in range(full, width):
        write(a, j, number(c, j))


@compiled
def fetch(c, cs, columns, a, step, rows, width, filled, feature):
    """C [filled, columns] = A [rows, width], or phi of it, and zeros around."""
    full = width // 8 * 8
    for _ in range(rows):
        for j in range(0, full, 8):
            x = load(a, j)
            store(c, j, phi(x) if feature else x)
        if full < columns:
            clear(at(c, full), columns - full)
            for j in range(full, width):
                write(c, j, number(a, j))
            if feature and full < width:
                store(c, full, phi(load(c, full)))
                for j in range(width, full + 8):
                    write(c, j, np.float32(0))
        a, c = at(a, step), at(c, cs)
    for _ in range(rows, filled):
        clear(c, columns)
        c = at(c, cs)


@compiled
def product(c, cs, base, rows, columns, a, ar, ak, b, K, A2, T, form, b2, b2s):
    """C [rows, columns] = base + A [rows, K] B [K, columns] + A2 B2; base 0 is none.

    A2 [T, T] is triangular, so that the rows of a tile need a part of its columns only. B has the
    steps of C. Both sums of a tile stay in registers until the end.
    """
    r2, k2 = (T, 1) if form == LOWER else (1, T)
    for j in range(0, columns, 16):
        for i in range(0, rows, TILE_ROWS):
            sums = add_product(zeros(), at(a, i * ar), ar, ak, at(b, j), cs, K)
            if form != NO:
                start, stop = (0, i + TILE_ROWS) if form == LOWER else (i, rows)
                a2, b2_ = at(A2, i * r2 + start * k2), at(b2, start * b2s + j)
                sums = add_product(sums, a2, r2, k2, b2_, b2s, stop - start)
            put(at(c, i * cs + j), cs, sums, at(base, i * cs + j) if base else 0)


@compiled
def scores(c, T, a, step, bt, K, rows):
    """C [T, T] = tril(A B^T), written up to the end of the register that holds the diagonal."""
    for i in range(0, rows, TILE_ROWS):
        for j in range(0, i + TILE_ROWS, 16):
            sums = add_product(zeros(), at(a, i * step), step, 1, at(bt, j), T, K)
            put(at(c, i * T + j), T, sums, 0)
        for r in range(i, i + TILE_ROWS):
            for j in range(r + 1, up(i + TILE_ROWS, 8)):
                write(c, r * T + j, ZERO)
