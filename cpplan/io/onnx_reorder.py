"""An ONNX model with its nodes in another order.

The nodes that are ops of the graph run in the order asked for. What the reader folds into constants
(weights that are computed, shapes that are asked for) runs as soon as what it reads is there, so
that it keeps no tensor alive. The order may run the reader of a shape before the tensor whose shape
it is: then the shape, which is known, becomes a constant in the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from cpplan.anf import to_anf
from cpplan.errors import InputError
from cpplan.io.atomic import write_bytes
from cpplan.io.onnx_dims import bind_value
from cpplan.io.onnx_functions import inline_functions
from cpplan.io.onnx_model import load_model, naming, translate_model
from cpplan.io.onnx_names import unique_names
from cpplan.io.onnx_types import bodies_of

if TYPE_CHECKING:
    import onnx


def reorder_onnx(
    source: str | PathLike[str] | onnx.ModelProto,
    order: Sequence[str],
    dims: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """The model with its nodes permuted. O(nodes + edges), beside reading it.

    Subgraphs, weights and types stay as they are; weights in other files are loaded. Nodes are
    named after their ops, so that a plan of the one model is a plan of the other. Local functions
    are inlined, since their nodes are ops of the graph; symbolic dimensions get the extents for
    which the order was made.

    Parameters
    ----------
    source
        A file, or a model that is already loaded (it is not changed).
    order
        Names of ops, as :func:`~cpplan.io.onnx_model.read_onnx` gives them, each once.
    dims
        Extents of the symbolic dimensions of the model's inputs.

    Raises
    ------
    InputError
        As ``read_onnx``; or if the order names an unknown op, leaves one out, recomputes one, or
        runs one before what it waits for.
    MissingExtraError
        If the package ``onnx`` is missing.

    Examples
    --------
    >>> import onnx.parser
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     tiny (float[4] x) => (float[4] y) { a = Exp(x) b = Neg(x) y = Add(a, b) }''')
    >>> [node.op_type for node in reorder_onnx(model, ["Neg_1", "Exp_0", "Add_2"]).graph.node]
    ['Neg', 'Exp', 'Add']
    """
    return _reorder(source, order, dims or {}, with_weights=True)


def write_reordered(
    source: str | PathLike[str] | onnx.ModelProto,
    order: Sequence[str],
    path: str | PathLike[str],
    dims: Mapping[str, int] | None = None,
) -> None:
    """Write what :func:`reorder_onnx` gives to a file, whole or not at all.

    Beside the source's file, weights in other files stay there; elsewhere the file holds them.

    Raises
    ------
    InputError
        As ``reorder_onnx``, or if the file cannot be written; names it.
    """
    from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

    beside = (
        isinstance(source, (str, PathLike))
        and Path(source).resolve().parent == Path(path).resolve().parent
    )
    model = _reorder(source, order, dims or {}, with_weights=not beside)
    try:
        data = model.SerializeToString(deterministic=True)
    except (EncodeError, ValueError) as error:
        raise InputError(
            f"{path}: cannot be written: an ONNX file holds less than 2 GiB unless its weights are "
            "in files of their own, beside it"
        ) from error
    write_bytes(path, data)


def _reorder(
    source: str | PathLike[str] | onnx.ModelProto,
    order: Sequence[str],
    dims: Mapping[str, int],
    *,
    with_weights: bool,
) -> onnx.ModelProto:
    read, translation = translate_model(source, dims)
    with naming(source):
        program = to_anf(translation.graph, order)
        if len(program.order) > len(translation.graph.ops):
            twice = next(name for name, count in Counter(program.names).items() if count > 1)
            raise InputError(
                f"the order recomputes op {twice!r}: the nodes of an ONNX model run once each"
            )
        model = inline_functions(load_model(source, with_weights=with_weights))
    graph = model.graph
    count = len(graph.node)
    schedule = _Schedule(graph.node, read.graph.node, translation.ops)
    graph.node.extend(schedule.run(program.names))
    del graph.node[:count]
    for value in (*graph.input, *graph.value_info, *graph.output):
        bind_value(value, dims)
    return model


class _Schedule:
    """Puts nodes in order, those of the ops as told, and the folded ones as early as can be.

    A node has two forms: as it is in the model, and as the reader left it. They differ where the
    reader knew a shape; the second then reads less, and stands in where the first cannot run yet.
    Both are given the name by which the graph knows the node.
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
        """The nodes in order; every op is named once, after the ops whose results it reads."""
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
                if k not in self.done and not waiting:
                    self._place(k, form)
                if k in self.done:
                    stack.pop()
                else:
                    stack += reversed(waiting)
        return self.placed

    def _place(self, k: int, form: Iterable[onnx.NodeProto]) -> None:
        self.placed += form
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
        """Folded nodes for which only this one was missing."""
        for reader in self.folded_readers[k]:
            self.waiting[reader] -= 1
            if self.waiting[reader] == 0:
                yield reader

    def _writers(self, form: Iterable[onnx.NodeProto]) -> list[int]:
        """The nodes whose results these read, themselves or in their bodies."""
        names = (name for node in form for name in _reads(node) if name in self.writer)
        return list(dict.fromkeys(self.writer[name] for name in names))


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    for body in bodies_of(node):
        inside = {value.name for value in (*body.input, *body.initializer)}
        inside |= {sparse.values.name for sparse in body.sparse_initializer}
        for inner in body.node:
            yield from (name for name in _reads(inner) if name not in inside)
            inside.update(inner.output)
        yield from (value.name for value in body.output if value.name not in inside)
