"""Registers of 8 floats for numba: a type, and a few operations, one instruction or a handful each.

LLVM turns them into what the processor has: AVX2 has registers of this size, AVX-512 larger and
NEON smaller ones.

Memory is an address, and places are counted from there in floats. Nothing is checked.
"""

from inspect import unwrap

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

OPTIONS = {"nogil": True, "error_model": "numpy", "boundscheck": False}


def compiled(function, *kinds, **options):
    """For numba to compile, without what may be wrapped around it: tests check types that way."""
    return njit(*kinds, **OPTIONS, **options)(unwrap(function))


def inlined(function):
    """A part of every function that calls it, so that registers never go to memory."""
    return compiled(function, forceinline=True)


def instruction(function):
    """(kinds of arguments) -> (kind of the whole, a function that emits LLVM's instructions)."""
    return intrinsic(unwrap(function))


LOG2_E, ROUND = 1.4426950408889634, 1.5 * 2**23 + 127
POWERS_OF_2 = (
    1.535325794e-4, 1.339900344e-3, 9.618438601e-3, 5.550332163e-2, 2.402264790e-1,
    6.931472030e-1, 1.0,
)  # fmt: skip
"""2^f = sum of these times f^6 ... f^0, to 2e-9 for |f| <= 1/2."""


class Register(types.Type):
    """So many floats."""

    def __init__(self, floats):
        self.floats = floats
        super().__init__(name=f"register{floats}")


register = Register(8)
address, index = types.intp, types.intp
F32, I32 = ir.FloatType(), ir.IntType(32)
F8, I8 = ir.VectorType(F32, 8), ir.VectorType(I32, 8)


@register_model(Register)
class RegisterModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.VectorType(F32, kind.floats))


def pointer(b, start, i, kind):
    """Where float i after ``start`` lies. The letter b is LLVM's builder, here and below."""
    return b.bitcast(b.gep(b.inttoptr(start, F32.as_pointer()), [i]), kind.as_pointer())


def emit_load(b, start, i, kind=F8):
    return b.load(pointer(b, start, i, kind), align=4)


def emit_store(b, start, i, x):
    b.store(x, pointer(b, start, i, x.type), align=4)


def _constant(x, kind=F8):
    return ir.Constant(kind, [float(np.float32(x))] * kind.count)


def emit_repeat(b, x, kind=F8):
    empty = ir.Constant(kind, ir.Undefined)
    one = b.insert_element(empty, x, ir.Constant(I32, 0))
    return b.shuffle_vector(one, empty, ir.Constant(ir.VectorType(I32, kind.count), None))


def emit_call(b, name, *args):
    """A function that LLVM has for registers."""
    kind = args[0].type
    called, name = ir.FunctionType(kind, [kind] * len(args)), f"llvm.{name}.v{kind.count}f32"
    return b.call(cgutils.get_or_insert_function(b.module, called, name), args)


def emit_positive(b, x):
    zero = _constant(0, x.type)
    return b.select(b.fcmp_ordered("<", x, zero), zero, x)


def _exp(b, x):
    """e^x for x <= 0, as 2^n 2^f with a whole n, |f| <= 1/2 and a polynomial for 2^f.

    Adding ROUND leaves n + 127 in the last bits of the sum: after a shift, those of 2^n. Below
    -87 floats begin to lose digits, so that e^-87 = 2e-38 stands for all there. NaN stays NaN.
    """
    x = b.select(b.fcmp_ordered("<", x, _constant(-87)), _constant(-87), x)
    sum_ = emit_call(b, "fma", x, _constant(LOG2_E), _constant(ROUND))
    n = b.fsub(sum_, _constant(ROUND))
    f = emit_call(b, "fma", x, _constant(LOG2_E), b.fneg(n))
    p = _constant(POWERS_OF_2[0])
    for c in POWERS_OF_2[1:]:
        p = emit_call(b, "fma", p, f, _constant(c))
    power = b.shl(b.bitcast(sum_, I8), ir.Constant(I8, [23] * 8))
    return p, b.bitcast(power, F8)


@instruction
def load(ctx, start, i):
    """The 8 floats from float i after an address on."""
    return register(address, index), lambda _, b, sig, args: emit_load(b, *args)


@instruction
def store(ctx, start, i, x):
    """Write 8 floats there."""

    def emit(context, b, sig, args):
        emit_store(b, *args)
        return context.get_dummy_value()

    return types.void(address, index, register), emit


@instruction
def number(ctx, start, i):
    """The one float that lies there."""
    kind = types.float32(address, index)
    return kind, lambda _, b, sig, args: b.load(pointer(b, *args, F32), align=4)


@instruction
def write(ctx, start, i, x):
    """Write one float there."""

    def emit(context, b, sig, args):
        b.store(args[2], pointer(b, *args[:2], F32), align=4)
        return context.get_dummy_value()

    return types.void(address, index, types.float32), emit


@instruction
def repeat(ctx, x):
    """A number 8 times."""
    return register(types.float32), lambda _, b, sig, args: emit_repeat(b, *args)


@instruction
def fma(ctx, x, y, z):
    """x y + z"""
    kind = register(register, register, register)
    return kind, lambda _, b, sig, args: emit_call(b, "fma", *args)


@instruction
def add(ctx, x, y):
    return register(register, register), lambda _, b, sig, args: b.fadd(*args)


@instruction
def mul(ctx, x, y):
    return register(register, register), lambda _, b, sig, args: b.fmul(*args)


@instruction
def total(ctx, x):
    """The sum of the 8 floats."""

    def emit(context, b, sig, args):
        (x,) = args
        for step in (4, 2, 1):
            turned = ir.Constant(I8, [(i + step) % 8 for i in range(8)])
            x = b.fadd(x, b.shuffle_vector(x, x, turned))
        return b.extract_element(x, ir.Constant(I32, 0))

    return types.float32(register), emit


@instruction
def phi(ctx, x):
    """elu(x) + 1 = e^min(x, 0) + max(x, 0), Eq. (7)."""

    def emit(context, b, sig, args):
        (x,) = args
        positive = b.fcmp_ordered(">", x, _constant(0))  # false for NaN, which goes to exp
        above = b.select(positive, x, _constant(0))
        return emit_call(b, "fma", *_exp(b, b.select(positive, _constant(0), x)), above)

    return register(register), emit


@instruction
def exp(ctx, x):
    """e^x for x <= 0, and a little above."""
    return register(register), lambda _, b, sig, args: b.fmul(*_exp(b, *args))


@instruction
def greater(ctx, x, y):
    """max(x, y)"""
    kind = register(register, register)
    return kind, lambda _, b, sig, args: b.select(b.fcmp_ordered(">", *args), *args)


@instruction
def largest(ctx, x):
    """The largest of the 8 floats."""

    def emit(context, b, sig, args):
        (x,) = args
        for step in (4, 2, 1):
            turned = b.shuffle_vector(x, x, ir.Constant(I8, [(i + step) % 8 for i in range(8)]))
            x = b.select(b.fcmp_ordered(">", x, turned), x, turned)
        return b.extract_element(x, ir.Constant(I32, 0))

    return types.float32(register), emit


@instruction
def slope(ctx, x):
    """The derivative of phi, where phi is x: min(x, 1)."""

    def emit(context, b, sig, args):
        one = _constant(1)
        return b.select(b.fcmp_ordered(">", *args, one), one, *args)

    return register(register), emit


@instruction
def positive(ctx, x):
    """max(x, 0); NaN stays NaN."""
    return register(register), lambda _, b, sig, args: emit_positive(b, *args)


@instruction
def transpose8(ctx, source, s, target, t):
    """An 8 x 8 matrix with rows s floats apart, transposed to another place, rows t apart."""

    def emit(context, b, sig, args):
        source, s, target, t = args
        rows = [emit_load(b, source, b.mul(s, ir.Constant(s.type, r))) for r in range(8)]
        for bit in (4, 2, 1):  # swap this bit of the row's number with that of the column's
            low = ir.Constant(I8, [x if not x & bit else x - bit + 8 for x in range(8)])
            high = ir.Constant(I8, [x + bit if not x & bit else x + 8 for x in range(8)])
            for r in (r for r in range(8) if not r & bit):
                pair = rows[r], rows[r + bit]
                rows[r] = b.shuffle_vector(*pair, low)
                rows[r + bit] = b.shuffle_vector(*pair, high)
        for r in range(8):
            emit_store(b, target, b.mul(t, ir.Constant(t.type, r)), rows[r])
        return context.get_dummy_value()

    return types.void(address, index, address, index), emit
