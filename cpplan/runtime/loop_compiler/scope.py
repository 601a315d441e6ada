"""Variables of one function under translation, and the names from outside that it may use."""

from __future__ import annotations

import ast
from types import ModuleType

from cpplan.runtime.loop_compiler.blocks import Blocks
from cpplan.runtime.loop_compiler.checks import IndexChecks
from cpplan.runtime.loop_compiler.kinds import Kind, LoopError, LoopSource, Value, joined
from cpplan.runtime.loop_compiler.numbers import converted


class Wider(Exception):
    """Raised if a variable needs a wider kind: the translation of the function starts again."""


class Scope:
    """One function under translation: its variables, its instructions and the current line.

    Parameters
    ----------
    kinds
        Kinds of variables found so far, by name: a variable has the kind of its first value.
    checks
        Checks of indices, or ``None`` if the function has none.
    """

    def __init__(self, loop: LoopSource, kinds: dict[str, Kind], checks: IndexChecks | None):
        self.loop, self.checks = loop, checks
        self.blocks = Blocks()
        self.line = loop.first_line
        self._kinds = kinds
        self._slots: dict[str, list[tuple[str, str]]] = {}
        self._kept: dict[str, Value] = {}

    def assign(self, name: str, value: Value) -> None:
        """Give a variable a value."""
        kind = self._kinds.setdefault(name, value.kind)
        if joined(kind, value.kind) != kind:
            self._kinds[name] = joined(kind, value.kind)
            raise Wider
        if name not in self._slots:
            self._slots[name] = self.blocks.slots(kind)
        self.blocks.store(self._slots[name], converted(self.blocks, value, kind))

    def keep(self, name: str, value: Value) -> None:
        """Give a name a value for the whole function, which needs no slots."""
        self._kept[name] = value

    def is_variable(self, name: str) -> bool:
        """True if the function has a value of the name."""
        return name in self._kinds or name in self._kept

    def variable(self, name: str) -> Value:
        """Value of a variable."""
        if name in self._kept:
            return self._kept[name]
        if name not in self._slots:
            raise LoopError(f"{name} has no value yet")
        return self.blocks.load(self._slots[name], self._kinds[name])

    def known(self, node: ast.expr) -> object:
        """Object outside the function that an expression names, or ``None``."""
        if isinstance(node, ast.Name) and not self.is_variable(node.id):
            return self.loop.known(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.known(node.value)
            if isinstance(owner, ModuleType):
                return getattr(owner, node.attr)
        return None
