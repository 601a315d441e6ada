"""Translates statements of a compiled loop: assignments, branches, loops and returns."""

from __future__ import annotations

import ast
from collections.abc import Callable

from cpplan.runtime.loop_compiler.blocks import Block
from cpplan.runtime.loop_compiler.entries import entry, read, write
from cpplan.runtime.loop_compiler.expressions import Expressions
from cpplan.runtime.loop_compiler.kinds import (
    BOOL,
    INT,
    NOTHING,
    Array,
    Group,
    Kind,
    LoopError,
    Value,
    described,
    joined,
    llvm_types,
    members,
    result_type,
)
from cpplan.runtime.loop_compiler.numbers import (
    compared,
    constant,
    converted,
    operated,
)
from cpplan.runtime.loop_compiler.scope import Scope, Wider


class Statements:
    """Statements of one function under translation.

    Parameters
    ----------
    returns
        Kind of the function's result, once a ``return`` statement is translated.
    """

    def __init__(self, scope: Scope, expressions: Expressions, returns: list[Kind]):
        self._scope, self._blocks = scope, scope.blocks
        self._value, self._truth = expressions.value, expressions.truth
        self._place, self._returns = expressions.place, returns
        # Targets of ``continue`` and ``break`` in the enclosing loops.
        self._around: list[tuple[Block, Block]] = []

    def run(self, statements: list[ast.stmt]) -> None:
        """Translate statements, one after another."""
        loop = self._scope.loop
        for statement in statements:
            run = getattr(self, f"_run_{type(statement).__name__}", None)
            self._scope.line = loop.first_line + statement.lineno - 1
            try:
                if run is None:
                    raise LoopError(f"compiled loops have no {type(statement).__name__}")
                run(statement)
            except LoopError as error:
                if "line " in str(error):
                    raise
                raise LoopError(f"{loop.file}, line {self._scope.line}: {error}") from error

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
            old, change = self._scope.variable(target.id), self._value(statement.value)
            self._scope.assign(target.id, operated(self._blocks, statement.op, old, change))
            return
        if not isinstance(target, ast.Subscript):
            raise LoopError("only variables and entries of arrays are changed in place")
        kind, place = self._place(target)
        change = self._value(statement.value)
        old = read(self._blocks, kind, place)
        write(self._blocks, kind, place, operated(self._blocks, statement.op, old, change))

    def _run_Return(self, statement: ast.Return) -> None:
        value = Value(NOTHING, ()) if statement.value is None else self._value(statement.value)
        if not self._returns:
            self._returns.append(value.kind)
        kind = joined(self._returns[0], value.kind)
        if kind != self._returns[0]:
            self._returns[0] = kind
            raise Wider
        value = converted(self._blocks, value, kind)
        if not value.parts:
            self._blocks.end("ret void")
            return
        text = "undef"
        for k, (stored, part) in enumerate(zip(llvm_types(kind), value.parts, strict=True)):
            text = self._blocks.add(f"insertvalue {result_type(kind)} {text}, {stored} {part}, {k}")
        self._blocks.end(f"ret {result_type(kind)} {text}")

    def _run_If(self, statement: ast.If) -> None:
        blocks = self._blocks
        then, other, end = blocks.block(), blocks.block(), blocks.block()
        blocks.branch(self._truth(statement.test), then, other)
        for block, body in ((then, statement.body), (other, statement.orelse)):
            blocks.begin(block)
            self.run(body)
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
        """Translate the body of a loop, which then goes on at block ``again``."""
        if statement.orelse:
            raise LoopError("loops have no else")
        self._blocks.begin(body)
        self._around.append((again, end))
        self.run(statement.body)
        self._around.pop()
        self._blocks.jump(again)
        self._blocks.begin(end)

    def _run_Break(self, statement: ast.Break) -> None:
        self._blocks.jump(self._around[-1][1])

    def _run_Continue(self, statement: ast.Continue) -> None:
        self._blocks.jump(self._around[-1][0])

    def _run_For(self, statement: ast.For) -> None:
        if isinstance(statement.iter, ast.Call) and self._scope.known(statement.iter.func) is range:
            bounds = [self._value(argument) for argument in statement.iter.args]
            self._count(statement, bounds, lambda number: number)
            return
        whole = self._value(statement.iter)
        if isinstance(whole.kind, Array) and whole.kind.dimensions == 1:
            length = Value(INT, (whole.parts[1],))
            self._count(statement, [length], lambda number: entry(self._scope, whole, [number]))
            return
        if not isinstance(whole.kind, Group):
            raise LoopError(f"cannot go through {described(whole.kind)}")
        # The body is translated once for each member: no loop is left.
        end = self._blocks.block()
        for member in members(whole):
            following = self._blocks.block()
            self._give(statement.target, member)
            self._around.append((following, end))
            self.run(statement.body)
            self._around.pop()
            self._blocks.jump(following)
            self._blocks.begin(following)
        self._blocks.jump(end)
        self._blocks.begin(end)

    def _count(
        self, statement: ast.For, bounds: list[Value], item: Callable[[Value], Value]
    ) -> None:
        """Translate a loop over ``range(*bounds)``; ``item`` gives its variable for each number."""
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

    def _give(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self._scope.assign(target.id, value)
        elif isinstance(target, ast.Subscript):
            kind, place = self._place(target)
            write(self._blocks, kind, place, value)
        elif isinstance(target, ast.Tuple):
            given = self._unpacked(value, len(target.elts))
            for part, one in zip(target.elts, given, strict=True):
                self._give(part, one)
        else:
            raise LoopError(f"nothing can be assigned to {ast.unparse(target)}")

    def _unpacked(self, value: Value, count: int) -> list[Value]:
        if isinstance(value.kind, Array):
            return [entry(self._scope, value, [constant(k)]) for k in range(count)]
        if isinstance(value.kind, Group) and len(value.kind.members) == count:
            return members(value)
        raise LoopError(f"{described(value.kind)} is not {count} values")
