"""Arithmetic and comparisons of compiled loops, as LLVM instructions."""

from __future__ import annotations

import ast
import math

from cpplan.runtime.loop_compiler.blocks import Blocks
from cpplan.runtime.loop_compiler.kinds import (
    BOOL,
    FLOAT,
    INT,
    WORD,
    Group,
    Kind,
    LoopError,
    Number,
    Value,
    described,
    group,
    joined,
    members,
)

_BITS = {ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"}
_SUMS = {ast.Add: ("add", "fadd"), ast.Sub: ("sub", "fsub"), ast.Mult: ("mul", "fmul")}
# Functions of the C library that instructions call.
DECLARED = (
    "declare double @llvm.pow.f64(double, double)",
    "declare double @llvm.log.f64(double)",
    "declare double @llvm.floor.f64(double)",
)
# Comparison -> its LLVM predicates for signed integers, unsigned integers and floats.
_ORDERS = {
    ast.Lt: ("slt", "ult", "olt"),
    ast.LtE: ("sle", "ule", "ole"),
    ast.Gt: ("sgt", "ugt", "ogt"),
    ast.GtE: ("sge", "uge", "oge"),
    ast.Eq: ("eq", "eq", "oeq"),
    ast.NotEq: ("ne", "ne", "une"),
}


def constant(value: object) -> Value:
    """Operand of a constant number."""
    import numpy as np

    if isinstance(value, bool | np.bool_):
        return Value(BOOL, (str(int(value)),))
    if isinstance(value, np.uint64):
        return Value(WORD, (str(int(value)),))
    if isinstance(value, int | np.signedinteger):
        return Value(INT, (str(int(value)),))
    if isinstance(value, float):
        # Written as bits, so that no digit is lost.
        return Value(FLOAT, (f"0x{np.float64(value).view(np.uint64):016X}",))
    raise LoopError(f"{value!r} is no number")


def converted(blocks: Blocks, value: Value, kind: Kind) -> Value:
    """The value converted to another kind, where Python would do so by itself."""
    old = value.kind
    if old == kind:
        return value
    if isinstance(old, Group) and isinstance(kind, Group):
        pairs = zip(members(value), kind.members, strict=True)
        whole = group([converted(blocks, member, wanted) for member, wanted in pairs])
        return Value(kind, whole.parts)
    if joined(old, kind) != kind:
        raise LoopError(f"{described(old)} is no {described(kind)}")
    return cast(blocks, value, kind)


def cast(blocks: Blocks, value: Value, kind: Kind) -> Value:
    """The value cast to another kind of number, as by ``np.int64(value)``."""
    old, (part,) = value.kind, value.parts
    if not isinstance(old, Number) or not isinstance(kind, Number):
        raise LoopError(f"{described(old)} is no {described(kind)}")
    if kind is BOOL:
        return truth(blocks, value)
    if old is kind or (old is not BOOL and old.llvm == kind.llvm):
        return Value(kind, (part,))
    if kind is FLOAT:
        signed = "sitofp" if old is INT else "uitofp"
        return Value(kind, (blocks.add(f"{signed} {old.llvm} {part} to double"),))
    if old is FLOAT:
        signed = "fptosi" if kind is INT else "fptoui"
        return Value(kind, (blocks.add(f"{signed} double {part} to i64"),))
    return Value(kind, (blocks.add(f"zext i1 {part} to i64"),))


def truth(blocks: Blocks, value: Value) -> Value:
    """True if a number is not zero."""
    if value.kind is BOOL:
        return value
    if not isinstance(value.kind, Number):
        raise LoopError(f"{described(value.kind)} is neither true nor false")
    zero = constant(0.0 if value.kind is FLOAT else 0).parts[0]
    test = "fcmp une double" if value.kind is FLOAT else "icmp ne i64"
    return Value(BOOL, (blocks.add(f"{test} {value.parts[0]}, {zero}"),))


def operated(blocks: Blocks, operator: ast.operator, one: Value, other: Value) -> Value:
    """Result of an operator, as Python and NumPy define it."""
    kind = joined(one.kind, other.kind)
    if not isinstance(kind, Number):
        raise LoopError(f"no operator takes {described(kind)}")
    name = type(operator)
    if name is ast.Pow:
        return _power(blocks, one, other)
    if name is ast.Div:
        kind = FLOAT
    elif kind is BOOL and name not in _BITS:
        kind = INT
    one, other = converted(blocks, one, kind), converted(blocks, other, kind)
    a, b = one.parts[0], other.parts[0]
    if name in _SUMS:
        return Value(kind, (blocks.add(f"{_SUMS[name][kind is FLOAT]} {kind.llvm} {a}, {b}"),))
    if name is ast.Div:
        return Value(kind, (blocks.add(f"fdiv double {a}, {b}"),))
    if kind is FLOAT:
        raise LoopError(f"floats have no {name.__name__}")
    if name in _BITS:
        return Value(kind, (blocks.add(f"{_BITS[name]} {kind.llvm} {a}, {b}"),))
    if name is ast.LShift:
        return Value(kind, (blocks.add(f"shl i64 {a}, {b}"),))
    if name is ast.RShift:
        return Value(kind, (blocks.add(f"{'ashr' if kind is INT else 'lshr'} i64 {a}, {b}"),))
    if name not in (ast.FloorDiv, ast.Mod):
        raise LoopError(f"compiled loops have no {name.__name__}")
    return Value(kind, (_divided(blocks, kind, a, b, remainder=name is ast.Mod),))


def _power(blocks: Blocks, one: Value, other: Value) -> Value:
    """Power of floats, by the C library; powers of integers are products."""
    if FLOAT not in (one.kind, other.kind):
        raise LoopError("a power has a float as its base or its exponent")
    a, b = (converted(blocks, value, FLOAT).parts[0] for value in (one, other))
    return Value(FLOAT, (blocks.add(f"call double @llvm.pow.f64(double {a}, double {b})"),))


def mathematical(blocks: Blocks, function: object, value: Value) -> Value:
    """Result of ``math.log`` or ``math.floor``, by the C library."""
    number = converted(blocks, value, FLOAT).parts[0]
    if function is math.log:
        return Value(FLOAT, (blocks.add(f"call double @llvm.log.f64(double {number})"),))
    below = blocks.add(f"call double @llvm.floor.f64(double {number})")
    return cast(blocks, Value(FLOAT, (below,)), INT)


def _divided(blocks: Blocks, kind: Kind, a: str, b: str, *, remainder: bool) -> str:
    """Quotient rounded down, or the remainder of that division."""
    if kind is WORD:
        return blocks.add(f"{'urem' if remainder else 'udiv'} i64 {a}, {b}")
    rest = blocks.add(f"srem i64 {a}, {b}")
    signs = blocks.add(f"xor i64 {rest}, {b}")
    differ, uneven = blocks.add(f"icmp slt i64 {signs}, 0"), blocks.add(f"icmp ne i64 {rest}, 0")
    below = blocks.add(f"and i1 {differ}, {uneven}")
    if remainder:
        change = blocks.add(f"select i1 {below}, i64 {b}, i64 0")
        return blocks.add(f"add i64 {rest}, {change}")
    change = blocks.add(f"sext i1 {below} to i64")
    quotient = blocks.add(f"sdiv i64 {a}, {b}")
    return blocks.add(f"add i64 {quotient}, {change}")


def compared(blocks: Blocks, operator: ast.cmpop, one: Value, other: Value) -> Value:
    """True if a comparison of two numbers holds."""
    kind = joined(one.kind, other.kind)
    if type(operator) not in _ORDERS or not isinstance(kind, Number):
        raise LoopError(f"{described(kind)} cannot be compared by {type(operator).__name__}")
    if kind is BOOL:
        kind = INT
    a, b = converted(blocks, one, kind).parts[0], converted(blocks, other, kind).parts[0]
    order = _ORDERS[type(operator)][2 if kind is FLOAT else int(kind is WORD)]
    test = "fcmp" if kind is FLOAT else "icmp"
    return Value(BOOL, (blocks.add(f"{test} {order} {kind.llvm} {a}, {b}"),))


def extreme(blocks: Blocks, values: list[Value], order: ast.cmpop) -> Value:
    """The least or greatest number; of equal ones the first."""
    best = values[0]
    for value in values[1:]:
        kind = joined(best.kind, value.kind)
        assert isinstance(kind, Number)
        best, value = converted(blocks, best, kind), converted(blocks, value, kind)
        better = compared(blocks, order, value, best).parts[0]
        a, b = value.parts[0], best.parts[0]
        best = Value(kind, (blocks.add(f"select i1 {better}, {kind.llvm} {a}, {kind.llvm} {b}"),))
    return best
