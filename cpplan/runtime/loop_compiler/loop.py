"""Compiled loops: functions of numbers and arrays that run as machine code.

Such a function is plain Python over numbers, contiguous arrays and tuples of these. It makes no
arrays: scratch arrays are arguments. It may call other compiled loops, ``range``, ``len``, ``min``,
``max``, ``abs``, ``math.log`` and ``math.floor``, convert numbers by ``np.int64`` and similar
types, and draw from a ``numpy.random.Generator`` by ``random`` and ``integers``. Entries of
``float32`` are read as ``float64``. Indices must not be negative; signed and unsigned integers do
not mix. A function with anything else raises an error when it is compiled.

The loops of a group (:mod:`cpplan.runtime.compiled`) are compiled together and stored, for the
arguments of the group's first use; any other loop is compiled at its first call.

A running loop checks nothing: an index beyond an array, or a division by zero, ends the process or
corrupts memory. With ``CPPLAN_CHECK_LOOPS=1`` in the environment, such an index is reported; or run
the function itself (``python``), under NumPy's checks.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from ctypes import c_void_p, cast
from struct import pack, unpack
from typing import Any, NamedTuple

import numpy as np

from cpplan.runtime.loop_cache import ready_libraries
from cpplan.runtime.loop_compiler.kinds import (
    BOOL,
    DRAWER,
    FLOAT,
    INT,
    WORD,
    Code,
    Group,
    Kind,
    LoopError,
    LoopSource,
    Use,
    array_kind,
)

_NUMBERS = {
    bool: BOOL,
    int: INT,
    float: FLOAT,
    np.bool_: BOOL,
    np.int32: INT,
    np.int64: INT,
    np.uint64: WORD,
    np.float64: FLOAT,
}


class _Notes(NamedTuple):
    """Uses of the loops of some modules; the keys of a dictionary, to keep their order."""

    modules: Collection[str]
    uses: dict[Use, None]


# Where a loop runs as Python, the loops that it calls are not noted.
_INSIDE = _Notes((), {})
_notes: ContextVar[_Notes | None] = ContextVar("notes", default=None)


@contextmanager
def noting(modules: Collection[str]) -> Iterator[dict[Use, None]]:
    """Context in which loops run as Python; gives the uses of the loops of some modules.

    A loop that only other loops call has none.
    """
    notes = _Notes(modules, {})
    token = _notes.set(notes)
    try:
        with np.errstate(over="ignore"):
            yield notes.uses
    finally:
        _notes.reset(token)


def is_noting() -> bool:
    """True if loops run as Python, since their uses are noted."""
    return _notes.get() is not None


class CompiledLoop(LoopSource):
    """A function that is compiled for each kind of arguments; other threads run meanwhile."""

    def __init__(self, python: Callable[..., Any]):
        super().__init__(python)
        self._codes: dict[tuple[Kind, ...], Code] = {}
        # The code used last, with the part of the arguments' kinds known without looking into
        # arrays.
        self._last: dict[tuple[object, ...], Code] = {}
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        """Result of the loop; compiles it first if it was never called with such arguments."""
        if is_noting():
            return self._note(arguments)
        key: list[object] = []
        words: list[int] = []
        _flatten(arguments, key, words)
        shape = tuple(key)
        code = self._last.get(shape)
        memory = array("q", words)
        if code is None or not code.run(memory):
            kinds = tuple(map(_kind, arguments))
            with self._lock:
                if kinds not in self._codes:
                    self._codes[kinds] = self._code(kinds)
                code = self._last[shape] = self._codes[kinds]
            if not code.run(memory):
                raise LoopError(f"{self.__name__}: its arguments changed meanwhile")
        return _result(code.returns, iter(memory))

    def _note(self, arguments: tuple[Any, ...]) -> Any:
        """Result of the function itself; its use is noted."""
        notes = _notes.get()
        if notes is None or notes is _INSIDE:
            return self.python(*arguments)
        if self.__module__ in notes.modules:
            notes.uses[Use(self, tuple(map(_kind, arguments)))] = None
        token = _notes.set(_INSIDE)
        try:
            return self.python(*arguments)
        finally:
            _notes.reset(token)

    def _code(self, kinds: tuple[Kind, ...]) -> Code:
        """Machine code for these kinds of arguments: of the loop's group, or compiled now."""
        from cpplan.runtime.loop_compiler.library import load_library, make_library, open_library

        use, path = Use(self, kinds), ready_libraries.get(self.__module__)
        found = None if path is None else open_library(path).get(use.name)
        if found is None:
            own = load_library(make_library([use]))
            assert own is not None
            found = own[use.name]
        return found


def compiled_loop(function: Callable[..., Any]) -> CompiledLoop:
    """Compiled version of a function, which other compiled loops and Python may call."""
    return CompiledLoop(function)


def _flatten(values: tuple[Any, ...], key: list[object], words: list[int]) -> None:
    """Append types of values to ``key``, and the words that hold the values to ``words``."""
    for value in values:
        kind = type(value)
        key.append(kind)
        if kind is np.ndarray:
            words.append(id(value))
        elif kind in _NUMBERS:
            words.append(_word(value, _NUMBERS[kind]))
        elif isinstance(value, tuple):
            kinds = tuple(map(type, value))
            key.append(kinds)
            if kinds.count(np.ndarray) == len(kinds):
                words.extend(map(id, value))
            else:
                _flatten(value, key, words)
        elif kind is np.random.Generator:
            words.extend(_drawer_words(value))
        else:
            raise LoopError(f"compiled loops take no {kind.__name__}")


def _drawer_words(generator: np.random.Generator) -> list[int]:
    """Addresses of a generator's state and functions, in the order of :class:`Drawer`."""
    drawer = generator.bit_generator.ctypes
    functions = drawer.next_uint32, drawer.next_uint64, drawer.next_double
    addresses = [cast(function, c_void_p).value or 0 for function in functions]
    return [int(drawer.state_address), *addresses]


def _word(value: Any, kind: Kind) -> int:
    """The 64 bits of a number, as a signed integer."""
    if kind is INT or kind is BOOL:
        return int(value)
    form, number = ("d", value) if kind is FLOAT else ("Q", int(value))
    word: int = unpack("q", pack(form, number))[0]
    return word


def _kind(value: Any) -> Kind:
    """Kind of an argument."""
    if isinstance(value, np.ndarray):
        if not (value.flags.c_contiguous and value.flags.aligned):
            raise LoopError("compiled loops take contiguous arrays only")
        return array_kind(value.dtype, value.ndim)
    if isinstance(value, np.random.Generator):
        return DRAWER
    if isinstance(value, tuple):
        return Group(tuple(map(_kind, value)), getattr(value, "_fields", ()))
    return _NUMBERS[type(value)]


def _result(kind: Kind, words: Iterator[int]) -> Any:
    """Value of a kind from the words that hold it."""
    if isinstance(kind, Group):
        return tuple(_result(member, words) for member in kind.members) if kind.members else None
    word = next(words)
    if kind is FLOAT:
        return unpack("d", pack("q", word))[0]
    if kind is BOOL:
        return bool(word)
    return unpack("Q", pack("q", word))[0] if kind is WORD else word
