"""The methods of a finished program, and checks of their memory plans."""

from __future__ import annotations

from executorch.exir import ExecutorchProgramManager
from torch.fx import GraphModule

from cpplan.io.executorch.problem import check_module
from cpplan.io.executorch.specs import planned_specs
from cpplan.io.executorch.values import call_verifier
from cpplan.model.errors import InputError


def module_of(program: ExecutorchProgramManager, method: str) -> GraphModule:
    """The graph module of a method.

    Raises
    ------
    InputError
        If there is no method of this name; lists the methods, or names what was expected.
    """
    if not isinstance(program, ExecutorchProgramManager):
        raise InputError(
            f"expected an ExecutorchProgramManager, as to_executorch returns, not a "
            f"{type(program).__name__}"
        )
    if method not in program.methods:
        known = ", ".join(sorted(map(repr, program.methods))) or "none"
        raise InputError(f"the program has no method {method!r}: it has {known}")
    return program.exported_program(method).graph_module


def verify_methods(program: ExecutorchProgramManager, executorch_verifier: bool) -> None:
    """See :func:`cpplan.io.executorch.verify_program`."""
    for method in sorted(program.methods):
        module = module_of(program, method)
        check_module(module, method)
        if executorch_verifier:
            signature = program.exported_program(method).graph_signature
            call_verifier(module, signature, planned_specs(module), ends=True)
