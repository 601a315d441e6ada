"""Scratch memory of kernels, stated by the caller if the source does not give it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from cpplan.model.byte_sizes import parse_bytes
from cpplan.model.errors import InputError, located
from cpplan.model.graph import Graph, Op
from cpplan.model.printable import quote
from cpplan.model.tensor import Tensor

_SUFFIX = "/scratch"


def scratch_name(op: str) -> str:
    """The name of the workspace that holds an op's scratch memory."""
    return op + _SUFFIX


def with_workspaces(graph: Graph, stated: Mapping[str, int | str]) -> Graph:
    """The graph with a workspace of these bytes for some ops, in its bodies too.

    Parameters
    ----------
    stated
        Kind or name of an op -> bytes that its kernel asks for while it runs, as a number or as
        text (``"4KiB"``). They replace the scratch memory that the source gives the op, and 0
        removes it; other workspaces stay. A name takes precedence over a kind. They are aligned as
        the op's tensors are.

    Raises
    ------
    InputError
        If a key is neither kind nor name of an op of the graph, or a value is no byte count.
    """
    if not isinstance(stated, Mapping):
        raise InputError(f"workspaces must map ops to bytes, not {quote(stated)}")
    known = set(_keys(graph))
    sizes = {}
    for key, given in stated.items():
        if key not in known:
            raise InputError(f"workspaces: the graph has no op of kind or name {quote(key)}")
        with located(f"workspaces: {quote(key)}"):
            sizes[key] = parse_bytes(given)
    return _stated(graph, sizes)


def _keys(graph: Graph) -> Iterator[str]:
    for op in graph.ops:
        yield op.kind
        yield op.name
        for body in op.bodies:
            yield from _keys(body)


def _stated(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    ops, added = [], []
    dropped: set[str] = set()
    taken = {tensor.name for tensor in graph.tensors}
    for op in graph.ops:
        bodies = tuple(_stated(body, sizes) for body in op.bodies)
        changed = replace(op, bodies=bodies) if bodies else op
        size = sizes.get(op.name, sizes.get(op.kind))
        if size is not None:
            before = [name for name in op.workspaces if name.startswith(scratch_name(op.name))]
            dropped.update(before)
            taken.difference_update(before)
            most = max((graph.tensor[k].alignment for k in (*op.inputs, *op.outputs)), default=1)
            changed, own = _with_scratch(changed, size, most, before, taken)
            added += own
        ops.append(changed)
    tensors = (*(t for t in graph.tensors if t.name not in dropped), *added)
    return replace(graph, tensors=tensors, ops=tuple(ops))


def _with_scratch(
    op: Op, size: int, alignment: int, before: list[str], taken: set[str]
) -> tuple[Op, list[Tensor]]:
    kept = tuple(name for name in op.workspaces if name not in before)
    if not size:
        return replace(op, workspaces=kept), []
    name = scratch_name(op.name)
    if name in taken:
        raise InputError(f"workspaces: a tensor is called {quote(name)} already")
    taken.add(name)
    scratch = Tensor(name, size, kind="workspace", alignment=alignment)
    return replace(op, workspaces=(*kept, name)), [scratch]
