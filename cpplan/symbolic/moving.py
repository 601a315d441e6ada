"""Alias candidates whose offset depends on the variables, and their placement as views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from cpplan.model.graph import Graph
from cpplan.model.plan_data import Relation
from cpplan.model.residency import Residency
from cpplan.model.tensor import Tensor
from cpplan.program.liveness import outside_storages

# Kind of relation, tensor, and the tensor that it shares bytes with.
Related = tuple[str, str, str]


def moving_relations(graph: Graph) -> frozenset[Related]:
    """The alias candidates of a graph whose offset depends on the variables.

    These include a tensor at a fixed offset within a view that itself moves within its base, and an
    output that its op writes beside such a view in one storage: at some sizes the two overlap.
    """
    symbols = graph.symbols
    assert symbols is not None
    shifting = {
        tensor.name
        for tensor in graph.tensors
        if any(name in symbols.offsets for name in _chain(graph, tensor.name, {}))
    }
    found: set[Related] = set()
    for op in graph.ops:
        written = {graph.root[n][0] for n in op.outputs + op.workspaces if n in shifting}
        moved = shifting | {n for n in op.outputs if graph.root[n][0] in written}
        for part, whole, _ in op.placements:
            if (op.name, part, whole) in symbols.placements or moved & {part, whole}:
                found.add(("placement", part, whole))
        found.update(("in place", *pair) for pair in op.in_place if moved.intersection(pair))
    return frozenset(found)


def without(graph: Graph, relations: Collection[Related]) -> Graph:
    if not relations:
        return graph
    ops = tuple(
        replace(
            op,
            in_place=tuple(p for p in op.in_place if ("in place", *p) not in relations),
            placements=tuple(
                p for p in op.placements if ("placement", p.part, p.whole) not in relations
            ),
        )
        for op in graph.ops
    )
    return replace(graph, ops=ops)


def place_as_views(graph: Graph, residency: Residency) -> tuple[Graph, dict[str, Relation]]:
    """The graph in which a copied part is a view of the tensor that it is copied to or from.

    Each part lies within one tensor: the first that an op names. Parts that stay as they are:
    constants, workspaces, views, tensors outside the arena, parts that would lie within themselves,
    and results in a storage that the op accesses under another name too. The new views are in no
    in-place pair. The second value maps each part to its placement.

    Examples
    --------
    >>> from cpplan.model.graph import Op, Tensor
    >>> tensors = Tensor("a", 4, kind="input"), Tensor("b", 8, kind="input")
    >>> tensors += (Tensor("y", 12, kind="output"),)
    >>> places = ("a", "y", 0), ("b", "y", 4)
    >>> join = Op("join", inputs=("a", "b"), outputs=("y",), placements=places)
    >>> merged, parts = place_as_views(Graph("g", tensors, (join,)), Residency())
    >>> merged.tensor["b"].view_of, list(parts)
    (('y with its parts', 4), ['a', 'b'])
    """
    outside = outside_storages(graph, residency)
    parts: dict[str, Relation] = {}
    for op in graph.ops:
        accessed = Counter(graph.root[name][0] for name in dict.fromkeys(op.tensors))
        for part, whole, offset in op.placements:
            assert isinstance(offset, int)
            result = graph.root[whole if whole in op.outputs else part][0]
            if accessed[result] > 1:
                continue
            tensor = graph.tensor[part]
            barred = tensor.kind in ("constant", "workspace") or tensor.view_of is not None
            roots = {graph.root[part][0], graph.root[whole][0]}
            constant = graph.tensor[graph.root[whole][0]].kind == "constant"
            if barred or constant or roots & outside or part in parts:
                continue
            if part in _chain(graph, whole, parts):
                continue
            parts[part] = Relation("placement", part, whole, offset)
    tensors = [
        replace(t, view_of=(parts[t.name].other, parts[t.name].offset)) if t.name in parts else t
        for t in graph.tensors
    ]
    _bring_into_blocks(graph, tensors, parts)
    ops = tuple(
        replace(
            op, placements=(), in_place=tuple(p for p in op.in_place if not parts.keys() & {*p})
        )
        for op in graph.ops
    )
    return Graph(graph.name, tuple(tensors), ops), parts


def _bring_into_blocks(graph: Graph, tensors: list[Tensor], parts: Mapping[str, Relation]) -> None:
    """If a graph input is placed within an op's result, put both into a new input tensor.

    The caller brings an input before the op could make the storage that holds it.
    """
    row = {t.name: k for k, t in enumerate(tensors)}
    blocks: dict[str, str] = {}
    for name in [part for part in parts if graph.tensor[part].kind == "input"]:
        chain = _chain(graph, name, parts)
        views = [tensors[row[part]].view_of or ("", 0) for part in chain[:-1]]
        whole = tensors[row[chain[-1]]]
        if whole.kind != "input" and whole.name not in blocks:
            block = _unused(f"{whole.name} with its parts", row)
            row[block] = len(tensors)
            blocks[whole.name] = block
            tensors.append(replace(whole, name=block, kind="input", shape=None))
            tensors[row[whole.name]] = replace(whole, view_of=(block, 0))
        within = blocks.get(whole.name, whole.name), sum(offset for _, offset in views)
        tensors[row[name]] = replace(tensors[row[name]], view_of=within)


def _unused(name: str, taken: Mapping[str, int]) -> str:
    while name in taken:
        name += "'"
    return name


def _chain(graph: Graph, name: str, parts: Mapping[str, Relation]) -> list[str]:
    """A tensor and all tensors that it lies within."""
    found = [name]
    while True:
        view_of = graph.tensor[name].view_of
        if view_of is not None:
            name = view_of[0]
        elif name in parts:
            name = parts[name].other
        else:
            return found
        found.append(name)
