"""ExecuTorch: memory plans by cpplan for the programs that it runs, and its own as rivals.

The other modules of this package import ``executorch`` when they are imported; this one only when a
function is called. See :func:`algorithm` for the layout alone, :func:`planning_pass` for the order
of the operators and for results that are written over arguments too, :func:`read_program` for
the plan of a program that there is already, and :func:`verify_program` to check one.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cpplan.errors import MissingExtraError
from cpplan.problem import Problem

if TYPE_CHECKING:
    from executorch.exir import ExecutorchProgramManager

    from cpplan.io.executorch.ordering_pass import PlanningPass
    from cpplan.io.executorch.planner import Algorithm

__all__ = ["algorithm", "planning_pass", "read_program", "verify_program"]


def algorithm(
    *,
    time_limit: float = 10.0,
    capacities: Mapping[int, int | str] | None = None,
    **options: Any,
) -> Algorithm:
    """A memory planning algorithm for ExecuTorch's ``MemoryPlanningPass``.

    It places what the pass asks for: tensors by their lifetimes, those with a ``storage_base``
    within it, and the memory of control-flow submodules as one block for as long as it is needed.
    Every layout is checked twice, by :func:`cpplan.verify` and by ExecuTorch's ``Verifier``.

    Parameters
    ----------
    time_limit
        Seconds for each graph module; an easy one takes milliseconds.
    capacities
        Memory id -> bytes that it has (``262144`` or ``"256 KiB"``). Tensors lie in the memory that
        their spec asks for, 1 if it asks for none.
    options
        For :func:`cpplan.solve`: ``workers``, ``seed``, ``deterministic``, ….

    Raises
    ------
    MissingExtraError
        If the package ``executorch`` is missing.
    InputError
        When it is called: if a spec contradicts itself.
    InfeasibleError
        When it is called: if no layout within the capacities was found.

    Examples
    --------
    >>> import torch
    >>> from executorch.exir import ExecutorchBackendConfig, to_edge
    >>> from executorch.exir.passes import MemoryPlanningPass
    >>> edge = to_edge(torch.export.export(torch.nn.ReLU(), (torch.ones(8),)))
    >>> planning = MemoryPlanningPass(memory_planning_algo=algorithm(time_limit=5))
    >>> program = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
    >>> program.exported_program().graph_module.meta["non_const_buffer_sizes"]
    [0, 64]
    """
    _need_executorch("planning for ExecuTorch")
    from cpplan.io.executorch.planner import Algorithm

    return Algorithm(time_limit, capacities or {}, options)


def planning_pass(
    *,
    time_limit: float = 10.0,
    order: str = "search",
    in_place: bool = True,
    capacities: Mapping[int, int | str] | None = None,
    passing: Mapping[str, Any] | None = None,
    **options: Any,
) -> PlanningPass:
    """A ``MemoryPlanningPass`` that moves the nodes and shares storage before it plans memory.

    Results that a kernel may write over an argument get that argument's spec as ``storage_base``,
    ExecuTorch's own field for it; which kernels may, :mod:`cpplan.io.executorch.in_place` says.
    Nothing is written over inputs, mutable buffers or constants. Submodules of control flow, and a
    module with control flow in it, keep their order.

    Parameters
    ----------
    time_limit
        Seconds for the order of each method, and as many for its layout.
    order
        ``"search"``, or ``"given"`` to keep it.
    in_place
        Whether results may be written over arguments.
    capacities, options
        As for :func:`algorithm`.
    passing
        Options of ``MemoryPlanningPass``: ``alloc_graph_input``, ``alignment``, ….

    Raises
    ------
    MissingExtraError
        If the package ``executorch`` is missing.

    Examples
    --------
    >>> import torch
    >>> from executorch.exir import ExecutorchBackendConfig, to_edge
    >>> net = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sigmoid(), torch.nn.Tanh())
    >>> edge = to_edge(torch.export.export(net, (torch.ones(8),)))
    >>> config = ExecutorchBackendConfig(memory_planning_pass=planning_pass(time_limit=5))
    >>> program = edge.to_executorch(config)
    >>> program.exported_program().graph_module.meta["non_const_buffer_sizes"]
    [0, 64]
    """
    _need_executorch("planning for ExecuTorch")
    from cpplan.io.executorch.ordering_pass import PlanningPass

    return PlanningPass(
        algorithm(time_limit=time_limit, capacities=capacities, **options),
        time_limit=time_limit,
        order=order,
        in_place=in_place,
        solving=options,
        **(passing or {}),
    )


def read_program(program: ExecutorchProgramManager, method: str = "forward") -> Problem:
    """What a program places where, whoever planned it: a problem, with that plan as an answer.

    Parameters
    ----------
    program
        As ``to_executorch`` made it.
    method
        Which of its methods.

    Raises
    ------
    InputError
        If there is no such method.
    MissingExtraError
        If the package ``executorch`` is missing.

    Examples
    --------
    >>> import torch
    >>> from executorch.exir import to_edge
    >>> edge = to_edge(torch.export.export(torch.nn.ReLU(), (torch.ones(8),)))
    >>> problem = read_program(edge.to_executorch())
    >>> problem.size.tolist(), [(answer.name, answer.peak) for answer in problem.answers]
    ([32, 32], [('executorch', 64)])
    """
    _need_executorch("reading ExecuTorch programs")
    from cpplan.io.executorch.problem import read_module
    from cpplan.io.executorch.programs import module_of

    return read_module(module_of(program, method), method)


def verify_program(program: ExecutorchProgramManager) -> None:
    """Check the memory plan of every method: by our rules, then by ExecuTorch's ``Verifier``.

    Raises
    ------
    VerificationError
        If two tensors share bytes while both are needed, or one leaves its memory; names them.
    MissingExtraError
        If the package ``executorch`` is missing.

    Examples
    --------
    >>> import torch
    >>> from cpplan.errors import VerificationError
    >>> from executorch.exir import to_edge
    >>> edge = to_edge(torch.export.export(torch.nn.ReLU(), (torch.ones(8),)))
    >>> program = edge.to_executorch()
    >>> verify_program(program)
    >>> given, *_, result, _ = program.exported_program().graph_module.graph.nodes
    >>> result.meta["spec"].mem_offset = given.meta["spec"].mem_offset
    >>> try:
    ...     verify_program(program)
    ... except VerificationError as error:
    ...     print(str(error).split(": ", 1)[1])
    buffers 'input_1' and 'aten_relu_default' overlap at step 1: bytes 32..64 and 32..64
    """
    _need_executorch("checking ExecuTorch programs")
    from cpplan.io.executorch.programs import verify_methods

    verify_methods(program)


def _need_executorch(purpose: str) -> None:
    if find_spec("executorch") is None:
        raise MissingExtraError("executorch", "executorch", purpose)
