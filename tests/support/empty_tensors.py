"""Graphs with tensors of zero bytes, and the same graphs without them.

An empty tensor occupies nothing, keeps nothing alive and shares nothing. So a graph needs as many
bytes with its empty tensors as without them, in every order that it allows: ``without_empty`` is
the rule itself, and no code of planner or checker.
"""

from __future__ import annotations

import random
from dataclasses import replace

from cpplan.model.graph import Graph, Op, Placement, Tensor


def without_empty(graph: Graph) -> Graph:
    """The graph without its tensors of zero bytes; every op waits for the same ops as before."""
    full = {t.name for t in graph.tensors if t.nbytes}
    if len(full) == len(graph.tensors):
        return graph
    ops = []
    for k, op in enumerate(graph.ops):
        ops.append(
            replace(
                op,
                inputs=tuple(name for name in op.inputs if name in full),
                outputs=tuple(name for name in op.outputs if name in full),
                workspaces=tuple(name for name in op.workspaces if name in full),
                in_place=tuple(pair for pair in op.in_place if full.issuperset(pair)),
                placements=tuple(p for p in op.placements if {p.part, p.whole} <= full),
                after=tuple(graph.ops[before].name for before in graph.predecessors[k]),
                sequence=None,
            )
        )
    return Graph(graph.name, tuple(t for t in graph.tensors if t.nbytes), tuple(ops))


def with_empty(graph: Graph, seed: int) -> Graph:
    """The graph with more tensors of zero bytes, of every kind and use, and no op that waits more.

    Views of the front, the middle and the end of what there is, written by ops or bare; outputs,
    inputs, constants, workspaces; read, written in place of one another and placed in others.
    """
    rng = random.Random(seed)
    before = _ancestors(graph)
    tensors = [
        Tensor("empty input", 0, kind="input"),
        Tensor("empty constant", 0, kind="constant", alignment=4),
    ]
    sizes = {t.name: t.nbytes for t in graph.tensors}
    # Empty tensors that may be read, with the op that writes them, if any does.
    readable: list[tuple[str, int | None]] = [(t.name, None) for t in tensors]
    ops = []
    for k, op in enumerate(graph.ops):
        solid = [n for n in op.inputs + op.outputs if graph.tensor[n].kind != "constant"]
        outputs, spaces, pairs, placements = [], [], [], []
        known = [name for name, by in readable if by is None or by in before[k]]
        inputs = rng.sample(known, min(len(known), rng.randint(0, 2)))
        if op.inputs and rng.random() < 0.3:
            base = rng.choice(op.inputs)
            kind = "constant" if graph.tensor[base].kind == "constant" else "intermediate"
            bare = Tensor(f"bare {k}", 0, kind=kind, view_of=(base, rng.randint(0, sizes[base])))
            tensors.append(bare)
            inputs.append(bare.name)
        for number in range(rng.choice((0, 1, 1, 2))):
            view = None
            if solid and rng.random() < 0.8:
                base = rng.choice(solid)
                view = base, rng.randint(0, sizes[base])
            kind = rng.choice(("output", "output", "intermediate"))
            tensors.append(Tensor(f"empty {k}.{number}", 0, kind=kind, view_of=view))
            outputs.append(tensors[-1].name)
            readable.append((tensors[-1].name, k))
        if rng.random() < 0.2:
            tensors.append(Tensor(f"empty space {k}", 0, kind="workspace"))
            spaces.append(tensors[-1].name)
        if inputs and outputs and rng.random() < 0.5:
            pairs.append((outputs[0], inputs[0]))
        if op.inputs and outputs and rng.random() < 0.5:
            whole = rng.choice(op.inputs)
            placements.append(Placement(outputs[-1], whole, rng.randint(0, sizes[whole])))
        if op.outputs and inputs and rng.random() < 0.5:
            whole = rng.choice(op.outputs)
            placements.append(Placement(inputs[-1], whole, rng.randint(0, sizes[whole])))
        ops.append(
            replace(
                op,
                inputs=(*op.inputs, *inputs) if rng.random() < 0.5 else (*inputs, *op.inputs),
                outputs=(*op.outputs, *outputs) if rng.random() < 0.5 else (*outputs, *op.outputs),
                workspaces=(*op.workspaces, *spaces),
                in_place=(*pairs, *op.in_place),
                placements=(*placements, *op.placements),
            )
        )
    listed = [*graph.tensors, *tensors]
    rng.shuffle(listed)
    return Graph(f"{graph.name} and empty tensors", tuple(listed), tuple(ops))


def _ancestors(graph: Graph) -> list[set[int]]:
    """For every op, those that run before it in every order; ops are listed in an order."""
    found: list[set[int]] = []
    for before in graph.predecessors:
        found.append(set(before).union(*(found[k] for k in before)))
    return found


def false_optimum() -> Graph:
    """``t2`` is written over ``t0``, and an empty output is a view of ``t0``: 2 B are enough."""
    tensors = (
        Tensor("t0", 2),
        Tensor("v0", 0, kind="output", view_of=("t0", 1)),
        Tensor("t2", 2, kind="output"),
    )
    ops = (
        Op("o0", outputs=("t0",)),
        Op("o2", inputs=("t0",), outputs=("t2",), in_place=(("t2", "t0"),)),
    )
    return Graph("empty view", tensors, ops)
