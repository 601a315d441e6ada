"""Turns LLVM instructions into machine code of this machine, and runs it."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CFUNCTYPE, c_int32, c_void_p
from functools import cache
from itertools import count
from typing import Any

import llvmlite.binding as llvm

# Highest of LLVM's levels of optimisation for speed.
_SPEED = 3
# Code stays in memory as long as the tracker of its library.
_trackers: list[Any] = []
_numbers = count()


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
