"""The memory planning algorithm: ExecuTorch's specs in, their offsets written back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from executorch.exir.tensor import TensorSpec
from torch.export import ExportGraphSignature
from torch.fx import GraphModule

from cpplan.deadline import Deadline
from cpplan.errors import InfeasibleError, InputError
from cpplan.io.executorch.problem import Layout, layout_of, parse_capacities
from cpplan.io.executorch.regions import Region, find_regions
from cpplan.io.executorch.specs import align, find_storages, name_specs
from cpplan.io.executorch.their_checks import call_verifier
from cpplan.pipeline import solve
from cpplan.plan import Plan
from cpplan.problem import Problem


class Algorithm:
    """What ``MemoryPlanningPass`` calls; see :func:`cpplan.io.executorch.algorithm`.

    ``plans`` are those made, one for every memory of every module, submodules first.
    """

    def __init__(
        self, time_limit: float, capacities: Mapping[int, int | str], options: Mapping[str, Any]
    ):
        self.time_limit, self.capacities, self.options = time_limit, capacities, options
        self.plans: list[Plan] = []
        # ExecuTorch names the algorithm in what it logs.
        self.__name__ = "cpplan"

    def __call__(
        self,
        alignment: int,
        specs: Sequence[TensorSpec],
        graph_module: GraphModule,
        graph_signature: ExportGraphSignature | None = None,
        extra_padding: int = 0,
    ) -> list[int]:
        """Place the specs; returns the bytes of every memory, that of the constants first."""
        specs = list(specs)
        align(specs, alignment)
        names = name_specs(graph_module)
        storages = find_storages(specs, names)
        regions, parts = _reserved(graph_module, names)
        layout = layout_of(
            storages,
            parts,
            regions,
            alignment=alignment,
            capacities=parse_capacities(self.capacities, extra_padding),
            name=type(graph_module).__name__,
        )
        sizes = self._place(layout, extra_padding)
        call_verifier(graph_module, graph_signature, specs, ends=False)
        return sizes

    def _place(self, layout: Layout, padding: int) -> list[int]:
        deadline = Deadline(self.time_limit)
        sizes = [0] * (max(layout.memories) + 1)
        moves: dict[int, dict[int, int]] = {}
        for number, memory in enumerate(layout.memories):
            rows = layout.rows_in(memory)
            share = deadline.remaining() / (len(layout.memories) - number)
            offsets = self._solve(layout.problem.in_pool(number, rows), share)
            for row, offset in zip(rows.tolist(), offsets, strict=True):
                sizes[memory] = max(sizes[memory], offset + int(layout.problem.size[row]))
                if row < len(layout.storages):
                    for spec, within in layout.storages[row].within.items():
                        spec.mem_id, spec.mem_offset = memory, offset + within
                        # Only tells apart what may share bytes; here anything may.
                        spec.mem_obj_id = None
                else:
                    region, _ = layout.parts[row - len(layout.storages)]
                    moves.setdefault(id(region), {})[memory] = offset
            if len(rows):
                sizes[memory] += padding
        for region in {id(region): region for region, _ in layout.parts}.values():
            region.move(moves[id(region)])
        return sizes if len(sizes) > 1 else [0, 0]

    def _solve(self, problem: Problem, time_limit: float) -> list[int]:
        plan = solve(problem, time_limit=max(time_limit, _SHORTEST), **self.options)
        if plan.offset is None:
            raise InfeasibleError(f"{problem.pools[0].name}: {plan.message}")
        self.plans.append(plan)
        offsets: list[int] = plan.offset.tolist()
        return offsets


# A plan is worth waiting for, however late it is.
_SHORTEST = 0.001


def _reserved(
    module: GraphModule, names: Mapping[TensorSpec, str]
) -> tuple[list[Region], dict[tuple[int, int], int]]:
    """Regions of control flow, and the bytes that each needs of each memory.

    ``input_mem_buffer_sizes`` says how much that is of all submodules together; none is left to
    reserve where it is empty: for a device on which no submodule runs.
    """
    sizes = getattr(module, "input_mem_buffer_sizes", None) or []
    if not any(sizes):
        return [], {}
    regions = find_regions(module)
    parts = {
        (number, memory): size
        for number, region in enumerate(regions)
        for memory, size in region.needs().items()
    }
    for memory, size in enumerate(sizes):
        if size > max([part for (_, m), part in parts.items() if m == memory], default=0):
            raise InputError(
                f"input_mem_buffer_sizes reserves {size} B of memory {memory}, but the submodules "
                "of control flow that are known (cond, while, map, scan) need less"
            )
    return regions, parts
