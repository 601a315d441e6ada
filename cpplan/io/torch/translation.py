"""Translation of a traced graph module into a graph: ops, views, and edges for the order.

Nodes that only query sizes or compute with numbers are no ops. They become edges without bytes,
from the ops that make the tensors to the ops that use the numbers.

New storages may be larger than the tensors that ops return in them: eager torch copies the whole
storage of a view that is written, and some losses return the sum in the storage of their terms.

Order around ops that overwrite a storage.

Readers of the old values run before the op that overwrites them, readers of the new ones after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any

import torch
from torch.fx import GraphModule, Node

from cpplan.io.torch.axes import axes_of
from cpplan.io.torch.costs import cost_of
from cpplan.io.torch.effects import Call, Effects, find_effects, storage_of
from cpplan.io.torch.in_place import in_place_pairs
from cpplan.io.torch.inner_graphs import carries_over, held_by
from cpplan.io.torch.layouts import Layouts
from cpplan.io.torch.nodes import Names, is_op, is_part, kind_of, names_in
from cpplan.io.torch.placements import find_placements
from cpplan.io.torch.sources import Traced
from cpplan.io.torch.values import (
    attribute_of,
    find_values,
    sizes_left_open,
    tensors_in,
    tensors_of,
)
from cpplan.io.torch.workspaces import workspace_of
from cpplan.model.axes import Axis
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem

_COPIES = frozenset(
    ("copy", "slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter")
)
_LOSSES = frozenset(("mse_loss", "smooth_l1_loss", "soft_margin_loss", "binary_cross_entropy"))


@dataclass
class Translation:
    """A graph, and the nodes from which it is made.

    Attributes
    ----------
    graph
        The graph, whose ops have the names of their nodes.
    nodes
        The node of every op.
    names
        Node -> names of its tensors, nested as its value is; ``None`` for other values.
    overwritten
        Op -> tensors that it reads and overwrites, for every op with such tensors.
    """

    graph: Graph
    nodes: dict[str, Node] = field(default_factory=dict)
    names: dict[Node, Names] = field(default_factory=dict)
    overwritten: dict[str, tuple[str, ...]] = field(default_factory=dict)


@contextmanager
def naming(source: object) -> Iterator[None]:
    """Add the model's name to every ``InputError`` raised in this context."""
    try:
        yield
    except InputError as error:
        where = fspath(source) if isinstance(source, (str, PathLike)) else type(source).__name__
        raise InputError(f"{where}: {error}") from error


def translate(
    traced: Traced, name: str, *, workspaces: bool = False, runs_only: bool = False
) -> Translation:
    """The graph of a traced module; its ops are listed in the order of the nodes.

    Parameters
    ----------
    workspaces
        True to measure the bytes that kernels allocate beside their results; see
        :mod:`cpplan.io.torch.workspaces`.
    runs_only
        True to leave out in-place pairs, placements and axes: for plans that only choose the order
        of runs.

    Raises
    ------
    InputError
        If a node is not supported or has no dense tensors; names the node.
    """
    with sizes_left_open(traced.mode):
        return _Translator(traced, workspaces, runs_only).run(name)


class _Translator:
    def __init__(self, traced: Traced, measured: bool, runs_only: bool):
        self.measured, self.runs_only = measured, runs_only
        self.traced, self.values = traced, dict(traced.values)
        self.layouts = Layouts(traced.extents)
        self.names: dict[Node, Names] = {}
        # Node -> ops from whose results its value comes.
        self.origins: dict[Node, tuple[str, ...]] = {}
        self.workspaces: dict[Node, tuple[str, ...]] = {}
        self.effects: dict[Node, Effects] = {}

    def run(self, name: str) -> Translation:
        nodes = list(self.traced.module.graph.nodes)
        for node in nodes:
            if node.op == "placeholder":
                self._take(node)
            elif node.op == "get_attr":
                self._get(node)
            elif node.op == "output":
                self._hand_back(node)
            elif is_part(node, self.values):
                whole, key = node.args[0], node.args[1]
                self.names[node], self.values[node] = (
                    self.names[whole][key],
                    self.values[whole][key],
                )
                self.origins[node] = self.origins[whole]
            elif is_op(node, self.values):
                self._define(node)
            else:
                self.origins[node] = self._waits_for(node)
        return self._assemble(name)

    def _new(self, node: Node, name: str, value: Any, kind: str) -> Names:
        """Add tensors with their own storages, and return their names."""
        self.origins.setdefault(node, ())
        if isinstance(value, torch.Tensor):
            self.layouts.add_root(name, value, kind)
            return name
        if isinstance(value, (tuple, list)):
            return [self._new(node, f"{name}.{k}", part, kind) for k, part in enumerate(value)]
        if isinstance(value, dict):
            return {k: self._new(node, f"{name}.{k}", part, kind) for k, part in value.items()}
        return None

    def _take(self, node: Node) -> None:
        value, held = self.values[node], self.traced.constants.get(node.name)
        if held is None:
            kind = "constant" if node.name in self.traced.constants else "input"
            self.names[node] = self._new(node, node.name, value, kind)
            return
        self.origins[node] = ()
        self.layouts.add_constant(node.name, value, held)
        self.names[node] = node.name

    def _get(self, node: Node) -> None:
        self.origins[node] = ()
        value, owned = self.values[node], attribute_of(self.traced.module, node)
        if isinstance(owned, torch.Tensor):
            self.layouts.add_constant(node.name, value, owned)
            self.names[node] = node.name
        else:
            self.names[node] = self._new(node, node.name, value, "constant")

    def _define(self, node: Node) -> None:
        effects = find_effects(self.traced.module, node, self.values, self.traced.mode)
        self.effects[node] = effects
        self.origins[node] = (node.name,)
        if effects.weights:
            owned = tensors_of(self.traced.module.get_submodule(str(node.target)))
            for name, weight in effects.weights.items():
                if (constant := f"{node.target}:{name}") not in self.layouts:
                    self.layouts.add_constant(constant, weight, owned[name])
        roots = {storage_of(t): self.layouts.root_of(name) for t, name in self._reads(node)}
        known = {storage: self.layouts.storage_bytes(root) for storage, root in roots.items()}
        self.names[node], self.values[node] = self._result(
            node.name, self.values[node], effects.results, roots, larger_storages(effects, known)
        )
        inside = max(map(self._bytes_inside, held_by(node, self.values)), default=0)
        if carries_over(node):
            inside += sum(map(self.layouts.nbytes, names_in(self.names[node])))
        if self.measured:
            inside += workspace_of(node, self.values)
        if inside:
            self.workspaces[node] = (f"{node.name}.workspace",)
            self.layouts.add_workspace(f"{node.name}.workspace", inside)

    def _result(
        self, name: str, value: Any, seen: Any, roots: dict[int, str], larger: Mapping[int, Any]
    ) -> tuple[Names, Any]:
        """Names and values of a node's results; tracers do not keep the offsets of views."""
        if isinstance(value, torch.Tensor):
            self.layouts.check(name, value)
            storage = storage_of(seen)
            if storage in roots:
                self.layouts.add_view(name, seen, roots[storage])
                return name, seen
            self.layouts.add_root(name, value, "intermediate", larger.get(storage))
            roots[storage] = name  # a further result may lie within this one
            return name, value
        if isinstance(value, (tuple, list)):
            parts = [
                self._result(f"{name}.{k}", part, seen[k], roots, larger)
                for k, part in enumerate(value)
            ]
            return [part[0] for part in parts], [part[1] for part in parts]
        if isinstance(value, dict):
            found = {
                k: self._result(f"{name}.{k}", part, seen[k], roots, larger)
                for k, part in value.items()
            }
            return {k: v[0] for k, v in found.items()}, {k: v[1] for k, v in found.items()}
        return None, value

    def _bytes_inside(self, module: GraphModule) -> int:
        """The most bytes live in a graph module, without its inputs and results."""
        values, mode = find_values(module, None)
        extents = self.traced.extents.inside(values.values())
        inner = Traced("inner", module, {}, extents.bound_values(values, mode), mode, extents)
        program = to_anf(translate(inner, "inner", workspaces=self.measured).graph)
        live = to_problem(program, Residency(inputs="outside", outputs="outside")).live_bytes()
        return int(live.max(initial=0))

    def _hand_back(self, node: Node) -> None:
        for given in node.all_input_nodes:
            for name in names_in(self.names.get(given)):
                self.layouts.mark_output(name)

    def _waits_for(self, node: Node) -> tuple[str, ...]:
        found = (name for given in node.all_input_nodes for name in self.origins.get(given, ()))
        return tuple(dict.fromkeys(found))

    def _assemble(self, name: str) -> Translation:
        hazards, overwritten = Hazards(self.layouts.root_of), {}
        for node, effects in self.effects.items():
            storages = effects.written
            written = [name for tensor, name in self._reads(node) if storage_of(tensor) in storages]
            hazards.note(node.name, written)
            for each in written:
                self.layouts.mark_written(each)
            if written:
                overwritten[node.name] = tuple(dict.fromkeys(written))
        ops, nodes = [], {}
        tensors = {tensor.name: tensor for tensor in self.layouts.tensors()}
        for node, effects in self.effects.items():
            reads = self._reads(node)
            inputs = tuple(dict.fromkeys(name for _, name in reads))
            outputs = tuple(names_in(self.names[node]))
            # Tensors have data edges; numbers need control edges.
            numbers = (g for g in node.all_input_nodes if not names_in(self.names.get(g)))
            after = [before for given in numbers for before in self.origins.get(given, ())]
            known = effects, reads, outputs, self.layouts
            after += hazards.before(node.name, inputs + outputs)
            ops.append(
                Op(
                    node.name,
                    kind_of(node),
                    inputs,
                    outputs,
                    self.workspaces.get(node, ()),
                    cost=cost_of(node, effects, self.values, self.traced.extents),
                    recomputable=not (effects.draws or hazards.accessed(inputs + outputs))
                    and bool(outputs),
                    in_place=() if self.runs_only else in_place_pairs(*known),
                    placements=() if self.runs_only else find_placements(*known),
                    after=tuple(after),
                    sequence="random" if effects.draws else None,
                    axes=self._axes(node, tensors),
                )
            )
            nodes[node.name] = node
        graph = Graph(name, tuple(tensors.values()), tuple(ops), self.layouts.symbols())
        return Translation(graph, nodes, self.names, overwritten)

    def _axes(self, node: Node, tensors: Mapping[str, Tensor]) -> tuple[Axis, ...]:
        if self.runs_only or self.effects[node].draws:
            return ()
        return axes_of(node, self.names.get, self.values, tensors)

    def _reads(self, node: Node) -> list[tuple[torch.Tensor, str]]:
        """The tensors that a node reads, in the order of its arguments, and their names."""
        found: list[tuple[torch.Tensor, str]] = []
        for given in node.all_input_nodes:
            tensors, names = tensors_in(self.values[given]), names_in(self.names.get(given))
            found += zip(tensors, names, strict=True)
        weights = self.effects[node].weights.items()
        return found + [(weight, f"{node.target}:{name}") for name, weight in weights]


class Hazards:
    """The ops that access overwritten storages, and the order between them.

    Parameters
    ----------
    root_of
        Function from a tensor to the tensor in whose storage it lies, by name.
    """

    def __init__(self, root_of: Callable[[str], str]):
        self._root_of = root_of
        self._written: set[str] = set()
        self._writes: dict[str, set[str]] = {}
        self._last: dict[str, str] = {}
        self._readers: dict[str, list[str]] = {}

    def note(self, op: str, written: Iterable[str]) -> None:
        """Record that an op overwrites some tensors."""
        roots = {self._root_of(name) for name in written}
        self._writes[op] = roots
        self._written |= roots

    def accessed(self, names: Iterable[str]) -> bool:
        """True if any op overwrites one of these tensors."""
        return any(self._root_of(name) in self._written for name in names)

    def before(self, op: str, names: Iterable[str]) -> list[str]:
        """Ops that must run before an op that accesses these tensors.

        Call it once for each op, in the order of the ops.
        """
        found: list[str] = []
        for root in dict.fromkeys(map(self._root_of, names)):
            if root not in self._written:
                continue
            found += [self._last[root]] if root in self._last else []
            if root in self._writes[op]:
                found += self._readers.pop(root, [])
                self._last[root] = op
            else:
                self._readers.setdefault(root, []).append(op)
        return list(dict.fromkeys(found))


def larger_storages(effects: Effects, known: Mapping[int, Any]) -> dict[int, Any]:
    """New storage (see :func:`storage_of`) -> its bytes, if these do not follow from its tensor."""
    found: dict[int, Any] = {}
    for call in effects.calls:
        nbytes = _nbytes(call, {**known, **found})
        if nbytes is not None:
            found[storage_of(call.result)] = nbytes
    return found


def _nbytes(call: Call, known: Mapping[int, Any]) -> Any:
    """Bytes of the storage of an op's result if it is larger than the result, else ``None``."""
    name = call.op._overloadpacket.__name__
    if name in _COPIES and call.op._overloadname == "default":
        source = call.args["self"]
        if not _repeats_elements(source):
            return known.get(storage_of(source), source.untyped_storage().nbytes())
    if name in _LOSSES and call.args["reduction"]:
        terms = torch.broadcast_shapes(call.args["self"].shape, call.args["target"].shape)
        return max(1, math.prod(terms)) * call.result.element_size()
    return None


def _repeats_elements(tensor: torch.Tensor) -> bool:
    """True if elements share bytes because a stride is 0, as in an expanded view."""
    extents = zip(tensor.shape, tensor.stride(), strict=True)
    return any(str(stride) == "0" and str(extent) != "1" for extent, stride in extents)
