"""Translation of an ONNX graph with known shapes into a Graph: constants, views, ops and bodies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpplan.io.axes import find_axes
from cpplan.io.axes.boxes import (
    BoxRule,
    concat_boxes,
    find_placements,
    gather_boxes,
    pad_boxes,
    repeat_boxes,
    slice_boxes,
    split_boxes,
)
from cpplan.io.axes.operation import shape_of
from cpplan.io.onnx.axes import pads_before, slice_steps
from cpplan.io.onnx.bodies import Body, fit_body, largest_result
from cpplan.io.onnx.branches import Folds
from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.constants import SMALL, SmallConstant, computed_constant, stored_constant
from cpplan.io.onnx.costs import control_flow_cost, count_operations
from cpplan.io.onnx.in_place import in_place_pairs
from cpplan.io.onnx.kernels import to_numpy
from cpplan.io.onnx.names import unique_names
from cpplan.io.onnx.operation import axis_of, operation_of
from cpplan.io.onnx.state import may_run_again
from cpplan.io.onnx.types import bodies_of, dtype_name, static_shape, types_of
from cpplan.io.onnx.views import draws_in_turn, is_random, is_view
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor

if TYPE_CHECKING:
    import onnx

RULES: dict[str, BoxRule] = {
    "Concat": lambda op: concat_boxes(op, axis_of(op, len(shape_of(op.output)), 1)),
    "Expand": repeat_boxes,
    "Gather": lambda op: gather_boxes(op, axis_of(op, len(op.shape()), 0)),
    "Pad": lambda op: pad_boxes(op, pads_before(op)),
    "Slice": lambda op: slice_boxes(op, *slice_steps(op)),
    "Split": lambda op: split_boxes(op, axis_of(op, len(op.shape()), 0), op.input()),
    "Tile": repeat_boxes,
}


@dataclass(frozen=True, slots=True)
class Source:
    """An ONNX node and every value that it reads: its inputs, then the captures of its bodies."""

    node: onnx.NodeProto
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Translation:
    """A graph, and the ONNX nodes that it was made from.

    Attributes
    ----------
    graph
        The graph translated.
    ops
        Op name -> the op's node.
    constants
        The nodes that compute constants, in the order of the file.
    captured
        Tensors of enclosing graphs that this graph reads.
    folds
        The model's Ifs that were replaced by the branch they take, round by round.
    contradictions
        A sentence for every output of the model that has another shape than it declares.
    """

    graph: Graph
    ops: Mapping[str, Source]
    constants: tuple[Source, ...]
    captured: tuple[str, ...]
    folds: tuple[Folds, ...] = ()
    contradictions: tuple[str, ...] = ()


def translate(proto: onnx.GraphProto, opset: int, name: str) -> Translation:
    """Translate an ONNX graph; ``opset`` is the version of ONNX's own operators that it uses.

    Raises
    ------
    InputError
        If a tensor has no known shape, is not a dense tensor of numbers, or is read before it
        exists; names the tensor and the op.
    """
    return _Builder(proto, opset, None).build(name)


class _Builder:
    """A translator that collects tensors and ops, node by node.

    Strings have no bytes to place: a constant of strings is known by name only (``None`` for its
    tensor).
    """

    def __init__(self, proto: onnx.GraphProto, opset: int, parent: _Builder | None):
        self.proto, self.opset, self.parent = proto, opset, parent
        self.types = types_of(proto)
        self.results = [value.name for value in proto.output]
        self.tensors: dict[str, Tensor | None] = {}
        self.constant: set[str] = set()
        self.fixed: set[str] = set()  # constants, and views of constants
        self.small: dict[str, SmallConstant] = {}
        self.captured: dict[str, None] = {}
        self.ops: list[Op] = []
        self.sources: dict[str, Source] = {}
        self.constants: list[Source] = []
        self.read = _read_names(proto)
        self.false: set[str] = set() if parent is None else set(parent.false)
        self.false.update(_false_constants(proto))

    def build(self, name: str) -> Translation:
        proto = self.proto
        for listed in (*proto.initializer, *(sparse.values for sparse in proto.sparse_initializer)):
            self._define(listed.name, "constant")
        for listed in proto.initializer:
            self._remember(listed.name, stored_constant(listed))
        for value in proto.input:
            if value.name not in self.constant:
                self._define(value.name, "output" if value.name in self.results else "input")
        for node, op_name in zip(proto.node, unique_names(proto.node), strict=True):
            self._add(node, op_name)
        for result in self.results:
            self._read(result, "the list of outputs")
        tensors = tuple(tensor for tensor in self.tensors.values() if tensor is not None)
        graph = Graph(name, tensors, tuple(self.ops))
        return Translation(graph, self.sources, tuple(self.constants), tuple(self.captured))

    def _add(self, node: onnx.NodeProto, name: str) -> None:
        for tensor in filter(None, node.input):
            self._read(tensor, f"op {name!r}")
        bodies = [self._body(body, f"{name}/{k}") for k, body in enumerate(bodies_of(node))]
        captured = dict.fromkeys(tensor for body in bodies for tensor in body.captured)
        for tensor in captured:
            self._read(tensor, f"op {name!r}")
        direct = [tensor for tensor in node.input if tensor]
        reads = (*direct, *(tensor for tensor in captured if tensor not in direct))
        view = is_view(node, self._type, self.false, self.opset)
        random = is_random(node, self.false, self.opset)
        if (reads or node.op_type == "Constant") and not random and self.constant.issuperset(reads):
            self.constants.append(Source(node, reads))
            self._define_outputs(node, name, "constant", view, bodies)
            for output in filter(None, node.output):
                self._remember(output, computed_constant(node, output, self.opset, self.small))
            return
        self._define_outputs(node, name, "intermediate", view, bodies)
        outputs = tuple(output for output in node.output if output in self.tensors)
        inputs = tuple(tensor for tensor in reads if self.tensors[tensor] is not None)
        accessed = {t: outer for t in inputs + outputs if (outer := self.tensors[t]) is not None}
        fitted = tuple(fit_body(node, body, accessed) for body in bodies)
        moves = not (view or bodies)
        over = in_place_pairs(node, self.tensors, self.fixed, self.opset) if moves else ()
        # Ops inside another op are not split.
        splits = not (bodies or random or self.parent is not None)
        operation = operation_of(node, self.tensors, self._value, self.opset)
        self.ops.append(
            Op(
                name,
                node.op_type,
                inputs,
                outputs,
                cost=0 if view else self._cost(node, fitted),
                recomputable=may_run_again(node, self.false, self.opset),
                in_place=over,
                placements=find_placements(RULES, operation, self.fixed) if moves else (),
                bodies=fitted,
                sequence="random" if draws_in_turn(node, self.false, self.opset) else None,
                axes=find_axes("onnx", operation) if splits else (),
            )
        )
        self.sources[name] = Source(node, reads)

    def _cost(self, node: onnx.NodeProto, bodies: Sequence[Graph]) -> int | float:
        if bodies:
            return control_flow_cost(node, bodies, self.tensors, self._value, self.opset)
        return count_operations(node, self.tensors, self.opset)

    def _body(self, proto: onnx.GraphProto, name: str) -> Body:
        inner = _Builder(proto, self.opset, self).build(name)
        return Body(inner.graph, tuple(value.name for value in proto.output), inner.captured)

    def _define_outputs(
        self, node: onnx.NodeProto, op: str, kind: str, view: bool, bodies: Sequence[Body]
    ) -> None:
        for k, output in enumerate(node.output):
            # Inference gives some optional outputs (the mask of an old Dropout) no type. If no op
            # reads such an output, a kernel need not write it.
            listed_only = k > 0 and output not in self.types and output not in self.read
            if output and not listed_only:
                role = "output" if kind == "intermediate" and output in self.results else kind
                base = node.input[0] if view and k == 0 else None
                size = largest_result(bodies, k) if node.op_type == "If" else None
                self._define(output, role, f" written by op {op!r}", base, size)

    def _define(
        self, name: str, kind: str, by: str = "", base: str | None = None, least: int | None = None
    ) -> None:
        """Add a tensor; ``least`` is the most bytes that a branch may write to it."""
        what = f"tensor {name!r}{by}"
        if name in self.tensors:
            raise InputError(f"{what} is defined twice")
        if kind == "constant":
            self.constant.add(name)
        if kind == "constant" or base in self.fixed:
            self.fixed.add(name)
        type_ = self.types.get(name)
        form = None if type_ is None else type_.WhichOneof("value")
        if type_ is None or form is None:
            raise InputError(f"{what} has no known type after shape inference")
        if form != "tensor_type":
            held = form.removesuffix("_type").replace("_", " ")
            raise InputError(f"{what} holds a {held}: expected a dense tensor")
        element = type_.tensor_type.elem_type
        dtype, shape = dtype_name(element), static_shape(type_)
        if dtype is None:
            if kind == "constant":
                self.tensors[name] = None
                return
            raise InputError(f"{what} holds strings or untyped elements: expected numbers")
        if shape is None and least is None:
            raise InputError(f"{what} has an unknown shape after shape inference")
        storage = None if base is None else self.tensors[base]
        view_of = None if storage is None else (storage.name, 0)
        tensor = Tensor(name, None if shape is not None else least, shape, dtype, kind, 1, view_of)
        if storage is not None and tensor.nbytes != storage.nbytes:
            raise InputError(
                f"{what} is {dtype}{list(shape or ())} of {tensor.nbytes} B: expected the "
                f"{storage.nbytes} B of {base!r}, whose elements it has"
            )
        self.tensors[name] = tensor

    def _read(self, name: str, reader: str) -> None:
        """Make sure that the tensor exists; capture it from an enclosing graph if that has it."""
        if name in self.tensors:
            return
        scope = self.parent
        while scope is not None and name not in scope.tensors:
            scope = scope.parent
        if scope is None:
            raise InputError(f"tensor {name!r}: {reader} reads it before anything defines it")
        self.captured[name] = None
        if name in scope.constant:
            self.constant.add(name)
        if name in scope.fixed:
            self.fixed.add(name)
        if name in scope.small:
            self.small[name] = scope.small[name]
        outer = scope.tensors[name]
        kind = "output" if name in self.results else "input"
        self.tensors[name] = outer and Tensor(name, outer.nbytes, outer.shape, outer.dtype, kind)

    def _remember(self, name: str, constant: SmallConstant | None) -> None:
        """Keep the value of a small constant, since it may set the offset of a placement."""
        tensor = self.tensors.get(name)
        if constant is None or tensor is None or tensor.shape is None:
            return
        if math.prod(tensor.shape) <= SMALL:
            self.small[name] = constant

    def _value(self, name: str) -> Array | None:
        return self.small[name].value() if name in self.small else None

    def _type(self, name: str) -> onnx.TypeProto | None:
        if name in self.types or self.parent is None:
            return self.types.get(name)
        return self.parent._type(name)


def _read_names(proto: onnx.GraphProto) -> set[str]:
    """Names that the graph's nodes, their bodies and its list of outputs read."""
    names = {value.name for value in proto.output}
    for node in proto.node:
        names.update(node.input, *(_read_names(body) for body in bodies_of(node)))
    return names


def _false_constants(proto: onnx.GraphProto) -> Iterator[str]:
    """Names of the constants stored as ``False``."""
    import onnx

    listed = [(tensor.name, tensor) for tensor in proto.initializer]
    for node in proto.node:
        if node.op_type == "Constant" and node.output:
            listed += [(node.output[0], a.t) for a in node.attribute if a.name == "value"]
    for name, tensor in listed:
        boolean = tensor.data_type == onnx.TensorProto.BOOL and not tensor.external_data
        if boolean and math.prod(tensor.dims) == 1 and not to_numpy(tensor).any():
            yield name
