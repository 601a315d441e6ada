"""Translates expressions of a compiled loop: numbers, entries of arrays, tuples and calls."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cpplan.runtime.loop_compiler.draws import drawn
from cpplan.runtime.loop_compiler.entries import address, entry
from cpplan.runtime.loop_compiler.kinds import (
    BOOL,
    DRAWER,
    FLOAT,
    INT,
    NOTHING,
    WORD,
    Array,
    Group,
    Kind,
    LoopError,
    LoopSource,
    Number,
    Value,
    described,
    group,
    joined,
    llvm_types,
    members,
    result_type,
)
from cpplan.runtime.loop_compiler.numbers import (
    cast,
    compared,
    constant,
    converted,
    extreme,
    mathematical,
    operated,
    truth,
)
from cpplan.runtime.loop_compiler.scope import Scope

_CASTS = {
    int: INT,
    float: FLOAT,
    bool: BOOL,
    np.int64: INT,
    np.uint64: WORD,
    np.float64: FLOAT,
    np.bool_: BOOL,
}


class Function(NamedTuple):
    """A translated function: its name in LLVM, and the kind of its result."""

    name: str
    returns: Kind


class Expressions:
    """Expressions of one function under translation.

    Parameters
    ----------
    function
        Translates another loop for some kinds of arguments, once.
    """

    def __init__(self, scope: Scope, function: Callable[[LoopSource, tuple[Kind, ...]], Function]):
        self._scope, self._function = scope, function
        self._blocks = scope.blocks

    def value(self, node: ast.expr) -> Value:
        """Value of an expression."""
        evaluate = getattr(self, f"_value_{type(node).__name__}", None)
        if evaluate is None:
            raise LoopError(f"compiled loops have no {type(node).__name__}")
        value = evaluate(node)
        assert isinstance(value, Value)
        return value

    def truth(self, node: ast.expr) -> str:
        """Operand that holds the truth of an expression."""
        return truth(self._blocks, self.value(node)).parts[0]

    def place(self, target: ast.Subscript) -> tuple[Array, str]:
        """An entry of an array: the array's kind, and a pointer to the entry."""
        array = self.value(target.value)
        index = self._index(target.slice)
        if not isinstance(array.kind, Array) or array.kind.dimensions != len(index):
            raise LoopError(f"{ast.unparse(target)} is no entry of an array")
        return array.kind, address(self._scope, array, index)

    def _index(self, index: ast.expr) -> list[Value]:
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        values = [self.value(part) for part in parts]
        for value in values:
            if value.kind not in (INT, WORD, BOOL) or value.parts[0].startswith("-"):
                raise LoopError(f"{ast.unparse(index)} is no index from 0 on")
        return values

    def _value_Constant(self, node: ast.Constant) -> Value:
        return constant(node.value)

    def _value_Name(self, node: ast.Name) -> Value:
        if self._scope.is_variable(node.id):
            return self._scope.variable(node.id)
        return constant(self._scope.known(node))

    def _value_Attribute(self, node: ast.Attribute) -> Value:
        known = self._scope.known(node)
        if known is not None:
            return constant(known)
        owner = self.value(node.value)
        if isinstance(owner.kind, Group) and node.attr in owner.kind.names:
            return members(owner)[owner.kind.names.index(node.attr)]
        raise LoopError(f"{ast.unparse(node)} is not known")

    def _value_Subscript(self, node: ast.Subscript) -> Value:
        whole = self.value(node.value)
        if isinstance(whole.kind, Group) and isinstance(node.slice, ast.Constant):
            return members(whole)[int(str(node.slice.value))]
        if not isinstance(whole.kind, Array):
            raise LoopError(f"{ast.unparse(node)} is no entry of an array")
        return entry(self._scope, whole, self._index(node.slice))

    def _value_Tuple(self, node: ast.Tuple) -> Value:
        return group([self.value(part) for part in node.elts])

    def _value_BinOp(self, node: ast.BinOp) -> Value:
        return operated(self._blocks, node.op, self.value(node.left), self.value(node.right))

    def _value_UnaryOp(self, node: ast.UnaryOp) -> Value:
        value, blocks = self.value(node.operand), self._blocks
        if isinstance(node.op, ast.Not):
            part = truth(blocks, value).parts[0]
            return Value(BOOL, (blocks.add(f"xor i1 {part}, true"),))
        if isinstance(node.operand, ast.Constant) and isinstance(node.op, ast.USub):
            return constant(-node.operand.value)  # type: ignore[operator]
        if not isinstance(value.kind, Number):
            raise LoopError(f"{described(value.kind)} is no number")
        if isinstance(node.op, ast.Invert) and value.kind in (INT, WORD):
            return Value(value.kind, (blocks.add(f"xor i64 {value.parts[0]}, -1"),))
        if isinstance(node.op, ast.USub) and value.kind is INT:
            return operated(blocks, ast.Sub(), constant(0), value)
        if isinstance(node.op, ast.USub) and value.kind is FLOAT:
            return Value(FLOAT, (blocks.add(f"fneg double {value.parts[0]}"),))
        raise LoopError(f"{described(value.kind)} has no {type(node.op).__name__}")

    def _value_BoolOp(self, node: ast.BoolOp) -> Value:
        """Truth of operands joined by ``and`` or ``or``; later ones only if needed."""
        blocks, slot = self._blocks, self._blocks.slots(BOOL)
        end = blocks.block()
        for k, part in enumerate(node.values):
            value = truth(blocks, self.value(part))
            blocks.store(slot, value)
            if k + 1 < len(node.values):
                following = blocks.block()
                ways = (following, end) if isinstance(node.op, ast.And) else (end, following)
                blocks.branch(value.parts[0], *ways)
                blocks.begin(following)
        blocks.jump(end)
        blocks.begin(end)
        return blocks.load(slot, BOOL)

    def _value_Compare(self, node: ast.Compare) -> Value:
        """True if all comparisons of a chain hold."""
        left = self.value(node.left)
        result = None
        for operator, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node)
            holds = compared(self._blocks, operator, left, right)
            if result is not None:
                holds = operated(self._blocks, ast.BitAnd(), result, holds)
            result, left = holds, right
        assert result is not None
        return result

    def _value_IfExp(self, node: ast.IfExp) -> Value:
        blocks = self._blocks
        starts, ends, values = (blocks.block(), blocks.block()), [], []
        blocks.branch(self.truth(node.test), *starts)
        for start, part in zip(starts, (node.body, node.orelse), strict=True):
            blocks.begin(start)
            values.append(self.value(part))
            ends.append(blocks.current)
        kind = joined(values[0].kind, values[1].kind)
        slot, end = blocks.slots(kind), blocks.block()
        for block, value in zip(ends, values, strict=True):
            blocks.current = block
            blocks.store(slot, converted(blocks, value, kind))
            blocks.jump(end)
        blocks.begin(end)
        return blocks.load(slot, kind)

    def _value_Call(self, node: ast.Call) -> Value:
        called, blocks = self._scope.known(node.func), self._blocks
        if node.keywords:
            raise LoopError("arguments of loops have no keywords")
        values = [self.value(argument) for argument in node.args]
        if called is None and isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value)
            if owner.kind == DRAWER:
                return drawn(blocks, owner, node.func.attr, values)
        if called is len:
            (whole,) = values
            if isinstance(whole.kind, Group):
                return constant(len(whole.kind.members))
            if not isinstance(whole.kind, Array):
                raise LoopError(f"{described(whole.kind)} has no length")
            return Value(INT, (whole.parts[1],))
        if called in (min, max) and len(values) > 1:
            return extreme(blocks, values, ast.Lt() if called is min else ast.Gt())
        if called is abs:
            negative = operated(blocks, ast.Sub(), constant(0), values[0])
            return extreme(blocks, [values[0], negative], ast.Gt())
        if called in (math.log, math.floor):
            return mathematical(blocks, called, *values)
        if isinstance(called, type) and called in _CASTS:
            return cast(blocks, values[0], _CASTS[called])
        if not hasattr(called, "tree"):
            raise LoopError(f"{ast.unparse(node.func)} is no compiled loop")
        return self._called(called, values)  # type: ignore[arg-type]

    def _called(self, loop: LoopSource, values: list[Value]) -> Value:
        """Result of another loop."""
        kinds = tuple(value.kind for value in values)
        function = self._function(loop, kinds)
        types = [part for kind in kinds for part in llvm_types(kind)]
        parts = [part for value in values for part in value.parts]
        given = ", ".join(f"{a} {b}" for a, b in zip(types, parts, strict=True))
        returned = result_type(function.returns)
        call = f'call {returned} @"{function.name}"({given})'
        if function.returns == NOTHING:
            self._blocks.act(call)
            return Value(NOTHING, ())
        whole = self._blocks.add(call)
        count = len(llvm_types(function.returns))
        parts = [self._blocks.add(f"extractvalue {returned} {whole}, {k}") for k in range(count)]
        return Value(function.returns, tuple(parts))
