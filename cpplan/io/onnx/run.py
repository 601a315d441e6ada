"""An ONNX model made ready to run op by op: constants, inputs and kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from cpplan.io.onnx.bytes import Array, numpy_dtype
from cpplan.io.onnx.contrib import DOMAIN
from cpplan.io.onnx.graph import Source
from cpplan.io.onnx.kernels import Kernel, KernelError, defined_result, make_kernel, to_numpy
from cpplan.io.onnx.model import naming, opset_versions, translate_model
from cpplan.io.onnx.operation import operation_of
from cpplan.io.onnx.ordered import make_ordered
from cpplan.io.onnx.piece_nodes import piece_node
from cpplan.io.onnx.runtime_kernels import make_runtime_kernel
from cpplan.io.onnx.types import types_of
from cpplan.io.onnx.weights import draw_weights
from cpplan.io.pieces import PieceWork, piece_work, slices
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.graph import Op
from cpplan.program.anf import to_anf
from cpplan.verification.tensor_bytes import to_bytes

if TYPE_CHECKING:
    import onnx


class OnnxRun:
    """A model with values for its inputs and constants, as ``execute`` runs it.

    See :class:`cpplan.verification.execution.ModelRun`.

    Attributes
    ----------
    graph
        The model as ``read_onnx`` gives it.
    output_names
        The model's outputs in its order.

    With ``ordered``, convolutions and matrix products add up in the same order for all shapes, so
    that pieces compute the same bits as the whole.
    """

    def __init__(
        self,
        model: str | PathLike[str] | onnx.ModelProto,
        dims: Mapping[str, int],
        inputs: Mapping[str, Array],
        *,
        seed: int,
        weights: str,
        ordered: bool = False,
    ):
        if weights not in ("model", "random"):
            raise InputError(f"weights={weights!r} is not understood: expected model or random")
        proto, self._translation = translate_model(model, dims, with_weights=True)
        self.graph = self._translation.graph
        self.output_names = tuple(value.name for value in proto.graph.output)
        self._types = types_of(proto.graph)
        self._opsets = opset_versions(proto)
        self._kernels: dict[str, Kernel] = {}
        self._draws: dict[str, Array] = {}
        self._source, self._ordered = model, ordered
        self._opset = self._opsets.get("", 1)
        rng = np.random.default_rng(seed)
        with naming(model):
            self._values = self._inputs(inputs, rng)
            drawn = {}
            if weights == "random":
                drawn = draw_weights(self.graph, self._translation.ops, rng)
            self._values.update(self._constants(proto.graph, drawn))

    def values(self) -> dict[str, Array]:
        """Every value of the unplanned run, constants and inputs included."""
        for op in to_anf(self.graph).ops:
            results = self.compute(op, {})
            if not op.recomputable:
                self._draws.update(results)
            self._values.update(results)
        return self._values

    def constants(self) -> dict[str, Array]:
        """The values of the graph's constants."""
        constant = {t.name for t in self.graph.tensors if t.kind == "constant"}
        return {name: value for name, value in self._values.items() if name in constant}

    def compute(self, op: Op, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Run an op on these inputs; inputs left out have their values of the unplanned run.

        A random op draws once: if it runs again, it gives the same values.
        """
        if any(name in self._draws for name in op.outputs):
            return {name: self._draws[name] for name in op.outputs}
        source = self._translation.ops[op.name]
        inputs = {n: arrays[n] if n in arrays else self._values[n] for n in source.reads}
        with naming(self._source):
            results = self._kernel(op, source.node, op.outputs)(inputs)
            return {n: self._check(op.name, source, inputs, n, r) for n, r in results.items()}

    def output(self, name: str, value: Array) -> Array:
        """An output in the form that the caller gets, from its value."""
        return value

    def compute_piece(
        self, work: PieceWork, parts: Mapping[str, Array], sums: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Parts of an op's outputs that a piece computes from parts of its inputs.

        ``sums`` are the partial sums that the piece adds to.

        If kernels round differently for other shapes, or no node computes the piece, the whole
        kernel runs on inputs that are zero outside the parts.

        Raises
        ------
        InputError
            As :meth:`compute`.
        """
        op = work.op
        source = self._translation.ops[op.name]
        operation = operation_of(source.node, self.graph.tensor, self._values.get, self._opset)
        made = piece_node(source.node, operation, work)
        floats = [a.dtype for a in parts.values() if a.dtype.kind not in "biu"]
        ordered = not source.node.domain and source.node.op_type not in _BY_SHAPE
        exact = ordered and all(dtype in _ORDERED for dtype in floats)
        with naming(self._source):
            if made is not None and (exact or not floats):
                given = {
                    name: self._values[name] for name in made.node.input if name in self._values
                }
                inputs = {**given, **parts, **made.constants}
                for axis, positions in made.takes.items():
                    image = made.node.input[0]
                    inputs[image] = inputs[image].take(positions, axis)
                if sums and self._ordered:
                    begun = make_ordered(made.node)
                    listed = [inputs[name] if name else None for name in made.node.input]
                    start = sums[made.node.output[0]]
                    found = None if begun is None else begun(listed, start)
                    if found is not None:
                        return {made.node.output[0]: found}
                results = self._kernel(op, made.node, tuple(made.node.output))(inputs)
                return {n: sums[n] + a if n in sums else a for n, a in results.items()}
            inputs = {name: self._values[name] for name in source.reads}
            for name, part in parts.items():
                whole = np.zeros_like(inputs[name])
                whole[slices(work.boxes[name])] = part
                inputs[name] = whole
            results = self._kernel(op, source.node, op.outputs)(inputs)
        cut = {n: a[slices(work.boxes[n])] for n, a in results.items() if n in work.boxes}
        return {n: sums[n] + a if n in sums else a for n, a in cut.items()}

    def _kernel(self, op: Op, node: onnx.NodeProto, outputs: Sequence[str]) -> Kernel:
        """The kernel of a node; if asked for and known, the one that adds up in a fixed order."""
        whole = node is self._translation.ops[op.name].node
        if whole and op.name in self._kernels:
            return self._kernels[op.name]
        kernel = self._make(node, op.name, outputs)
        if self._ordered:
            kernel = _in_order(self._with_padding(op, node) if whole else node, kernel)
        if whole:
            self._kernels[op.name] = kernel
        return kernel

    def _make(self, node: onnx.NodeProto, label: str, outputs: Sequence[str]) -> Kernel:
        if node.domain == DOMAIN:
            return make_runtime_kernel(node, self._opsets, label, outputs)
        return make_kernel(node, self._types, self._opsets, label=label, outputs=outputs)

    def _with_padding(self, op: Op, node: onnx.NodeProto) -> onnx.NodeProto:
        """A convolution with its padding given in numbers, as in its pieces."""
        if node.op_type != "Conv" or not op.axes:
            return node
        axis = op.axes[0]
        operation = operation_of(node, self.graph.tensor, self._values.get, self._opset)
        work = piece_work(self.graph, op, (axis.name,), [(0, axis.extent)])
        made = piece_node(node, operation, work)
        return node if made is None else made.node

    def _check(
        self, op: str, source: Source, inputs: Mapping[str, Array], name: str, result: Array
    ) -> Array:
        """The result, after a check that it has the graph's type and fits into the tensor's bytes.

        Its shape is the kernel's: a branch may write fewer bytes than the most, and a kernel may be
        wrong.
        """
        tensor = self.graph.tensor.get(name)
        if tensor is None or tensor.dtype is None:  # strings, or an output without readers
            return result
        if source.node.op_type == "Loop" and tensor.shape is not None:
            result = _stacked(result, tensor.shape)
        dtype = numpy_dtype(tensor.dtype)
        if result.dtype == dtype and to_bytes(result, tensor.dtype).size <= tensor.nbytes:
            return result
        gives = f"tensor {name!r} as {result.dtype}{list(result.shape)}"
        ruled = defined_result(source.node, inputs, self._opsets, name)
        if ruled is not None and ruled != (result.dtype, result.shape):
            raise KernelError(
                f"op {op!r}: the reference kernel of {source.node.op_type} gives {gives}, but by "
                f"the operator's definition it is {ruled[0]}{list(ruled[1])}: the kernel is wrong, "
                "and the model cannot be executed"
            )
        declared = f"{tensor.nbytes} B" if tensor.shape is None else f"{list(tensor.shape)}"
        raise VerificationError(
            f"op {op!r} ({source.node.op_type}): its kernel gives {gives}, but it is planned as "
            f"{dtype} {declared}"
        )

    def _inputs(self, given: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Array]:
        free = {
            tensor.name: tensor
            for tensor in self.graph.tensors
            if tensor.kind in ("input", "output") and self.graph.source(tensor.name) is None
            if tensor.view_of is None
        }
        unknown = next((name for name in given if name not in free), None)
        if unknown is not None:
            raise InputError(
                f"the model has no input {unknown!r}: it has {', '.join(free) or 'none'}"
            )
        values = {}
        for name, tensor in free.items():
            assert tensor.dtype is not None
            assert tensor.shape is not None
            dtype = numpy_dtype(tensor.dtype)
            if name in given:
                array = np.array(given[name], order="C")
                if array.shape != tensor.shape or array.dtype != dtype:
                    raise InputError(
                        f"input {name!r} is {array.dtype}{list(array.shape)}: "
                        f"expected {dtype}{list(tensor.shape)}"
                    )
                values[name] = array
            elif dtype.kind in "biu" or tensor.dtype.startswith(("int", "uint")):
                values[name] = rng.integers(0, 2, tensor.shape).astype(dtype)
            else:
                values[name] = rng.standard_normal(tensor.shape, np.float32).astype(dtype)
        return values

    def _constants(self, graph: onnx.GraphProto, drawn: Mapping[str, Array]) -> dict[str, Array]:
        values = {tensor.name: to_numpy(tensor) for tensor in graph.initializer}
        values.update({sparse.values.name: to_numpy(sparse) for sparse in graph.sparse_initializer})
        values.update(drawn)
        for source in self._translation.constants:
            if not all(name in values for name in source.node.output if name):
                values.update(self._run_constant(source, values))
        return values

    def _run_constant(self, source: Source, values: Mapping[str, Array]) -> dict[str, Array]:
        kernel = self._make(source.node, source.node.name, source.node.output)
        inputs = {name: values[name] for name in source.reads}
        name = source.node.name
        return {n: self._check(name, source, inputs, n, r) for n, r in kernel(inputs).items()}


# Kinds of nodes whose kernels add up floats in an order that depends on the shapes.
_BY_SHAPE = frozenset(
    """
    Attention AveragePool ConvTranspose Einsum GlobalAveragePool GlobalLpPool GroupNormalization
    InstanceNormalization LRN LayerNormalization LogSoftmax LpNormalization LpPool
    RMSNormalization ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMean ReduceProd ReduceSum
    ReduceSumSquare SimplifiedLayerNormalization Softmax
    """.split()  # noqa: SIM905
)
_ORDERED = ("float32", "float64")


def _in_order(node: onnx.NodeProto, kernel: Kernel) -> Kernel:
    """A kernel that adds up in a fixed order if it can, and else runs the reference kernel."""
    ordered = make_ordered(node)
    if ordered is None:
        return kernel

    def run(values: Mapping[str, Array]) -> dict[str, Array]:
        result = ordered([values[name] if name else None for name in node.input])
        if result is None:
            return kernel(values)
        # A copy: the next kernel may add up in the order of strides, even of axes of extent 1.
        copied = np.empty(result.shape, result.dtype)
        copied[...] = result
        return {node.output[0]: copied}

    return run


def _stacked(result: Array, shape: tuple[int, ...]) -> Array:
    """The rows that a loop collects: the reference kernel joins them along the first axis."""
    joined = (*shape, 1) if len(shape) == 1 else (math.prod(shape[:2]), *shape[2:])
    return result.reshape(shape) if result.shape == joined else result
