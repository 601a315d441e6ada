"""Graphs from the definitions: which ops may run when, and which bytes live at which step.

Inputs may be overwritten after their last use, outputs stay, constants are elsewhere. No bodies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import lcm

from cpplan import Graph

from .boxes import Box, ones


def storage_of(graph: Graph, name: str) -> str:
    """The tensor in whose bytes this one lies."""
    tensors = {tensor.name: tensor for tensor in graph.tensors}
    while (view := tensors[name].view_of) is not None:
        name = view[0]
    return name


def waits_for(graph: Graph) -> list[set[int]]:
    """For every op, the ops that must have run before it."""
    views = {t.name: t.view_of for t in graph.tensors}
    maker = {name: k for k, op in enumerate(graph.ops) for name in op.outputs}
    number = {op.name: k for k, op in enumerate(graph.ops)}
    waits: list[set[int]] = []
    last: dict[str, int] = {}
    for k, op in enumerate(graph.ops):
        before = {number[name] for name in op.after}
        for name in op.inputs:
            source: str | None = name
            while source is not None and source not in maker:
                view = views[source]
                source = view[0] if view is not None else None
            if source is not None:
                before.add(maker[source])
        if op.sequence is not None:
            if op.sequence in last:
                before.add(last[op.sequence])
            last[op.sequence] = k
        waits.append(before - {k})
    return waits


def without_empty(graph: Graph) -> Graph:
    """The graph without its tensors of zero bytes, which occupy and keep alive nothing.

    Ops wait for the same ops as before.
    """
    full = {tensor.name for tensor in graph.tensors if tensor.size}

    def kept(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if name in full)

    ops = tuple(
        replace(
            op,
            inputs=kept(op.inputs),
            outputs=kept(op.outputs),
            workspaces=kept(op.workspaces),
            in_place=tuple(pair for pair in op.in_place if full.issuperset(pair)),
            placements=tuple(place for place in op.placements if full.issuperset(place[:2])),
            after=tuple(graph.ops[k].name for k in sorted(before)),
            sequence=None,
        )
        for op, before in zip(graph.ops, waits_for(graph), strict=True)
    )
    return Graph(graph.name, tuple(t for t in graph.tensors if t.name in full), ops)


def orders(graph: Graph) -> Iterator[tuple[int, ...]]:
    """Every order in which each op runs once."""
    waits = waits_for(graph)

    def extend(done: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(done) == len(graph.ops):
            yield done
        for k in range(len(graph.ops)):
            if k not in done and waits[k] <= set(done):
                yield from extend((*done, k))

    return extend(())


def live_boxes(
    graph: Graph, order: Sequence[int], size: Mapping[str, int] | None = None
) -> list[Box]:
    """Storages in the arena, with their steps, for an order in which each op runs once.

    ``size`` gives other sizes to storages.
    """
    stop = max(1, len(order))
    made = {name for op in graph.ops for name in op.outputs}
    boxes = []
    for tensor in graph.tensors:
        if tensor.view_of is not None or tensor.kind == "constant":
            continue
        within = [t for t in graph.tensors if storage_of(graph, t.name) == tensor.name]
        names = {t.name for t in within}
        used = [
            step
            for step, k in enumerate(order)
            if names & {*graph.ops[k].inputs, *graph.ops[k].outputs, *graph.ops[k].workspaces}
        ]
        brought = tensor.name not in made and tensor.kind != "workspace"
        if not brought and not used:
            continue
        first = 0 if brought else used[0]
        last = max(used, default=0)
        if any(t.kind == "output" for t in within):
            last = stop - 1
        bytes_ = tensor.size if size is None else size[tensor.name]
        assert bytes_ is not None
        held = dict.fromkeys(range(first, last + 1), ones(0, bytes_))
        boxes.append(Box(tensor.name, bytes_, held, lcm(*(t.alignment for t in within))))
    return boxes


def repeated_boxes(graph: Graph, schedule: Sequence[int]) -> list[Box]:
    """As :func:`live_boxes`, where ops may run again; for graphs without views.

    Every run writes copies of its own, and every op reads the newest.
    """
    stop = max(1, len(schedule))
    sizes = {t.name: t for t in graph.tensors}
    made = {name for op in graph.ops for name in op.outputs}
    first: list[tuple[str, int]] = []
    last: list[int] = []
    newest: dict[str, int] = {}

    def begin(name: str, step: int) -> None:
        newest[name] = len(first)
        first.append((name, step))
        last.append(step)

    for tensor in graph.tensors:
        if tensor.kind not in ("workspace", "constant") and tensor.name not in made:
            begin(tensor.name, 0)
    for step, k in enumerate(schedule):
        op = graph.ops[k]
        for name in op.inputs:
            if name in newest:
                last[newest[name]] = step
        for name in (*op.outputs, *op.workspaces):
            begin(name, step)
    for name, copy in newest.items():
        if sizes[name].kind == "output":
            last[copy] = stop - 1
    return [
        Box(
            name,
            sizes[name].size or 0,
            dict.fromkeys(range(step, end + 1), ones(0, sizes[name].size or 0)),
            sizes[name].alignment,
        )
        for (name, step), end in zip(first, last, strict=True)
    ]
