"""Live bytes of a graph module, measured while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from cpplan.io.torch.effects import storage_of
from cpplan.io.torch.sources import ROLE
from cpplan.io.torch.values import tensors_in
from cpplan.model.errors import InputError


@dataclass(frozen=True)
class LiveBytes:
    """The live bytes measured at each node of a run.

    Attributes
    ----------
    per_node
        Node -> bytes of the storages that are live when the node has run, before anything is freed;
        in the order of the nodes. Each storage counts once, with all its bytes. Parameters, buffers
        and other constants do not count.
    results
        The module's results.
    """

    per_node: dict[str, int]
    results: Any

    @property
    def peak(self) -> int:
        """Largest live bytes of all nodes."""
        return max(self.per_node.values(), default=0)


def measure(module: GraphModule, inputs: Sequence[Any]) -> LiveBytes:
    """Run the module and free each value, inputs included, after its last use."""
    placeholders = module.graph.find_nodes(op="placeholder")
    if len(inputs) != len(placeholders):
        raise InputError(f"expected {len(placeholders)} inputs, not {len(inputs)}")
    remaining = iter(inputs)
    interpreter = Interpreter(module, garbage_collect_values=False)
    last_use = _last_uses(module)
    constants: set[int] = set()
    per_node: dict[str, int] = {}
    results: Any = None
    computed = False
    dead: list[Node] = []
    with torch.no_grad():
        for node in module.graph.nodes:
            if node.op == "output":
                results = torch.fx.map_arg(node.args[0], lambda n: interpreter.env[n])
                break
            value = next(remaining) if node.op == "placeholder" else interpreter.run_node(node)
            interpreter.env[node] = value
            if node.op == "get_attr" or node.meta.get(ROLE) == "constant":
                constants |= {storage_of(tensor) for tensor in tensors_in(value)}
            elif node.op != "placeholder":
                per_node[node.name] = _count(interpreter.env.values(), constants)
                computed = computed or bool(tensors_in(value))
            dead += last_use[node]
            if computed:  # all inputs are live at the first op, even if it does not read them
                for done in dead:
                    del interpreter.env[done]
                dead.clear()
    return LiveBytes(per_node, results)


def _last_uses(module: GraphModule) -> dict[Node, list[Node]]:
    """Node -> nodes whose values it is the last to use; a node without users is its own."""
    found: dict[Node, list[Node]] = {node: [] for node in module.graph.nodes}
    seen: set[Node] = set()
    for node in reversed(module.graph.nodes):
        for given in (node, *node.all_input_nodes):
            if given not in seen:
                seen.add(given)
                found[node].append(given)
    return found


def _count(values: Any, constants: set[int]) -> int:
    """Bytes of the storages that hold the tensors among the values, without constants."""
    sizes = {
        storage_of(tensor): tensor.untyped_storage().nbytes()
        for value in values
        for tensor in tensors_in(value)
    }
    return sum(size for storage, size in sizes.items() if storage not in constants)
