"""ExecuTorch: memory plans of cpplan for its programs, and its own plans for comparison.

The other modules of this package import ``executorch`` when they are imported; this module only
when a function is called. See :func:`algorithm` for the layout alone, :func:`planning_pass` for the
order of the operators and in-place results as well, :func:`fold_constants` for tensors that need
not be in the arena, :func:`read_program` for the plan of an existing program, and
:func:`verify_program` to check one.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cpplan.model.errors import MissingExtraError
from cpplan.model.problem import Problem

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager, ExecutorchProgramManager
    from executorch.exir.banked_memory_planning import TargetMemoryMap

    from cpplan.io.executorch.planner import Algorithm, PlanningPass

__all__ = ["algorithm", "fold_constants", "planning_pass", "read_program", "verify_program"]


def algorithm(
    *,
    time_limit: float = 10.0,
    capacities: Mapping[int, int | str] | None = None,
    memory_map: TargetMemoryMap | None = None,
    executorch_verifier: bool = False,
    **options: Any,
) -> Algorithm:
    """A memory planning algorithm for ExecuTorch's ``MemoryPlanningPass``.

    It places tensors by their lifetimes, a tensor with a ``storage_base`` within that base, and the
    memory of control-flow submodules as one block for as long as it is needed. If a program returns
    a mutable buffer, the result lies in the buffer. Every layout is checked twice in O(n log n):
    the plan by :func:`cpplan.verify`, then the specs to which it was written.

    Parameters
    ----------
    time_limit
        Seconds for each graph module; an easy one takes milliseconds.
    capacities
        Memory id -> bytes that it has (``262144`` or ``"256 KiB"``). Tensors lie in the memory that
        their spec asks for, by default in memory 1.
    memory_map
        ExecuTorch's ``TargetMemoryMap``, instead of capacities. Tensors whose spec asks for no
        memory may lie in any of its banks; the first banks are filled first, as in
        ``banked_greedy``. Other tensors lie in the memory that their spec asks for. Needs
        ``executorch.exir.banked_memory_planning``.
    executorch_verifier
        True if ExecuTorch's ``Verifier`` checks the layout too; it compares all pairs, which takes
        minutes for thousands of tensors.
    options
        Options of :func:`cpplan.solve`: ``workers``, ``seed``, ``deterministic``, ….

    Raises
    ------
    MissingExtraError
        If the package ``executorch`` is missing.
    InputError
        When the algorithm is called: if a spec contradicts itself.
    InfeasibleError
        When the algorithm is called: if no layout within the capacities was found.

    Notes
    -----
    Results that depend on constants alone (the transposed weights of linear layers) are copied into
    the arena in each run unless :func:`fold_constants` has computed them before; if there are any,
    a warning is logged.

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

    return Algorithm(time_limit, capacities or {}, memory_map, executorch_verifier, options)


def planning_pass(
    *,
    time_limit: float = 10.0,
    order: str = "search",
    in_place: bool = True,
    capacities: Mapping[int, int | str] | None = None,
    memory_map: TargetMemoryMap | None = None,
    executorch_verifier: bool = False,
    passing: Mapping[str, Any] | None = None,
    **options: Any,
) -> PlanningPass:
    """A ``MemoryPlanningPass`` that moves the nodes and shares storage before it plans memory.

    If a kernel may write a result over an argument (see :mod:`cpplan.io.executorch.graph`), the
    result gets the argument's spec as its ``storage_base``, ExecuTorch's own field for this. No
    result is written over inputs, mutable buffers or constants. Submodules of control flow, and a
    module with control flow, keep their order.

    Parameters
    ----------
    time_limit
        Seconds for the order of each method, and as many again for its layout.
    order
        ``"search"`` to search the order, or ``"given"`` to keep it.
    in_place
        True if results may be written over arguments.
    capacities, memory_map, executorch_verifier, options
        As in :func:`algorithm`.
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
    from cpplan.io.executorch.planner import PlanningPass

    return PlanningPass(
        algorithm(
            time_limit=time_limit,
            capacities=capacities,
            memory_map=memory_map,
            executorch_verifier=executorch_verifier,
            **options,
        ),
        time_limit=time_limit,
        order=order,
        in_place=in_place,
        solving=options,
        **(passing or {}),
    )


def fold_constants(edge: EdgeProgramManager) -> EdgeProgramManager:
    """The program with all results that depend only on its weights computed in advance.

    ``to_edge`` writes a linear layer as a product with the transposed weights, and ExecuTorch
    transposes them into the arena in each run: in many models these take more bytes than all
    activations. This function calls ExecuTorch's ``constant_prop_pass``, which skips submodules of
    control flow and quantization; the given program is not changed.

    Parameters
    ----------
    edge
        Program made by ``to_edge`` or ``to_edge_transform_and_lower``.

    Raises
    ------
    InputError
        If it is not such a program.
    MissingExtraError
        If the package ``executorch`` is missing.

    Examples
    --------
    >>> import torch
    >>> from executorch.exir import to_edge
    >>> edge = to_edge(torch.export.export(torch.nn.Linear(64, 8), (torch.ones(1, 64),)))
    >>> for program in edge, fold_constants(edge):
    ...     module = program.to_executorch().exported_program().graph_module
    ...     print(module.meta["non_const_buffer_sizes"])
    [0, 2336]
    [0, 288]
    """
    _need_executorch("folding constants for ExecuTorch")
    from cpplan.io.executorch.graph import fold

    return fold(edge)


def read_program(
    program: ExecutorchProgramManager,
    method: str = "forward",
    *,
    memory_map: TargetMemoryMap | None = None,
    rivals: bool = False,
) -> Problem:
    """The packing problem of a program, with the plan that it carries as an answer.

    It is meant for :func:`cpplan.compare`, in which the interval first fit proposed for ExecuTorch
    is the heuristic ``first_fit_by_size``.

    Parameters
    ----------
    program
        Program made by ``to_executorch``.
    method
        Name of one of its methods.
    memory_map
        A ``TargetMemoryMap`` whose banks become pools: a tensor in one bank may go to any bank.
        Pass ``objective="preference"`` to ``solve`` and ``compare`` to fill the first banks first.
    rivals
        True to add the layout of ExecuTorch's ``greedy``, or of ``banked_greedy`` with a memory
        map, as an answer, if it finds room.

    Raises
    ------
    InputError
        If the program has no such method.
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

    return read_module(module_of(program, method), method, memory_map, rivals)


def verify_program(program: ExecutorchProgramManager, *, executorch_verifier: bool = False) -> None:
    """Check the memory plan of every method of a program, made by any planner.

    The nodes are replayed in their order: each must find the bytes that it reads unchanged since
    they were written. This includes tensors that share a storage on purpose, which ExecuTorch's
    ``Verifier`` skips.

    Parameters
    ----------
    program
        Program made by ``to_executorch``.
    executorch_verifier
        True to call ExecuTorch's ``Verifier`` too.

    Raises
    ------
    VerificationError
        If two tensors share bytes while both are needed, a tensor exceeds its memory, or a node
        reads bytes that another node has overwritten; names them.
    MissingExtraError
        If the package ``executorch`` is missing.

    Examples
    --------
    >>> import torch
    >>> from cpplan.model.errors import VerificationError
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

    verify_methods(program, executorch_verifier)


def _need_executorch(purpose: str) -> None:
    if find_spec("executorch") is None:
        raise MissingExtraError("executorch", "executorch", purpose)
