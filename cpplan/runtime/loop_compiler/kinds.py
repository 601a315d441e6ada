"""Kinds of values in compiled loops, and the LLVM types that hold them.

A kind is known before the loop runs. Numbers are ``BOOL``, ``INT`` (signed, 64 bits), ``WORD``
(unsigned, 64 bits) and ``FLOAT``. An array is a pointer and its lengths; a tuple is its members. A
``numpy.random.Generator`` is the addresses of its state and of the functions that draw from it.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

import numpy as np


class LoopError(TypeError):
    """Error for code or arguments that compiled loops do not support; names the line."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number; where two meet, that of lower ``rank`` is converted to the other kind."""

    name: str
    llvm: str
    rank: int | None


@dataclass(frozen=True, slots=True)
class Array:
    """A contiguous array: kind of its entries as read, their stored type, and its dimensions."""

    item: Number
    stored: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Group:
    """A tuple; ``names`` are the fields of a named tuple."""

    members: tuple[Kind, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Drawer:
    """A generator of random numbers: its state, and functions for 32 bits, 64 bits and doubles."""


Kind: TypeAlias = Number | Array | Group | Drawer

BOOL = Number("bool", "i1", 0)
INT = Number("int", "i64", 1)
WORD = Number("unsigned int", "i64", None)
FLOAT = Number("float", "double", 2)
# The kind of the result of a function that returns nothing.
NOTHING = Group(())
DRAWER = Drawer()
# Kind and bytes of a dtype -> kind of its entries as read, and their stored type.
_ITEMS = {
    "b1": (BOOL, "i8"),
    "i4": (INT, "i32"),
    "i8": (INT, "i64"),
    "u8": (WORD, "i64"),
    "f4": (FLOAT, "float"),
    "f8": (FLOAT, "double"),
}


class Value(NamedTuple):
    """A value under compilation: its kind, and the LLVM operands that hold it."""

    kind: Kind
    parts: tuple[str, ...]


class LoopSource:
    """A function as the compiler reads it; ``python`` is the function itself."""

    def __init__(self, python: Callable[..., Any]):
        self.python = self.__wrapped__ = python
        self.__name__, self.__doc__ = python.__name__, python.__doc__
        self.__module__ = python.__module__
        self.file, self.first_line = python.__code__.co_filename, python.__code__.co_firstlineno

    def tree(self) -> ast.FunctionDef:
        """Syntax tree of the function."""
        tree = ast.parse(textwrap.dedent(inspect.getsource(self.python))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        return tree

    def known(self, name: str) -> object:
        """Object that a name outside the function means."""
        for names in (self.python.__globals__, vars(builtins)):
            if name in names:
                return names[name]
        raise LoopError(f"{name} is not known")


class Use(NamedTuple):
    """A loop, and the kinds of the arguments that it is called with."""

    loop: LoopSource
    kinds: tuple[Kind, ...]

    @property
    def name(self) -> str:
        """Name that no other use has."""
        digest = sha256(repr(self.kinds).encode()).hexdigest()[:16]
        return f"{self.loop.__module__}.{self.loop.__name__}-{digest}"


class Code(NamedTuple):
    """Machine code of a loop for some kinds of arguments, its result's kind and number of words."""

    entry: Any
    returns: Kind
    room: int

    def run(self, memory: array[int]) -> bool:
        """Write the result over the arguments; returns False if these are of other kinds."""
        if len(memory) < self.room:
            memory.extend([0] * (self.room - len(memory)))
        return not self.entry(memory.buffer_info()[0])


def array_kind(dtype: np.dtype[np.generic], dimensions: int) -> Array:
    """Kind of an array."""
    code = f"{dtype.kind}{dtype.itemsize}"
    if code not in _ITEMS or not dtype.isnative:
        raise LoopError(f"compiled loops have no arrays of {dtype}")
    return Array(*_ITEMS[code], dimensions)


def llvm_types(kind: Kind) -> list[str]:
    """LLVM types of the operands that hold a value of a kind."""
    if isinstance(kind, Number):
        return [kind.llvm]
    if isinstance(kind, Array):
        return [pointer(kind.stored), *["i64"] * kind.dimensions]
    if isinstance(kind, Drawer):
        return ["i64"] * 4
    return [part for member in kind.members for part in llvm_types(member)]


def result_type(kind: Kind) -> str:
    """LLVM type of a function's result."""
    parts = llvm_types(kind)
    return f"{{{', '.join(parts)}}}" if parts else "void"


def pointer(stored: str) -> str:
    """LLVM type of a pointer; before LLVM 17, it names the type that is pointed to."""
    import llvmlite.binding

    return "ptr" if llvmlite.binding.llvm_version_info[0] >= 17 else f"{stored}*"


def members(value: Value) -> list[Value]:
    """Members of a tuple."""
    assert isinstance(value.kind, Group)
    found, at = [], 0
    for kind in value.kind.members:
        count = len(llvm_types(kind))
        found.append(Value(kind, value.parts[at : at + count]))
        at += count
    return found


def group(values: Sequence[Value]) -> Value:
    """Tuple of these members."""
    kinds = tuple(value.kind for value in values)
    return Value(Group(kinds), tuple(part for value in values for part in value.parts))


def joined(one: Kind, other: Kind) -> Kind:
    """Kind of a variable that holds values of both kinds."""
    if one == other:
        return one
    match one, other:
        case Number(rank=int(first)), Number(rank=int(second)):
            return one if first > second else other
        case Group(members=ours, names=names), Group(members=theirs) if len(ours) == len(theirs):
            pairs = zip(ours, theirs, strict=True)
            return Group(tuple(joined(a, b) for a, b in pairs), names)
    raise LoopError(f"{described(one)} and {described(other)} do not mix")


def described(kind: Kind) -> str:
    """Kind in words."""
    if isinstance(kind, Number):
        return kind.name
    if isinstance(kind, Array):
        return f"an array of {kind.item.name} in {kind.dimensions} dimensions"
    if isinstance(kind, Drawer):
        return "a generator of random numbers"
    return f"({', '.join(map(described, kind.members))})"
