"""ONNX models whose weights were left out, with random ones: their values mean something."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import onnx


def with_random_weights(path: Path, *, extent: int | None = None) -> onnx.ModelProto:
    """A model whose weights, all of them one number, differ; for smaller images, if asked for."""
    import onnx
    from onnx import helper, numpy_helper

    loaded, rng = onnx.load(path), np.random.default_rng(0)
    shapes = {t.name: numpy_helper.to_array(t) for t in loaded.graph.initializer}
    for node in loaded.graph.node:
        if node.op_type == "ConstantOfShape":
            shape = tuple(shapes[node.input[0]])
            weight = rng.uniform(0.5, 1.5, shape)
            if len(shape) > 1:
                weight = rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
            value = numpy_helper.from_array(weight.astype(np.float32))
            node.CopyFrom(helper.make_node("Constant", [], node.output, node.name, value=value))
    if extent is not None:
        constant = {tensor.name for tensor in loaded.graph.initializer}
        (image,) = (value for value in loaded.graph.input if value.name not in constant)
        for dim in image.type.tensor_type.shape.dim[2:]:
            dim.dim_value = extent
        del loaded.graph.value_info[:]  # extents that no longer hold
    return loaded
