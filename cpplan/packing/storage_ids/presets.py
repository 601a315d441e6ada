"""Storage assignments made like compilers' passes, each named after its pass."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.packing.storage_ids.assignment import StorageAssignment, make_assignment
from cpplan.packing.storage_ids.checker import check_assignment
from cpplan.packing.storage_ids.groups import GroupBy, as_labels, group_keys
from cpplan.packing.storage_ids.tokens import MATCH_RANGE, storage_tokens
from cpplan.packing.storage_ids.unbounded import assign_apart
from cpplan.program.anf import Program, to_anf
from cpplan.program.copy_names import instances, tensor_copies
from cpplan.program.liveness import to_problem
from cpplan.runtime.deadline import Deadline


def relax_static_plan(
    source: Graph | Program,
    *,
    group_by: GroupBy = "dtype",
    match_range: int = MATCH_RANGE,
    outputs: str = "outside",
) -> StorageAssignment:
    """The storages of TVM Relax's ``StaticPlanBlockMemory``.

    Storage tokens within each dtype; a buffer without a size bound shares only with buffers of
    provably equal size. Buffers that leave their block are not planned and are missing from the
    result: inputs and outputs of the graph, and all buffers that an op with bodies accesses. The
    bodies are separate blocks, and are planned.

    Parameters
    ----------
    source
        A graph or a program; every planned tensor needs a dtype, or a group in ``group_by``.
    group_by
        As in ``share_storages``; a mapping can add the scope to the dtype.
    match_range
        See ``storage_tokens``.
    outputs
        ``"keep"`` gives the results of the graph separate storages, as with Relax's
        ``memory_plan_dynamic_func_output``.

    Raises
    ------
    InputError
        If the source is a bare problem, or a buffer has no group; the message names it.

    Examples
    --------
    >>> from cpplan.model.graph import Op, Tensor
    >>> f32 = {"shape": (8,), "dtype": "float32"}
    >>> graph = Graph(
    ...     "chain",
    ...     (
    ...         Tensor("x", kind="input", **f32),
    ...         Tensor("y", **f32),
    ...         Tensor("z", kind="output", **f32),
    ...     ),
    ...     (Op("f", inputs=("x",), outputs=("y",)), Op("g", inputs=("y",), outputs=("z",))),
    ... )
    >>> relax_static_plan(graph).buffers
    ('y',)
    """
    program = to_anf(source) if isinstance(source, Graph) else source
    if not isinstance(program, Program):
        raise InputError(f"expected a Graph or a Program, not {type(source).__name__}")
    if not isinstance(match_range, int) or match_range < 0:
        raise InputError(f"match_range must be a non-negative integer, not {match_range!r}")
    problem = to_problem(program, Residency(inputs="outside", outputs=outputs))
    leaving = _leave_their_block(program)
    copies = tensor_copies(program.graph)
    rows = [row for row, name in enumerate(problem.names) if copies.split(name)[0] not in leaving]
    problem = problem.subset(np.array(rows, np.int64))

    returned = {t.name for t in program.graph.tensors if t.kind == "output"}
    returned = {program.graph.root[name][0] for name in returned}

    def assign(bounded: Problem, keys: Sequence[str] | None) -> StorageAssignment:
        apart = zip(keys or (), bounded.names, strict=True)
        labels = as_labels([key + f"/{n}" * (n in returned) for key, n in apart], len(bounded))
        storage = storage_tokens(bounded, labels, Deadline(math.inf), match_range=match_range)
        found = make_assignment(bounded, storage, keys, found_by="relax_static_plan")
        check_assignment(bounded, found, keys)
        return found

    return assign_apart(program, problem, group_keys(program, problem, group_by), assign, returned)


def _leave_their_block(program: Program) -> set[str]:
    """Names of buffers that an op with bodies accesses, or that a body hands in or out."""
    names: set[str] = set()
    for prefix, inner in instances(program):
        graph = inner.graph
        accessed = [name for op in graph.ops if op.bodies for name in op.tensors]
        if prefix:
            accessed += [t.name for t in graph.tensors if t.kind in ("input", "output")]
        names.update(prefix + graph.root[name][0] for name in accessed)
    return names
