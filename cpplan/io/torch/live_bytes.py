"""The bytes of tensors that are alive while a graph module runs, measured."""

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
        Bytes of the storages alive when a node has run and nothing is freed yet, by the node's
        name, in order. Each storage counts once, with all its bytes; those of parameters, buffers
        and other constants do not count.
    results
        The module's results.
    """

    per_node: dict[str, int]
    results: Any

    @property
    def peak(self) -> int:
        """The largest of them."""
        return max(self.per_node.values(), default=0)


def measure(module: GraphModule, inputs: Sequence[Any]) -> LiveBytes:
    """Run the module, freeing every value after its last use; an input's too."""
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
            if computed:  # what is handed in is there for the first op, whether it is read or not
                for done in dead:
                    del interpreter.env[done]
                dead.clear()
    return LiveBytes(per_node, results)


def _last_uses(module: GraphModule) -> dict[Node, list[Node]]:
    """For every node, the nodes whose values it uses for the last time, itself if never used."""
    found: dict[Node, list[Node]] = {node: [] for node in module.graph.nodes}
    seen: set[Node] = set()
    for node in reversed(module.graph.nodes):
        for given in (node, *node.all_input_nodes):
            if given not in seen:
                seen.add(given)
                found[node].append(given)
    return found


def _count(values: Any, constants: set[int]) -> int:
    """Bytes of the storages in which the tensors among the values lie."""
    sizes = {
        storage_of(tensor): tensor.untyped_storage().nbytes()
        for value in values
        for tensor in tensors_in(value)
    }
    return sum(size for storage, size in sizes.items() if storage not in constants)
