"""Graphs as ``networkx.DiGraph``, and three forms of it that are read.

* What :func:`to_networkx` makes: nodes ``("tensor", name)`` and ``("op", name)``, whose attributes
  are those of ``Tensor`` and ``Op`` and ``node``, ``"tensor"`` or ``"op"``. An edge has a ``role``:
  ``input`` leads from a tensor to an op, ``output`` and ``workspace`` from an op to a tensor, each
  with its ``positions`` among the op's; ``view`` leads from a tensor to a view of it, with the
  byte ``offset``; ``control`` leads from an op to one that must run after it, with its
  ``positions`` in that one's ``after``.
* A node is an op with one result, an edge says who reads it: node attributes ``size`` in bytes or
  ``shape`` and ``dtype``, and perhaps ``kind``, ``cost``, ``alignment``, ``recomputable``,
  ``sequence``, ``workspace`` in bytes, and ``output`` (true if the result is the graph's).
* A node is an op, every edge a tensor of its own, with ``size`` or ``shape`` and ``dtype``.

In the last two forms, an edge with ``control=True`` carries no bytes: its target must run after its
source.

Shapes and offsets that depend on variables hold expressions as text, and the digraph's attribute
``dims`` says what the variables may be, as in JSON.

Other attributes are left alone. The order of the nodes is the given order of the ops.
"""

from __future__ import annotations

import numbers
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cpplan.io.graph_fields import json_fields
from cpplan.io.graph_json import axis_to_dict, graph_from_dict, graph_to_dict
from cpplan.model.axes import Axis
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Placement, Tensor
from cpplan.model.printable import quote
from cpplan.model.symbols import Symbols

if TYPE_CHECKING:
    import networkx

_PLAIN_OP = ("kind", "cost", "recomputable", "sequence")
_RESULT = ("size", "shape", "dtype", "alignment")
# Role of an edge -> the field of the op that lists it.
_FIELDS = {
    "input": "inputs",
    "output": "outputs",
    "workspace": "workspaces",
    "control": "after",
}
_WRITES = ("output", "workspace")
# Attributes of nodes: all fields but the name and those that edges tell.
_TENSOR = tuple(name for name in json_fields(Tensor) if name not in ("name", "view_of"))
_OP = tuple(name for name in json_fields(Op) if name not in ("name", *_FIELDS.values()))


def to_networkx(graph: Graph) -> networkx.DiGraph:
    """Ops and tensors as the two kinds of nodes of a directed graph."""
    import networkx

    digraph = networkx.DiGraph(name=graph.name)
    symbols = graph.symbols or Symbols({})
    if graph.symbols is not None:
        digraph.graph["dims"] = {name: tuple(within) for name, within in symbols.dims.items()}
    for tensor in graph.tensors:
        fields = {key: getattr(tensor, key) for key in _TENSOR}
        if tensor.name in symbols.shapes:
            shape = symbols.shapes[tensor.name]
            fields["shape"], fields["size"] = tuple(map(_expression, shape)), None
        digraph.add_node(("tensor", tensor.name), node="tensor", **fields)
    for op in graph.ops:
        fields = {key: getattr(op, key) for key in _OP}
        fields["placements"] = tuple(
            Placement(part, whole, _expression(symbols.placements.get((op.name, part, whole), at)))
            for part, whole, at in op.placements
        )
        digraph.add_node(("op", op.name), node="op", **fields)
    for tensor in graph.tensors:
        if tensor.view_of is not None:
            base, offset = tensor.view_of
            offset = _expression(symbols.offsets.get(tensor.name, offset))
            digraph.add_edge(("tensor", base), ("tensor", tensor.name), role="view", offset=offset)
    for op in graph.ops:
        for role, field in _FIELDS.items():
            positions: dict[str, list[int]] = defaultdict(list)
            for position, name in enumerate(getattr(op, field)):
                positions[name].append(position)
            for name, places in positions.items():
                named = ("op" if role == "control" else "tensor", name)
                ends = (("op", op.name), named) if role in _WRITES else (named, ("op", op.name))
                digraph.add_edge(*ends, role=role, positions=tuple(places))
    return digraph


def from_networkx(digraph: networkx.DiGraph, name: str | None = None) -> Graph:
    """The graph a ``DiGraph`` or ``MultiDiGraph`` describes, in any of the forms above.

    Parameters
    ----------
    digraph
        It is not changed.
    name
        Of the graph; if left out, the one the digraph has, else ``"graph"``.

    Raises
    ------
    InputError
        If the digraph is undirected, a size is missing or negative, an attribute is of the wrong
        type, two names are the same, or there is a cycle; names the node or edge.
    """
    if not digraph.is_directed():
        raise InputError(
            "expected a directed graph, with an edge from each op to the ops that read its results"
        )
    title = name if name is not None else str(digraph.graph.get("name", "graph"))
    form = _form(digraph)
    tensors, ops = form(digraph)
    values = {"format": "cpplan.graph", "version": 1, "name": title, "tensors": tensors, "ops": ops}
    if "dims" in digraph.graph:
        dims = digraph.graph["dims"]
        if not isinstance(dims, Mapping):
            raise InputError(f"the digraph's dims must be an object, not {quote(dims)}")
        values["dims"] = {
            name: list(ends) if isinstance(ends, tuple) else ends for name, ends in dims.items()
        }
    return graph_from_dict(values)


_Rows = list[dict[str, Any]]


def _form(digraph: networkx.DiGraph) -> Callable[[networkx.DiGraph], tuple[_Rows, _Rows]]:
    marked = [node for node, values in digraph.nodes(data=True) if "node" in values]
    if marked:
        other = next(
            (node for node, values in digraph.nodes(data=True) if "node" not in values), None
        )
        if other is not None:
            raise InputError(
                f"node {other!r} has no attribute 'node', but {marked[0]!r} has: "
                'expected "op" or "tensor" on all of them or none'
            )
        return _from_both
    sized_nodes = any(_has_size(values) for _, values in digraph.nodes(data=True))
    carrying = (values for _, _, values in digraph.edges(data=True) if not values.get("control"))
    sized_edges = any(map(_has_size, carrying))
    return _from_edges if sized_edges and not sized_nodes else _from_nodes


def _from_both(digraph: networkx.DiGraph) -> tuple[_Rows, _Rows]:
    tensors: dict[Any, dict[str, Any]] = {}
    ops: dict[Any, dict[str, Any]] = {}
    for node, values in digraph.nodes(data=True):
        what = values["node"]
        if what not in ("op", "tensor") or not (isinstance(node, tuple) and len(node) == 2):
            raise InputError(f'node {node!r}: expected ("op", name) or ("tensor", name)')
        if what == "tensor":
            tensors[node] = {"name": node[1], **_plain(values, _TENSOR)}
        else:
            ops[node] = {"name": node[1], **_plain(values, _OP), **_nested(node, values)}
    places: dict[tuple[Any, str], list[tuple[int, str]]] = defaultdict(list)
    for source, target, values in digraph.edges(data=True):
        role = values.get("role")
        op, named = (source, target) if role in _WRITES else (target, source)
        if role == "view" and source in tensors and target in tensors:
            tensors[target]["view_of"] = [source[1], _integer(values.get("offset", 0))]
        elif (
            role in tuple(_FIELDS)
            and op in ops
            and named in (ops if role == "control" else tensors)
        ):
            positions = values.get("positions", ())
            if not isinstance(positions, Iterable) or not all(
                isinstance(position, numbers.Integral) for position in positions
            ):
                raise InputError(f"edge {source!r} -> {target!r}: positions must be integers")
            places[op, _FIELDS[role]] += [(int(position), named[1]) for position in positions]
        else:
            raise InputError(
                f"edge {source!r} -> {target!r}: role {role!r} is not understood between these: "
                "expected input, output, workspace, view or control"
            )
    for (op, field), listed in places.items():
        if {position for position, _ in listed} != set(range(len(listed))):
            raise InputError(
                f"op {op[1]!r}: the positions of its {field} must be 0, 1, …, each once"
            )
        ops[op][field] = [name for _, name in sorted(listed)]
    return list(tensors.values()), list(ops.values())


def _from_nodes(digraph: networkx.DiGraph) -> tuple[_Rows, _Rows]:
    tensors: _Rows = []
    ops: _Rows = []
    for node, values in digraph.nodes(data=True):
        if not _has_size(values):
            raise InputError(f"node {node!r}: missing size: expected the bytes of its result")
        name = str(node)
        kind = "output" if values.get("output") else "intermediate"
        tensors.append({"name": name, **_plain(values, _RESULT), "kind": kind})
        scratch = _integer(values.get("workspace") or 0)
        workspaces = []
        if scratch != 0:
            workspaces = [f"{name}.workspace"]
            tensors.append({"name": workspaces[0], "size": scratch, "kind": "workspace"})
        edges = list(digraph.in_edges(node, data="control"))
        ops.append(
            {
                "name": name,
                **_plain(values, _PLAIN_OP),
                "inputs": [str(source) for source, _, control in edges if not control],
                "outputs": [name],
                "workspaces": workspaces,
                "after": [str(source) for source, _, control in edges if control],
            }
        )
    return tensors, ops


def _from_edges(digraph: networkx.DiGraph) -> tuple[_Rows, _Rows]:
    tensors: _Rows = []
    ops: dict[Any, dict[str, Any]] = {}
    for node, values in digraph.nodes(data=True):
        ops[node] = {
            "name": str(node),
            **_plain(values, _PLAIN_OP),
            "inputs": [],
            "outputs": [],
            "after": [],
        }
    count: dict[str, int] = defaultdict(int)
    for source, target, values in digraph.edges(data=True):
        name = f"{source}->{target}"
        if values.get("control"):
            if _has_size(values):
                raise InputError(f"edge {name}: a control edge carries no bytes, but has a size")
            ops[target]["after"].append(str(source))
            continue
        if not _has_size(values):
            raise InputError(f"edge {name}: missing size: expected the bytes that it carries")
        count[name] += 1
        if count[name] > 1:
            name = f"{name}#{count[name]}"
        tensors.append({"name": name, **_plain(values, _RESULT)})
        ops[source]["outputs"].append(name)
        ops[target]["inputs"].append(name)
    return tensors, list(ops.values())


def _has_size(values: Mapping[str, Any]) -> bool:
    return values.get("size") is not None or values.get("shape") is not None


def _nested(node: Any, values: Mapping[str, Any]) -> dict[str, _Rows]:
    """Bodies and axes, which attributes hold as objects."""
    found = {}
    for key, kind, write in (("bodies", Graph, graph_to_dict), ("axes", Axis, axis_to_dict)):
        items = values.get(key, ())
        if not isinstance(items, Iterable) or not all(isinstance(item, kind) for item in items):
            raise InputError(f"node {node!r}: {key} must be a list of cpplan.{kind.__name__}")
        found[key] = [write(item) for item in items]
    return found


def _plain(values: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """The known attributes, with NumPy's numbers as Python's."""
    known = {key: values[key] for key in keys if values.get(key) is not None}
    return {
        key: list(map(_integer, value)) if isinstance(value, (list, tuple)) else _integer(value)
        for key, value in known.items()
    }


def _expression(value: Any) -> Any:
    return value if isinstance(value, int) else str(value)


def _integer(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return value
    return int(value) if isinstance(value, numbers.Integral) else float(value)
