"""Results that depend on constants alone: found in a module, and computed in advance."""

from __future__ import annotations

import copy

import torch
from executorch.exir import EdgeProgramManager, memory
from executorch.exir.memory_planning import get_node_tensor_specs
from executorch.exir.passes.constant_prop_pass import constant_prop_pass
from torch.fx import GraphModule, Node

from cpplan.io.executorch.specs import is_bookkeeping
from cpplan.model.errors import InputError


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
