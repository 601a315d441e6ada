"""A kernel of the operator that draws classes by their probabilities, which ``onnx`` lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.io.onnx.bytes import Array

if TYPE_CHECKING:
    import onnx


def make_draw(node: onnx.NodeProto) -> Callable[[Sequence[Array | None]], list[Array]] | None:
    """A kernel for ``Multinomial``; ``None`` for others.

    The greatest of logarithms of probabilities plus Gumbel noise is a class drawn by these
    probabilities (E. J. Gumbel, 1954).
    """
    import onnx

    if node.domain or node.op_type != "Multinomial":
        return None
    given: dict[str, Any] = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    dtype = onnx.helper.tensor_dtype_to_np_dtype(given.get("dtype", onnx.TensorProto.INT32))
    seed = given.get("seed")

    def draw(inputs: Sequence[Array | None]) -> list[Array]:
        (logits,) = inputs
        assert logits is not None
        rng = np.random.default_rng(None if seed is None else abs(int(seed)))
        shape = (logits.shape[0], given.get("sample_size", 1), logits.shape[1])
        found: Array = (logits[:, None] + rng.gumbel(size=shape)).argmax(2)
        return [found.astype(dtype)]

    return draw
