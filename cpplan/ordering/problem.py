"""The ordering problem: an order of the ops with the fewest bytes live at once.

The bytes live after a set of ops has run depend on that set alone, not on the order within it. A
*storage* (a tensor with its views) is allocated when the first op that accesses it runs, and freed
when the last one has run; inputs are there from the start, outputs stay to the end. While an op
runs, every storage it accesses is live, and so are its workspaces and the tensors of its bodies.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.order_problem import OrderProblem
from cpplan.model.residency import Residency
from cpplan.model.tensor import LIMIT
from cpplan.program.anf import Program, to_anf
from cpplan.program.liveness import outside_kinds, to_problem


def order_problem(
    program: Program | Graph, residency: Residency | None = None, *, apart: bool = False
) -> OrderProblem:
    """The ordering problem of a graph; a program must bind every op once. O(ops + tensors).

    Parameters
    ----------
    program
        A graph, or a program of it.
    residency
        Inputs, outputs and constants that the arena holds.
    apart
        List each storage that no op accesses, instead of only adding it to ``base`` or ``entry``:
        for models that place them.
    """
    residency = residency or Residency()
    graph = program.graph if isinstance(program, Program) else program
    columns, ops = graph.columns, len(graph.ops)
    inside = columns.storage.copy()
    inside[columns.root[columns.are(outside_kinds(residency))]] = False
    stays = {"output", "constant"} | ({"input"} if residency.inputs == "keep" else set())
    kept = np.zeros(len(inside), bool)
    kept[columns.root[columns.are(stays)]] = True
    lists = columns.read, columns.written
    accesses = np.concatenate([columns.root[some.item] * ops + some.owner for some in lists])
    # Every storage with the ops that access it.
    roots, accessing = np.divmod(np.unique(accesses), max(1, ops))
    counts = np.bincount(roots, minlength=len(inside))
    ends = np.cumsum(counts).tolist()
    begins = [0, *ends]
    made = np.zeros(len(inside), bool)
    made[columns.outputs.item] = True
    brought = ~made & ~columns.are({"workspace"})
    size = columns.size
    if size[inside].sum(dtype=np.float64) > LIMIT / 2 and sum(size[inside].tolist()) > LIMIT:
        raise InputError("sizes add up to more than 2**62 bytes")
    listed = inside & (size > 0) & ((counts > 0) | (brought if apart else False))
    rows, by_root = np.flatnonzero(listed), accessing.tolist()
    base = _constants_in_bodies(graph) if residency.constants == "keep" else 0
    rest = inside & ~listed
    base += sum(size[rest & kept].tolist())
    return OrderProblem(
        predecessors=graph.predecessors,
        extra=np.array([_bytes_in_bodies(op, graph, residency) for op in graph.ops], np.int64),
        size=size[rows],
        accessed_by=tuple([tuple(by_root[begins[k] : ends[k]]) for k in rows.tolist()]),
        present=brought[rows],
        kept=kept[rows],
        base=base,
        entry=sum(size[rest & ~kept].tolist()),
        names=tuple(op.name for op in graph.ops),
        storages=tuple([columns.names[k] for k in rows.tolist()]),
    )


def _bytes_in_bodies(op: Op, graph: Graph, residency: Residency) -> int:
    """The most bytes that buffers of an op's bodies hold at once, without their constants.

    They are counted in a graph of this op and its own tensors: all other buffers of that graph
    belong to the bodies.
    """
    if not op.bodies:
        return 0
    kinds = dict.fromkeys(op.inputs, "input")
    kinds |= dict.fromkeys(op.outputs, "intermediate")
    kinds |= dict.fromkeys(op.workspaces, "workspace")
    tensors = tuple(Tensor(name, graph.tensor[name].nbytes, kind=k) for name, k in kinds.items())
    bodies = op.bodies
    if graph.symbols is not None:
        from cpplan.symbolic.planning import at_bounds

        bodies = tuple(map(at_bounds, bodies))
    op = replace(op, after=(), sequence=None, in_place=(), bodies=bodies)
    alone = Graph(op.name, tensors, (op,))
    buffers = to_problem(to_anf(alone), replace(residency, constants="outside"))
    inside = [row for row, name in enumerate(buffers.names) if name not in kinds]
    return int(buffers.subset(np.array(inside, np.int64)).live_bytes().max(initial=0))


def _constants_in_bodies(graph: Graph) -> int:
    """Bytes of the constants that bodies use, live throughout where constants are kept."""
    total = 0
    for op in graph.ops:
        for body in op.bodies:
            used = {body.root[name][0] for inner in body.ops for name in inner.tensors}
            constants = (t for t in body.tensors if t.kind == "constant" and t.name in used)
            total += sum(tensor.nbytes for tensor in constants) + _constants_in_bodies(body)
    return total
