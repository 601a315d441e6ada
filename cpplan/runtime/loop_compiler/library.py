"""Machine code of loops that are compiled together: what several of them call is compiled once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from ctypes import CFUNCTYPE, c_int32, c_void_p
from functools import cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from cpplan.runtime.loop_compiler.kinds import BOOL, FLOAT, INT, WORD, Code, Group, Kind, Use
from cpplan.runtime.loop_compiler.module import entry_name, module_text

# Highest of LLVM's levels of optimisation for speed.
_SPEED = 3
# Code stays in memory as long as the tracker of its library.
_trackers: list[Any] = []
_numbers = count()

# Name of a kind in the table of results; a tuple is a list of its members' names.
_RESULTS = {kind.name: kind for kind in (BOOL, INT, WORD, FLOAT)}
# Bytes of the checksum that a library begins with.
_CHECKSUM = 64


Library = dict[str, Code]


def make_library(uses: Sequence[Use]) -> bytes:
    """Library of loops for the kinds of arguments that they are used with.

    It is a checksum, a line with the loops and the kinds of their results, and object code.
    """
    text, results = module_text(uses)
    names = [use.name for use in uses]
    table = json.dumps(dict(zip(names, map(_written, results), strict=True)))
    kept = table.encode() + b"\n" + assembled(text)
    return sha256(kept).hexdigest().encode() + kept


@cache
def open_library(path: Path) -> Library:
    """The library in a file, loaded once; a missing or damaged one is empty, and deleted."""
    library = load_library(path.read_bytes()) if path.exists() else None
    if library is None:
        path.unlink(missing_ok=True)
    return library or {}


def load_library(data: bytes) -> Library | None:
    """Name of each use in a library -> its code; ``None`` if the library is damaged."""
    checksum, kept = data[:_CHECKSUM], data[_CHECKSUM:]
    if sha256(kept).hexdigest().encode() != checksum:
        return None
    table, _, code = kept.partition(b"\n")
    results = {name: _read(written) for name, written in json.loads(table).items()}
    names = [entry_name(k) for k in range(len(results))]
    pairs = zip(results.items(), loaded(code, names), strict=True)
    return {name: Code(entry, returns, _count(returns)) for (name, returns), entry in pairs}


def _written(kind: Kind) -> object:
    if isinstance(kind, Group):
        return [_written(member) for member in kind.members]
    return next(name for name, number in _RESULTS.items() if number is kind)


def _read(written: object) -> Kind:
    if isinstance(written, list):
        return Group(tuple(map(_read, written)))
    return _RESULTS[str(written)]


def _count(kind: Kind) -> int:
    """Number of words that hold a result."""
    return sum(map(_count, kind.members)) if isinstance(kind, Group) else 1


def assembled(text: str) -> bytes:
    """Object code of LLVM instructions."""
    machine = _machine()
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=_SPEED)
    options.loop_vectorization = options.slp_vectorization = True
    # Most loops of the searches end after a few turns: unrolled, they take longer to compile, and
    # run no faster.
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def loaded(code: bytes, names: Sequence[str]) -> list[Any]:
    """Functions of object code, by their names; other threads run meanwhile.

    A function takes the address of its arguments, and returns 1 if they are not of its kinds.
    """
    library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for name in names:
        library.export_symbol(name)
    tracker = library.link(_linker(), f"loops{next(_numbers)}")
    _trackers.append(tracker)
    return [CFUNCTYPE(c_int32, c_void_p)(tracker[name]) for name in names]


@cache
def _linker() -> Any:
    return llvm.create_lljit_compiler(_machine())


@cache
def _machine() -> Any:
    if hasattr(llvm, "initialize") and llvm.llvm_version_info[0] < 20:
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=features,
        opt=_SPEED,
        jit=True,
        codemodel="jitdefault",
    )
