"""A graph module with its nodes in another order, in which nodes may repeat.

Nodes that are ops of the graph run in the given order. Nodes that pick a part of a result, or only
compute with sizes, run as soon as they can: so they keep no tensor alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

from cpplan.io.torch.nodes import is_op, is_part
from cpplan.io.torch.sources import ROLE, Traced, open_source
from cpplan.io.torch.translation import naming, translate
from cpplan.program.anf import to_anf


def reorder(
    source: GraphModule | ExportedProgram,
    order: Sequence[str],
    example_inputs: Sequence[Any] | None = None,
) -> GraphModule:
    """The graph module in the given order; see :func:`cpplan.io.torch.reorder_graph_module`."""
    with naming(source):
        traced = open_source(source, {}, example_inputs)
        translation = translate(traced, traced.name)
        program = to_anf(translation.graph, order)
        return _Writer(traced).write([translation.nodes[name] for name in program.names])


class _Writer:
    def __init__(self, traced: Traced):
        self.traced, self.graph = traced, Graph()
        self.newest: dict[Node, Node] = {}
        nodes = traced.module.graph.nodes
        self.taken = {node.name for node in nodes}
        self.waiting = [
            node
            for node in nodes
            if node.op not in ("placeholder", "get_attr", "output")
            and not is_op(node, traced.values)
            and not is_part(node, traced.values)
        ]

    def write(self, order: Sequence[Node]) -> GraphModule:
        module, nodes = self.traced.module, self.traced.module.graph.nodes
        for node in nodes:
            if node.op in ("placeholder", "get_attr"):
                self._emit(node)
            if node.name in self.traced.constants:
                self.newest[node].meta[ROLE] = "constant"
        for node in order:
            self._emit_ready()
            self._emit(node)
        self._emit_ready()
        for node in nodes:
            if node.op == "output":
                self._emit(node)
        self.graph.set_codegen(module.graph._codegen)
        written = GraphModule(module, self.graph, class_name=type(module).__name__)
        written.meta.update(module.meta)
        written.train(module.training)
        return written

    def _emit(self, node: Node) -> None:
        again = node in self.newest
        copied = self.graph.node_copy(node, lambda given: self.newest[given])
        copied.name = self._name_again(node.name) if again else node.name
        self.newest[node] = copied
        for user in node.users:
            if is_part(user, self.traced.values):
                self._emit(user)

    def _emit_ready(self) -> None:
        """Emit nodes that only compute with sizes, in their old order, if their inputs exist."""
        left = []
        for node in self.waiting:
            if all(given in self.newest for given in node.all_input_nodes):
                self._emit(node)
            else:
                left.append(node)
        self.waiting = left

    def _name_again(self, name: str) -> str:
        found, number = f"{name}_again", 1
        while found in self.taken:
            number += 1
            found = f"{name}_again_{number}"
        self.taken.add(found)
        return found
