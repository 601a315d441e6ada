"""Random weights for models with constant weights, scaled so that activations do not vanish."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from cpplan.io.onnx.bytes import Array, numpy_dtype
from cpplan.model.graph import Graph, Tensor

if TYPE_CHECKING:
    import onnx

    from cpplan.io.onnx.graph import Source

    FanIn = Callable[[onnx.NodeProto, tuple[int, ...]], int]


def _gemm_fan_in(node: onnx.NodeProto, shape: tuple[int, ...]) -> int:
    transposed = any(a.name == "transB" and a.i for a in node.attribute)
    return shape[-1] if transposed else shape[-2]


# (kind of op, input) -> number of products that each of its sums adds.
_FAN_IN: dict[tuple[str, int], FanIn] = {
    ("Conv", 1): lambda node, shape: math.prod(shape[1:]),
    ("ConvTranspose", 1): lambda node, shape: math.prod(shape) // max(1, shape[1]),
    ("Gemm", 1): _gemm_fan_in,
    ("MatMul", 0): lambda node, shape: shape[-1],
    ("MatMul", 1): lambda node, shape: shape[-2],
    ("Gather", 0): lambda node, shape: 2,
}
# (kind of op, input) -> value around which the weights vary.
_CENTRE = {
    ("Conv", 2): 0.0,
    ("ConvTranspose", 2): 0.0,
    ("Gemm", 2): 0.0,
    ("BatchNormalization", 1): 1.0,
    ("BatchNormalization", 2): 0.0,
    ("BatchNormalization", 3): 0.0,
    ("BatchNormalization", 4): 1.0,
    ("LayerNormalization", 1): 1.0,
    ("LayerNormalization", 2): 0.0,
    ("InstanceNormalization", 1): 1.0,
    ("InstanceNormalization", 2): 0.0,
    ("Mul", 0): 1.0,
    ("Mul", 1): 1.0,
    ("Add", 0): 0.0,
    ("Add", 1): 0.0,
}


def draw_weights(
    graph: Graph, ops: Mapping[str, Source], rng: np.random.Generator
) -> dict[str, Array]:
    """Name -> random values, for the constant storages that ops read as weights.

    Matrices and kernels get variance ``2 / fan_in`` (He et al. 2015), scales and variances lie in
    ``[0.8, 1.2]``, biases and means in ``[-0.2, 0.2]``. Single numbers, integers, and constants
    that are read in another role, keep their values.
    """
    drawn: dict[str, Array] = {}
    for source in ops.values():
        for k, read in enumerate(source.node.input):
            if not read or read not in graph.root:
                continue
            root = graph.tensor[graph.root[read][0]]
            if root.kind != "constant" or root.name in drawn:
                continue
            value = _draw(source.node, k, graph.tensor[read], root, rng)
            if value is not None:
                drawn[root.name] = value
    return drawn


def _draw(
    node: onnx.NodeProto, k: int, read: Tensor, root: Tensor, rng: np.random.Generator
) -> Array | None:
    role = node.op_type, k
    if read.shape is None or root.shape is None or root.dtype is None:
        return None
    if not root.dtype.startswith(("float", "bfloat")) or math.prod(root.shape) <= 1:
        return None
    if role in _FAN_IN and len(read.shape) >= 2:
        value = rng.standard_normal(root.shape, np.float32)
        value *= np.float32(math.sqrt(2 / max(1, _FAN_IN[role](node, read.shape))))
    elif role in _CENTRE:
        value = rng.uniform(-0.2, 0.2, root.shape).astype(np.float32)
        value += np.float32(_CENTRE[role])
    else:
        return None
    return value.astype(numpy_dtype(root.dtype), copy=False)
