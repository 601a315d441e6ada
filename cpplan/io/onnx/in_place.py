"""In-place pairs of ONNX ops: outputs that may be written over an input.

Element ``k`` of such an output depends on element ``k`` of the input and on no other element of it,
so that a kernel may read each byte before it writes the byte at the same address. An operator is
element-wise if the ONNX operator specification defines it so. Two groups are left out, since they
depend on the kernel (see :func:`cpplan.model.in_place_kinds.with_in_place`): Softmax and the
normalisations, which read a whole row before they write any of it; and Gelu, Mish and Swish,
products of the input and a function of it, which kernels compute in two passes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from cpplan.io.onnx.views import is_standard
from cpplan.model.dtypes import BITS
from cpplan.model.tensor import Tensor

if TYPE_CHECKING:
    import onnx

# Kinds with a pair for the first input only: the others are numbers, scales or positions.
_OF_FIRST = frozenset(
    """
    Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh
    DequantizeLinear Dropout Elu Erf Exp Floor HardSigmoid HardSwish IsInf IsNaN LeakyRelu Log
    Neg Not QuantizeLinear Reciprocal Relu Round Scatter ScatterElements ScatterND Selu Shrink
    Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh TensorScatter ThresholdedRelu Trilu
    """.split()  # noqa: SIM905
)
_OF_EACH = frozenset(
    """
    Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less
    LessOrEqual Mod Mul Or PRelu Pow Sub Where Xor
    """.split()  # noqa: SIM905
)
# A kernel of many operands may copy the first to the output, then add in one after another.
_OF_FIRST_OF_MANY = frozenset({"Max", "Mean", "Min", "Sum"})


def in_place_pairs(
    node: onnx.NodeProto,
    tensors: Mapping[str, Tensor | None],
    fixed: Collection[str],
    opset: int,
) -> tuple[tuple[str, str], ...]:
    """``(output, input)`` pairs: the kernel may write this output over that input.

    There is no pair for inputs that are broadcast, constants, inputs with elements of another
    width, and inputs that the op also reads in another role.
    """
    read = _elementwise_inputs(node, opset)
    output = tensors.get(node.output[0]) if any(node.output[:1]) else None
    if output is None:
        return ()
    pairs: dict[tuple[str, str], None] = {}
    for name in node.input[:read]:
        source = tensors.get(name)
        if source is None or name in fixed or name in node.input[read:]:
            continue
        if _same_elements(output, source):
            pairs[output.name, name] = None
    return tuple(pairs)


def _elementwise_inputs(node: onnx.NodeProto, opset: int) -> int:
    """Number of leading inputs that the node's first output may be written over, if sizes match."""
    kind = node.op_type
    if not is_standard(node):
        return 0
    if kind in _OF_FIRST | _OF_FIRST_OF_MANY:
        return 1
    if kind == "BatchNormalization" and is_affine(node, opset):
        return 1
    return len(node.input) if kind in _OF_EACH else 0


def _same_elements(output: Tensor, source: Tensor) -> bool:
    """True if element ``k`` of both tensors lies at the same bytes.

    An input of an element-wise op has the shape of the output or is broadcast to it. If it has as
    many elements as the output, the shapes differ at most in leading extents of 1.
    """
    if output.shape is None or source.shape is None or output.dtype is None or source.dtype is None:
        return False
    count = math.prod(output.shape)
    same_width = BITS[output.dtype] == BITS[source.dtype]
    return count > 0 and count == math.prod(source.shape) and same_width


def is_affine(node: onnx.NodeProto, opset: int) -> bool:
    """True if a BatchNormalization uses the given statistics, not the statistics of its input."""
    if opset >= 14:
        return not any(a.name == "training_mode" and a.i for a in node.attribute)
    if opset < 7 and not any(a.name == "is_test" and a.i for a in node.attribute):
        return False
    return not any(node.output[1:])
