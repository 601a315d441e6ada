"""Turns LLVM instructions into machine code of this machine, and runs it."""

from __future__ import annotations

from ctypes import CFUNCTYPE, c_int32, c_void_p
from functools import cache
from typing import Any

import llvmlite.binding as llvm

# Highest of LLVM's levels of optimisation for speed.
_SPEED = 3
ENTRY = "cpplan_entry"
# Engines of loaded code: code stays in memory as long as its engine.
_engines: list[Any] = []


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


def loaded(code: bytes) -> Any:
    """Function that takes the address of its arguments; other threads run meanwhile.

    The function returns 1 if the arguments are not of its kinds.
    """
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _new_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return CFUNCTYPE(c_int32, c_void_p)(engine.get_function_address(ENTRY))


@cache
def _machine() -> Any:
    return _new_machine()


def _new_machine() -> Any:
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
