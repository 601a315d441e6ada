"""The graph of runs: an op for each run of an op, a tensor for each copy that it writes.

In the graph of runs every op runs once, and a tensor that is computed again is another tensor. So
code that moves tensors between pools need not know about recomputation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Placement
from cpplan.model.tensor import Tensor
from cpplan.program.anf import to_anf
from cpplan.program.copy_names import CopyNames, op_copies, tensor_copies


@dataclass(frozen=True, slots=True)
class RunsGraph:
    """A graph of runs, which lists the runs in order.

    Attributes
    ----------
    graph
        Its ops are runs: ``f``, ``f~1``, … of op ``f``.
    origin
        Run -> op, and copy of a tensor -> the tensor.
    """

    graph: Graph
    origin: dict[str, str]


def graph_of_runs(graph: Graph, order: Sequence[str]) -> RunsGraph:
    """The graph of the runs of an order, which repeats the names of ops that run again.

    A run reads the latest copies. If an op writes within a tensor that it reads, its run writes
    within the copy that it reads. If a graph output is computed again, its last copy has the
    output's name.

    Raises
    ------
    InputError
        If this is not an order of the graph; or if an op that runs again has bodies, or writes a
        part of a tensor that it neither reads nor writes as a whole.
    """
    program = to_anf(graph, order)
    if len(program.order) == len(graph.ops):
        ordered = Graph(graph.name, graph.tensors, program.ops)
        same = [op.name for op in graph.ops] + [tensor.name for tensor in graph.tensors]
        return RunsGraph(ordered, dict(zip(same, same, strict=True)))
    names, copies = op_copies(graph), tensor_copies(graph)
    total, count = Counter(program.names), Counter[str]()
    # Tensor -> the name of its latest copy.
    latest = {tensor.name: tensor.name for tensor in graph.tensors}
    tensors = {tensor.name: tensor for tensor in graph.tensors}
    origin = {name: name for name in latest}
    ops: list[Op] = []
    for op in program.ops:
        number = count[op.name]
        count[op.name] += 1
        read = {name: latest[name] for name in op.inputs}
        for made in _copies(graph, op, copies, latest, number, total[op.name]):
            tensors[made.name] = made
        name = names.copy(op.name, number)
        origin[name] = op.name
        origin |= {latest[written]: written for written in (*op.outputs, *op.workspaces)}
        ops.append(_run(op, name, read, latest))
    return RunsGraph(Graph(graph.name, tuple(tensors.values()), tuple(ops)), origin)


def _run(op: Op, name: str, read: Mapping[str, str], latest: Mapping[str, str]) -> Op:
    """A run of an op, which reads some copies and writes the latest ones."""

    def here(tensor: str) -> str:
        return read.get(tensor, latest[tensor])

    return replace(
        op,
        name=name,
        inputs=tuple(read[one] for one in op.inputs),
        outputs=tuple(latest[one] for one in op.outputs),
        workspaces=tuple(latest[one] for one in op.workspaces),
        in_place=tuple((latest[one], here(other)) for one, other in op.in_place),
        placements=tuple(Placement(here(p.part), here(p.whole), p.offset) for p in op.placements),
        axes=(),
    )


def _copies(
    graph: Graph, op: Op, names: CopyNames, latest: dict[str, str], number: int, total: int
) -> list[Tensor]:
    """The tensors that a run of an op writes; updates ``latest``."""
    if op.bodies and total > 1:
        raise InputError(f"op {op.name!r} runs again, but has bodies")
    written = [graph.tensor[name] for name in (*op.outputs, *op.workspaces)]
    roots = {graph.root[name][0] for name in op.inputs}
    ends = number + 1 == total
    # The caller finds an output under its own name, so its last copy gets that name.
    new = {
        t.name: names.copy(t.name, (number + 1) % total if t.kind == "output" else number)
        for t in written
    }
    made = []
    for tensor in written:
        (root, at), base = graph.root[tensor.name], tensor.view_of
        if root != tensor.name and (root in new or root in roots):
            base = (new.get(root) or latest[root], at)
        elif root != tensor.name and total > 1:
            raise InputError(f"op {op.name!r} runs again, but writes only a part of {root!r}")
        kind = "intermediate" if tensor.kind == "output" and not ends else tensor.kind
        made.append(replace(tensor, name=new[tensor.name], view_of=base, kind=kind))
    latest.update(new)
    return made
