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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from cpplan.io.codec import Writer, changed_fields, read_fields
from cpplan.io.graph_fields import GRAPH_FIELDS, all_fit, check_fields, json_fields
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
    """The graph that an object of this form describes."""
    if not isinstance(values, Mapping) or "format" not in values:
        raise InputError(f'not a graph: expected a JSON object with "format": "{FORMAT}"')
    try:
        return _graph(values)
    except RecursionError as error:
        raise InputError("not a graph: bodies nested too deeply") from error


def graph_to_dict(graph: Graph) -> dict[str, Any]:
    """The graph as plain values, ready for JSON; what has its default value is left out."""
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


# Of ops, what holds more than names and numbers.
_NESTED: dict[str, Writer] = {
    "bodies": lambda bodies: list(map(_graph_values, bodies)),
    "axes": lambda axes: list(map(axis_to_dict, axes)),
}


def _graph_values(graph: Graph) -> dict[str, Any]:
    values: dict[str, Any] = {"name": graph.name}
    if graph.symbols is not None:
        from cpplan.io.symbols_json import range_values

        values["dims"] = range_values(graph.symbols.dims)
    values["tensors"] = [_tensor_values(tensor, graph.symbols) for tensor in graph.tensors]
    values["ops"] = [_op_values(op, graph.symbols) for op in graph.ops]
    return values


# Fields of tensors after those that are always written.
_TENSOR = tuple(name for name in json_fields(Tensor) if name not in ("name", "size", "kind"))
_UNSHAPED = tuple(name for name in _TENSOR if name != "shape")


def _tensor_values(tensor: Tensor, symbols: Symbols | None) -> dict[str, Any]:
    values: dict[str, Any]
    if symbols is not None and tensor.name in symbols.shapes:
        shape = [e if isinstance(e, int) else str(e) for e in symbols.shapes[tensor.name]]
        values = {"name": tensor.name, "kind": tensor.kind, "shape": shape}
        values |= changed_fields(tensor, _UNSHAPED)
    else:
        values = {"name": tensor.name, "size": tensor.nbytes, "kind": tensor.kind}
        values |= changed_fields(tensor, _TENSOR)
    if tensor.view_of is not None:
        base, offset = tensor.view_of
        if symbols is not None and tensor.name in symbols.offsets:
            values["view_of"] = [base, str(symbols.offsets[tensor.name])]
        else:
            values["view_of"] = [base, offset] if offset else base
    return values


def _op_values(op: Op, symbols: Symbols | None) -> dict[str, Any]:
    values: dict[str, Any] = {"name": op.name, "kind": op.kind}
    values |= {"inputs": list(op.inputs), "outputs": list(op.outputs)}
    values |= changed_fields(op, own=_NESTED)
    if symbols is not None:
        for row in values.get("placements", ()):
            moving = symbols.placements.get((op.name, row[0], row[1]))
            row[2] = row[2] if moving is None else str(moving)
    return values


def axis_to_dict(axis: Axis) -> dict[str, Any]:
    """The axis as plain values; what has its default value is left out."""
    return changed_fields(axis, own={"windows": lambda found: list(map(changed_fields, found))})


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
    # In bulk first; one by one only what needs a closer look, and to say which is wrong.
    made = _fold_broadcasts(plain_tensors(tensors) or _tensors(tensors))
    return Graph(values["name"], made, tuple(plain_ops(ops) or _ops(ops, symbols)), symbols)


def _tensors(rows: Sequence[Any]) -> list[Tensor]:
    if not all_fit(rows, json_fields(Tensor), "name"):
        for k, row in enumerate(rows):
            check_fields(row, _place("tensor", row, k), json_fields(Tensor), ("name",))
    return [Tensor(**(_with_base(row) if "view_of" in row else row)) for row in rows]


def _ops(rows: Sequence[Any], symbols: Symbols | None) -> list[Op]:
    checked = all_fit(rows, json_fields(Op), "name")
    return [_op(row, k, symbols, checked=checked) for k, row in enumerate(rows)]


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
        check_fields(values, _place("op", values, position), json_fields(Op), ("name",))
    nested: dict[str, list[Any]] = {}
    if "bodies" in values or "axes" in values:
        place = _place("op", values, position)
        bodies = enumerate(values.get("bodies", ()))
        nested["bodies"] = [_body(body, f"{place}, body {k}", symbols) for k, body in bodies]
        nested["axes"] = [_axis(axis, place, k) for k, axis in enumerate(values.get("axes", ()))]
        values = {key: value for key, value in values.items() if key not in nested}
    made: Op = read_fields(Op, values, **nested)
    return made


def _axis(values: Any, op: str, position: int) -> Axis:
    name = values.get("name") if isinstance(values, Mapping) else None
    place = f"{op}: axis {name!r}" if isinstance(name, str) else f"{op}: axes[{position}]"
    check_fields(values, place, json_fields(Axis), ("name", "extent", "windows"))
    for k, window in enumerate(values["windows"]):
        check_fields(window, f"{place}: windows[{k}]", json_fields(Window), ("tensor", "axis"))
    with located(op):
        found: Axis = read_fields(Axis, values)
        return found


def _body(values: Any, place: str, symbols: Symbols | None) -> Graph:
    with located(place):
        return _graph(values, symbols)


def _place(what: str, values: Any, position: int) -> str:
    name = values.get("name") if isinstance(values, Mapping) else None
    return f"{what} {name!r}" if isinstance(name, str) else f"{what}s[{position}]"
