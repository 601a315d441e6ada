"""The memory planning algorithm: ExecuTorch's specs in, their offsets written back."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from executorch.exir.banked_memory_planning import TargetMemoryMap
from executorch.exir.error import internal_assert
from executorch.exir.memory_planning import collect_specs_from_nodes, get_node_tensor_specs
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.memory_planning_pass import PassResult
from executorch.exir.schema import DeviceType
from executorch.exir.tensor import TensorSpec
from torch.export import ExportGraphSignature
from torch.fx import GraphModule, Node

from cpplan.io.executorch.banks import pools_of
from cpplan.io.executorch.graph import Translation, constant_results, translate
from cpplan.io.executorch.problem import Layout, check_places, layout_of, parse_capacities
from cpplan.io.executorch.specs import (
    Region,
    align,
    find_control_flow,
    find_regions,
    find_storages,
    name_specs,
    return_buffers_in_place,
)
from cpplan.io.executorch.values import call_verifier, check_values
from cpplan.model.byte_sizes import format_bytes
from cpplan.model.errors import InputError, error_without_plan
from cpplan.model.plan import Plan
from cpplan.model.problem import Problem
from cpplan.runtime.deadline import Deadline
from cpplan.solving.pipeline import solve

logger = logging.getLogger(__name__)


class Algorithm:
    """The algorithm that ``MemoryPlanningPass`` calls; see :func:`cpplan.io.executorch.algorithm`.

    ``plans`` has the plans made, one for every memory of every module, submodules first.
    """

    def __init__(
        self,
        time_limit: float,
        capacities: Mapping[int, int | str],
        memory_map: TargetMemoryMap | None,
        executorch_verifier: bool,
        options: Mapping[str, Any],
    ):
        if memory_map is not None:
            pools_of(memory_map)
            if capacities:
                raise InputError("capacities and memory_map exclude each other: give only one")
        self.time_limit, self.capacities, self.options = time_limit, capacities, options
        self.memory_map = memory_map
        self.executorch_verifier = executorch_verifier
        self.plans: list[Plan] = []
        # ExecuTorch writes the algorithm's name into its log.
        self.__name__ = "cpplan"

    def __call__(
        self,
        alignment: int,
        specs: Sequence[TensorSpec],
        graph_module: GraphModule,
        graph_signature: ExportGraphSignature | None = None,
        extra_padding: int = 0,
    ) -> list[int]:
        """Place the specs; returns the bytes of every memory, the memory of constants first."""
        specs = list(specs)
        align(specs, alignment)
        return_buffers_in_place(graph_module, graph_signature, specs)
        names = name_specs(graph_module)
        storages = find_storages(specs, names)
        regions, parts = _reserved(graph_module, names)
        banks = {} if self.memory_map is None else pools_of(self.memory_map, extra_padding)
        for bank in banks.values():
            if bank.alignment > 1 and bank.alignment % alignment:
                raise InputError(
                    f"memory_map: the alignment {bank.alignment} of {bank.name} must be a multiple "
                    f"of the tensors' alignment {alignment}"
                )
        if banks and any(spec.device != DeviceType.CPU for spec in specs):
            raise InputError(
                "memory_map describes memories of the CPU, but a tensor lies on another device"
            )
        layout = layout_of(
            storages,
            parts,
            regions,
            banks=banks,
            free=[storage for storage in storages if storage.root.mem_id is None],
            alignment=alignment,
            capacities=parse_capacities(self.capacities, extra_padding),
            name=type(graph_module).__name__,
        )
        sizes = self._place(layout, extra_padding)
        _report_constants(graph_module)
        check_places(storages, regions, sizes, names, layout.problem.name)
        if self.executorch_verifier:
            call_verifier(graph_module, graph_signature, specs, ends=False)
        return sizes

    def _place(self, layout: Layout, padding: int) -> list[int]:
        sizes = [0] * (max(layout.memories) + 1)
        moves: dict[int, dict[int, int]] = {}
        for row, (memory, offset) in enumerate(self._places(layout)):
            sizes[memory] = max(sizes[memory], offset + int(layout.problem.size[row]))
            if row < len(layout.storages):
                for spec, within in layout.storages[row].within.items():
                    spec.mem_id, spec.mem_offset = memory, offset + within
                    # ``mem_obj_id`` would forbid sharing of bytes; here all buffers may share.
                    spec.mem_obj_id = None
            else:
                region, _ = layout.parts[row - len(layout.storages)]
                moves.setdefault(id(region), {})[memory] = offset
        used = {storage.memory for storage in layout.storages} | {m for _, m in layout.parts}
        for region in {id(region): region for region, _ in layout.parts}.values():
            region.move(moves[id(region)])
        sizes = [size + padding * (memory in used) for memory, size in enumerate(sizes)]
        return sizes if len(sizes) > 1 else [0, 0]

    def _places(self, layout: Layout) -> list[tuple[int, int]]:
        """Memory id and offset of each row; one problem for all memories if a row has a choice."""
        problem, memories = layout.problem, layout.memories
        if any(len(allowed) > 1 for allowed in problem.candidates.values()):
            plan, offsets = self._solve(problem, self.time_limit, objective="preference")
            pool = [0] * len(problem) if plan.pool is None else plan.pool.tolist()
            return [(memories[k], offset) for k, offset in zip(pool, offsets, strict=True)]
        deadline = Deadline(self.time_limit)
        places = [(0, 0)] * len(problem)
        for number, memory in enumerate(memories):
            rows = layout.rows_in(memory)
            share = deadline.remaining() / (len(memories) - number)
            _, offsets = self._solve(problem.in_pool(number, rows), max(share, _SHORTEST))
            for row, offset in zip(rows.tolist(), offsets, strict=True):
                places[row] = (memory, offset)
        return places

    def _solve(self, problem: Problem, time_limit: float, **options: Any) -> tuple[Plan, list[int]]:
        plan = solve(problem, time_limit=time_limit, **options, **self.options)
        if plan.offset is None:
            names = ", ".join(pool.name for pool in problem.pools)
            raise error_without_plan(plan.status, f"{names}: {plan.message}")
        self.plans.append(plan)
        return plan, plan.offset.tolist()


def _report_constants(module: GraphModule) -> None:
    specs = {spec for node in constant_results(module) for spec in get_node_tensor_specs(node)}
    if specs:
        logger.warning(
            "%d results (%s) depend on constants alone, but take bytes of the arena: call "
            "fold_constants first, which computes them in advance",
            len(specs),
            format_bytes(sum(int(spec.allocated_memory) for spec in specs)),
        )


# Least time limit of a plan, seconds: a late plan is better than none.
_SHORTEST = 0.001


def _reserved(
    module: GraphModule, names: Mapping[TensorSpec, str]
) -> tuple[list[Region], dict[tuple[int, int], int]]:
    """Regions of control flow, and the bytes that each region needs in each memory.

    ``input_mem_buffer_sizes`` has the sum over all submodules; if it is empty, no bytes are
    reserved: no submodule runs on this device.
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
                f"input_mem_buffer_sizes reserves {size} B of memory {memory}, but less is needed "
                "by the known submodules of control flow (cond, while, map, scan)"
            )
    return regions, parts


class PlanningPass(MemoryPlanningPass):  # type: ignore[misc]  # executorch has no types here
    """See :func:`cpplan.io.executorch.planning_pass`.

    ``arrangements`` has the plans from which order and sharing were taken, one for every method;
    ``memory_planning_algo.plans`` has the layouts.
    """

    def __init__(
        self,
        planner: Callable[..., list[int]],
        *,
        time_limit: float,
        order: str,
        in_place: bool,
        solving: Mapping[str, Any],
        **passing: Any,
    ):
        super().__init__(planner, **passing)
        self.time_limit, self.order, self.in_place = time_limit, order, in_place
        self.solving = solving
        self.arrangements: list[Plan] = []
        self.signature: ExportGraphSignature | None = None

    def run(
        self, graph_module: GraphModule, graph_signature: ExportGraphSignature | None = None
    ) -> PassResult:
        """Arrange the module, plan its memory as the base class does, and check its reads."""
        self.signature = graph_signature
        result = super().run(graph_module, graph_signature)
        check_values(graph_module, type(graph_module).__name__)
        return result

    def _set_alloc_node_spec(self, graph_module: GraphModule) -> None:
        # At this point every node has its spec, and no lifetime is counted yet.
        super()._set_alloc_node_spec(graph_module)
        self._arrange(graph_module)

    def _arrange(self, module: GraphModule) -> None:
        # A module with submodules keeps its order: their bytes are known only after they are
        # planned.
        order = "given" if find_control_flow(module) else self.order
        if order == "given" and not self.in_place:
            return
        planned = list(
            collect_specs_from_nodes(
                module.graph.nodes,
                self.signature,
                ignore_graph_input=not self.alloc_graph_input,
                ignore_graph_output=not self.alloc_graph_output,
                # Shared buffers are planned for all methods together, in a memory of their own.
                ignore_mutable_buffers=not self.alloc_mutable_buffers or self.share_mutable_buffers,
                do_assertion=False,
            )
        )
        align(planned, self.alignment)
        return_buffers_in_place(module, self.signature, planned)
        translation = translate(module, self.signature, planned)
        plan = solve(
            translation.graph,
            time_limit=self.time_limit,
            order=order,
            in_place=self.in_place,
            placement=False,
            constants="keep",
            **self.solving,
        )
        self.arrangements.append(plan)
        for relation in plan.relations:
            spec = translation.specs[relation.tensor]
            spec.storage_base = translation.specs[relation.other]
            spec.storage_base_offset = 0
        if order != "given":
            reorder(module, translation, plan.order)


def reorder(module: GraphModule, translation: Translation, order: Sequence[str]) -> None:
    """Move the nodes of a module into an order of its ops.

    Nodes that compute no bytes (they reserve a result or view it) are put directly before the first
    op that uses them, after all nodes that they use themselves: a view may take its size from an op
    that runs long after the op that computed its bytes. The parts of several results follow their
    op at once: one that is picked later keeps all of them for longer.

    Raises
    ------
    InternalError
        If the order has an op before another whose result it uses.
    """
    *nodes, end = module.graph.nodes
    placed = {node for node in nodes if node.op != "call_function"}

    def place(node: Node) -> None:
        for given in node.all_input_nodes:
            if given not in placed:
                internal_assert(
                    given.name not in translation.nodes,
                    f"{node.name} is ordered before {given.name}, whose result it takes",
                )
                place(given)
        end.prepend(node)
        placed.add(node)

    for name in order:
        if name != end.name:
            node = translation.nodes[name]
            place(node)
            # Parts are picked from the op, or from the list of results that it is given.
            for whole in (node, *node.all_input_nodes):
                for part in whole.users:
                    if part.target is operator.getitem and part not in placed:
                        place(part)
    for node in nodes:
        if node not in placed:
            place(node)
    module.graph.lint()
    module.recompile()
