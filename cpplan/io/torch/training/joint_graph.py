"""The graph that is planned for a joint graph: its ops without views, and the turn."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node
from torch.utils._pytree import arg_tree_leaves, tree_map

from cpplan.io.torch.nodes import names_in
from cpplan.io.torch.sources import open_source
from cpplan.io.torch.training.checkpoint_tags import AGAIN, is_saved, repeat_checkpointed
from cpplan.io.torch.training.empty_views import renew_empty_views
from cpplan.io.torch.training.redrawing import STATE, may_redraw, state_bytes, writes
from cpplan.io.torch.training.symbolic_sizes import at_sizes, hints_of
from cpplan.io.torch.training.work import Work, work_of
from cpplan.io.torch.translation import Translation, translate
from cpplan.io.torch.values import flatten, is_dense
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor

_log = logging.getLogger("cpplan.torch")

# Function of a node and the values of nodes: bytes that the node allocates beside its results.
Workspaces = Callable[[Node, Mapping[Node, Any]], int]

TURN = "turn"
KEEP = "keep"
# A returned result is copied if the op's outputs are at least this many times larger: the op may
# then run again. Otherwise the op runs once.
_SMALL_PART = 16
_BATCH_NORM = torch.ops.aten._native_batch_norm_legit_functional.default
_RECURRENT = torch.ops.aten.mkldnn_rnn_layer_backward.default
_COLLECTIVES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")
_KNOWN_HIGHER_ORDER = ("cond", "while_loop", "wrap_with_autocast", "wrap_with_set_grad_enabled")


class UnsupportedError(InputError):
    """Error for a training step that cannot be planned; names all nodes that prevent it."""


@dataclass(frozen=True)
class JointGraph:
    """A joint graph, prepared for planning.

    Attributes
    ----------
    module
        The graph module, with two nodes for each op that a checkpoint region computes again.
    graph
        The graph to plan, in the given order: the ops that are no views, :data:`TURN`, and ops of
        kind :data:`KEEP`. Costs are work; outputs are the tensors that the caller holds to the end.
    nodes
        Op -> its node; the turn has none.
    views
        Nodes that only make views.
    kept
        Op of kind :data:`KEEP` -> the node whose value it keeps.
    states
        Op of kind ``STATE`` -> the node that draws from the generator in this state, and may run
        again from it.
    forward, backward
        Results of the two halves, ``None`` and numbers included.
    resident
        Bytes of parameters, buffers and inputs, which are live before and after the step.
    operations
        Op -> its floating-point operations.
    """

    module: GraphModule
    graph: Graph
    nodes: Mapping[str, Node]
    views: frozenset[Node]
    kept: Mapping[str, Node]
    states: Mapping[str, Node]
    forward: tuple[Any, ...]
    backward: tuple[Any, ...]
    resident: int
    operations: Mapping[str, int]


def read_joint(
    module: GraphModule,
    num_fwd_outputs: int,
    *,
    name: str = "step",
    work: Work = work_of,
    workspaces: Workspaces | None = None,
) -> JointGraph:
    """The graph to plan for a joint graph module, or for an inference graph without tangents."""
    _check_nodes(module)
    renew_empty_views(module)
    spoilt = {
        node
        for node in depending_on(module, overwritten_inputs(module))
        if not is_training_batch_norm(node)
    }
    repeat_checkpointed(module, depending_on(module, tangents_of(module)), spoilt)
    return _read(module, num_fwd_outputs, hints_of(module), name, work, workspaces)


def joint_at(
    joint: JointGraph,
    sizes: Mapping[str, int],
    *,
    work: Work = work_of,
    workspaces: Workspaces | None = None,
) -> JointGraph:
    """The same joint graph, with the same ops, at other values of its symbolic sizes."""
    at = {**hints_of(joint.module), **sizes}
    return _read(
        joint.module, len(joint.forward), at, joint.graph.name, work, workspaces, like=joint
    )


def _read(
    module: GraphModule,
    num_fwd_outputs: int,
    sizes: Mapping[str, int],
    name: str,
    work: Work,
    workspaces: Workspaces | None,
    like: JointGraph | None = None,
) -> JointGraph:
    """The graph to plan for a prepared module, with the copies and states of one like it."""
    traced = open_source(module, sizes)
    primals = [
        node
        for node in module.graph.find_nodes(op="placeholder")
        if not _is_tangent(node) and isinstance(traced.values[node], torch.Tensor)
    ]
    traced = replace(traced, constants={node.name: None for node in primals})
    leaves = list(flatten(tuple(traced.values.values())))
    here = all(leaf.device.type == "cpu" for leaf in leaves if isinstance(leaf, torch.Tensor))
    try:
        found = translate(traced, name, runs_only=True)
    except InputError as error:
        raise UnsupportedError(str(error)) from error
    scratch = dict[str, int]()
    if workspaces is not None and here:
        values = {
            node: tree_map(lambda leaf: at_sizes(leaf, sizes), value)
            for node, value in traced.values.items()
        }
        scratch = _measure(found, values, workspaces)
    return _Preparation(module, found, num_fwd_outputs, work, scratch, like).run()


def tangents_of(module: GraphModule) -> list[Node]:
    """Placeholders for the gradients that autograd passes to the backward pass."""
    return [node for node in module.graph.find_nodes(op="placeholder") if _is_tangent(node)]


def depending_on(module: GraphModule, sources: Iterable[Node]) -> set[Node]:
    """The sources and all nodes computed from them."""
    found = set(sources)
    for node in module.graph.nodes:
        if not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return found


def overwritten_inputs(module: GraphModule) -> list[Node]:
    """Placeholders that the caller overwrites after the forward pass."""
    from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput

    [output] = module.graph.find_nodes(op="output")
    described = output.meta.get("desc", ())
    changed = [d.mutated_input for d in described if isinstance(d, InputMutationAOTOutput)]
    return [n for n in module.graph.find_nodes(op="placeholder") if n.meta.get("desc") in changed]


def is_training_batch_norm(node: Node) -> bool:
    """True for a batch norm in training: its outputs depend on the batch alone."""
    return node.target is _BATCH_NORM and bool(node.args[5])


def _is_tangent(node: Node) -> bool:
    return "tangents" in str(node.target)


def _check_nodes(module: GraphModule) -> None:
    """Raise one error that names all nodes that cannot be planned."""
    wrong = []
    for node in module.graph.nodes:
        if isinstance(node.target, HigherOrderOperator):
            if node.target.name() not in _KNOWN_HIGHER_ORDER:
                wrong.append(f"{node.name} (higher-order operator {node.target.name()})")
        elif getattr(node.target, "namespace", None) in _COLLECTIVES:
            # All processes would have to use the same plan.
            wrong.append(f"{node.name} (collective {node.target})")
        elif node.target is _RECURRENT:
            # The trace lacks the workspace that the backward kernel reads, for every backend.
            wrong.append(
                f"{node.name} (oneDNN's recurrent layer, which torch cannot compile: "
                "set torch.backends.mkldnn.enabled = False)"
            )
        elif node.op in ("call_module", "call_method"):
            wrong.append(f"{node.name} ({node.op} {node.target})")
        for leaf in flatten(node.meta.get("val")):
            if isinstance(leaf, torch.Tensor) and not is_dense(leaf):
                wrong.append(f"{node.name} (tensor of layout {leaf.layout})")
            elif isinstance(leaf, torch.SymInt) and leaf.node.hint is None:
                wrong.append(f"{node.name} (size {leaf} that depends on data)")
    if wrong:
        raise UnsupportedError(f"the step cannot be planned: {', '.join(dict.fromkeys(wrong))}")


def _measure(
    found: Translation, values: Mapping[Node, Any], workspaces: Workspaces
) -> dict[str, int]:
    """Op -> bytes that its kernel allocates beside its results, if it runs on zeros."""
    known, unknown = dict[str, int](), list[str]()

    def measure(name: str, node: Node) -> None:
        try:
            known[name] = workspaces(node, values)
        except InputError as error:
            unknown.append(str(error))

    for name, node in found.nodes.items():
        measure(name, node)
    if unknown:
        _log.warning(
            "the plan leaves out workspaces that could not be measured: %s", "; ".join(unknown)
        )
    return known


class _Preparation:
    def __init__(
        self,
        module: GraphModule,
        found: Translation,
        forward: int,
        work: Work,
        scratch: Mapping[str, int],
        like: JointGraph | None,
    ):
        self.scratch, self.like = scratch, like
        self._writes = any(writes(node) for node in module.graph.nodes)
        self.module, self.graph, self.nodes, self.names = (
            module, found.graph, found.nodes, found.names,
        )  # fmt: skip
        self.root = {name: root for name, (root, _) in found.graph.root.items()}
        self.work = work
        [output] = module.graph.find_nodes(op="output")
        results = arg_tree_leaves(*output.args)
        self.forward, self.backward = tuple(results[:forward]), tuple(results[forward:])
        self.dependent = depending_on(module, tangents_of(module))
        self.tensors = {t.name: t for t in self.graph.tensors if self.graph.is_storage(t.name)}
        self.kept: dict[str, Node] = {}
        self.states: dict[str, Node] = {}
        draws = [op.name for op in found.graph.ops if op.sequence is not None]
        self.drawn_before = {name: (before,) for before, name in pairwise(draws)}

    def run(self) -> JointGraph:
        views = {op.name for op in self.graph.ops if self._only_views(op)}
        for name in self._handed_back():
            if self.tensors[name].kind != "constant":
                self.tensors[name] = replace(self.tensors[name], kind="output")
        operations = {op.name: int(op.cost) for op in self.graph.ops if op.name not in views}
        ops = {op.name: self._without_views(op, views) for op in self.graph.ops
               if op.name not in views}  # fmt: skip
        if self.dependent:
            self._add_states(ops)
            self._add_turn(ops)
        graph = Graph(self.graph.name, tuple(self.tensors.values()), tuple(_in_order(ops)))
        resident = sum(t.nbytes for t in graph.tensors if t.kind == "constant")
        return JointGraph(
            self.module,
            graph,
            self.nodes,
            frozenset(self.nodes[name] for name in views),
            self.kept,
            self.states,
            self.forward,
            self.backward,
            resident,
            operations,
        )

    def _only_views(self, op: Op) -> bool:
        return (
            bool(op.outputs)
            and not (writes(self.nodes[op.name]) or op.workspaces)
            and not any(self.graph.is_storage(name) for name in op.outputs)
        )

    def _handed_back(self) -> set[str]:
        """Storages of the results of both halves."""
        results = (node for node in self.forward + self.backward if isinstance(node, Node))
        return {self.root[name] for node in results for name in names_in(self.names.get(node))}

    def _without_views(self, op: Op, views: set[str]) -> Op:
        """The op on whole storages, with its work; it also waits for what its views wait for."""
        roots = tuple(dict.fromkeys(self.root[name] for name in op.inputs))
        outputs = tuple(name for name in op.outputs if self.graph.is_storage(name))
        node = self.nodes[op.name]
        given = sum(self.graph.tensor[name].nbytes for name in roots)
        made = sum(self.graph.tensor[name].nbytes for name in outputs)
        return replace(
            op,
            inputs=roots,
            outputs=outputs,
            workspaces=self._workspaces_of(op),
            after=tuple(self._waits_for(op, views)),
            cost=self.work(node, int(op.cost), given + made),
            recomputable=op.recomputable and bool(outputs) and not is_saved(node),
        )

    def _workspaces_of(self, op: Op) -> tuple[str, ...]:
        if not self.scratch.get(op.name):
            return op.workspaces
        name = f"{op.name}.scratch"
        self.tensors[name] = Tensor(name, self.scratch[op.name], kind="workspace")
        return (*op.workspaces, name)

    def _waits_for(self, op: Op, views: set[str]) -> list[str]:
        """Names of ops that an op waits for without reading their results."""
        producer, found = self.graph.producer, dict.fromkeys(self.drawn_before.get(op.name, ()))
        waiting = [*op.after, *(producer[name].name for name in op.inputs if name in producer)]
        waiting = [name for name in waiting if name in views or name in op.after]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in views:
                view = self.graph.op[name]
                waiting += view.after
                waiting += (producer[given].name for given in view.inputs if given in producer)
            else:
                found[name] = None
        read = {producer[self.root[n]].name for n in op.inputs if self.root[n] in producer}
        return [name for name in found if name not in read and name != op.name]

    def _add_states(self, ops: dict[str, Op]) -> None:
        """Allow large random results of the first half to be drawn again, from a stored state.

        An op stores the state after all earlier draws and before the first run of the random op;
        later draws wait for it.
        """
        for name, op in list(ops.items()):
            node = self.nodes[name]
            made = sum(self.tensors[each].nbytes for each in op.outputs)
            state = f"{name}.{STATE}"
            if self._is_second(name) or op.sequence is None or self._writes or is_saved(node):
                continue
            if not (may_redraw(node, made) if self.like is None else state in self.like.states):
                continue
            self.tensors[state] = Tensor(state, state_bytes())
            ops[state] = Op(
                state, STATE, (), (state,),
                cost=0, recomputable=False, sequence=op.sequence, after=op.after,
            )  # fmt: skip
            ops[name] = replace(
                op, inputs=(*op.inputs, state), sequence=None, recomputable=bool(op.outputs)
            )
            self.states[state] = node

    def _add_turn(self, ops: dict[str, Op]) -> None:
        """Add the turn, and keep the results of the forward pass until it."""
        first = [name for name in ops if name not in self.states and not self._is_second(name)]
        returned = {
            self.root[name]
            for node in self.forward
            if isinstance(node, Node) and node not in self.dependent
            for name in names_in(self.names.get(node))
        }
        returned = {name for name in returned if self.tensors[name].kind != "constant"}
        producer = self.graph.producer
        read = [
            self._keep(ops, producer[name].name, name) for name in sorted(returned & set(producer))
        ]
        changed = {
            self.root[name]
            for node in overwritten_inputs(self.module)
            for name in names_in(self.names.get(node))
        }
        waits = []
        redrawn = set(self.states.values())
        for name in first:
            op = ops[name]
            spoilt = not changed.isdisjoint(op.inputs)
            spoilt = spoilt and not is_training_batch_norm(self.nodes[name])
            if spoilt:
                ops[name] = replace(op, recomputable=False)
            draws = op.sequence is not None or self.nodes[name] in redrawn
            if spoilt or draws or not op.outputs:
                waits.append(name)
        tangents = tuple(
            name
            for node in tangents_of(self.module)
            for name in names_in(self.names.get(node))
            if self.graph.is_storage(name)
        )
        for name in tangents:
            self.tensors[name] = replace(self.tensors[name], kind="output")
        order = {op.name: k for k, op in enumerate(self.graph.ops)}
        ops[TURN] = Op(
            TURN, TURN, tuple(dict.fromkeys(read)), tangents,
            cost=0, recomputable=False, after=tuple(sorted(waits, key=order.__getitem__)),
        )  # fmt: skip
        for name, op in ops.items():
            if name != TURN and self._is_second(name):
                ops[name] = replace(op, after=(*op.after, TURN))

    def _is_second(self, name: str) -> bool:
        """True for an op that depends on gradients or is a copy made for a checkpoint region."""
        node = self.nodes.get(name)
        return node is not None and (node in self.dependent or AGAIN in node.meta)

    def _keep(self, ops: dict[str, Op], producer: str, name: str) -> str:
        """Name of the tensor that holds a result of the forward pass: itself, or a copy of it."""
        op = ops[producer]
        total = sum(self.tensors[made].nbytes for made in op.outputs)
        held = f"{name}.{KEEP}"
        small = self.tensors[name].nbytes * _SMALL_PART <= total
        if not op.recomputable or not (small if self.like is None else held in self.like.kept):
            ops[producer] = replace(op, recomputable=False)
            return name
        self.tensors[held] = replace(self.tensors[name], name=held, kind="output")
        self.tensors[name] = replace(self.tensors[name], kind="intermediate")
        ops[held] = Op(held, KEEP, (name,), (held,), cost=0, recomputable=False)
        self.kept[held] = next(n for n, names in self.names.items() if names == name)
        for reader, other in ops.items():
            if reader in self.nodes and self.nodes[reader] in self.dependent:
                inputs = tuple(held if given == name else given for given in other.inputs)
                ops[reader] = replace(other, inputs=inputs)
        return held


def _in_order(ops: Mapping[str, Op]) -> list[Op]:
    """The ops in the given order, moved only as far as each must run after others."""
    producer = {name: op.name for op in ops.values() for name in op.outputs}
    found: dict[str, Op] = {}
    for name in ops:
        waiting = [name]
        while waiting:
            op = ops[waiting[-1]]
            before = [producer[given] for given in op.inputs if given in producer]
            missing = [b for b in (*before, *op.after) if b not in found]
            if not missing or op.name in found:
                found[op.name] = op
                waiting.pop()
            else:
                waiting += reversed(missing)
    return list(found.values())
