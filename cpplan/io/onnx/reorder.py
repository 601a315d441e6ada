"""An ONNX model with its nodes in another order, some of them more than once.

The nodes that are ops of the graph run in the given order. Nodes that the reader folds into
constants (computed weights, shapes of tensors) run as soon as their inputs exist, so that they keep
no tensor live. If the order runs the reader of a shape before the tensor with that shape exists,
the shape, which is known, becomes a constant of the model.

An op that runs again gets one more node for every run. An optimiser that merges repeated
computations (common subexpression elimination) undoes this. ONNX Runtime's optimiser does so at
level 1 (basic), which is on by default; ``ORT_DISABLE_ALL`` keeps the nodes.

Nodes of an ONNX model that run again: one copy of the node for each run, with new names.

In ONNX every name is written once. So each run writes names of its own, and a reader reads the
names of the last run before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from cpplan.io.onnx.branches import apply_folds
from cpplan.io.onnx.dims import bind_input, bind_value, model_inputs
from cpplan.io.onnx.external import (
    MOST_BYTES,
    check_external_data,
    load_external_data,
    move_external_data,
    weight_bytes,
)
from cpplan.io.onnx.functions import inline_functions
from cpplan.io.onnx.model import load_model, naming, translate_model
from cpplan.io.onnx.names import FreshNames, reads_of, rebind, tensor_names, unique_names
from cpplan.io.onnx.split_model import split_model
from cpplan.model.errors import InputError
from cpplan.program.anf import to_anf
from cpplan.runtime.atomic import write_bytes
from cpplan.runtime.regular_file import resolve_target

if TYPE_CHECKING:
    import onnx

    from cpplan.model.plan import Plan


def reorder_onnx(
    source: str | PathLike[str] | onnx.ModelProto,
    order: Sequence[str],
    dims: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """The model with its nodes in order. O(nodes + edges), besides reading the model.

    Subgraphs, weights and types stay as they are; weights in other files are loaded. Nodes are
    named after their ops, so that a plan of one of the two models is a plan of the other, unless it
    runs an op again. Local functions are inlined, since their nodes are ops of the graph; symbolic
    dimensions get the extents for which the order was made.

    If the order names op ``conv`` again, the model gets a node ``conv~1`` with outputs ``out~1``,
    then ``conv~2``, …, and every node reads the newest copies before it. Buffers have these names
    in plans (:func:`~cpplan.program.liveness.to_problem`), with three exceptions. An output of the
    model keeps its name for the last run's result; the first run writes ``out~0``. Tensors defined
    in the bodies of ``if~1`` are renamed like its outputs. And if the model already has ``conv~1``
    or ``out~1``, the next free number is taken. Constants are never copied.
    """
    model = _reorder(source, order, dims or {})
    if isinstance(source, (str, PathLike)):
        with naming(source):
            load_external_data(model, Path(source).parent)
    return model


def write_onnx(
    plan: Plan,
    path: str | PathLike[str],
    source: str | PathLike[str] | onnx.ModelProto,
    *,
    dims: Mapping[str, int] | None = None,
) -> None:
    """Write the model planned with its nodes in the plan's order; see :func:`write_reordered`."""
    if plan.base_cost is None:
        raise InputError(f"plan {plan.name!r} is for a bare problem: it has no order")
    if plan.pieces:
        write_reordered(*model_in_pieces(plan, source, dims), path)
    else:
        write_reordered(source, plan.order, path, dims)


def model_in_pieces(
    plan: Plan,
    source: str | PathLike[str] | onnx.ModelProto,
    dims: Mapping[str, int] | None = None,
) -> tuple[onnx.ModelProto, list[str]]:
    """The model with the plan's pieces as nodes, and the order of its ops.

    See :mod:`cpplan.io.onnx.split_model`; :func:`reorder_onnx` puts the nodes in order.
    """
    read, translation = translate_model(source, dims, with_weights=True)
    with naming(source):
        return split_model(read, translation, plan)


def write_reordered(
    source: str | PathLike[str] | onnx.ModelProto,
    order: Sequence[str],
    path: str | PathLike[str],
    dims: Mapping[str, int] | None = None,
) -> None:
    """Write the model of :func:`reorder_onnx` to a file, whole or not at all.

    If the file is written to the source's folder, weights in other files stay there. In another
    folder, the file itself holds them; if they are too large for one ONNX file (2 GiB), a second
    file holds them, with ``.data`` added to the name.

    Raises
    ------
    InputError
        As ``reorder_onnx``, or if a file cannot be written; names the file.
    """
    from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

    model = _reorder(source, order, dims or {})
    data: Path | None = None
    if isinstance(source, (str, PathLike)):
        home, folder = Path(source).resolve().parent, resolve_target(path).parent
        with naming(source):
            check_external_data(model, home)
            if home != folder and model.ByteSize() + weight_bytes(model) < MOST_BYTES:
                load_external_data(model, home)
            elif home != folder:
                data = folder / f"{Path(path).name}.data"
                move_external_data(model, home, data)
    try:
        written = model.SerializeToString(deterministic=True)
        if len(written) >= MOST_BYTES:
            raise EncodeError("too large")
        write_bytes(path, written)
    except InputError:
        if data is not None:
            data.unlink()
        raise
    except (EncodeError, ValueError) as error:
        if data is not None:
            data.unlink()
        raise InputError(
            f"{path}: cannot be written: an ONNX file holds less than 2 GiB unless its weights are "
            "in files of their own, beside it"
        ) from error


def _reorder(
    source: str | PathLike[str] | onnx.ModelProto,
    order: Sequence[str],
    dims: Mapping[str, int],
) -> onnx.ModelProto:
    """The model with its nodes in order; weights in other files stay there."""
    read, translation = translate_model(source, dims)
    with naming(source):
        program = to_anf(translation.graph, order)
        model = inline_functions(load_model(source, with_weights=False))
    graph = model.graph
    for folds in translation.folds:
        apply_folds(graph, folds)
    count = len(graph.node)
    schedule = Schedule(graph.node, read.graph.node, translation.ops)
    graph.node.extend(copy_repeated(graph, schedule.run(program.names)))
    del graph.node[:count]
    for value in model_inputs(graph):
        bind_input(value, dims)
    for value in (*graph.value_info, *graph.output):
        bind_value(value, dims)
    return model


def copy_repeated(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The nodes, with a copy for each run after the first; adds the copies' types to the graph.

    The k-th further run of node ``conv`` is ``conv~k`` and writes ``out~k``. For an output of the
    graph, the last run writes the output's own name, and earlier runs write ``out~0``, ``out~1``,
    …. Tensors of the bodies are renamed like outputs. If the model already has such a name, the
    next free number is taken.

    Parameters
    ----------
    graph
        The graph of the nodes; types and quantization notes of copied tensors are added to it.
    nodes
        Nodes in the order in which they run, with unique names; a node that runs again is repeated.
    """
    runs = Counter(node.name for node in nodes)
    if len(runs) == len(nodes):
        return list(nodes)
    results = {value.name for value in graph.output}
    fresh_node, fresh = FreshNames(runs), FreshNames(tensor_names(graph, nodes))
    done: Counter[str] = Counter()
    newest: dict[str, str] = {}
    copies: dict[str, list[str]] = {}
    bound = []
    for original in nodes:
        run, last = done[original.name], runs[original.name] - 1
        done[original.name] += 1
        node = original
        if last or not newest.keys().isdisjoint(reads_of(original)):
            node = type(original)()
            node.CopyFrom(original)
            # ONNX's inference fails if the bodies of two nodes use the same name.
            inside = partial(fresh.name, number=run) if run else str
            rebind(node, newest, inside)
        if run:
            node.name = fresh_node.name(original.name, run)
        for k, name in enumerate(original.output):
            if last and name:
                kept = run == (last if name in results else 0)
                newest[name] = name if kept else fresh.name(name, run)
                node.output[k] = newest[name]
                copies.setdefault(name, []).extend(() if kept else [newest[name]])
        bound.append(node)
    _describe(graph, copies)
    return bound


def _describe(graph: onnx.GraphProto, copies: Mapping[str, Sequence[str]]) -> None:
    """Give copies the graph's types and quantization notes of their originals."""
    values = {value.name: value for value in (*graph.output, *graph.value_info)}
    for tensor, names in copies.items():
        for name in names if tensor in values else ():
            graph.value_info.add().CopyFrom(values[tensor])
            graph.value_info[-1].name = name
    for note in tuple(graph.quantization_annotation):
        for name in copies.get(note.tensor_name, ()):
            graph.quantization_annotation.add().CopyFrom(note)
            graph.quantization_annotation[-1].tensor_name = name


class Schedule:
    """A scheduler of nodes: ops in the given order, folded nodes as early as possible.

    A node has two forms: as in the model, and as the reader left it. They differ if the reader knew
    a shape: the second form then reads fewer tensors, and is used if the first cannot run yet. Both
    forms get the name of the node in the graph.
    """

    def __init__(
        self,
        nodes: Iterable[onnx.NodeProto],
        read: Iterable[onnx.NodeProto],
        ops: Iterable[str],
    ):
        self.forms = [[node] for node in nodes]
        self.writer = {
            name: k for k, [node] in enumerate(self.forms) for name in node.output if name
        }
        self.needs = [self._writers(form) for form in self.forms]
        self.read_forms: list[list[onnx.NodeProto]] = [[] for _ in self.forms]
        self.number: dict[str, int] = {}
        known = set(ops)
        # Reading folds nodes that write, and keeps the order of the others.
        silent = (k for k, [node] in enumerate(self.forms) if not any(node.output))
        listed = list(read)
        for node, name in zip(listed, unique_names(listed), strict=True):
            written = next(filter(None, node.output), None)
            k = next(silent) if written is None else self.writer[written]
            node.name = name
            if not self.read_forms[k]:
                self.forms[k][0].name = name
            self.read_forms[k].append(node)
            if name in known:
                self.number[name] = k
        self.ops = set(self.number.values())
        self.waiting = [len(needs) for needs in self.needs]
        self.folded_readers: list[list[int]] = [[] for _ in self.forms]
        for k, needs in enumerate(self.needs):
            for before in needs:
                if k not in self.ops:
                    self.folded_readers[before].append(k)
        self.done: set[int] = set()
        self.placed: list[onnx.NodeProto] = []

    def run(self, order: Iterable[str]) -> list[onnx.NodeProto]:
        """The nodes in order; ``order`` must name every op after the ops whose results it reads.

        If an op is named again, its node is listed again; folded nodes are listed once.
        """
        self._place_folded(
            k for k, count in enumerate(self.waiting) if count == 0 and k not in self.ops
        )
        for name in order:
            stack = [self.number[name]]
            while stack:
                k = stack[-1]
                form, needs = self.forms[k], self.needs[k]
                if any(p in self.ops and p not in self.done for p in needs):
                    form = self.read_forms[k]
                    needs = self._writers(form)
                waiting = [p for p in needs if p not in self.done]
                assert self.ops.isdisjoint(waiting)
                stack += reversed(waiting)
                if not waiting:
                    stack.pop()
                    if k in self.ops or k not in self.done:
                        self._place(k, form)
        return self.placed

    def _place(self, k: int, form: Iterable[onnx.NodeProto]) -> None:
        self.placed += form
        if k not in self.done:
            self.done.add(k)
            self._place_folded(self._released(k))

    def _place_folded(self, numbers: Iterable[int]) -> None:
        ready = list(numbers)
        heapify(ready)
        while ready:
            k = heappop(ready)
            if k not in self.done:
                self.placed += self.forms[k]
                self.done.add(k)
                for released in self._released(k):
                    heappush(ready, released)

    def _released(self, k: int) -> Iterator[int]:
        """Folded nodes whose last missing input comes from this node."""
        for reader in self.folded_readers[k]:
            self.waiting[reader] -= 1
            if self.waiting[reader] == 0:
                yield reader

    def _writers(self, form: Iterable[onnx.NodeProto]) -> list[int]:
        """The nodes whose results these nodes or their bodies read."""
        names = (name for node in form for name in reads_of(node) if name in self.writer)
        return list(dict.fromkeys(self.writer[name] for name in names))
