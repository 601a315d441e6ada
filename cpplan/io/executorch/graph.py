"""A graph module before memory planning, as a cpplan graph: for its order and for sharing.

The module has the form that memory planning receives: kernels write results to arguments
(``out=``), which separate nodes reserve. These nodes, and nodes that pick a part of a result or
change its shape, compute no bytes: they move together with the node whose result they name.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from executorch.exir import memory
from executorch.exir.memory_planning import (
    get_graph_input_tensors,
    get_graph_output_tensors,
    get_node_tensor_specs,
)
from executorch.exir.tensor import TensorSpec
from torch.export import ExportGraphSignature
from torch.fx import GraphModule, Node

from cpplan.io.executorch.in_place import in_place_pairs, kind_of
from cpplan.io.executorch.specs import (
    find_storages,
    is_bookkeeping,
    mutable_buffers,
    name_specs,
)
from cpplan.model.graph import Graph, Op
from cpplan.model.tensor import Tensor


@dataclass
class Translation:
    """The graph, with the nodes and specs that its ops and tensors stand for."""

    graph: Graph
    nodes: dict[str, Node]
    specs: dict[str, TensorSpec]


def translate(
    module: GraphModule,
    signature: ExportGraphSignature | None,
    planned: Collection[TensorSpec],
) -> Translation:
    """The module's planned tensors, and its nodes that compute, as a graph.

    Mutable buffers become constants that are kept: they hold bytes throughout. Results that no op
    writes hold bytes only while the module returns.
    """
    names = name_specs(module)
    buffers = mutable_buffers(module, signature)
    inputs = get_graph_input_tensors(module.graph.nodes, signature) | buffers
    outputs = get_graph_output_tensors(module.graph.nodes)
    kinds: dict[TensorSpec, str] = dict.fromkeys(outputs, "output")
    kinds |= dict.fromkeys(inputs, "input") | dict.fromkeys(buffers, "constant")
    views = {
        spec: (storage.name, within)
        for storage in find_storages(planned, names)
        for spec, within in storage.within.items()
        if within or spec is not storage.root
    }
    tensors = tuple(
        Tensor(
            names[spec],
            spec.allocated_memory,
            kind=kinds.get(spec, "intermediate"),
            alignment=spec.alignment,
            view_of=views.get(spec),
        )
        for spec in planned
    )
    nodes = {node.name: node for node in module.graph.nodes if _computes(node)}
    known, written = set(planned), set(inputs)
    waits = _keep_writes_in_order(list(nodes.values()))
    ops = []
    for node in nodes.values():
        made = [spec for spec in dict.fromkeys(get_node_tensor_specs(node)) if spec in known]
        fresh = [spec for spec in made if spec not in written]
        written.update(fresh)
        accessed = [*(spec for spec in _reads(node) if spec in known), *made]
        read = dict.fromkeys(spec for spec in accessed if spec not in fresh)
        pairs = [
            (names[result], names[source])
            for result, source in in_place_pairs(node)
            if result in fresh and source in read and _may_lie_over(result, source, inputs)
        ]
        op = Op(
            node.name,
            kind_of(node),
            tuple(names[spec] for spec in read),
            tuple(names[spec] for spec in fresh),
            in_place=tuple(pairs),
            after=tuple(dict.fromkeys([*_needs(node), *waits[node]])),
            sequence="random" if _is_random(node) else None,
        )
        ops.append(op)
    returned = [spec for spec in planned if spec in outputs and spec not in written]
    if any(spec not in views for spec in returned):
        end = next(iter(reversed(module.graph.nodes)))
        results = tuple(names[spec] for spec in returned)
        ops.append(Op(end.name, "output", (), results, after=tuple(nodes)))
        nodes[end.name] = end
    graph = Graph(type(module).__name__, tensors, tuple(ops))
    return Translation(graph, nodes, {names[spec]: spec for spec in planned})


def _is_random(node: Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def goes_along(node: Node) -> bool:
    """True if a node computes no bytes, but names a part or a view of a result."""
    return node.target in (operator.getitem, memory.view)


def _computes(node: Node) -> bool:
    return node.op == "call_function" and not is_bookkeeping(node) and not goes_along(node)


def _may_lie_over(result: TensorSpec, source: TensorSpec, inputs: Collection[TensorSpec]) -> bool:
    """True if a result may lie over a source: not an input, and not if a spec forbids it."""
    free = result.storage_base is None and result.mem_id == source.mem_id
    return free and source not in inputs and result.allocated_memory == source.allocated_memory


def _reads(node: Node) -> Iterator[TensorSpec]:
    for given in node.all_input_nodes:
        if given.target is not memory.alloc and given.op != "get_attr":
            yield from get_node_tensor_specs(given)


def _needs(node: Node) -> Iterator[str]:
    """Yield the ops whose results a node uses: whole, in part, in another shape, or as sizes."""
    for given in node.all_input_nodes:
        if _computes(given):
            yield given.name
        else:
            yield from _needs(given)


def _keep_writes_in_order(nodes: Sequence[Node]) -> dict[Node, list[str]]:
    """Node -> names of nodes that it waits for, since it accesses a storage written again."""
    waits: dict[Node, list[str]] = {node: [] for node in nodes}
    accessed: dict[TensorSpec, list[Node]] = {}
    writers: dict[TensorSpec, Node] = {}
    for node in nodes:
        made = {_root(spec) for spec in get_node_tensor_specs(node)}
        for spec in made | {_root(spec) for spec in _reads(node)}:
            before = accessed.setdefault(spec, [])
            if spec in made:
                waits[node] += [other.name for other in before]
                accessed[spec], writers[spec] = [node], node
            else:
                waits[node] += [writers[spec].name] if spec in writers else []
                before.append(node)
    return waits


def _root(spec: TensorSpec) -> TensorSpec:
    while spec.storage_base is not None:
        spec = spec.storage_base
    return spec
