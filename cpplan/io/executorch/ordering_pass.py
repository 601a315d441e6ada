"""A memory planning pass that first chooses the order of the nodes and the in-place results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from executorch.exir.error import internal_assert
from executorch.exir.memory_planning import collect_specs_from_nodes
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.memory_planning_pass import PassResult
from torch.export import ExportGraphSignature
from torch.fx import GraphModule, Node

from cpplan.io.executorch.graph import Translation, translate
from cpplan.io.executorch.regions import find_control_flow
from cpplan.io.executorch.specs import align, return_buffers_in_place
from cpplan.io.executorch.values import check_values
from cpplan.model.plan import Plan
from cpplan.solving.pipeline import solve


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

    Nodes that compute no bytes (they reserve a result, pick a part of it or view it) are put
    directly before the first op that uses them, after all nodes that they use themselves: a view
    may take its size from an op that runs long after the op that computed its bytes.

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
            place(translation.nodes[name])
    for node in nodes:
        if node not in placed:
            place(node)
    module.graph.lint()
    module.recompile()
