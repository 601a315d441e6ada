"""Running single ONNX nodes with the reference kernels that come with the ``onnx`` package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cpplan.dtypes import BITS
from cpplan.errors import InputError

if TYPE_CHECKING:
    import onnx

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
Kernel = Callable[[Mapping[str, Array]], dict[str, Array]]


def make_kernel(
    node: onnx.NodeProto,
    types: Mapping[str, onnx.TypeProto],
    opsets: Mapping[str, int],
    label: str | None = None,
    outputs: Sequence[str] | None = None,
) -> Kernel:
    """A function from the values a node reads, by name, to the values it writes, by name.

    Values that only the node's bodies read are passed like the others. ``outputs`` are those
    wanted, all if left out.

    Raises
    ------
    InputError
        If there is no such kernel, or it fails, then or when it is called; names the op.
    """
    import onnx
    from onnx.reference import ReferenceEvaluator

    label = label or node.name or node.op_type
    declared = [
        onnx.ValueInfoProto(name=name, type=types.get(name, onnx.TypeProto()))
        for name in dict.fromkeys(node.input)
        if name
    ]
    wanted = [name for name in (node.output if outputs is None else outputs) if name]
    results = [onnx.ValueInfoProto(name=name) for name in wanted]
    graph = onnx.helper.make_graph([node], "kernel", declared, results)
    try:
        evaluator = ReferenceEvaluator(graph, opsets=dict(opsets))
    except Exception as error:  # the kernels raise whatever numpy or they like
        raise _failure(label, node, error) from error

    def run(values: Mapping[str, Array]) -> dict[str, Array]:
        try:
            with np.errstate(all="ignore"):
                arrays = evaluator.run(wanted, {n: _read_only(a) for n, a in values.items()})
        except Exception as error:
            raise _failure(label, node, error) from error
        # A copy in C order: a kernel may hand back a view of what it was given, and the order of
        # elements in memory may change how the next kernel rounds.
        return {n: np.array(a, order="C") for n, a in zip(wanted, arrays, strict=True)}

    return run


def to_numpy(tensor: onnx.TensorProto | onnx.SparseTensorProto) -> Array:
    """The dense value of a constant.

    Raises
    ------
    InputError
        If its data does not fit its shape; names the tensor.
    """
    import onnx

    name = tensor.values.name if isinstance(tensor, onnx.SparseTensorProto) else tensor.name
    try:
        if isinstance(tensor, onnx.TensorProto):
            return onnx.numpy_helper.to_array(tensor)
        values = onnx.numpy_helper.to_array(tensor.values)
        indices = onnx.numpy_helper.to_array(tensor.indices)
        dense = np.zeros(tuple(tensor.dims), values.dtype)
        if indices.ndim == 2:
            dense[tuple(indices.T)] = values
        else:
            dense.reshape(-1)[indices] = values
        return dense
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise InputError(f"constant {name!r}: {_one_line(error)}") from error


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy type of our name of an element type.

    Examples
    --------
    >>> numpy_dtype("float32"), numpy_dtype("bfloat16")
    (dtype('float32'), dtype(bfloat16))
    """
    import onnx

    spelled = {"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype, dtype.upper())
    element = onnx.TensorProto.DataType.Value(spelled)
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))


def to_bytes(array: Array, dtype: str) -> Bytes:
    """An array's bytes as they lie in memory; elements narrower than a byte are packed.

    Shape ``(n,)``; shares the array's memory unless it packs.

    Examples
    --------
    >>> to_bytes(np.arange(2, dtype=np.uint16), "uint16").tolist()
    [0, 0, 1, 0]
    """
    flat: Bytes = array.reshape(-1).view(np.uint8)
    bits = BITS[dtype]
    if bits >= 8:
        return flat
    per_byte = 8 // bits
    padded = np.zeros(-(-flat.size // per_byte) * per_byte, np.uint8)
    padded[: flat.size] = flat & ((1 << bits) - 1)
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(bits)
    packed: Bytes = np.bitwise_or.reduce(padded.reshape(-1, per_byte) << shifts, axis=1)
    return packed


def from_bytes(raw: Bytes, dtype: str, like: Array) -> Array:
    """The array of ``like``'s shape and type that lies in these bytes; shares them if it can.

    What does not share: packed elements, and addresses that are no multiple of the element's size.
    There NumPy works through small buffers, and sums round differently.
    """
    bits = BITS[dtype]
    if bits >= 8:
        return np.require(raw.view(like.dtype).reshape(like.shape), requirements="A")
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    elements = ((raw[:, None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(-1)[: like.size]
    if dtype.startswith("int"):  # sign-extend, as the unpacked type stores it
        sign = np.uint8(1 << (bits - 1))
        elements = (elements ^ sign) - sign
    unpacked: Array = elements.view(like.dtype).reshape(like.shape)
    return unpacked


def _read_only(array: Array) -> Array:
    """The same bytes; a kernel that wrote to its inputs would make a sound plan look broken."""
    view: Array = array.view()
    view.flags.writeable = False
    return view


def _failure(label: str, node: onnx.NodeProto, error: Exception) -> InputError:
    what = f"op {label!r}: the reference kernel of {node.op_type} cannot run it"
    return InputError(f"{what}: {_one_line(error)}")


def _one_line(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 200 else f"{text[:197]}..."
