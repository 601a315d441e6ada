"""Forward and backward graph modules of a schedule."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node, map_arg

from cpplan.io.torch.training.checkpoint_tags import AGAIN
from cpplan.io.torch.training.joint_graph import (
    TURN,
    JointGraph,
    depending_on,
    is_training_batch_norm,
    tangents_of,
)
from cpplan.io.torch.training.redrawing import copy_state, write_draw, write_redraw, writes

_WITHOUT_STATISTICS = torch.ops.aten._native_batch_norm_legit.no_stats


def split_halves(joint: JointGraph, order: Sequence[str]) -> tuple[GraphModule, GraphModule]:
    """Forward and backward graph module, which run the ops of a schedule in its order.

    Their inputs and results are those that AOTAutograd expects of a partition.
    """
    from torch._functorch.partitioners import _extract_fwd_bwd_modules

    writer = _Writer(joint)
    module = writer.write(order)
    numbers = [node for node in writer.crossing if _is_number(node)]
    saved = [node for node in writer.crossing if not _is_number(node)]
    forward, backward = _extract_fwd_bwd_modules(
        module, saved, saved_sym_nodes=numbers, num_fwd_outputs=len(joint.forward)
    )
    # By default random ops count as impure: the second half would draw those of the first again.
    backward.graph.eliminate_dead_code(is_impure_node=_has_effect)
    backward.recompile()
    return forward, backward


def inference_module(joint: JointGraph, order: Sequence[str]) -> GraphModule:
    """Graph module that runs the ops of a schedule in its order, without a second half."""
    module = _Writer(joint).write(order)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def _has_effect(node: Node) -> bool:
    return bool(node.is_impure(impure_random=False))


def _is_number(node: Node) -> bool:
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))


class _Writer:
    """Writer of a new joint graph: ops in the schedule's order, and views where they are read.

    A view is written once for each copy of its base, in either half: so no view is saved, and none
    keeps an old copy alive.
    """

    def __init__(self, joint: JointGraph):
        self.joint, self.graph = joint, Graph()
        nodes = joint.module.graph.nodes
        self.depending = depending_on(joint.module, tangents_of(joint.module))
        self.second = False
        # Node that is no view -> its newest copy; node that the forward pass returns -> copy kept.
        self.newest: dict[Node, Node] = {}
        self.held: dict[Node, Node] = {}
        # Random op that runs again -> the generator's state before its first run.
        self.drawn_from: dict[Node, Node] = {}
        self.redrawn: set[Node] = set()
        self.views: dict[tuple[Node, bool, tuple[Node, ...]], Node] = {}
        self.first_half: set[Node] = set()
        self.crossing: dict[Node, None] = {}
        picks = [node for node in nodes if node.target is operator.getitem]
        wholes = {node: node.args[0] for node in picks}
        self.viewed = joint.views | {n for n, whole in wholes.items() if whole in joint.views}
        self.parts: dict[Node, list[Node]] = {}
        ops = set(joint.nodes.values())
        for part, whole in wholes.items():
            if whole in ops and part not in self.viewed:
                self.parts.setdefault(whole, []).append(part)
        known = ops | self.viewed | {part for parts in self.parts.values() for part in parts}
        self.waiting = [n for n in nodes if n.op == "call_function" and n not in known]

    def write(self, order: Sequence[str]) -> GraphModule:
        joint, module = self.joint, self.joint.module
        tangents = set(tangents_of(module))
        runs = Counter(order)
        self.redrawn = {node for node in joint.states.values() if runs[node.name] > 1}
        for node in module.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                self._add(node, self.graph.node_copy(node))
        self.first_half -= {self.newest[node] for node in tangents}
        self._write_ready()
        forward: list[Any] = []
        for name in order:
            if name == TURN:
                forward = self._results(joint.forward)
                self.second = True
            elif name in joint.kept:
                self.held[joint.kept[name]] = self.newest[joint.kept[name]]
            elif name not in joint.states:
                self._write(joint.nodes[name])
            self._write_ready()
        if not self.second:
            forward = self._results(joint.forward)
        results = (*forward, *self._results(joint.backward))
        [output] = module.graph.find_nodes(op="output")
        self.graph.output(results).meta = dict(output.meta)
        return GraphModule(module, self.graph, class_name=type(module).__name__)

    def _write(self, node: Node) -> None:
        """Write an op and the nodes that pick its results."""
        parts = self.parts.get(node, [])
        if (node in self.newest or AGAIN in node.meta) and is_training_batch_norm(node):
            # Its statistics may be overwritten by then, and nothing reads the updated ones.
            values, weight, bias, _, _, training, momentum, eps = node.args
            args = values, weight, bias, training, momentum, eps
            copied = self.graph.call_function(
                _WITHOUT_STATISTICS, map_arg(args, lambda given: self._read(given, node))
            )
            copied.meta = {**node.meta, "val": tuple(node.meta["val"][:3])}
            parts = [part for part in parts if part.args[1] < 3]
        elif node in self.redrawn:
            copied = self._draw(node)
        else:
            copied = self.graph.node_copy(node, lambda given: self._read(given, node))
        self._add(node, copied)
        for part in parts:
            self._add(part, self.graph.node_copy(part, lambda given: self.newest[given]))

    def _draw(self, node: Node) -> Node:
        """Write a random op whose results are drawn several times."""

        def read(given: Node) -> Node:
            return self._read(given, node)

        if node in self.drawn_from:
            return write_redraw(self.graph, node, self._state_of(node), read)
        drawn, state = write_draw(self.graph, node, read)
        self.drawn_from[node] = state
        self.first_half.add(state)
        return drawn

    def _state_of(self, node: Node) -> Node:
        state = self.drawn_from[node]
        if not self.second:
            return copy_state(self.graph, state)
        self.crossing[state] = None
        return state

    def _add(self, node: Node, copied: Node) -> None:
        self.newest[node] = copied
        if not self.second:
            self.first_half.add(copied)
        elif not writes(node):
            # AOTAutograd copies all into the forward graph that reads nothing of the backward pass,
            # and removes what is unused: but with ``fallback_random`` no op that may draw numbers.
            copied.meta["partitioner_tag"] = "must_be_in_backward"

    def _read(self, node: Node, reader: Node | None) -> Node:
        """The copy of a node that a reader uses; the reader is ``None`` for results."""
        if node in self.viewed:
            base = tuple(self._read(given, reader) for given in node.all_input_nodes)
            key = node, self.second, base
            if key not in self.views:
                given_as = dict(zip(node.all_input_nodes, base, strict=True))
                self.views[key] = self.graph.node_copy(node, given_as.__getitem__)
            return self.views[key]
        keeps = node in self.held and (reader is None or reader in self.depending)
        found = self.held[node] if keeps else self.newest[node]
        if self.second and found in self.first_half and found.op != "get_attr":
            self.crossing[found] = None
        return found

    def _results(self, nodes: Sequence[Any]) -> list[Any]:
        return [self._read(node, None) if isinstance(node, Node) else node for node in nodes]

    def _write_ready(self) -> None:
        """Write nodes that only compute or check sizes, as soon as their inputs exist."""
        left = []
        for node in self.waiting:
            if all(map(self._is_there, node.all_input_nodes)):
                self._add(node, self.graph.node_copy(node, lambda given: self._read(given, None)))
            else:
                left.append(node)
        self.waiting = left

    def _is_there(self, node: Node) -> bool:
        if node in self.viewed:
            return all(map(self._is_there, node.all_input_nodes))
        return node in self.newest
