"""A compiler for loops over numbers and arrays; see :mod:`cpplan.runtime.loop_compiler.loop`."""

from cpplan.runtime.loop_compiler.loop import CompiledLoop, compiled_loop

__all__ = ["CompiledLoop", "compiled_loop"]
