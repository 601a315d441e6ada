"""Buffers of a graph module for ExecuTorch, made from the module's ``TensorSpec`` objects.

A spec's lifetime names the first and the last node that access it, both included. A spec with a
``storage_base`` has no storage of its own: it lies at an offset within another spec, which may lie
within a third one, and so on up to the root. Roots are the buffers.

Regions of control flow: the bytes of the branches of a ``cond`` and the bodies of loops.

ExecuTorch plans each such submodule first, from byte 0 of each memory on. Here all bytes of a
control-flow node's submodules are one more buffer of the node's module: a region, live from the
node on, for as long as the node's results, since the results of a ``cond`` are not copied out of
the branch that computed them. When a region is placed, its tensors move with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from executorch.exir import memory
from executorch.exir.control_flow import while_loop
from executorch.exir.memory_planning import (
    _is_mutable_buffer,
    collect_specs_from_nodes,
    get_node_tensor_specs,
)
from executorch.exir.tensor import TensorSpec
from torch.export import ExportGraphSignature
from torch.fx import GraphModule, Node

from cpplan.model.errors import InputError

# Memory id of a spec that names none; 0 is for constants.
FIRST_MEMORY = 1
# Positions of the submodules among a control-flow node's arguments.
_SUBMODULES = {
    torch.ops.higher_order.cond: (1, 2),
    torch.ops.higher_order.map_impl: (0,),
    torch.ops.higher_order.scan: (0,),
    while_loop: (0, 1),
}


@dataclass
class Storage:
    """One buffer: a root spec, and the specs within it with their byte offsets."""

    name: str
    root: TensorSpec
    within: dict[TensorSpec, int]

    @property
    def size(self) -> int:
        """Bytes of the root, rounded up to its alignment."""
        return int(self.root.allocated_memory)

    @property
    def lifespan(self) -> tuple[int, int]:
        """Lifespan, half-open, from the first node that accesses one of its specs to the last."""
        lifetimes = [spec.lifetime for spec in self.within]
        return min(first for first, _ in lifetimes), max(last for _, last in lifetimes) + 1

    @property
    def memory(self) -> int:
        """The memory id that the root asks for."""
        return FIRST_MEMORY if self.root.mem_id is None else int(self.root.mem_id)


def find_storages(specs: Iterable[TensorSpec], names: Mapping[TensorSpec, str]) -> list[Storage]:
    """The buffers in which specs lie, in the order of their roots.

    Raises
    ------
    InputError
        If a spec's base is not planned or is the spec itself, or a spec leaves its base; names it.
    """
    planned = list(specs)
    storages = {
        spec: Storage(names[spec], spec, {spec: 0}) for spec in planned if spec.storage_base is None
    }
    for spec in planned:
        if spec.storage_base is None:
            continue
        root, offset, seen = spec, 0, {spec}
        while root.storage_base is not None:
            offset += int(root.storage_base_offset)
            root = root.storage_base
            if root in seen:
                raise InputError(
                    f"tensor {names[spec]!r}: its storage_base lies within the tensor itself"
                )
            seen.add(root)
        if root not in storages:
            raise InputError(
                f"tensor {names[spec]!r}: its storage_base is not among the tensors to be planned"
            )
        if not 0 <= offset <= root.allocated_memory - spec.allocated_memory:
            raise InputError(
                f"tensor {names[spec]!r}: its {spec.allocated_memory} B at byte {offset} exceed "
                f"the {root.allocated_memory} B of its base {names[root]!r}"
            )
        storages[root].within[spec] = offset
    return list(storages.values())


def align(specs: Iterable[TensorSpec], alignment: int) -> None:
    """Set the alignment of the specs, and round their sizes up to it."""
    for spec in specs:
        spec.realign(alignment)
        if spec.storage_base is not None and spec.storage_base_offset % alignment:
            raise InputError(
                f"storage_base_offset {spec.storage_base_offset} must be a multiple of the "
                f"alignment {alignment}"
            )


def name_specs(module: GraphModule) -> dict[TensorSpec, str]:
    """Spec -> name of the node that computes it, for all specs of a module's nodes.

    If a node has several results, ``.0``, ``.1``, … are added.
    """
    names: dict[TensorSpec, str] = {}
    computing = [node for node in module.graph.nodes if not is_bookkeeping(node)]
    for node in [*computing, *module.graph.nodes]:
        specs = list(dict.fromkeys(get_node_tensor_specs(node)))
        for position, spec in enumerate(specs):
            names.setdefault(spec, node.name if len(specs) == 1 else f"{node.name}.{position}")
    return names


def is_bookkeeping(node: Node) -> bool:
    """True if a node computes no bytes: it reserves them, frees them or returns."""
    return node.op == "output" or node.target in (memory.alloc, memory.free)


def mutable_buffers(module: GraphModule, signature: ExportGraphSignature | None) -> set[TensorSpec]:
    """Specs of the buffers that the module writes and that outlive a run, by its signature."""
    return {
        spec
        for node in module.graph.nodes
        if _is_mutable_buffer(node, signature)
        for spec in get_node_tensor_specs(node)
    }


def return_buffers_in_place(
    module: GraphModule, signature: ExportGraphSignature | None, planned: Iterable[TensorSpec]
) -> None:
    """Set the buffers as bases of the specs by which the module returns mutable buffers.

    A module returns the buffers that it wrote as specs that only its output node has. No kernel
    writes these specs and no caller gets them: they need no bytes of their own.
    """
    known = set(planned)
    buffers = mutable_buffers(module, signature) & known
    if not buffers:
        return
    *nodes, end = module.graph.nodes
    accessed = {spec for node in nodes for spec in get_node_tensor_specs(node)}
    for node, spec in zip(end.args[0], end.meta["spec"], strict=True):
        specs = get_node_tensor_specs(node) if isinstance(node, Node) else []
        buffer = specs[0] if len(specs) == 1 else None
        if (
            buffer is not None
            and buffer in buffers
            and spec in known - accessed
            and spec.storage_base is None
            and spec.mem_id == buffer.mem_id
            and spec.allocated_memory <= buffer.allocated_memory
        ):
            spec.storage_base, spec.storage_base_offset = buffer, 0


def planned_specs(module: GraphModule) -> list[TensorSpec]:
    """All specs of a module's nodes that have been given an offset."""
    specs = collect_specs_from_nodes(
        module.graph.nodes, ignore_const=False, ignore_out_var_node=False, do_assertion=False
    )
    return [spec for spec in specs if spec.mem_offset is not None]


@dataclass
class Region:
    """The submodules of a control-flow node, and the steps during which their bytes are live.

    Nodes that share a submodule share a region.
    """

    name: str
    nodes: list[Node]
    modules: list[GraphModule]
    lower: int
    upper: int

    def specs(self) -> Iterator[TensorSpec]:
        """Every planned spec in the region, once."""
        found = (spec for module in self.modules for spec in _planned_within(module))
        return iter(dict.fromkeys(found))

    def extents(self) -> dict[int, tuple[int, int]]:
        """Memory id -> the bytes ``[begin, end)`` of the region's tensors."""
        extents: dict[int, tuple[int, int]] = {}
        for spec in self.specs():
            memory_id = spec.mem_id or FIRST_MEMORY
            end = spec.mem_offset + spec.allocated_memory
            known = extents.get(memory_id, (spec.mem_offset, end))
            extents[memory_id] = min(known[0], spec.mem_offset), max(known[1], end)
        return extents

    def needs(self) -> dict[int, int]:
        """Memory id -> bytes from 0 on that the submodules' plans need, with padding."""
        sizes: dict[int, int] = {}
        for module in self.modules:
            for memory_id, size in enumerate(module.meta["non_const_buffer_sizes"]):
                if size:
                    sizes[memory_id] = max(sizes.get(memory_id, 0), size)
        return sizes

    def move(self, distance: Mapping[int, int]) -> None:
        """Move the region's tensors by ``distance`` bytes in each memory."""
        for spec in self.specs():
            spec.mem_offset += distance.get(spec.mem_id or FIRST_MEMORY, 0)


def find_regions(module: GraphModule) -> list[Region]:
    """The regions of a module's own control-flow nodes, whose submodules have been planned.

    Nodes that share a submodule share a region.
    """
    regions: list[Region] = []
    for step, node in find_control_flow(module):
        modules = [
            getattr(module, node.args[position].target) for position in _SUBMODULES[node.target]
        ]
        specs = get_node_tensor_specs(node)
        upper = max([step, *(spec.lifetime[1] for spec in specs)]) + 1
        region = Region(node.name, [node], modules, step, upper)
        for other in list(regions):
            if any(m is n for m in other.modules for n in region.modules):
                regions.remove(other)
                nodes, modules = other.nodes + region.nodes, other.modules + region.modules
                region = Region(other.name, nodes, modules, other.lower, upper)
                region.upper = max(region.upper, other.upper)
        regions.append(region)
    return regions


def find_control_flow(module: GraphModule) -> list[tuple[int, Node]]:
    """A module's own control-flow nodes, with their steps in its order."""
    # Nodes that free memory are inserted after lifetimes were counted, so they are no steps.
    counted = (node for node in module.graph.nodes if node.target is not memory.free)
    return [(step, node) for step, node in enumerate(counted) if node.target in _SUBMODULES]


def _planned_within(module: GraphModule) -> Iterator[TensorSpec]:
    yield from planned_specs(module)
    for region in find_regions(module):
        yield from region.specs()
