"""The LLVM module of loops: all they call, and entries that take their arguments from memory.

An array is given as the address of the Python object: NumPy's binary interface fixes the places of
its data and lengths. The entry checks that the array has the kind that the code was made for: a
check in Python would take longer than many loops run.

Turns a Python function of numbers and arrays into LLVM instructions.

Kinds of variables are found during the translation: a variable has the kind of its first value. If
a later value needs a wider kind (an ``int`` that becomes a ``float``), the translation of the
function starts again.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import numpy as np

from cpplan.runtime.loop_cache import checked
from cpplan.runtime.loop_compiler.blocks import Blocks
from cpplan.runtime.loop_compiler.checks import IndexChecks, fault_text
from cpplan.runtime.loop_compiler.draws import integers_text
from cpplan.runtime.loop_compiler.expressions import Expressions, Function
from cpplan.runtime.loop_compiler.kinds import (
    NOTHING,
    Array,
    Group,
    Kind,
    LoopError,
    LoopSource,
    Use,
    Value,
    array_kind,
    llvm_types,
    pointer,
    result_type,
)
from cpplan.runtime.loop_compiler.numbers import DECLARED
from cpplan.runtime.loop_compiler.scope import Scope, Wider
from cpplan.runtime.loop_compiler.statements import Statements

# Byte offset of an object's own fields after its header. Offsets from there, in an array: address
# of the data, number of dimensions, address of their lengths, address of the dtype, flags; in a
# dtype: byte order, number of the type.
_OWN = object.__basicsize__
_DATA, _DIMENSIONS, _LENGTHS, _DTYPE, _FLAGS, _ORDER, _TYPE = 0, 8, 16, 40, 48, 10, 12
# Flags of an array that is contiguous and aligned.
_NEEDED = 0x101
_FITS = "cpplan_fits"


def module_text(uses: Sequence[Use]) -> tuple[str, list[Kind]]:
    """LLVM instructions of loops and all that they call, and the kinds of the loops' results.

    The entry of use ``k`` is :func:`entry_name`. If an array is of another kind, it returns 1
    without running the loop.
    """
    translation = Translation()
    texts, results = [], []
    for k, use in enumerate(uses):
        name, returns = translation.function(*use)
        texts.append(_entry_text(k, name, use, returns))
        results.append(returns)
    called = [*DECLARED, integers_text(), _fits_text(), *([fault_text()] if checked() else [])]
    return "\n\n".join([*called, *translation.texts, *texts]), results


def entry_name(k: int) -> str:
    """Name of the entry of a module's use ``k``."""
    return f"cpplan_entry_{k}"


def _entry_text(k: int, name: str, use: Use, returns: Kind) -> str:
    """Function that reads the arguments of a use from memory, and writes the result over them."""
    entry = _Entry()
    for kind in use.kinds:
        entry.take(kind)
    blocks = entry.blocks
    call = f'call {result_type(returns)} @"{name}"({", ".join(entry.arguments)})'
    if returns == NOTHING:
        blocks.act(call)
    else:
        entry.give(blocks.add(call), returns, use.loop.__name__)
    blocks.end("ret i32 0")
    return f"define i32 @{entry_name(k)}({pointer('i64')} %words) {{\n{blocks.text()}\n}}"


class _Entry:
    """Entry under construction; it returns 1 at once if an array is of another kind."""

    def __init__(self) -> None:
        self.blocks = Blocks()
        self.arguments: list[str] = []
        self._words = 0

    def take(self, kind: Kind) -> None:
        """Add an argument."""
        if isinstance(kind, Group):
            for member in kind.members:
                self.take(member)
        elif isinstance(kind, Array):
            self._take_array(kind)
        else:
            for wanted in llvm_types(kind):
                part = self._word()
                if wanted != "i64":
                    turned = "bitcast" if wanted == "double" else "trunc"
                    part = self.blocks.add(f"{turned} i64 {part} to {wanted}")
                self.arguments.append(f"{wanted} {part}")

    def give(self, whole: str, returns: Kind, name: str) -> None:
        """Write a result over the arguments."""
        for k, given in enumerate(llvm_types(returns)):
            part = self.blocks.add(f"extractvalue {result_type(returns)} {whole}, {k}")
            if given in ("double", "i1"):
                turned = "zext" if given == "i1" else "bitcast"
                part = self.blocks.add(f"{turned} {given} {part} to i64")
            elif given != "i64":
                raise LoopError(f"{name} returns an array")
            self.blocks.act(f"store i64 {part}, {pointer('i64')} {self._place(k)}")

    def _take_array(self, kind: Array) -> None:
        blocks, own = self.blocks, self._word()
        types = sum(1 << number for number in _types(kind))
        call = f"call i1 @{_FITS}(i64 {own}, i32 {kind.dimensions}, i32 {types})"
        blocks.demand(blocks.add(call), "ret i32 1")
        data = _field(blocks, own, _DATA, "i64")
        held = pointer(kind.stored)
        self.arguments.append(f"{held} {blocks.add(f'inttoptr i64 {data} to {held}')}")
        lengths = _field(blocks, own, _LENGTHS, "i64")
        for k in range(kind.dimensions):
            self.arguments.append(f"i64 {_field(blocks, lengths, 8 * k - _OWN, 'i64')}")

    def _place(self, k: int) -> str:
        return self.blocks.add(f"getelementptr i64, {pointer('i64')} %words, i64 {k}")

    def _word(self) -> str:
        self._words += 1
        return self.blocks.add(f"load i64, {pointer('i64')} {self._place(self._words - 1)}")


def _field(blocks: Blocks, address: str, offset: int, stored: str) -> str:
    """Load a field that lies behind the header that all Python objects have."""
    at = blocks.add(f"add i64 {address}, {_OWN + offset}")
    place = blocks.add(f"inttoptr i64 {at} to {pointer(stored)}")
    return blocks.add(f"load {stored}, {pointer(stored)} {place}")


def _fits_text() -> str:
    """Function that is true if an object is a contiguous array of these dimensions and types.

    It is not inlined: LLVM takes a second for the conditions of fifty arrays in one function.
    """
    blocks = Blocks()
    flags = blocks.add(f"and i32 {_field(blocks, '%own', _FLAGS, 'i32')}, {_NEEDED}")
    found = _field(blocks, "%own", _DIMENSIONS, "i32")
    dtype = _field(blocks, "%own", _DTYPE, "i64")
    order = _field(blocks, dtype, _ORDER, "i8")
    number = _field(blocks, dtype, _TYPE, "i32")
    native, neutral = (blocks.add(f"icmp eq i8 {order}, {ord(sign)}") for sign in "=|")
    bit = blocks.add(f"shl i32 1, {blocks.add(f'and i32 {number}, 31')}")
    chosen = blocks.add(f"and i32 {bit}, %types")
    holds = blocks.add(f"or i1 {native}, {neutral}")
    for test in (
        f"eq i32 {flags}, {_NEEDED}",
        f"eq i32 {found}, %dimensions",
        f"ult i32 {number}, 32",
        f"ne i32 {chosen}, 0",
    ):
        holds = blocks.add(f"and i1 {holds}, {blocks.add(f'icmp {test}')}")
    blocks.end(f"ret i1 {holds}")
    head = f"define internal i1 @{_FITS}(i64 %own, i32 %dimensions, i32 %types) noinline nounwind"
    return f"{head} {{\n{blocks.text()}\n}}"


def _types(kind: Array) -> list[int]:
    """NumPy's numbers of the element types that arrays of this kind may have."""
    found: list[int] = []
    for code in "?ilqLQfd":
        dtype = np.dtype(code)
        try:
            known = array_kind(dtype, kind.dimensions)
        except LoopError:
            continue
        if known == kind:
            found.append(dtype.num)
    return found


class Translation:
    """Functions of one LLVM module, each translated once for each kind of arguments."""

    def __init__(self) -> None:
        self._functions: dict[tuple[LoopSource, tuple[Kind, ...]], Function] = {}
        self.texts: list[str] = []

    def function(self, loop: LoopSource, kinds: tuple[Kind, ...]) -> Function:
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
