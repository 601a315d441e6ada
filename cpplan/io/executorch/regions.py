"""Regions of control flow: the bytes of the branches of a ``cond`` and the bodies of loops.

ExecuTorch plans each such submodule first, from byte 0 of each memory on. Here all bytes of a
control-flow node's submodules are one more buffer of the node's module: a region, live from the
node on, for as long as the node's results, since the results of a ``cond`` are not copied out of
the branch that computed them. When a region is placed, its tensors move with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from executorch.exir import memory
from executorch.exir.control_flow import while_loop
from executorch.exir.memory_planning import get_node_tensor_specs
from executorch.exir.tensor import TensorSpec
from torch.fx import GraphModule, Node

from cpplan.io.executorch.specs import FIRST_MEMORY, planned_specs

# Positions of the submodules among a control-flow node's arguments.
_SUBMODULES = {
    torch.ops.higher_order.cond: (1, 2),
    torch.ops.higher_order.map_impl: (0,),
    torch.ops.higher_order.scan: (0,),
    while_loop: (0, 1),
}


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
