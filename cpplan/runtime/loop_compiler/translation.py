"""Turns a Python function of numbers and arrays into LLVM instructions.

Kinds of variables are found during the translation: a variable has the kind of its first value. If
a later value needs a wider kind (an ``int`` that becomes a ``float``), the translation of the
function starts again.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cpplan.runtime.loop_cache import checked
from cpplan.runtime.loop_compiler.checks import IndexChecks
from cpplan.runtime.loop_compiler.expressions import Expressions, Function
from cpplan.runtime.loop_compiler.kinds import (
    NOTHING,
    Kind,
    LoopError,
    Value,
    llvm_types,
    result_type,
)
from cpplan.runtime.loop_compiler.scope import Scope, Wider
from cpplan.runtime.loop_compiler.statements import Statements

if TYPE_CHECKING:
    from cpplan.runtime.loop_compiler.loop import CompiledLoop


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
                checks = IndexChecks(loop.file, name) if checked() else None
                scope = Scope(loop, variables, checks)
                try:
                    self.texts.append(self._text(name, kinds, scope, returns))
                    break
                except Wider:
                    continue
            self._functions[loop, kinds] = Function(name, returns[0] if returns else NOTHING)
        return self._functions[loop, kinds]

    def _text(self, name: str, kinds: tuple[Kind, ...], scope: Scope, returns: list[Kind]) -> str:
        """Text of a whole function."""
        loop, blocks = scope.loop, scope.blocks
        tree = loop.tree()
        names = [argument.arg for argument in tree.args.args]
        if len(names) != len(kinds):
            raise LoopError(f"{loop.__name__} takes {len(names)} arguments")
        changed = {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        parameters = []
        for argument, kind in zip(names, kinds, strict=True):
            parts = tuple(f"%{argument}.{k}" for k in range(len(llvm_types(kind))))
            pairs = zip(llvm_types(kind), parts, strict=True)
            parameters += [f"{stored} {part}" for stored, part in pairs]
            hold = scope.assign if argument in changed else scope.keep
            hold(argument, Value(kind, parts))
        Statements(scope, Expressions(scope, self.function), returns).run(tree.body)
        end = blocks.current
        if end.reached and not end.ended:
            if returns and returns[0] != NOTHING:
                raise LoopError(f"{loop.__name__} may end without returning a value")
            blocks.end("ret void")
        returned = result_type(returns[0] if returns else NOTHING)
        head = f'define internal {returned} @"{name}"({", ".join(parameters)})'
        texts = scope.checks.texts if scope.checks else []
        return "\n".join([*texts, f"{head} nounwind {{", blocks.text(), "}"])
