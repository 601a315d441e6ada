"""A graph module before memory planning, as a cpplan graph: for its order and for sharing.

The module has the form that memory planning receives: kernels write results to arguments
(``out=``), which separate nodes reserve. These nodes, and nodes that pick a part of a result or
change its shape, compute no bytes: they move together with the node whose result they name.

In-place pairs of ExecuTorch's kernels: results that may be written over an argument.

These are the kernels of the portable and optimized libraries that compute element ``k`` of the
result from element ``k`` of an argument of the same shape, and read that element before they write.
The kernel gets two tensors with the same address, so this depends on its implementation; a test
runs each of them that way (``tests/io/executorch``). Kernels that read an argument more than once
(softmax, layer norm) are left out, and so is ``clone``, which would call ``memcpy`` with equal
source and target, undefined in C. The operators are not replaced by their in-place forms
(``aten::sigmoid_``), as ``reinplace_pass`` of ExecuTorch would do: the runtime of version 1.5.1 has
no kernels for them.

Arguments of a concatenation are not placed within its result: ``storage_base`` keeps all bytes of
the base live as long as any part is in use, which costs more bytes than it saves.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from executorch.exir import EdgeProgramManager, memory
from executorch.exir.memory_planning import (
    get_graph_input_tensors,
    get_graph_output_tensors,
    get_node_tensor_specs,
)
from executorch.exir.passes.constant_prop_pass import constant_prop_pass
from executorch.exir.tensor import TensorSpec
from torch.export import ExportGraphSignature
from torch.fx import GraphModule, Node

from cpplan.io.executorch.specs import (
    find_storages,
    is_bookkeeping,
    mutable_buffers,
    name_specs,
)
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op
from cpplan.model.tensor import Tensor

ELEMENTWISE = frozenset(
    {
        "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_not",
        "ceil", "clamp", "cos", "cosh", "div", "elu", "erf", "exp", "expm1", "floor", "fmod",
        "gelu", "hardtanh", "leaky_relu", "log", "log10", "log1p", "log2", "logical_not",
        "maximum", "minimum", "mul", "neg", "pow", "reciprocal", "relu", "remainder", "round",
        "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "sub", "tan", "tanh", "trunc",
    }
)  # fmt: skip
# Kinds with one result that counts, the first: the others are empty.
BATCH_NORM = "_native_batch_norm_legit_no_training"


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


def kind_of(node: Node) -> str:
    """The operator's name, without namespace and overload: ``relu`` of ``aten::relu.out``."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return str(getattr(node.target, "__name__", node.target))
    return str(schema.name).rpartition("::")[2]


def in_place_pairs(node: Node) -> Iterator[tuple[TensorSpec, TensorSpec]]:
    """``(result, argument)`` pairs of storages; the result may be written over the argument.

    The argument has the result's shape, element type and dimension order, and so has every other
    tensor of its storage that the kernel reads.
    """
    kind, written = kind_of(node), get_node_tensor_specs(node)
    if not isinstance(node.target, torch._ops.OpOverload) or not written:
        return
    if kind == BATCH_NORM:
        sources = [node.args[0]]
    elif kind in ELEMENTWISE and len(written) == 1:
        sources = list(node.args)
    else:
        return
    result = written[0]
    reads = [given for given in node.args if isinstance(given, Node)]
    alike: dict[TensorSpec, bool] = {}
    for given in reads:
        (storage,) = get_node_tensor_specs(given) or (None,)
        if storage is not None:
            alike[storage] = alike.get(storage, True) and _same_layout(given.meta["spec"], result)
    listed = {source for source in sources if isinstance(source, Node)}
    for given in reads:
        (storage,) = get_node_tensor_specs(given) or (None,)
        if given in listed and storage is not None and alike.pop(storage, False):
            yield result, storage


def _same_layout(spec: TensorSpec, other: TensorSpec) -> bool:
    return all(
        getattr(spec, field) == getattr(other, field)
        for field in ("shape", "dtype", "dim_order", "device", "device_index")
    )


def fold(edge: EdgeProgramManager) -> EdgeProgramManager:
    """See :func:`cpplan.io.executorch.fold_constants`."""
    if not isinstance(edge, EdgeProgramManager):
        raise InputError(
            f"expected an EdgeProgramManager, as to_edge returns, not a {type(edge).__name__}"
        )
    programs = {
        # The pass changes the program that it is given.
        name: constant_prop_pass(copy.deepcopy(edge.exported_program(name)), _skip_dim_order=False)
        for name in sorted(edge.methods)
    }
    methods = copy.deepcopy(edge._config_methods)
    return EdgeProgramManager(programs, methods, edge.compile_config)


def constant_results(module: GraphModule) -> list[Node]:
    """Nodes that compute the same result in every run, from constants, into planned memory."""
    constant: set[Node] = set()
    found = []
    for node in module.graph.nodes:
        specs = get_node_tensor_specs(node)
        if node.op == "placeholder" and specs and all(spec.const for spec in specs):
            constant.add(node)
        if node.op != "call_function" or is_bookkeeping(node):
            continue
        given = [other for other in node.all_input_nodes if other.target is not memory.alloc]
        random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        if given and specs and not random and constant.issuperset(given):
            constant.add(node)
            if node.target is not memory.view:
                found.append(node)
    return found
