"""The graph of runs: each run of an op, and each copy of a tensor that it writes, by itself.

So what moves tensors between pools need know nothing of ops that run again: in the graph of runs
every op runs once, and a tensor that is computed again is another tensor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Placement
from cpplan.model.tensor import Tensor
from cpplan.program.anf import to_anf
from cpplan.program.copy_names import CopyNames, op_copies, tensor_copies


@dataclass(frozen=True, slots=True)
class RunsGraph:
    """A graph of runs, in the order in which they run.

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

    A run reads the latest copies. What an op writes within a tensor that it reads lies within the
    copy that this run reads.

    Raises
    ------
    InputError
        If the order is none of the graph's, or an op runs again that writes an output, or a part of
        a tensor that it neither reads nor writes as a whole, or that has bodies.

    Examples
    --------
    >>> tensors = Tensor("x", 8, kind="input"), Tensor("t", 8), Tensor("y", 4, kind="output")
    >>> ops = Op("f", inputs=("x",), outputs=("t",)), Op("g", inputs=("t",), outputs=("y",))
    >>> found = graph_of_runs(Graph("g", tensors, ops), ("f", "f", "g"))
    >>> [(op.name, op.inputs, op.outputs) for op in found.graph.ops]
    [('f', ('x',), ('t',)), ('f~1', ('x',), ('t~1',)), ('g', ('t~1',), ('y',))]
    """
    program = to_anf(graph, order)
    if len(program.order) == len(graph.ops):
        ordered = Graph(graph.name, graph.tensors, program.ops)
        return RunsGraph(
            ordered, {named.name: named.name for named in (*graph.ops, *graph.tensors)}
        )
    runs, copies = op_copies(graph), tensor_copies(graph)
    count: Counter[str] = Counter()
    # Tensor -> the name of its latest copy; first run of an op -> its name.
    latest = {tensor.name: tensor.name for tensor in graph.tensors}
    tensors = {tensor.name: tensor for tensor in graph.tensors}
    origin: dict[str, str] = {}
    ops: list[Op] = []
    for op in program.ops:
        number = count[op.name]
        count[op.name] += 1
        inputs = tuple(latest[name] for name in op.inputs)
        if number:
            for made in _copies(graph, op, copies, latest, number):
                tensors[made.name] = made
        name = runs.copy(op.name, number)
        origin[name] = op.name
        read = dict(zip(op.inputs, inputs, strict=True))

        def here(tensor: str, read: dict[str, str] = read) -> str:
            return read.get(tensor, latest[tensor])

        ops.append(
            replace(
                op,
                name=name,
                inputs=inputs,
                outputs=tuple(latest[one] for one in op.outputs),
                workspaces=tuple(latest[one] for one in op.workspaces),
                in_place=tuple((latest[one], here(other)) for one, other in op.in_place),
                placements=tuple(
                    Placement(here(p.part), here(p.whole), p.offset) for p in op.placements
                ),
                axes=(),
            )
        )
        for tensor in (*op.outputs, *op.workspaces):
            origin[latest[tensor]] = tensor
    known = {name: origin.get(name, name) for name in tensors}
    return RunsGraph(Graph(graph.name, tuple(tensors.values()), tuple(ops)), {**origin, **known})


def _copies(
    graph: Graph, op: Op, names: CopyNames, latest: dict[str, str], number: int
) -> list[Tensor]:
    """The tensors that a further run of an op writes; ``latest`` is brought up to date."""
    if op.bodies:
        raise InputError(f"op {op.name!r} runs again, but has bodies")
    written = (*op.outputs, *op.workspaces)
    roots = {graph.root[name][0] for name in op.inputs}
    new = {name: names.copy(name, number) for name in written}
    made = []
    for name in written:
        tensor, (root, at) = graph.tensor[name], graph.root[name]
        if tensor.kind == "output":
            raise InputError(f"op {op.name!r} runs again, but writes output {name!r}")
        base = None
        if root != name:
            if root not in new and root not in roots:
                raise InputError(f"op {op.name!r} runs again, but writes only a part of {root!r}")
            base = (new.get(root) or latest[root], at)
        made.append(replace(tensor, name=new[name], view_of=base))
    latest.update(new)
    return made
