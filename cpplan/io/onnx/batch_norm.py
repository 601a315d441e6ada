"""A kernel of batch normalization by given statistics, as it is at inference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.in_place import is_affine

if TYPE_CHECKING:
    import onnx

_EPSILON = 1e-5


def make_batch_norm(
    node: onnx.NodeProto, opset: int
) -> Callable[[Sequence[Array | None]], list[Array]] | None:
    """A kernel for a ``BatchNormalization`` that uses given statistics; ``None`` for others.

    The reference kernels of opsets 7 to 13 always normalise by the statistics of the input, but the
    operator's definition says so only if these statistics are outputs.
    """
    if node.domain or node.op_type != "BatchNormalization":
        return None
    if not is_affine(node, opset):
        return None
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), _EPSILON)

    def normalise(inputs: Sequence[Array | None]) -> list[Array]:
        image, *vectors = (array for array in inputs if array is not None)
        ones = (1,) * (image.ndim - 2)
        scale, bias, mean, var = (vector.reshape(-1, *ones) for vector in vectors)
        found: Array = scale * (image - mean) / np.sqrt(var + epsilon) + bias
        return [found.astype(image.dtype)]

    return normalise
