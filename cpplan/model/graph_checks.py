"""Checks of a graph's tensors and ops, made once, when the graph is made.

Each function raises :class:`~cpplan.model.errors.InputError` at the first fault and names the
tensor or op.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.errors import InputError

if TYPE_CHECKING:
    from cpplan.model.axes import Axis, Window
    from cpplan.model.graph import Graph, Op


def check_unique(what: str, names: Iterable[str], where: str = "") -> None:
    """Raise if two items, ``what``, of the owner ``where`` have the same name."""
    names = tuple(names)
    if len(set(names)) == len(names):
        return
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{where}two {what} are named {name!r}")
        seen.add(name)


def check_references(graph: Graph) -> None:
    """Raise if an op names an unknown tensor or op, or sizes or offsets do not match."""
    special = graph.ops
    if _tensors_match(graph) and _placements_match(graph):
        if not any(any(map(attrgetter(name), special)) for name in ("after", "bodies")):
            return
        special = tuple([op for op in special if op.after or op.bodies])
    known = graph.tensor.keys()
    workspaces = {t.name for t in graph.tensors if t.kind == "workspace"} if special else set()
    for op in special:
        if not known >= {*op.inputs, *op.outputs, *op.workspaces}:
            for role in ("inputs", "outputs", "workspaces"):
                for name in getattr(op, role):
                    if name not in known:
                        raise InputError(
                            f"op {op.name!r}: unknown tensor {name!r} among its {role}"
                        )
        if not workspaces.isdisjoint(op.inputs):
            name = next(name for name in op.inputs if name in workspaces)
            raise InputError(f"op {op.name!r}: workspace {name!r} cannot be an input")
        for output, source in op.in_place:
            sizes = graph.tensor[output].nbytes, graph.tensor[source].nbytes
            if sizes[0] != sizes[1]:
                raise InputError(
                    f"op {op.name!r}: in_place pair of different sizes: {output!r} has "
                    f"{sizes[0]} B, {source!r} has {sizes[1]} B"
                )
        for part, whole, offset in op.placements:
            end, room = offset + graph.tensor[part].nbytes, graph.tensor[whole].nbytes
            if end > room:
                raise InputError(
                    f"op {op.name!r}: placement of {part!r} at bytes {offset}..{end} lies "
                    f"beyond {whole!r} of {room} B"
                )
        if op.placements:
            _check_apart_in_outputs(graph, op)
        for name in op.after:
            if name not in graph.op:
                raise InputError(f"op {op.name!r}: must run after unknown op {name!r}")
        for body in op.bodies:
            for name in (name for name in op.tensors if name in body.tensor):
                inner, outer = body.tensor[name], graph.tensor[name]
                if inner.kind in ("input", "output") and inner.size != outer.size:
                    raise InputError(
                        f"op {op.name!r}: {name!r} has {outer.size} B outside its body and "
                        f"{inner.size} B inside"
                    )
    for tensor in graph.tensors:
        if tensor.view_of is not None and tensor.view_of[0] not in known:
            raise InputError(
                f"tensor {tensor.name!r}: view of unknown tensor {tensor.view_of[0]!r}"
            )


def _tensors_match(graph: Graph) -> bool:
    """True if ops and views name known tensors, ops read no workspaces, and pairs match in size."""
    columns = graph.columns
    try:
        read, _, (_, over, under) = columns.read, columns.written, columns.in_place
        _ = columns.base
    except KeyError:
        return False
    if len(over) and (columns.size[over] != columns.size[under]).any():
        return False
    return not columns.are({"workspace"})[read.item].any()


def _placements_match(graph: Graph) -> bool:
    """True if parts lie within their wholes, and no two are copied to the same byte of an output.

    O(n log n); of tensors that are known.
    """
    columns = graph.columns
    op, part, whole, begin = columns.placements
    if not len(op):
        return True
    end = begin + columns.size[part]
    if (end > columns.size[whole]).any():
        return False
    count, outputs = len(graph.tensors), columns.outputs
    place = op * count + whole  # each op copies to a whole of its own
    copied = np.isin(place, outputs.owner * count + outputs.item) & (begin < end)
    place, begin, end = place[copied], begin[copied], end[copied]
    order = np.lexsort((begin, place))
    place, begin, end = place[order], begin[order], end[order]
    return not ((place[1:] == place[:-1]) & (begin[1:] < end[:-1])).any()


def _check_apart_in_outputs(graph: Graph, op: Op) -> None:
    """Raise if two placements copy to the same byte of an output. O(n log n)."""
    written = set(op.outputs)
    copied: dict[str, list[tuple[int, int, int, str]]] = {}
    for k, (part, whole, offset) in enumerate(op.placements):
        if whole in written and (size := graph.tensor[part].nbytes):
            copied.setdefault(whole, []).append((offset, offset + size, k, part))
    for whole, ranges in copied.items():
        # If any two overlap, then so do two that follow one another by their first byte.
        for one, other in pairwise(sorted(ranges)):
            if other[0] < one[1]:
                (*_, first), (*_, second) = sorted((one, other), key=itemgetter(2))
                raise InputError(
                    f"op {op.name!r}: placements of {first!r} and {second!r} overlap in "
                    f"{whole!r} at bytes {other[0]}..{min(one[1], other[1])}"
                )


def check_producers(graph: Graph) -> None:
    """Raise unless each tensor that the caller does not bring is written by one op."""
    columns = graph.columns
    outputs, workspaces = columns.outputs.item, columns.workspaces.item
    free, writable = columns.are({"workspace"}), columns.are({"intermediate", "output"})
    times = np.bincount(columns.written.item, minlength=len(graph.tensors))
    if (times > 1).any() or not (writable[outputs].all() and free[workspaces].all()):
        _refuse_producer(graph)
    orphans = (times == 0) & columns.are({"intermediate", "workspace"})
    orphans[columns.views] = False
    if orphans.any():
        tensor = graph.tensors[int(np.argmax(orphans))]
        raise InputError(f"{tensor.kind} tensor {tensor.name!r} is produced by no op")


def _refuse_producer(graph: Graph) -> None:
    """Raise at the first tensor that is written twice, or by an op that may not write it."""
    producer: dict[str, str] = {}
    for op in graph.ops:
        for name in op.outputs + op.workspaces:
            kind = graph.tensor[name].kind
            if name in producer:
                raise InputError(
                    f"tensor {name!r} has two producers: {producer[name]!r} and {op.name!r}"
                )
            if kind in ("input", "constant"):
                raise InputError(f"{kind} tensor {name!r} is produced by op {op.name!r}")
            if (kind == "workspace") != (name in op.workspaces):
                raise InputError(
                    f"op {op.name!r}: {name!r} must be a workspace by kind and by use, or neither"
                )
            producer[name] = op.name


def check_views(graph: Graph) -> None:
    """Raise unless views form no cycle and lie within their bases, aligned."""
    columns = graph.columns
    views, (bases, offsets) = columns.views, columns.base
    if not len(views):
        return
    # Only where each lies within its base is the offset in the storage below 2**62.
    if not columns.acyclic or (offsets + columns.size > columns.size[bases])[views].any():
        _refuse_view(graph)
    roots, places = columns.places
    constant = columns.are({"constant"})
    if (constant[views] & ~constant[roots[views]]).any() or (
        places[views] % columns.alignment[views]
    ).any():
        _refuse_view(graph)


def _refuse_view(graph: Graph) -> None:
    """Raise at the first cycle of views, or else at the first view at a wrong offset."""
    rooted: set[str] = set()
    views = [graph.tensors[k] for k in graph.columns.views.tolist()]
    for tensor in views:
        chain: dict[str, None] = {}
        view = tensor
        while view.view_of is not None and view.name not in rooted:
            if view.name in chain:
                raise InputError(f"views form a cycle: {' -> '.join([*chain, view.name])}")
            chain[view.name] = None
            view = graph.tensor[view.view_of[0]]
        rooted.update(chain)
    for tensor in views:
        if tensor.view_of is not None:
            base_name, offset = tensor.view_of
            root = graph.tensor[graph.root[tensor.name][0]]
            if tensor.kind == "constant" and root.kind != "constant":
                raise InputError(
                    f"constant tensor {tensor.name!r} cannot be a view of {root.name!r}, "
                    f"which is {_a(root.kind)}"
                )
            room = graph.tensor[base_name].nbytes
            if offset + tensor.nbytes > room:
                raise InputError(
                    f"tensor {tensor.name!r}: bytes {offset}..{offset + tensor.nbytes} lie "
                    f"beyond its base {base_name!r} of {room} B"
                )
            if graph.root[tensor.name][1] % tensor.alignment:
                raise InputError(
                    f"tensor {tensor.name!r}: its offset within {graph.root[tensor.name][0]!r} "
                    f"breaks its alignment {tensor.alignment}"
                )


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def check_axes(graph: Graph) -> None:
    """Raise if an axis of an op contradicts the shapes of its tensors.

    Every window names a tensor of the op; the tensor's shape has the window's axis, and its
    elements have whole bytes. The windows of an output cover it without overlap; if the axis
    accumulates, no window names an output. O(windows).
    """
    if not any(map(attrgetter("axes"), graph.ops)) or _axes_match(graph):
        return
    for op in graph.ops:
        for axis in op.axes:
            here = f"op {op.name!r}: axis {axis.name!r}"
            windows = axis.window
            for name, window in windows.items():
                if name not in op.inputs and name not in op.outputs:
                    raise InputError(f"{here}: {name!r} is no input or output of the op")
                shape = graph.tensor[name].shape
                if shape is None or window.axis >= len(shape):
                    raise InputError(
                        f"{here}: {name!r} has no axis {window.axis}: "
                        f"its shape is {'unknown' if shape is None else list(shape)}"
                    )
            for name in op.outputs:
                if axis.accumulates and name in windows:
                    raise InputError(f"{here}: accumulates, but has a window of output {name!r}")
                if axis.accumulates:
                    continue
                if name not in windows:
                    raise InputError(f"{here}: has no window of output {name!r}")
                _check_covers(graph, here, axis, windows[name])


def _axes_match(graph: Graph) -> bool:
    """True if a quick check finds all axes right, as for most graphs; none may have a table."""
    if graph.symbols is not None:
        return False
    columns, many = graph.columns, len(graph.tensors)
    axes, shape, outputs = columns.axes, columns.shape, columns.outputs
    if not axes.regular.all() or (axes.tensor < 0).any():
        return False
    used = axes.op[axes.axis] * many + axes.tensor
    written = np.isin(used, outputs.owner * many + outputs.item)
    known = written | np.isin(used, columns.read.owner * many + columns.read.item)
    if not known.all() or (axes.place >= shape.count[axes.tensor]).any():
        return False
    times = np.bincount(axes.axis[written], minlength=len(axes.op))
    if (times != np.where(axes.adds, 0, outputs.count[axes.op])).any():
        return False
    extent, steps = columns.window_extents, axes.extent[axes.axis]
    stride = np.maximum(axes.stride, 1)
    covers = (axes.offset == 0) & (axes.size == axes.stride) & (extent % stride == 0)
    covers &= np.where(axes.stride > 0, extent // stride == steps, extent == 0)
    return bool(covers[written].all())


def _check_covers(graph: Graph, here: str, axis: Axis, window: Window) -> None:
    """Raise unless the steps of an axis write each position of an output exactly once."""
    shape = graph.tensor[window.tensor].shape
    assert shape is not None
    extent, reached = shape[window.axis], 0
    if window.table is None:
        regular = window.offset == 0 and window.stride == window.size
        reached = axis.extent * window.stride if regular else -1
    else:
        for start, stop in window.table:
            reached = stop if start == reached else extent + 1
    if reached != extent:
        raise InputError(
            f"{here}: its {axis.extent} steps must write each of the {extent} positions of "
            f"{window.tensor!r} along axis {window.axis} just once"
        )
