"""Storages of a graph and their accesses by ops, for plans that move storages between pools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.residency import Residency
from cpplan.model.tensor import Storage
from cpplan.program.liveness import outside_kinds


def find_storages(graph: Graph, residency: Residency) -> dict[str, Storage]:
    """Storages in the arena, by the name of the tensor that fills them, in listing order.

    A storage is movable if one op, or the caller, writes it as a whole; workspaces and empty
    storages are not movable.
    """
    roots, outside = graph.root, outside_kinds(residency)
    lying: dict[str, list[Tensor]] = {}
    for tensor in graph.tensors:
        lying.setdefault(roots[tensor.name][0], []).append(tensor)
    writers: dict[str, list[tuple[str, str]]] = {}
    for op in graph.ops:
        read = {roots[name][0] for name in op.inputs}
        for name in op.outputs + op.workspaces if op.workspaces else op.outputs:
            root = roots[name][0]
            if root not in read or not _passed_on(graph, op, name):
                writers.setdefault(root, []).append((op.name, name))
    found = {}
    for root, tensors in lying.items():
        kinds = {tensor.kind for tensor in tensors}
        if not outside.isdisjoint(kinds):
            continue
        written = writers.get(root, [])
        whole = len(written) == 1 and written[0][1] == root
        brought, constant = not written, "constant" in kinds
        kept = "output" in kinds or ("input" in kinds and residency.inputs == "keep") or constant
        handed_back = brought and "output" in kinds
        movable = (brought or whole) and "workspace" not in kinds and not handed_back
        base = graph.tensor[root]
        movable = movable and base.nbytes > 0
        writer = written[0][0] if whole else None
        once = len({op for op, _ in written} | (kinds & {"input"})) == 1
        shared = once and kinds.isdisjoint({"constant", "workspace"}) and base.nbytes > 0
        found[root] = Storage(base, tuple(tensors), writer, brought, kept, movable, shared)
    return found


def crossing_bytes(graph: Graph, op: Op) -> dict[str, int]:
    """Storage of the op -> bytes that cross if the op accesses it where it lies in the slow pool.

    The sum of the bytes of the op's tensors in the storage, at most the storage's own; 0 for the
    storages of the outputs if the op only passes views on.
    """
    roots, tensor = graph.root, graph.tensor
    passes = passes_on(graph, op)
    passed = {roots[name][0] for name in op.outputs} if passes else set()
    found: dict[str, int] = {}
    for name in dict.fromkeys(op.tensors):
        root = roots[name][0]
        size = 0 if root in passed else tensor[name].nbytes
        found[root] = min(found.get(root, 0) + size, tensor[root].nbytes)
    return found


def passes_on(graph: Graph, op: Op) -> bool:
    """True if an op writes nothing: all its outputs are bytes of its inputs."""
    return bool(op.outputs) and not op.workspaces and all(
        _passed_on(graph, op, name) for name in op.outputs
    )  # fmt: skip


def _passed_on(graph: Graph, op: Op, name: str) -> bool:
    """True if inputs in the same storage hold all bytes of an output already."""
    roots = graph.root
    root, begin = roots[name]
    if root not in {roots[other][0] for other in op.inputs}:
        return False
    end = begin + graph.tensor[name].nbytes
    at = begin
    for low, high in sorted(_spans(graph, root, op.inputs)):
        if low <= at < high:
            at = high
    return at >= end


def _spans(graph: Graph, root: str, names: Iterable[str]) -> Iterable[tuple[int, int]]:
    for name in names:
        there, begin = graph.root[name]
        if there == root:
            yield begin, begin + graph.tensor[name].nbytes


def accessed_storages(graph: Graph, op: Op, storages: Mapping[str, Storage]) -> tuple[str, ...]:
    """Names of the storages in the arena that an op accesses, each once."""
    roots = graph.root
    accessed = dict.fromkeys([roots[name][0] for name in op.tensors])
    return tuple([root for root in accessed if root in storages])


def overwritten(graph: Graph, op: Op) -> tuple[tuple[str, str], ...]:
    """Pairs of an output and an input storage that the op may write it over."""
    pairs = ((graph.root[one][0], graph.root[other][0]) for one, other in op.in_place)
    return tuple(dict.fromkeys((one, other) for one, other in pairs if one != other))
