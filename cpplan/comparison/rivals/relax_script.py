"""Reader of a Relax module with planned storages, as a packing problem with TVM's answer.

``StaticPlanBlockMemory`` gives one storage to tensors that are never live at the same step; the
module's text (``module.script()``) has the storage of each tensor (``R.memory.alloc_storage`` and
``alloc_tensor``). TVM's answer is these storages side by side. Tensors that the virtual machine
allocates one by one, such as outputs, have no storage and are left out.

A step is a call that is not an allocation. A name that is bound to anything else than an allocation
is another name of the tensors in the bound expression, so that a tensor lives as long as its views.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from os import PathLike
from typing import Any, TypeAlias

import numpy as np

from cpplan.model.answers import Answer
from cpplan.model.dtypes import tensor_bytes
from cpplan.model.errors import InputError, located
from cpplan.model.names import name_of_file
from cpplan.model.problem import Problem
from cpplan.runtime.json_file import read_text

STORAGE = "R.memory.alloc_storage("
_TENSOR, _FUNCTION = "R.memory.alloc_tensor", "R.function"
_ENDS = ("R.memory.kill_tensor", "R.memory.kill_storage")

# Names of tensors, or a tuple of such values.
_Value: TypeAlias = "frozenset[str] | tuple[_Value, ...]"


def read_relax(path: str | PathLike[str]) -> Problem:
    """The packing problem and TVM's answer, from the text of a module.

    Raises
    ------
    InputError
        If the file cannot be read or is cut short; if no function has planned storages, or several
        have and ``main`` has none; if an extent is symbolic; or if storages lie in several scopes.
        Names the file and the line.
    """
    text = read_text(path)
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        where = f"{path}:{line}" if line else f"{path}"
        raise InputError(f"{where}: not the text of a Relax module, or cut short") from error
    planned = {
        node.name: node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef) and _is_relax(node) and STORAGE in ast.unparse(node)
    }
    if not planned or (len(planned) > 1 and "main" not in planned):
        found = f"{len(planned)} functions" if planned else "no function"
        raise InputError(f"{path}: {found} with planned storages: expected one, or main")
    function = planned.get("main") or next(iter(planned.values()))
    walk = _Walk(path, function)
    with located(path):
        return walk.problem(name_of_file(path))


class _Walk:
    """Tensors and storages of one function and their lifespans, read statement by statement."""

    def __init__(self, path: str | PathLike[str], function: ast.FunctionDef):
        self.path = path
        self.base: dict[str, int] = {}
        self.peak = 0
        self.scopes: set[str] = set()
        self.size: dict[str, int] = {}
        self.offset: dict[str, int] = {}
        self.lifespan: dict[str, tuple[int, int]] = {}
        self.values: dict[str, _Value] = {}
        steps = 0
        for target, value in _bindings(function.body):
            steps += self._visit(target, value, steps)

    def problem(self, name: str) -> Problem:
        if len(self.scopes) > 1:
            raise InputError(f"storages in several scopes: {sorted(self.scopes)}")
        used = [name for name in self.size if name in self.lifespan]
        if not used:
            raise InputError("no tensors in its storages are used")
        lower, upper = zip(*(self.lifespan[name] for name in used), strict=True)
        return Problem(
            used,
            lower=np.array(lower, np.int64),
            upper=np.array(upper, np.int64),
            size=np.array([self.size[name] for name in used], np.int64),
            name=name,
            answers=(Answer("tvm", self.peak, {name: self.offset[name] for name in used}),),
        )

    def _visit(self, target: str | None, value: ast.expr, step: int) -> bool:
        """Record the effect of a binding; returns True if it is a step."""
        called = ast.unparse(value.func) if isinstance(value, ast.Call) else ""
        if called + "(" == STORAGE and target is not None:
            self.base[target] = self.peak
            self.peak += math.prod(self._extents(value, 0))
            self.scopes.add(str(self._literal(value, 2)))
        elif called == _TENSOR and target is not None:
            storage = ast.unparse(self._argument(value, 0))
            if storage not in self.base:
                raise self._error(value, f"there is no storage {storage!r}")
            within = sum(self._extents(value, 1))
            # A name may be bound again, to another tensor.
            name = target if target not in self.size else f"{target}@{value.lineno}"
            extents, dtype = self._extents(value, 2), self._literal(value, 3)
            try:
                self.size[name] = tensor_bytes(extents, dtype)
            except InputError as error:
                raise self._error(value, str(error)) from error
            if self.size[name] >= 2**62:
                raise self._error(value, f"a tensor of {self.size[name]} bytes is too large")
            self.offset[name] = self.base[storage] + within
            self.values[target] = frozenset({name})
        elif called not in _ENDS:
            found = self._value(value)
            if target is not None:
                self.values[target] = found
            if called or target is None:
                for tensor in _tensors(found):
                    first, _ = self.lifespan.get(tensor, (step, step))
                    self.lifespan[tensor] = first, step + 1
                return True
        return False

    def _value(self, expression: ast.AST) -> _Value:
        """Tensors of an expression: by element for a tuple, else all tensors that it reads."""
        if isinstance(expression, ast.Name):
            return self.values.get(expression.id, frozenset())
        if isinstance(expression, ast.Tuple):
            return tuple(self._value(element) for element in expression.elts)
        if isinstance(expression, ast.Subscript):
            whole = self._value(expression.value)
            index = getattr(expression.slice, "value", None)
            if isinstance(whole, tuple) and isinstance(index, int) and index < len(whole):
                return whole[index]
            return _tensors(whole)
        inside = map(self._value, ast.iter_child_nodes(expression))
        return frozenset().union(*map(_tensors, inside))

    def _argument(self, call: ast.expr, position: int) -> ast.expr:
        """An argument of a call, without a surrounding ``R.shape(…)`` or ``R.dtype(…)``."""
        arguments = call.args if isinstance(call, ast.Call) else []
        if position >= len(arguments):
            raise self._error(call, f"expected an argument {position + 1}")
        argument = arguments[position]
        return argument.args[0] if isinstance(argument, ast.Call) and argument.args else argument

    def _literal(self, call: ast.expr, position: int) -> Any:
        argument = self._argument(call, position)
        try:
            return ast.literal_eval(argument)
        except ValueError as error:
            raise self._error(call, "sizes, shapes and dtypes must be literals") from error

    def _extents(self, call: ast.expr, position: int) -> tuple[int, ...]:
        """Extents of an argument that is a shape or one number."""
        found = self._literal(call, position)
        extents = tuple(found) if isinstance(found, (list, tuple)) else (found,)
        if not all(type(extent) is int and 0 <= extent < 2**62 for extent in extents):
            raise self._error(call, "sizes and shapes must be integers >= 0 below 2**62")
        return extents

    def _error(self, node: ast.expr, message: str) -> InputError:
        return InputError(f"{self.path}:{node.lineno}: {message}")


def _tensors(value: _Value) -> frozenset[str]:
    if isinstance(value, tuple):
        return frozenset().union(*map(_tensors, value))
    return value


def _bindings(body: list[ast.stmt]) -> Iterator[tuple[str | None, ast.expr]]:
    """Bound name, if any, and expression of every statement, through both branches of an ``if``."""
    for statement in body:
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            yield ast.unparse(statement.target), statement.value
        elif isinstance(statement, ast.Assign):
            yield ast.unparse(statement.targets[0]), statement.value
        elif isinstance(statement, (ast.Expr, ast.Return)) and statement.value is not None:
            yield None, statement.value
        elif isinstance(statement, ast.If):
            yield None, statement.test
            yield from _bindings(statement.body)
            yield from _bindings(statement.orelse)
        elif isinstance(statement, ast.With):
            yield from _bindings(statement.body)


def _is_relax(function: ast.FunctionDef) -> bool:
    return any(ast.unparse(mark).startswith(_FUNCTION) for mark in function.decorator_list)
