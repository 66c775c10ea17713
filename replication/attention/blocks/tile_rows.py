"""Tiles for numba: the sums of a product in registers of 16 floats, one a row.

A compiler does not find by itself how many sums of a product fit the processor's registers, so that
``tiles`` says it with these. AVX-512 has registers of 16 floats; on AVX2 one of them is a pair.
"""

from llvmlite import binding, ir
from numba import types

from replication.attention.blocks.registers import (
    F32,
    Register,
    address,
    emit_call,
    emit_load,
    emit_positive,
    emit_repeat,
    emit_store,
    index,
    instruction,
    pointer,
)

wide = Register(16)
F16 = ir.VectorType(F32, 16)
TILE_ROWS = 8 if binding.get_host_cpu_features().get("avx512f") else 4
"""Of a tile. Its sums are 8 of the processor's registers: as many multiplications are under way as
two units need, each being ready after 4 cycles. With those of A and B they fill 10 of the 32 that
AVX-512 has, 11 of AVX2's 16. More rows change no sum, so that both give the same bits."""


def zeros_of(rows):
    """An instruction: a tile of so many rows, all sums of nothing."""

    @instruction
    def zeros(ctx):
        kind = types.UniTuple(wide, rows)
        return kind(), lambda _, b, sig, args: ir.Constant(ir.ArrayType(F16, rows), None)

    return zeros


def _each_row(b, sums, change):
    for r in range(sums.type.count):
        sums = b.insert_value(sums, change(r, b.extract_value(sums, r)), r)
    return sums


def _row(b, start, step, r):
    """The 16 floats of row r, rows being ``step`` apart."""
    return emit_load(b, start, b.mul(step, ir.Constant(step.type, r)), F16)


@instruction
def add_outer(ctx, sums, a, step, x):
    """sums [R, 16] + A x for A [R, 1], whose rows are ``step`` apart, and x [1, 16]."""

    def emit(context, b, sig, args):
        sums, a, step, x = args
        x = emit_load(b, x, ir.Constant(step.type, 0), F16)

        def change(r, row):
            place = pointer(b, a, b.mul(step, ir.Constant(step.type, r)), F32)
            return emit_call(b, "fma", emit_repeat(b, b.load(place, align=4), F16), x, row)

        return _each_row(b, sums, change)

    return sums(sums, address, index, address), emit


@instruction
def add_to_rows(ctx, sums, c, step):
    """sums + C, whose rows are ``step`` apart; with a step of 0 it is one row, for all."""

    def emit(context, b, sig, args):
        sums, c, step = args
        return _each_row(b, sums, lambda r, row: b.fadd(row, _row(b, c, step, r)))

    return sums(sums, address, index), emit


@instruction
def positive_rows(ctx, sums):
    """max(x, 0) for all of a tile; NaN stays NaN."""
    kind = sums(sums)
    return kind, lambda _, b, sig, args: _each_row(b, *args, lambda r, row: emit_positive(b, row))


@instruction
def store_rows(ctx, sums, c, step):
    """Write a tile to C, whose rows are ``step`` apart."""

    def emit(context, b, sig, args):
        sums, c, step = args
        for r in range(sums.type.count):
            emit_store(b, c, b.mul(step, ir.Constant(step.type, r)), b.extract_value(sums, r))
        return context.get_dummy_value()

    return types.void(sums, address, index), emit
