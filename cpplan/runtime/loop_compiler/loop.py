"""Compiled loops: functions of numbers and arrays that run as machine code.

Such a function is plain Python over numbers, contiguous arrays and tuples of these. It makes no
arrays: scratch arrays are arguments. It may call other compiled loops, ``range``, ``len``, ``min``,
``max``, ``abs``, ``math.log`` and ``math.floor``, convert numbers by ``np.int64`` and similar
types, and draw from a ``numpy.random.Generator`` by ``random`` and ``integers``. Entries of
``float32`` are read as ``float64``. Indices must not be negative; signed and unsigned integers do
not mix. A function with anything else raises an error when it is compiled: at the first call with
arguments of these kinds. The code is then stored.

A running loop checks nothing: an index beyond an array, or a division by zero, ends the process or
corrupts memory. With ``CPPLAN_CHECK_LOOPS=1`` in the environment, such an index is reported; or run
the function itself (``python``), under NumPy's checks.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
import threading
from array import array
from collections.abc import Callable, Iterator
from ctypes import c_void_p, cast
from functools import cache
from hashlib import sha256
from pathlib import Path
from struct import pack, unpack
from typing import Any, NamedTuple

import numpy as np

from cpplan.runtime.atomic import write_bytes
from cpplan.runtime.loop_cache import code_folder, machine
from cpplan.runtime.loop_compiler.kinds import (
    BOOL,
    DRAWER,
    FLOAT,
    INT,
    WORD,
    Group,
    Kind,
    LoopError,
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
# Bytes of the checksum that stored code begins with.
_CHECKSUM = 64
# Letters by which the kind of a result is written before stored code.
_LETTERS = {"b": BOOL, "i": INT, "w": WORD, "f": FLOAT}


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


class CompiledLoop:
    """A function that is compiled for each kind of arguments; other threads run meanwhile.

    ``python`` is the function itself.

    Examples
    --------
    >>> @compiled_loop
    ... def total(numbers):
    ...     found = 0
    ...     for number in numbers:
    ...         found += number
    ...     return found
    >>> int(total.python(np.arange(4)))
    6
    """

    def __init__(self, python: Callable[..., Any]):
        self.python = self.__wrapped__ = python
        self.__name__, self.__doc__ = python.__name__, python.__doc__
        self.__module__ = python.__module__
        self.file, self.first_line = python.__code__.co_filename, python.__code__.co_firstlineno
        self._codes: dict[tuple[Kind, ...], Code] = {}
        # The code used last, with the part of the arguments' kinds known without looking into
        # arrays.
        self._last: dict[tuple[object, ...], Code] = {}
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        """Result of the loop; compiles it first if it was never called with such arguments."""
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

    @property
    def folder(self) -> Path:
        """Folder in which its code is stored."""
        return code_folder(Path(self.file))

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

    def _code(self, kinds: tuple[Kind, ...]) -> Code:
        """Machine code for these kinds of arguments, from the store or compiled now."""
        from cpplan.runtime.loop_compiler import machine_code

        stored = self.folder / f"{Path(self.file).stem}.{self.__name__}-{self._digest(kinds)}.loop"
        found = _read(stored)
        if found is None:
            from cpplan.runtime.loop_compiler.module import module_text

            text, returns = module_text(self, kinds)
            found = returns, machine_code.assembled(text)
            stored.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(stored, _written(*found))
        returns, code = found
        return Code(machine_code.loaded(code), returns, _count(returns))

    def _digest(self, kinds: tuple[Kind, ...]) -> str:
        """Digest that names the code: of all source that it is made from, and of the machine."""
        digest = sha256((repr(kinds) + machine()).encode())
        digest.update(_compiler_source())
        for file, constants in sorted(_sources(self, {}).items()):
            digest.update(Path(file).read_bytes() + constants.encode())
        return digest.hexdigest()[:16]


def compiled_loop(function: Callable[..., Any]) -> CompiledLoop:
    """Compiled version of a function, which other compiled loops and Python may call."""
    return CompiledLoop(function)


def _sources(loop: CompiledLoop, found: dict[str, str]) -> dict[str, str]:
    """Files of a loop and of all loops that it may call, each with the constants that it knows."""
    if loop.file not in found:
        names = loop.python.__globals__
        numbers = {k: v for k, v in names.items() if type(v) in _NUMBERS}
        found[loop.file] = repr(sorted(numbers.items()))
        for value in names.values():
            if isinstance(value, CompiledLoop):
                _sources(value, found)
    return found


@cache
def _compiler_source() -> bytes:
    return b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))


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


def _count(kind: Kind) -> int:
    """Number of words that hold a result."""
    return sum(map(_count, kind.members)) if isinstance(kind, Group) else 1


def _written(returns: Kind, code: bytes) -> bytes:
    """Stored form of code: a line with its checksum and the kind of its result, and the code."""
    kept = _written_kind(returns).encode() + b"\n" + code
    return sha256(kept).hexdigest().encode() + kept


def _read(stored: Path) -> tuple[Kind, bytes] | None:
    """Stored code and the kind of its result; ``None`` if the file is missing or incomplete."""
    try:
        checksum, kept = (whole := stored.read_bytes())[:_CHECKSUM], whole[_CHECKSUM:]
    except FileNotFoundError:
        return None
    if sha256(kept).hexdigest().encode() != checksum:
        return None
    returned, _, code = kept.partition(b"\n")
    letters = iter(returned.decode())
    return _read_kind(next(letters), letters), code


def _written_kind(kind: Kind) -> str:
    if isinstance(kind, Group):
        return f"({''.join(map(_written_kind, kind.members))})"
    return next(letter for letter, number in _LETTERS.items() if number is kind)


def _read_kind(letter: str, letters: Iterator[str]) -> Kind:
    if letter != "(":
        return _LETTERS[letter]
    members = []
    while (following := next(letters)) != ")":
        members.append(_read_kind(following, letters))
    return Group(tuple(members))
