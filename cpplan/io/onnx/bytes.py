"""Arrays that ONNX kernels work on, and the NumPy types of their elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy type of our name of an element type."""
    import onnx

    spelled = {"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype, dtype.upper())
    element = onnx.TensorProto.DataType.Value(spelled)
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))
