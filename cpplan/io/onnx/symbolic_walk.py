"""Symbolic shapes node by node, in the order of an ONNX graph.

Table of the rules for symbolic shapes, by ONNX operator.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from cpplan.io.onnx import move_shapes as moves
from cpplan.io.onnx import product_shapes as products
from cpplan.io.onnx import window_shapes as windows
from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.constants import SMALL
from cpplan.io.onnx.facts import Call, Fact, Known, Lost, Shape
from cpplan.io.onnx.kernels import to_numpy
from cpplan.io.onnx.names import reads_of
from cpplan.io.onnx.symbolic_bodies import body_facts
from cpplan.io.onnx.symbolic_data import known_data
from cpplan.io.onnx.types import bodies_of, static_shape, types_of
from cpplan.io.onnx.views import is_standard
from cpplan.model.errors import InputError
from cpplan.model.shapes import Range

if TYPE_CHECKING:
    import onnx

TypeOf: TypeAlias = "Mapping[tuple[tuple[str, ...], str], onnx.TypeProto]"


class Walk:
    """A walk that carries facts about tensors through nodes.

    Parameters
    ----------
    opsets
        Versions of the operator sets, by domain.
    ranges
        Ranges of the variables.
    types
        Type of every tensor at one size, by its enclosing nodes and its name; tensors that depend
        on no variable have these types at every size.

    Attributes
    ----------
    inner
        Facts about the tensors of each body, by the body's enclosing nodes.
    """

    def __init__(self, opsets: Mapping[str, int], ranges: Mapping[str, Range], types: TypeOf):
        self.opsets, self.ranges, self.types = opsets, ranges, types
        self.inner: dict[tuple[str, ...], Mapping[str, Known]] = {}

    def graph(
        self,
        proto: onnx.GraphProto,
        known: MutableMapping[str, Known],
        path: tuple[str, ...] = (),
    ) -> None:
        """Add facts about a graph's tensors to ``known``, which has its inputs and captures."""
        for tensor in proto.initializer:
            small = math.prod(tensor.dims) <= SMALL and not tensor.external_data
            data = to_numpy(tensor) if small else None
            known[tensor.name] = Fact(tuple(tensor.dims), data, False)
        for sparse in proto.sparse_initializer:
            known[sparse.values.name] = Fact(tuple(sparse.dims), None, False)
        for node in proto.node:
            self._node(node, known, path)

    def _node(
        self, node: onnx.NodeProto, known: MutableMapping[str, Known], path: tuple[str, ...]
    ) -> None:
        inputs = [known[name] if name else None for name in node.input]
        call = Call(node, inputs, self.opsets, self.ranges)
        reads = [known[name] for name in reads_of(node) if name]
        varies = any(isinstance(fact, str) or fact.varies for fact in reads)
        here = f"op {node.name!r} ({node.op_type})"
        shapes: list[Shape | None]
        data: list[Array | None] = [None] * len(node.output)
        reason = "gives it no shape"
        try:
            if not varies:
                shapes = [static_shape(self.types.get((path, name))) for name in node.output]
                reason = "gives it an unknown shape"
            elif is_standard(node) and bodies_of(node):
                results = partial(self._body, node, known, path)
                for name, fact in zip(node.output, body_facts(call, results), strict=True):
                    known[name] = f"{here}: {fact}" if isinstance(fact, str) else fact
                return
            else:
                shapes = list(self._shapes(call))
            sizes = [shape for shape in shapes if shape is not None]
            data = known_data(call, sizes)
        except Lost as lost:
            shapes, reason = [], str(lost)
        except InputError as error:
            shapes, reason = [], str(error)
        except (IndexError, KeyError, ValueError):
            shapes, reason = [], "its inputs or attributes do not fit its operator"
        for k, name in enumerate(node.output):
            shape = shapes[k] if k < len(shapes) else None
            if name:
                known[name] = f"{here}: {reason}" if shape is None else Fact(shape, data[k], varies)

    def _body(
        self,
        node: onnx.NodeProto,
        known: MutableMapping[str, Known],
        path: tuple[str, ...],
        number: int,
        given: Mapping[str, Known],
    ) -> list[Known]:
        """Facts about the results of a body whose parameters have the given facts."""
        body, here = bodies_of(node)[number], (*path, node.name, str(number))
        outer = known.maps if isinstance(known, ChainMap) else [known]
        inner = ChainMap(dict(given), *outer)
        self.graph(body, inner, here)
        self.inner[here] = inner.maps[0]
        return [inner[value.name] for value in body.output]

    def _shapes(self, call: Call) -> list[Shape]:
        node = call.node
        rule = RULES.get(node.op_type) if is_standard(node) else None
        if rule is None:
            raise Lost("there is no rule for this operator's shapes")
        return rule(call)


def types_by_path(
    graph: onnx.GraphProto, path: tuple[str, ...] = ()
) -> dict[tuple[tuple[str, ...], str], onnx.TypeProto]:
    """The type of every tensor, also in bodies, by its enclosing nodes and its name."""
    types = {(path, name): type_ for name, type_ in types_of(graph).items()}
    for node in graph.node:
        for k, body in enumerate(bodies_of(node)):
            types.update(types_by_path(body, (*path, node.name, str(k))))
    return types


Rule: TypeAlias = Callable[[Call], list[Shape]]

_ELEMENTWISE = """
    Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less
    LessOrEqual Max Mean Min Mod Mul Or Pow Sub Sum Where Xor
""".split()  # noqa: SIM905
_LIKE_FIRST = """
    Abs Acos Acosh Asin Asinh Atan Atanh Bernoulli BitCast BitwiseNot Cast CastLike Ceil Celu
    Clip Cos Cosh CumProd CumSum DequantizeLinear Dropout Elu Erf Exp EyeLike Floor Gelu
    GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN
    LRN LeakyRelu Log LogSoftmax LpNormalization MeanVarianceNormalization Mish Neg Not PRelu
    QuantizeLinear RMSNormalization RandomNormalLike RandomUniformLike Reciprocal Relu
    ReverseSequence RotaryEmbedding Round Scatter ScatterElements ScatterND Selu Shrink Sigmoid
    Sign Sin Sinh Softmax Softplus Softsign Sqrt Swish Tan Tanh TensorScatter ThresholdedRelu
    Trilu
""".split()  # noqa: SIM905
_REDUCTIONS = """
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare
""".split()  # noqa: SIM905

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, products.elementwise),
    **dict.fromkeys(_LIKE_FIRST, products.like_first),
    **dict.fromkeys(_REDUCTIONS, products.reduction),
    **dict.fromkeys(("ArgMax", "ArgMin"), products.arg_reduction),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), products.recurrence),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), products.matmul),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), products.loss),
    "Attention": products.attention,
    "BatchNormalization": products.batch_norm,
    "Det": products.determinant,
    "DynamicQuantizeLinear": products.quantized,
    "Einsum": products.einsum,
    "Gemm": products.gemm,
    "LayerNormalization": products.layer_norm,
    "Multinomial": products.draws,
    "TopK": products.top_k,
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), windows.pooling),
    **dict.fromkeys(("Conv", "ConvInteger", "DeformConv", "QLinearConv"), windows.convolution),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), windows.blocks),
    **dict.fromkeys(("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"), windows.global_pooling),
    **dict.fromkeys(("MaxRoiPool", "RoiAlign"), windows.regions),
    **dict.fromkeys(("Resize", "Upsample"), windows.resize),
    "ConvTranspose": windows.transposed_convolution,
    "GridSample": windows.sampled_grid,
    "MaxUnpool": windows.unpooling,
    "CenterCropPad": moves.centred,
    "Concat": moves.concat,
    "ConstantOfShape": moves.filled,
    "Expand": moves.expand,
    "Flatten": moves.flatten,
    "Gather": moves.gather,
    "GatherElements": moves.like_second,
    "GatherND": moves.gather_nd,
    "OneHot": moves.one_hot,
    "Pad": moves.pad,
    "Range": moves.range_,
    "Reshape": moves.reshape,
    "Shape": moves.asked_shape,
    "Size": moves.single,
    "Slice": moves.slice_,
    "Split": moves.split,
    "Squeeze": moves.squeeze,
    "Tile": moves.tile,
    "Transpose": moves.transpose,
    "Unsqueeze": moves.unsqueeze,
}
