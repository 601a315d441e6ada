"""Cost of running an ONNX node once: its floating-point operations, computed from shapes.

The unit is one operation on one element; a multiply-add is two. Operations on integers count the
same, so that quantised kernels are comparable with others, and so does every element that is only
copied. The operators are defined in ONNX's specifications (https://onnx.ai/onnx/operators/). The
operations of the direct computation are counted, without the savings of fast algorithms (Winograd,
FFT):

* Convolutions and matrix products: a multiply-add for every product. The sum begins with the bias,
  which adds no operation. Products with padding count, as if it were stored; a transposed
  convolution multiplies each element of its input with each tap.
* Einsum: for every combination of labels, the product of all terms, and an addition if a label is
  not in the result; terms are not paired first.
* Attention: its two matrix products and the softmax between them; a mask saves no operations.
* RNN, GRU, LSTM: the products with W and R, and per hidden element the gates' work: 1, 8 and 9
  operations (activations and element-wise products and sums), 6 more with peepholes. All sequences
  have full length.
* Pools: one operation for every place in the window of every element of the result; Lp pools two.
* Normalisations, softmax, losses, reductions: a constant for every element of the input, see
  ``_INPUT_ELEMENTS``. Batch normalisation at inference is one multiply-add.
* LRN: a square and an addition for every channel in the window, four operations for the rest.
* Sum, Max, Min, Mean of n inputs: n - 1 for every element of the result.
* ONNX Runtime's own operators: as those of ONNX whose work they do, see ``_CONTRIB``.
* All other operators, including transcendental functions, copies and operators that ONNX does not
  define: one operation for every element of the results.
* If: its most expensive branch. Loop and Scan: the body times its number of runs, once if unknown.
* Views, which the reader recognises, cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.contrib import DOMAIN as CONTRIB
from cpplan.io.onnx.loops import trip_count
from cpplan.io.onnx.state import trains
from cpplan.io.onnx.types import bodies_of
from cpplan.io.onnx.views import is_standard
from cpplan.model.dtypes import BITS
from cpplan.model.graph import Graph, Tensor

if TYPE_CHECKING:
    import onnx

Shape = tuple[int, ...]
_SOFTMAX = 5  # compare with the largest, subtract it, exponential, add up, divide
_NORMALISED = 7  # add up; subtract the mean; square, add up; scale by the deviation; scale, shift
_INPUT_ELEMENTS = (
    (1, ("ArgMax", "ArgMin", "Compress", "CumProd", "CumSum", "NonZero", "TopK", "Unique")),
    (1, ("GlobalAveragePool", "GlobalMaxPool", "ReduceLogSum", "ReduceMax", "ReduceMean")),
    (1, ("ReduceMin", "ReduceProd", "ReduceSum")),
    (2, ("GlobalLpPool", "Hardmax", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare")),
    (3, ("LpNormalization", "RotaryEmbedding")),
    (4, ("RMSNormalization", "SimplifiedLayerNormalization")),
    (5, ("MeanVarianceNormalization",)),
    (_SOFTMAX, ("LogSoftmax", "Softmax", "SoftmaxCrossEntropyLoss")),
    (_NORMALISED, ("GroupNormalization", "InstanceNormalization", "LayerNormalization")),
)
_PER_ELEMENT = {kind: work for work, kinds in _INPUT_ELEMENTS for kind in kinds}
_POOLS = {"AveragePool": 1, "MaxPool": 1, "LpPool": 2}
# Position of the weights; their extents after the first are the window of one output.
_CONVOLUTIONS = {
    "CausalConvWithState": 1,
    "Conv": 1,
    "ConvInteger": 1,
    "DeformConv": 1,
    "QLinearConv": 3,
}
_PRODUCTS = ("MatMul", "MatMulInteger", "QLinearMatMul")
# ONNX Runtime's kinds that do the work of one of ONNX, and the inputs that this one reads.
_CONTRIB: Mapping[str, tuple[str, Sequence[int]]] = {
    **dict.fromkeys(("BiasSoftmax", "QLinearSoftmax"), ("Softmax", (0,))),
    **dict.fromkeys(
        ("DynamicQuantizeMatMul", "MatMulIntegerToFloat", "MatMulNBits"), ("MatMul", (0,))
    ),
    **dict.fromkeys(("FusedGemm", "FusedMatMul", "QGemm", "TransposeMatMul"), ("Gemm", (0,))),
    "FusedConv": ("Conv", (0, 1)),
    "GroupNorm": ("GroupNormalization", (0,)),
    # Past keys are the fifth input of one, and the fourth of the other.
    "GroupQueryAttention": ("Attention", (0, 1, 2, 5, 3)),
    "MultiHeadAttention": ("Attention", (0, 1, 2)),
    "NhwcMaxPool": ("MaxPool", (0,)),
    "QLinearAveragePool": ("AveragePool", (0,)),
    "QLinearConv": ("QLinearConv", (0, 1, 2, 3)),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,)),
    "QLinearReduceMean": ("ReduceMean", (0,)),
    "SkipLayerNormalization": ("LayerNormalization", (0,)),
    "SkipSimplifiedLayerNormalization": ("RMSNormalization", (0,)),
}
_FOLDS = ("Max", "Mean", "Min", "Sum")
# Per hidden element: the activations, and the products and sums between gates and states.
_GATES = {"RNN": 1, "GRU": 3 + 5, "LSTM": 5 + 4}
_PEEPHOLES = 6


def count_operations(node: onnx.NodeProto, tensors: Mapping[str, Tensor | None], opset: int) -> int:
    """Operations of a node that has no bodies and is no view."""
    results = [t for name in node.output if (t := tensors.get(name)) is not None]
    elements = [_elements(tensor) for tensor in results]
    kind, read = node.op_type, list(node.input)
    if not is_standard(node):
        kind, places = _CONTRIB.get(kind, ("", ())) if node.domain == CONTRIB else ("", ())
        read = [read[k] if k < len(read) else "" for k in places]
    if not kind or not elements:
        return sum(elements)
    inputs = [tensors.get(name) if name else None for name in read]
    shapes = [None if tensor is None else tensor.shape for tensor in inputs]
    if any(tensor is not None and tensor.shape is None for tensor in inputs):
        return sum(elements)  # a result of an If whose shape is open: only its bytes are known
    return _known(_Node(kind, node, shapes, elements, opset))


def control_flow_cost(
    node: onnx.NodeProto,
    bodies: Sequence[Graph],
    tensors: Mapping[str, Tensor | None],
    value: Callable[[str], Array | None],
    opset: int,
) -> int | float:
    """Cost of a node with bodies, from the costs of their ops."""
    costs = [sum(op.cost for op in body.ops) for body in bodies]
    if node.op_type == "If":
        return max(costs, default=0)
    return _turns(node, tensors, value, opset) * sum(costs)


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of a standard kind, with the shapes of its inputs and the elements of each output."""

    kind: str
    proto: onnx.NodeProto
    shapes: Sequence[Shape | None]
    elements: Sequence[int]
    opset: int

    def shape(self, k: int) -> Shape:
        """Shape of input number ``k``; a shape without elements if the input is left out."""
        found = self.shapes[k] if k < len(self.shapes) else None
        return (0,) if found is None else found

    def given(self, k: int) -> bool:
        return k < len(self.shapes) and self.shapes[k] is not None

    def attribute(self, name: str, default: Any = None) -> Any:
        import onnx

        found = (a for a in self.proto.attribute if a.name == name)
        return next(map(onnx.helper.get_attribute_value, found), default)


def _known(node: _Node) -> int:
    kind, result = node.kind, node.elements[0]
    first = math.prod(node.shape(0))
    if kind in _CONVOLUTIONS:
        return 2 * result * math.prod(node.shape(_CONVOLUTIONS[kind])[1:])
    if kind == "ConvTranspose":
        return 2 * first * math.prod(node.shape(1)[1:])
    if kind in _PRODUCTS:
        return 2 * result * math.prod(node.shape(0)[-1:])
    if kind == "Gemm":
        rows, columns = node.shape(0)[-2:-1], node.shape(0)[-1:]
        return 2 * result * math.prod(rows if node.attribute("transA") else columns)
    if kind == "Einsum":
        equation = node.attribute("equation", b"").decode()
        return einsum_operations(equation, [node.shape(k) for k in range(len(node.shapes))])
    if kind == "Attention":
        return _attention(node)
    if kind in _GATES:
        return _recurrent(node)
    if kind in _POOLS:
        window: Sequence[int] = node.attribute("kernel_shape", ())
        return _POOLS[kind] * result * math.prod(window)
    if kind == "LRN":
        channels: int = node.attribute("size", 1)
        return (2 * channels + 4) * first
    if kind == "BatchNormalization":
        return (_NORMALISED if trains(node.proto, node.opset) else 2) * first
    if kind == "NegativeLogLikelihoodLoss":
        return math.prod(node.shape(1))
    if kind in _PER_ELEMENT:
        return _PER_ELEMENT[kind] * first
    if kind in _FOLDS:
        return max(1, len(node.shapes) - 1) * result
    return sum(node.elements)


def _attention(node: _Node) -> int:
    """Operations of Q times K, of the softmax of each row, and of the result times V.

    Heads are an axis of their own, or share one axis with the elements of a head.
    """
    query, key = node.shape(0), node.shape(1)
    length = math.prod(key[-2:-1]) + (math.prod(node.shape(4)[-2:-1]) if node.given(4) else 0)
    heads: int = math.prod(query[1:2])
    if len(query) == 3:
        heads = node.attribute("q_num_heads") or node.attribute("num_heads", 1)
    rows = math.prod(query[:1]) * heads * math.prod(query[-2:-1])
    return length * (2 * math.prod(query) + _SOFTMAX * rows + 2 * node.elements[0])


def _recurrent(node: _Node) -> int:
    """Operations of both products and of the gates, in every direction at every time step."""
    given, recurrence = node.shape(1), node.shape(2)
    steps = math.prod(node.shape(0)[:2])  # time steps times batch, in either layout
    hidden = math.prod(given[:1]) * math.prod(recurrence[-1:])
    gates = _GATES[node.kind]
    if node.kind == "LSTM" and node.given(7):
        gates += _PEEPHOLES
    return steps * (2 * (math.prod(given) + math.prod(recurrence)) + gates * hidden)


def _turns(
    node: onnx.NodeProto,
    tensors: Mapping[str, Tensor | None],
    value: Callable[[str], Array | None],
    opset: int,
) -> int:
    """Number of runs of the bodies, 1 if that is unknown."""
    if not is_standard(node):
        return 1
    if node.op_type == "Loop":
        values = {n: v for n in node.input[:2] if (v := value(n)) is not None}
        trips = trip_count(node, bodies_of(node)[0], values)
        return 1 if trips is None else trips
    scanned = next((a.i for a in node.attribute if a.name == "num_scan_inputs"), 0)
    tensor = tensors.get(node.input[-scanned]) if 0 < scanned <= len(node.input) else None
    if node.op_type != "Scan" or tensor is None or not tensor.shape:
        return 1
    if opset < 9:
        return math.prod(tensor.shape[:2])  # each sequence of a batch is scanned separately
    axes = next((list(a.ints) for a in node.attribute if a.name == "scan_input_axes"), [0])
    return tensor.shape[axes[0]] if axes else 1


def _elements(tensor: Tensor) -> int:
    if tensor.shape is not None:
        return math.prod(tensor.shape)
    return 0 if tensor.dtype is None else tensor.nbytes * 8 // BITS[tensor.dtype]


def einsum_operations(equation: str, shapes: Sequence[tuple[int, ...]]) -> int:
    """Operations of an ONNX Einsum that multiplies all terms, and then sums.

    For each combination of indices, count the number of terms less one (products), and an addition
    if some index is not in the result. An equation that only transposes a term is a copy: one
    operation for each element.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, extent in zip(_labels(term, len(shape)), shape, strict=True):
            # An extent of one is broadcast.
            extents[label] = extent if extents.get(label, 1) == 1 else extents[label]
    kept = right if arrow else [label for label in left if left.count(label) == 1]
    summed = any(label.isalpha() and label not in kept for label in extents)
    if arrow and "..." not in right:
        summed |= any(not label.isalpha() for label in extents)
    return math.prod(extents.values()) * max(1, len(terms) - 1 + summed)


def _labels(term: str, rank: int) -> list[str]:
    """One label for each axis; axes under the ellipsis are numbered from the last."""
    before, dots, after = term.partition("...")
    hidden = rank - len(before) - len(after) if dots else 0
    return [*before, *(str(k) for k in range(hidden, 0, -1)), *after]
