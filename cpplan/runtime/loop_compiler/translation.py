"""Turns a Python function of numbers and arrays into LLVM instructions.

Kinds of variables are found on the way: each has the kind of what it is first given. If it turns
out later that it must hold more (an ``int`` that becomes a ``float``), the function is begun anew.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cpplan.runtime.loop_cache import checked
from cpplan.runtime.loop_compiler.blocks import Block, Blocks
from cpplan.runtime.loop_compiler.checks import IndexChecks
from cpplan.runtime.loop_compiler.draws import drawn
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
    Number,
    Value,
    described,
    group,
    joined,
    llvm_types,
    members,
    pointer,
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

if TYPE_CHECKING:
    from cpplan.runtime.loop_compiler.loop import CompiledLoop

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
    """A translated function: its name in LLVM, and the kind of what it returns."""

    name: str
    returns: Kind


class _Wider(Exception):
    """A variable must hold more than was known."""


class Translation:
    """Functions of one LLVM module, each translated once for each kind of arguments."""

    def __init__(self) -> None:
        self._functions: dict[tuple[CompiledLoop, tuple[Kind, ...]], Function] = {}
        self.texts: list[str] = []

    def function(self, loop: CompiledLoop, kinds: tuple[Kind, ...]) -> Function:
        """The function that runs a loop on arguments of these kinds."""
        if (loop, kinds) not in self._functions:
            name = f"{loop.__name__}.{len(self._functions)}"
            variables: dict[str, Kind] = {}
            returns: list[Kind] = []
            while True:
                body = _Body(self, loop, variables, returns)
                try:
                    self.texts.append(body.define(name, kinds))
                    break
                except _Wider:
                    continue
            self._functions[loop, kinds] = Function(name, returns[0] if returns else NOTHING)
        return self._functions[loop, kinds]


def result_type(kind: Kind) -> str:
    """LLVM type of what a function returns."""
    parts = llvm_types(kind)
    return f"{{{', '.join(parts)}}}" if parts else "void"


class _Body:
    """One function under translation."""

    def __init__(
        self,
        translation: Translation,
        loop: CompiledLoop,
        variables: dict[str, Kind],
        returns: list[Kind],
    ):
        self._translation, self._loop = translation, loop
        self._kinds, self._returns = variables, returns
        self._slots: dict[str, list[tuple[str, str]]] = {}
        self._blocks = Blocks()
        # Where ``continue`` and ``break`` lead, of the loops around.
        self._around: list[tuple[Block, Block]] = []
        self._line = loop.first_line
        self._checks: IndexChecks | None = None

    def define(self, name: str, kinds: tuple[Kind, ...]) -> str:
        """Text of the whole function."""
        self._checks = IndexChecks(self._loop.file, name) if checked() else None
        tree = self._loop.tree()
        names = [argument.arg for argument in tree.args.args]
        if len(names) != len(kinds):
            raise LoopError(f"{self._loop.__name__} takes {len(names)} arguments")
        parameters = []
        for argument, kind in zip(names, kinds, strict=True):
            parts = tuple(f"%{argument}.{k}" for k in range(len(llvm_types(kind))))
            pairs = zip(llvm_types(kind), parts, strict=True)
            parameters += [f"{stored} {part}" for stored, part in pairs]
            self._assign(argument, Value(kind, parts))
        self._run(tree.body)
        end = self._blocks.current
        if end.reached and not end.ended:
            if self._returns and self._returns[0] != NOTHING:
                raise LoopError(f"{self._loop.__name__} may end without returning a value")
            self._blocks.end("ret void")
        returned = result_type(self._returns[0] if self._returns else NOTHING)
        head = f'define internal {returned} @"{name}"({", ".join(parameters)})'
        texts = self._checks.texts if self._checks else []
        return "\n".join([*texts, f"{head} nounwind {{", self._blocks.text(), "}"])

    # Statements

    def _run(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            run = getattr(self, f"_run_{type(statement).__name__}", None)
            self._line = self._loop.first_line + statement.lineno - 1
            try:
                if run is None:
                    raise LoopError(f"compiled loops have no {type(statement).__name__}")
                run(statement)
            except LoopError as error:
                if "line " in str(error):
                    raise
                raise LoopError(f"{self._loop.file}, line {self._line}: {error}") from error

    def _run_Expr(self, statement: ast.Expr) -> None:
        if not isinstance(statement.value, ast.Constant):
            self._value(statement.value)

    def _run_Pass(self, statement: ast.Pass) -> None:
        pass

    def _run_Assign(self, statement: ast.Assign) -> None:
        value = self._value(statement.value)
        for target in statement.targets:
            self._give(target, value)

    def _run_AugAssign(self, statement: ast.AugAssign) -> None:
        target = statement.target
        if isinstance(target, ast.Name):
            old, change = self._variable(target.id), self._value(statement.value)
            self._assign(target.id, operated(self._blocks, statement.op, old, change))
            return
        if not isinstance(target, ast.Subscript):
            raise LoopError("only variables and entries of arrays are changed in place")
        kind, place = self._place(target)
        change = self._value(statement.value)
        old = self._read(kind, place)
        self._write(kind, place, operated(self._blocks, statement.op, old, change))

    def _run_Return(self, statement: ast.Return) -> None:
        value = Value(NOTHING, ()) if statement.value is None else self._value(statement.value)
        if not self._returns:
            self._returns.append(value.kind)
        kind = joined(self._returns[0], value.kind)
        if kind != self._returns[0]:
            self._returns[0] = kind
            raise _Wider
        value = converted(self._blocks, value, kind)
        if not value.parts:
            self._blocks.end("ret void")
            return
        whole = self._blocks
        text = "undef"
        for k, (stored, part) in enumerate(zip(llvm_types(kind), value.parts, strict=True)):
            text = whole.add(f"insertvalue {result_type(kind)} {text}, {stored} {part}, {k}")
        self._blocks.end(f"ret {result_type(kind)} {text}")

    def _run_If(self, statement: ast.If) -> None:
        blocks = self._blocks
        then, other, end = blocks.block(), blocks.block(), blocks.block()
        blocks.branch(self._truth(statement.test), then, other)
        for block, body in ((then, statement.body), (other, statement.orelse)):
            blocks.begin(block)
            self._run(body)
            blocks.jump(end)
        blocks.begin(end)

    def _run_While(self, statement: ast.While) -> None:
        blocks = self._blocks
        again, body, end = blocks.block(), blocks.block(), blocks.block()
        blocks.jump(again)
        blocks.begin(again)
        if isinstance(statement.test, ast.Constant) and statement.test.value is True:
            blocks.jump(body)
        else:
            blocks.branch(self._truth(statement.test), body, end)
        self._repeat(statement, body, again, end)

    def _repeat(
        self, statement: ast.While | ast.For, body: Block, again: Block, end: Block
    ) -> None:
        """The body of a loop, from which it goes on ``again``."""
        if statement.orelse:
            raise LoopError("loops have no else")
        self._blocks.begin(body)
        self._around.append((again, end))
        self._run(statement.body)
        self._around.pop()
        self._blocks.jump(again)
        self._blocks.begin(end)

    def _run_Break(self, statement: ast.Break) -> None:
        self._blocks.jump(self._around[-1][1])

    def _run_Continue(self, statement: ast.Continue) -> None:
        self._blocks.jump(self._around[-1][0])

    def _run_For(self, statement: ast.For) -> None:
        if isinstance(statement.iter, ast.Call) and self._known(statement.iter.func) is range:
            bounds = [self._value(argument) for argument in statement.iter.args]
            self._count(statement, bounds, lambda number: number)
            return
        whole = self._value(statement.iter)
        if isinstance(whole.kind, Array) and whole.kind.dimensions == 1:
            length = Value(INT, (whole.parts[1],))
            self._count(statement, [length], lambda number: self._entry(whole, [number]))
            return
        if not isinstance(whole.kind, Group):
            raise LoopError(f"cannot go through {described(whole.kind)}")
        # Once for each member: there is no loop left.
        end = self._blocks.block()
        for member in members(whole):
            following = self._blocks.block()
            self._give(statement.target, member)
            self._around.append((following, end))
            self._run(statement.body)
            self._around.pop()
            self._blocks.jump(following)
            self._blocks.begin(following)
        self._blocks.jump(end)
        self._blocks.begin(end)

    def _count(
        self, statement: ast.For, bounds: list[Value], item: Callable[[Value], Value]
    ) -> None:
        """A loop over ``range(*bounds)``."""
        if any(bound.kind not in (INT, BOOL) for bound in bounds):
            kinds = ", ".join(described(bound.kind) for bound in bounds)
            raise LoopError(f"a range has signed integers as bounds, not {kinds}")
        numbers = [converted(self._blocks, bound, INT) for bound in bounds]
        start = numbers[0] if len(numbers) > 1 else constant(0)
        stop = numbers[min(1, len(numbers) - 1)]
        step = numbers[2] if len(numbers) > 2 else constant(1)
        try:
            falls = int(step.parts[0]) < 0
        except ValueError:
            raise LoopError("the step of a range is a constant") from None
        blocks = self._blocks
        again, body, following, end = (blocks.block() for _ in range(4))
        slot = blocks.slots(INT)
        blocks.store(slot, start)
        blocks.jump(again)
        blocks.begin(again)
        number = blocks.load(slot, INT)
        order = ast.Gt() if falls else ast.Lt()
        blocks.branch(compared(blocks, order, number, stop).parts[0], body, end)
        blocks.begin(following)
        following.reached = True
        blocks.store(slot, operated(blocks, ast.Add(), number, step))
        blocks.jump(again)
        first = blocks.block()
        blocks.begin(body)
        self._give(statement.target, item(number))
        blocks.jump(first)
        self._repeat(statement, first, following, end)

    # What is assigned

    def _give(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self._assign(target.id, value)
        elif isinstance(target, ast.Subscript):
            kind, place = self._place(target)
            self._write(kind, place, value)
        elif isinstance(target, ast.Tuple):
            given = self._unpacked(value, len(target.elts))
            for part, one in zip(target.elts, given, strict=True):
                self._give(part, one)
        else:
            raise LoopError(f"nothing can be assigned to {ast.unparse(target)}")

    def _unpacked(self, value: Value, count: int) -> list[Value]:
        if isinstance(value.kind, Array):
            return [self._entry(value, [constant(k)]) for k in range(count)]
        if isinstance(value.kind, Group) and len(value.kind.members) == count:
            return members(value)
        raise LoopError(f"{described(value.kind)} is not {count} values")

    def _assign(self, name: str, value: Value) -> None:
        kind = self._kinds.setdefault(name, value.kind)
        if joined(kind, value.kind) != kind:
            self._kinds[name] = joined(kind, value.kind)
            raise _Wider
        if name not in self._slots:
            self._slots[name] = self._blocks.slots(kind)
        self._blocks.store(self._slots[name], converted(self._blocks, value, kind))

    def _variable(self, name: str) -> Value:
        if name not in self._slots:
            raise LoopError(f"{name} has no value yet")
        return self._blocks.load(self._slots[name], self._kinds[name])

    def _place(self, target: ast.Subscript) -> tuple[Array, str]:
        """An entry of an array: the array's kind, and a pointer to the entry."""
        array = self._value(target.value)
        index = self._index(target.slice)
        if not isinstance(array.kind, Array) or array.kind.dimensions != len(index):
            raise LoopError(f"{ast.unparse(target)} is no entry of an array")
        return array.kind, self._address(array, index)

    def _write(self, kind: Array, place: str, value: Value) -> None:
        part, stored = converted(self._blocks, value, kind.item).parts[0], kind.stored
        if stored == "i8":
            part = self._blocks.add(f"zext i1 {part} to i8")
        elif stored == "i32":
            part = self._blocks.add(f"trunc i64 {part} to i32")
        elif stored == "float":
            part = self._blocks.add(f"fptrunc double {part} to float")
        self._blocks.act(f"store {stored} {part}, {pointer(stored)} {place}")

    def _read(self, kind: Array, place: str) -> Value:
        stored = kind.stored
        part = self._blocks.add(f"load {stored}, {pointer(stored)} {place}")
        if stored == "i8":
            part = self._blocks.add(f"icmp ne i8 {part}, 0")
        elif stored == "i32":
            part = self._blocks.add(f"sext i32 {part} to i64")
        elif stored == "float":
            part = self._blocks.add(f"fpext float {part} to double")
        return Value(kind.item, (part,))

    def _index(self, index: ast.expr) -> list[Value]:
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        values = [self._value(part) for part in parts]
        for value in values:
            if value.kind not in (INT, WORD, BOOL) or value.parts[0].startswith("-"):
                raise LoopError(f"{ast.unparse(index)} is no index from 0 on")
        return values

    def _address(self, array: Value, index: list[Value]) -> str:
        """Pointer to an entry, or to the first one of a row."""
        assert isinstance(array.kind, Array)
        blocks, lengths, stored = self._blocks, array.parts[1:], array.kind.stored
        place = "0"
        for k, length in enumerate(lengths):
            if k:
                place = blocks.add(f"mul i64 {place}, {length}")
            if k < len(index):
                number = cast(blocks, index[k], INT).parts[0]
                if self._checks:
                    self._checks.check(blocks, self._line, number, length)
                place = blocks.add(f"add i64 {place}, {number}") if k else number
        held = pointer(stored)
        return blocks.add(f"getelementptr inbounds {stored}, {held} {array.parts[0]}, i64 {place}")

    def _entry(self, array: Value, index: list[Value]) -> Value:
        """An entry of an array, or a row of one."""
        kind = array.kind
        assert isinstance(kind, Array)
        if len(index) > kind.dimensions:
            raise LoopError(f"{described(kind)} has no entry of {len(index)} indices")
        place = self._address(array, index)
        if len(index) == kind.dimensions:
            return self._read(kind, place)
        row = Array(kind.item, kind.stored, kind.dimensions - len(index))
        return Value(row, (place, *array.parts[1 + len(index) :]))

    # Expressions

    def _value(self, node: ast.expr) -> Value:
        evaluate = getattr(self, f"_value_{type(node).__name__}", None)
        if evaluate is None:
            raise LoopError(f"compiled loops have no {type(node).__name__}")
        value = evaluate(node)
        assert isinstance(value, Value)
        return value

    def _truth(self, node: ast.expr) -> str:
        return truth(self._blocks, self._value(node)).parts[0]

    def _known(self, node: ast.expr) -> object:
        """Object outside the function that a name means, or ``None``."""
        if isinstance(node, ast.Name) and node.id not in self._kinds:
            return self._loop.known(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._known(node.value)
            if isinstance(owner, ModuleType):
                return getattr(owner, node.attr)
        return None

    def _value_Constant(self, node: ast.Constant) -> Value:
        return constant(node.value)

    def _value_Name(self, node: ast.Name) -> Value:
        if node.id in self._kinds:
            return self._variable(node.id)
        return constant(self._loop.known(node.id))

    def _value_Attribute(self, node: ast.Attribute) -> Value:
        known = self._known(node)
        if known is not None:
            return constant(known)
        owner = self._value(node.value)
        if isinstance(owner.kind, Group) and node.attr in owner.kind.names:
            return members(owner)[owner.kind.names.index(node.attr)]
        raise LoopError(f"{ast.unparse(node)} is not known")

    def _value_Subscript(self, node: ast.Subscript) -> Value:
        whole = self._value(node.value)
        if isinstance(whole.kind, Group) and isinstance(node.slice, ast.Constant):
            return members(whole)[int(str(node.slice.value))]
        if not isinstance(whole.kind, Array):
            raise LoopError(f"{ast.unparse(node)} is no entry of an array")
        return self._entry(whole, self._index(node.slice))

    def _value_Tuple(self, node: ast.Tuple) -> Value:
        return group([self._value(part) for part in node.elts])

    def _value_BinOp(self, node: ast.BinOp) -> Value:
        return operated(self._blocks, node.op, self._value(node.left), self._value(node.right))

    def _value_UnaryOp(self, node: ast.UnaryOp) -> Value:
        value, blocks = self._value(node.operand), self._blocks
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
        """True or false; what decides nothing any more is not evaluated."""
        blocks, slot = self._blocks, self._blocks.slots(BOOL)
        end = blocks.block()
        for k, part in enumerate(node.values):
            value = truth(blocks, self._value(part))
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
        left = self._value(node.left)
        result = None
        for operator, right_node in zip(node.ops, node.comparators, strict=True):
            right = self._value(right_node)
            holds = compared(self._blocks, operator, left, right)
            if result is not None:
                holds = operated(self._blocks, ast.BitAnd(), result, holds)
            result, left = holds, right
        assert result is not None
        return result

    def _value_IfExp(self, node: ast.IfExp) -> Value:
        blocks = self._blocks
        starts, ends, values = (blocks.block(), blocks.block()), [], []
        blocks.branch(self._truth(node.test), *starts)
        for start, part in zip(starts, (node.body, node.orelse), strict=True):
            blocks.begin(start)
            values.append(self._value(part))
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
        called, blocks = self._known(node.func), self._blocks
        if node.keywords:
            raise LoopError("arguments of loops have no keywords")
        values = [self._value(argument) for argument in node.args]
        if called is None and isinstance(node.func, ast.Attribute):
            owner = self._value(node.func.value)
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

    def _called(self, loop: CompiledLoop, values: list[Value]) -> Value:
        """Result of another loop."""
        kinds = tuple(value.kind for value in values)
        function = self._translation.function(loop, kinds)
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
