"""32 lanes: a vector type for numba, so that the tree race can be written as arithmetic.

`Floats` holds 32 single-precision numbers, `Ints` 32 words of 32 bits. LLVM maps them to whatever the machine has (two
registers of AVX-512, four of AVX2, eight of SSE or NEON). Operators work between vectors, and between a vector and a
number; comparisons give the lanes for which they hold as the bits of a uint32. `Doubles` and `Longs` are 8 numbers of
64 bits, for the logarithms of what is decided in double precision. Everything else is a named function below.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic as _intrinsic
from numba.extending import lower_builtin, models, register_model
from numba.np.arrayobj import make_array

LANES = 32
FEW = 8  # lanes of double precision


def _can_cache() -> bool:
    """Whether numba finds a folder for compiled code: beside this file, or else the user's cache folder."""
    try:
        njit(cache=True)(_can_cache)
    except RuntimeError:
        return False
    return True


JIT: dict[str, Any] = {
    "cache": _can_cache(),
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "nsz", "arcp"},
}
INLINE: dict[str, Any] = {**JIT, "forceinline": True}

# What a type checker is told: these types exist only inside numba.
Floats = Any
Ints = Any
Doubles = Any
Longs = Any
Word = Any  # a uint32 or uint64
intrinsic: Any = _intrinsic

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_FLOATS, _INTS = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(_I32, LANES)
_DOUBLES, _LONGS = ir.VectorType(ir.DoubleType(), FEW), ir.VectorType(_I64, FEW)


_VECTORS = {"Floats": _FLOATS, "Ints": _INTS, "Doubles": _DOUBLES, "Longs": _LONGS}


class VectorType(types.Type):
    @property
    def vector(self) -> Any:
        """What LLVM knows it as."""
        return _VECTORS[self.name]


FLOATS, INTS, DOUBLES, LONGS = (VectorType(name) for name in _VECTORS)


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.vector)


def _broadcast(builder: Any, x: Any, vector: Any) -> Any:
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, x, ir.Constant(_I32, 0))
    everywhere = ir.Constant(ir.VectorType(_I32, vector.count), [ir.Constant(_I32, 0)] * vector.count)
    return builder.shuffle_vector(first, undefined, everywhere)


def _binary(op: Any, kind: Any, scalar: Any, result: Any, emit: Any) -> None:
    """Teach numba `vector op vector`, `vector op number` and `number op vector`."""

    @infer_global(op)
    class _Typing(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            numbers = types.Number | types.IntegerLiteral
            if kind not in args or not all(a is kind or isinstance(a, numbers) for a in args):
                return None
            return signature(result, *(a if a is kind else scalar for a in args))

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        both = [x if t is kind else _broadcast(builder, x, kind.vector) for x, t in zip(args, sig.args, strict=True)]
        return emit(builder, *both)

    for left, right in ((kind, kind), (kind, scalar), (scalar, kind)):
        lower_builtin(op, left, right)(lower)


def _lanes_where(builder: Any, condition: Any) -> Any:
    return builder.bitcast(condition, ir.IntType(LANES))


_FAST = tuple(JIT["fastmath"])
for _op, _name in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul"), (operator.truediv, "fdiv")):
    for _kind, _scalar in ((FLOATS, types.float32), (DOUBLES, types.float64)):
        _binary(_op, _kind, _scalar, _kind, lambda b, x, y, name=_name: getattr(b, name)(x, y, flags=_FAST))
for _op, _sign in ((operator.lt, "<"), (operator.gt, ">"), (operator.le, "<="), (operator.ge, ">=")):
    _binary(
        _op,
        FLOATS,
        types.float32,
        types.uint32,
        lambda b, x, y, sign=_sign: _lanes_where(b, b.fcmp_ordered(sign, x, y)),
    )
for _op, _name in (
    (operator.add, "add"),
    (operator.sub, "sub"),
    (operator.mul, "mul"),
    (operator.xor, "xor"),
    (operator.or_, "or_"),
    (operator.lshift, "shl"),
    (operator.rshift, "lshr"),  # zeros come in from the left
):
    for _kind, _word in ((INTS, types.uint32), (LONGS, types.uint64)):
        _binary(_op, _kind, _word, _kind, lambda b, x, y, name=_name: getattr(b, name)(x, y))


def _pointer(context: Any, builder: Any, sig: Any, args: Any, vector: Any) -> Any:
    data = make_array(sig.args[0])(context, builder, args[0]).data
    return builder.bitcast(builder.gep(data, [args[1]]), vector.as_pointer())


def _make_load(kind: Any) -> Any:
    @intrinsic
    def load(typing: Any, array: Any, start: Any) -> Any:
        def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = builder.load(_pointer(context, builder, sig, args, kind.vector))
            value.align = 4
            return value

        return kind(array, types.int64), code

    return load


load_floats = _make_load(FLOATS)  # (array, start): 32 float32 of the flat array from `start`
load_ints = _make_load(INTS)
load_doubles = _make_load(DOUBLES)


@intrinsic
def spread(typing: Any, array: Any, index: Any) -> Any:
    """One float32 of a flat array, in all lanes. Unlike array[index] it does not ask whether the index is negative."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = make_array(sig.args[0])(context, builder, args[0]).data
        return _broadcast(builder, builder.load(builder.gep(data, [args[1]])), _FLOATS)

    return FLOATS(array, types.int64), code


@intrinsic
def get(typing: Any, array: Any, index: Any) -> Any:
    """One number of a flat array. Unlike array[index] it does not ask whether the index is negative."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = make_array(sig.args[0])(context, builder, args[0]).data
        return builder.load(builder.gep(data, [args[1]]))

    return array.dtype(array, types.int64), code


@intrinsic
def put(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Write one number into a flat array, as `get` reads it."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = make_array(sig.args[0])(context, builder, args[0]).data
        builder.store(args[2], builder.gep(data, [args[1]]))
        return context.get_dummy_value()

    return types.void(array, types.int64, array.dtype), code


@intrinsic
def store(typing: Any, array: Any, start: Any, values: Any) -> Any:
    """Write a vector into the flat array from `start`."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = builder.store(args[2], _pointer(context, builder, sig, args, values.vector))
        place.align = 4
        return context.get_dummy_value()

    return types.void(array, types.int64, values), code


def _sqrt_function(module: Any) -> Any:
    name = f"llvm.sqrt.v{LANES}f32"
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(_FLOATS, [_FLOATS]), name)


def _conversion(source: Any, result: Any, emit: Any) -> Any:
    @intrinsic
    def convert(typing: Any, x: Any) -> Any:
        return result(source), lambda context, builder, sig, args: emit(builder, args[0])

    return convert


splat = _conversion(types.float32, FLOATS, lambda b, x: _broadcast(b, x, _FLOATS))
splat_int = _conversion(types.uint32, INTS, lambda b, x: _broadcast(b, x, _INTS))
bits_of = _conversion(FLOATS, INTS, lambda b, x: b.bitcast(x, _INTS))
floats_of = _conversion(INTS, FLOATS, lambda b, x: b.bitcast(x, _FLOATS))
longs_of = _conversion(DOUBLES, LONGS, lambda b, x: b.bitcast(x, _LONGS))
doubles_of = _conversion(LONGS, DOUBLES, lambda b, x: b.bitcast(x, _DOUBLES))
to_floats = _conversion(INTS, FLOATS, lambda b, x: b.sitofp(x, _FLOATS))
to_ints = _conversion(FLOATS, INTS, lambda b, x: b.fptosi(x, _INTS))  # towards zero
sqrt = _conversion(FLOATS, FLOATS, lambda b, x: b.call(_sqrt_function(b.module), [x]))
lowest_lane = _conversion(
    types.uint32, types.int64, lambda b, x: b.zext(b.cttz(x, ir.Constant(ir.IntType(1), 0)), _I64)
)
lane_count = _conversion(types.uint32, types.int64, lambda b, x: b.zext(b.ctpop(x), _I64))


def _select(sign: str) -> Any:
    @intrinsic
    def choose(typing: Any, x: Any, y: Any) -> Any:
        def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.select(builder.fcmp_ordered(sign, *args), *args)

        return FLOATS(FLOATS, FLOATS), code

    return choose


minimum, maximum = _select("<"), _select(">")


@intrinsic
def choose(typing: Any, x: Any, y: Any, one: Any, other: Any) -> Any:
    """`one` in the lanes where x <= y, `other` elsewhere."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<=", args[0], args[1]), args[2], args[3])

    return FLOATS(FLOATS, FLOATS, FLOATS, FLOATS), code


@intrinsic
def lane_numbers(typing: Any) -> Any:
    """0, 1, ..., 31."""
    constant = ir.Constant(_INTS, [ir.Constant(_I32, lane) for lane in range(LANES)])
    return INTS(), lambda context, builder, sig, args: constant


@intrinsic
def multiply_high(typing: Any, x: Any, y: Any) -> Any:
    """The upper 64 bits of a product of uint64: maps a random word x to a number below y."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(arg, wide) for arg in args))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), _I64)

    return types.uint64(types.uint64, types.uint64), code


@njit(**INLINE)
def exp_above(x: Floats) -> Floats:
    """At least e^x, at most 7 % more, for x in [-87, 87] (clipped to it).

    A float with exponent n and fraction f is 2^n (1 + f), which is at least 2^(n + f): so x log2(e) = n + f, moved to
    where a float keeps these, is the answer but for rounding.
    """
    x = minimum(maximum(x, splat(-87.0)), splat(87.0))
    return floats_of(to_ints(x * 12102203.2 + 1065353216.0)) * 1.0001


@njit(**INLINE)
def log_roughly(x: Floats) -> Floats:
    """Natural logarithm of positive normal numbers, off by at most 0.001.

    The bits of 2^n (1 + f), read as a whole number, give n + f; the parabola and a cubic are what log2(1 + f) has more.
    """
    bits = bits_of(x)
    f = floats_of(((bits << 9) >> 9) | 0x3F800000) - 1.0
    return (to_floats(bits) * (2.0**-23) - 127.0 + f * (1.0 - f) * (0.42086 - f * 0.15639)) * 0.693147181


@njit(**INLINE)
def log(x: Floats) -> Floats:
    """Natural logarithm of positive normal numbers: x = 2^n m with m near 1, log m = 2 artanh((m - 1) / (m + 1))."""
    bits = bits_of(x)
    n = (bits - 0x3F3504F3) >> 23  # exponent, with m in [sqrt(1/2), sqrt(2))
    n = n - ((n >> 8) << 9)  # the shift brought in zeros: give back the sign
    m = floats_of(bits - (n << 23))
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = z * (2 / 9) + (2 / 7)
    p = p * z + (2 / 5)
    p = p * z + (2 / 3)
    p = p * z + 2.0
    whole = to_floats(n)
    return s * p + whole * 0.693147181


@njit(**INLINE)
def log_precisely(x: Doubles) -> Doubles:
    """Natural logarithm of positive normal numbers, off by at most a unit in the last place.

    x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), and s = f / (2 + f): log(1 + f) = 2 artanh(s) = f - f^2 / 2 +
    s (f^2 / 2 + r), where r is what the series of artanh has beyond its first term, by the coefficients of fdlibm.
    """
    bits = longs_of(x)
    lifted = (bits + (0x4000000000000000 - 0x3FE6A09E667F3BCD)) >> 52  # n + 1024
    n = doubles_of(lifted | 0x4330000000000000) - (2.0**52 + 1024.0)  # the upper bits make it 2^52 + n + 1024
    f = doubles_of(bits - ((lifted - 1024) << 52)) - 1.0
    s = f / (f + 2.0)
    z = s * s
    w = z * z
    odd = w * (w * (w * 1.479819860511658591e-01 + 1.818357216161805012e-01) + 2.857142874366239149e-01)
    odd = z * (odd + 6.666666666666735130e-01)
    even = w * (w * (w * 1.531383769920937332e-01 + 2.222219843214978396e-01) + 3.999999999940941908e-01)
    half = f * f * 0.5
    return n * 6.93147180369123816490e-01 - ((half - (s * (half + (odd + even)) + n * 1.90821492927058770002e-10)) - f)
