"""``cpplan.graph`` JSON, version 1: the neutral form of a graph.

An object with ``format``, ``version``, ``name``, ``tensors`` and ``ops``; the ops are listed in the
given order. A tensor has ``name``, ``size`` or ``shape`` with ``dtype``, and perhaps ``kind``,
``alignment``, ``view_of`` (``"base"`` or ``["base", byte offset]``) and ``pools`` (names). An op
has ``name``, and perhaps ``kind``, ``inputs``, ``outputs``, ``workspaces``, ``cost``,
``recomputable``, ``in_place`` (pairs ``["output", "input"]``), ``placements`` (``["part", "whole",
byte offset]``), ``after`` (names of ops), ``sequence``, ``axes`` and ``bodies``: objects of this
same form, in which ``format`` and ``version`` may be left out. An axis along which the op can run
in pieces has ``name``, ``extent``, ``windows`` and perhaps ``accumulates``; a window has
``tensor``, ``axis``, and perhaps ``stride``, ``offset``, ``size`` or a ``table`` of pairs
``[start, stop]``. Keys left out have the defaults of ``Tensor``, ``Op``, ``Axis``, ``Window``.

Extents and byte offsets may be expressions of named variables as text (``"2*n + 1"``); the graph
then has ``dims``: name -> extent or ``[lower, upper]`` (``null``: no bound). Bodies have the
variables of the graph around them.

A view may repeat its base's elements (``expand``): its shape is one to which the base's can be
broadcast, so that it needs more bytes than the base has. It is read as a view of the base's bytes.
"""

from __future__ import annotations

import gzip
import json
import reprlib
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from cpplan.io.graph_fields import (
    AXIS_FIELDS,
    GRAPH_FIELDS,
    OP_FIELDS,
    TENSOR_FIELDS,
    WINDOW_FIELDS,
    all_fit,
    check_fields,
)
from cpplan.model.axes import Axis, Window
from cpplan.model.bulk import plain_ops, plain_tensors
from cpplan.model.errors import InputError, located
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.runtime.atomic import write_bytes, write_text
from cpplan.runtime.collection import without_collection
from cpplan.runtime.json_file import is_compressed, read_json

if TYPE_CHECKING:
    from cpplan.model.symbols import Symbols

FORMAT, VERSION = "cpplan.graph", 1


def graph_from_dict(values: Any) -> Graph:
    """The graph that an object of this form describes.

    Raises
    ------
    InputError
        If it is of another format or version, a key is missing, unknown or of the wrong type, or
        the graph contradicts itself; names the tensor or op.

    Examples
    --------
    >>> graph = graph_from_dict(
    ...     {
    ...         "format": "cpplan.graph",
    ...         "version": 1,
    ...         "name": "tiny",
    ...         "tensors": [
    ...             {"name": "x", "size": 8, "kind": "input"},
    ...             {"name": "y", "shape": [2], "dtype": "float32", "kind": "output"},
    ...         ],
    ...         "ops": [{"name": "relu", "inputs": ["x"], "outputs": ["y"]}],
    ...     }
    ... )
    >>> graph.tensor["y"].size
    8
    """
    if not isinstance(values, Mapping) or "format" not in values:
        raise InputError(f'not a graph: expected a JSON object with "format": "{FORMAT}"')
    try:
        return _graph(values)
    except RecursionError as error:
        raise InputError("not a graph: bodies nested too deeply") from error


def graph_to_dict(graph: Graph) -> dict[str, Any]:
    """The graph as plain values, ready for JSON; what has its default value is left out.

    Examples
    --------
    >>> graph = Graph("g", (Tensor("x", 8, kind="input"),), ())
    >>> graph_to_dict(graph)["tensors"]
    [{'name': 'x', 'size': 8, 'kind': 'input'}]
    >>> graph_from_dict(graph_to_dict(graph)) == graph
    True
    """
    return {"format": FORMAT, "version": VERSION, **_graph_values(graph)}


def read_graph(path: str | PathLike[str]) -> Graph:
    """Read a graph from a JSON file, compressed if its name ends in ``.gz``.

    Raises
    ------
    InputError
        As :func:`graph_from_dict`, or if the file cannot be read or is not JSON; names the file.
    """
    with without_collection():
        values = read_json(path)
        with located(path):
            return graph_from_dict(values)


def write_graph(graph: Graph, path: str | PathLike[str]) -> None:
    """Write a graph as JSON, one tensor or op a line, whole or not at all; ``.gz`` compressed.

    Raises
    ------
    InputError
        If the file cannot be written; names it.
    """
    values = graph_to_dict(graph)
    head = ",".join(f"{_compact(key)}:{_compact(values[key])}" for key in _HEAD if key in values)
    lists = ",\n".join(f"{_compact(key)}:{_rows(values[key])}" for key in ("tensors", "ops"))
    text = f"{{{head},\n{lists}}}\n"
    if is_compressed(path):
        write_bytes(path, gzip.compress(text.encode(), mtime=0))
    else:
        write_text(path, text)


_HEAD = ("format", "version", "name", "dims")


def _rows(values: list[dict[str, Any]]) -> str:
    return "[\n" + ",\n".join(map(_compact, values)) + "\n]" if values else "[]"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _graph_values(graph: Graph) -> dict[str, Any]:
    values: dict[str, Any] = {"name": graph.name}
    if graph.symbols is not None:
        from cpplan.io.symbols_json import range_values

        values["dims"] = range_values(graph.symbols.dims)
    values["tensors"] = [_tensor_values(tensor, graph.symbols) for tensor in graph.tensors]
    values["ops"] = [_op_values(op, graph.symbols) for op in graph.ops]
    return values


def _tensor_values(tensor: Tensor, symbols: Symbols | None) -> dict[str, Any]:
    values: dict[str, Any] = {"name": tensor.name, "size": tensor.nbytes, "kind": tensor.kind}
    if symbols is not None and tensor.name in symbols.shapes:
        del values["size"]
        values["shape"] = [e if isinstance(e, int) else str(e) for e in symbols.shapes[tensor.name]]
    elif tensor.shape is not None:
        values["shape"] = list(tensor.shape)
    if tensor.dtype is not None:
        values["dtype"] = tensor.dtype
    if tensor.alignment != 1:
        values["alignment"] = tensor.alignment
    if tensor.view_of is not None:
        base, offset = tensor.view_of
        if symbols is not None and tensor.name in symbols.offsets:
            values["view_of"] = [base, str(symbols.offsets[tensor.name])]
        else:
            values["view_of"] = [base, offset] if offset else base
    if tensor.pools is not None:
        values["pools"] = list(tensor.pools)
    return values


def _op_values(op: Op, symbols: Symbols | None) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": op.name,
        "kind": op.kind,
        "inputs": list(op.inputs),
        "outputs": list(op.outputs),
    }
    if op.workspaces:
        values["workspaces"] = list(op.workspaces)
    if op.cost != 1:
        values["cost"] = op.cost
    if not op.recomputable:
        values["recomputable"] = False
    if op.in_place:
        values["in_place"] = [list(pair) for pair in op.in_place]
    if op.placements:
        moving = {} if symbols is None else symbols.placements
        values["placements"] = [
            [part, whole, str(moving[key]) if (key := (op.name, part, whole)) in moving else offset]
            for part, whole, offset in op.placements
        ]
    if op.bodies:
        values["bodies"] = [_graph_values(body) for body in op.bodies]
    if op.after:
        values["after"] = list(op.after)
    if op.sequence is not None:
        values["sequence"] = op.sequence
    if op.axes:
        values["axes"] = list(map(_axis_values, op.axes))
    return values


def _axis_values(axis: Axis) -> dict[str, Any]:
    values: dict[str, Any] = {"name": axis.name, "extent": axis.extent}
    values["windows"] = list(map(_window_values, axis.windows))
    if axis.accumulates:
        values["accumulates"] = True
    return values


def _window_values(window: Window) -> dict[str, Any]:
    values: dict[str, Any] = {"tensor": window.tensor, "axis": window.axis}
    if window.stride != 1:
        values["stride"] = window.stride
    if window.offset:
        values["offset"] = window.offset
    if window.size != 1:
        values["size"] = window.size
    if window.table is not None:
        values["table"] = [list(entry) for entry in window.table]
    return values


def _graph(values: Any, outer: Symbols | None = None) -> Graph:
    if isinstance(values, Mapping):
        # Check format and version first: without them the other keys have no meaning.
        name, version = values.get("format", FORMAT), values.get("version", VERSION)
        if name == "cpplan.plan":
            raise InputError(f"this is a plan, not a model: expected format {FORMAT!r}")
        if name != FORMAT:
            raise InputError(f"format {reprlib.repr(name)} is not understood: expected {FORMAT!r}")
        if version != VERSION or ("format" in values and "version" not in values):
            found = reprlib.repr(values.get("version"))
            raise InputError(f"{FORMAT} version {found} is not understood: expected {VERSION}")
    check_fields(values, "graph", GRAPH_FIELDS, ("name", "tensors", "ops"))
    symbols = outer
    if "dims" in values:
        from cpplan.model.symbols import Symbols

        symbols = Symbols(values["dims"])
    tensors, ops = values["tensors"], values["ops"]
    # In bulk first; one by one only to say which is wrong.
    if not all_fit(tensors, TENSOR_FIELDS, "name"):
        for k, row in enumerate(tensors):
            check_fields(row, _place("tensor", row, k), TENSOR_FIELDS, ("name",))
    tensors = [_with_base(row) if "view_of" in row else row for row in tensors]
    made = plain_tensors(tensors) or [Tensor(**row) for row in tensors]
    checked = all_fit(ops, OP_FIELDS, "name")
    plain = plain_ops(ops) if checked else None
    return Graph(
        values["name"],
        _fold_broadcasts(made),
        tuple(plain or (_op(row, k, symbols, checked=checked) for k, row in enumerate(ops))),
        symbols,
    )


def _with_base(values: Mapping[str, Any]) -> Mapping[str, Any]:
    view_of = values["view_of"]
    return {**values, "view_of": (view_of, 0) if isinstance(view_of, str) else tuple(view_of)}


def _fold_broadcasts(tensors: list[Tensor]) -> tuple[Tensor, ...]:
    if all(tensor.view_of is None or tensor.shape is None for tensor in tensors):
        return tuple(tensors)
    by_name = {tensor.name: tensor for tensor in tensors}
    # Each tensor's last base that repeats nothing; a chain is walked once.
    source_of: dict[str, Tensor] = {}
    folded = []
    for tensor in tensors:
        chain, source = {tensor.name: tensor}, tensor
        while (base := _broadcast_base(source, by_name)) is not None and base.name not in chain:
            source = source_of.get(base.name, base)
            chain[base.name] = base
            if source is not base:
                break
        source_of.update(dict.fromkeys(chain, source))
        folded.append(tensor if source is tensor else replace(tensor, size=source.nbytes))
    return tuple(folded)


def _broadcast_base(view: Tensor, by_name: Mapping[str, Tensor]) -> Tensor | None:
    """The tensor whose elements ``view`` repeats, or ``None`` if it repeats none."""
    base = by_name.get(view.view_of[0]) if view.view_of is not None else None
    if base is None or view.symbolic or base.symbolic:
        return None
    if view.view_of != (base.name, 0) or view.nbytes <= base.nbytes:
        return None
    if view.shape is None or base.shape is None or view.dtype is None or view.dtype != base.dtype:
        return None
    if len(base.shape) > len(view.shape):
        return None
    pairs = zip(reversed(base.shape), reversed(view.shape), strict=False)
    return base if all(inner in (1, outer) for inner, outer in pairs) else None


def _op(values: Any, position: int, symbols: Symbols | None, *, checked: bool) -> Op:
    if not checked:
        check_fields(values, _place("op", values, position), OP_FIELDS, ("name",))
    fields = dict(values)
    for key in ("inputs", "outputs", "workspaces"):
        if key in fields:
            fields[key] = tuple(fields[key])
    if "in_place" in fields:
        fields["in_place"] = tuple(map(tuple, fields["in_place"]))
    if "bodies" in fields:
        place = _place("op", values, position)
        fields["bodies"] = [
            _body(body, f"{place}, body {k}", symbols) for k, body in enumerate(fields["bodies"])
        ]
    if "axes" in fields:
        place = _place("op", values, position)
        fields["axes"] = [_axis(axis, place, k) for k, axis in enumerate(fields["axes"])]
    return Op(**fields)


def _axis(values: Any, op: str, position: int) -> Axis:
    name = values.get("name") if isinstance(values, Mapping) else None
    place = f"{op}: axis {name!r}" if isinstance(name, str) else f"{op}: axes[{position}]"
    check_fields(values, place, AXIS_FIELDS, ("name", "extent", "windows"))
    for k, window in enumerate(values["windows"]):
        check_fields(window, f"{place}: windows[{k}]", WINDOW_FIELDS, ("tensor", "axis"))
    with located(op):
        windows = tuple(Window(**window) for window in values["windows"])
        return Axis(**{**values, "windows": windows})


def _body(values: Any, place: str, symbols: Symbols | None) -> Graph:
    with located(place):
        return _graph(values, symbols)


def _place(what: str, values: Any, position: int) -> str:
    name = values.get("name") if isinstance(values, Mapping) else None
    return f"{what} {name!r}" if isinstance(name, str) else f"{what}s[{position}]"
