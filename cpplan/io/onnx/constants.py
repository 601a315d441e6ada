"""Values of an ONNX model's small constants, computed when they are first needed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.kernels import KernelError, make_kernel, to_numpy
from cpplan.io.onnx.types import bodies_of
from cpplan.io.onnx.views import is_standard

if TYPE_CHECKING:
    import onnx


SMALL = 4096  # elements: shape arithmetic needs far fewer, weights have far more


class SmallConstant:
    """A constant of few elements: stored, or computed by a node from other small constants.

    Its value is computed when it is first needed.
    """

    __slots__ = ("_operands", "_opset", "_output", "_source", "_value", "_worked_out")

    def __init__(
        self,
        source: onnx.TensorProto | onnx.NodeProto,
        output: str,
        opset: int,
        operands: Mapping[str, SmallConstant],
    ):
        self._source, self._output, self._opset = source, output, opset
        self._operands = operands
        self._value: Array | None = None
        self._worked_out = False

    def value(self) -> Array | None:
        """The value; ``None`` if no reference kernel computes it."""
        stack = [self]
        while stack:
            last = stack[-1]
            waiting = [c for c in last._operands.values() if not c._worked_out]
            stack.extend(waiting)
            if not waiting:
                stack.pop()
                if not last._worked_out:
                    last._work_out()
        return self._value

    def _work_out(self) -> None:
        self._worked_out = True
        stored = stored_tensor(self._source)
        if stored is not None:
            self._value = None if stored.external_data else to_numpy(stored)
            return
        operands: dict[str, Array] = {}
        for name, constant in self._operands.items():
            if constant._value is None:
                return
            operands[name] = constant._value
        node = type(self._source)()
        node.CopyFrom(self._source)
        node.domain = ""
        try:
            results = make_kernel(node, {}, {"": self._opset}, outputs=[self._output])(operands)
        except KernelError:
            return  # the value stays unknown
        self._value = results[self._output]


def stored_constant(tensor: onnx.TensorProto) -> SmallConstant | None:
    """The constant that an initializer stores, if it is small and stored in the model itself."""
    if math.prod(tensor.dims) > SMALL or tensor.external_data:
        return None
    return SmallConstant(tensor, tensor.name, 0, {})


def computed_constant(
    node: onnx.NodeProto, output: str, opset: int, known: Mapping[str, SmallConstant]
) -> SmallConstant | None:
    """The constant that a node computes, if it reads only small constants; else ``None``."""
    inputs = [name for name in node.input if name]
    if not is_standard(node) or bodies_of(node) or not all(name in known for name in inputs):
        return None
    return SmallConstant(node, output, opset, {name: known[name] for name in inputs})


def stored_tensor(source: onnx.TensorProto | onnx.NodeProto) -> onnx.TensorProto | None:
    """The tensor of an initializer, or of a Constant that holds one; else ``None``."""
    import onnx

    if isinstance(source, onnx.TensorProto):
        return source
    if source.op_type != "Constant":
        return None
    return next((a.t for a in source.attribute if a.name == "value"), None)
