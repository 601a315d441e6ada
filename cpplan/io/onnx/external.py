"""Weights of an ONNX model in files beside it: read, counted, moved one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cpplan.io.onnx.types import bodies_of, dtype_name
from cpplan.model.dtypes import tensor_bytes
from cpplan.model.errors import InputError
from cpplan.runtime.atomic import write_blocks

if TYPE_CHECKING:
    import onnx

MOST_BYTES = 1 << 31  # what an ONNX file, a protobuf message, must stay below
_PAGE = 4096  # offsets at which weights can be mapped into memory


def load_external_data(model: onnx.ModelProto, folder: Path) -> None:
    """Load the weights that a model keeps in files of a folder, in place.

    Raises
    ------
    InputError
        If they cannot be read; names the file or the tensor.
    """
    for tensor in _external_tensors(model.graph):
        _load(tensor, folder)


def weight_bytes(model: onnx.ModelProto) -> int:
    """Bytes of the weights that a model keeps in other files."""
    return sum(
        tensor_bytes(tensor.dims, dtype_name(tensor.data_type) or "uint8")
        for tensor in _external_tensors(model.graph)
    )


def move_external_data(model: onnx.ModelProto, folder: Path, target: Path) -> None:
    """Copy the weights that a model keeps in files of a folder to one file; refer to it in place.

    One weight is in memory at a time; each begins at a multiple of 4096 bytes.

    Raises
    ------
    InputError
        As :func:`load_external_data`, or if the file cannot be written.
    """
    import onnx

    tensors = list(_external_tensors(model.graph))
    places: list[tuple[int, int]] = []

    def blocks() -> Iterator[bytes]:
        end = 0
        for tensor in tensors:
            loaded = onnx.TensorProto()  # its memory is free again after the block
            loaded.CopyFrom(tensor)
            _load(loaded, folder)
            begin = -(-end // _PAGE) * _PAGE
            yield bytes(begin - end)
            yield loaded.raw_data
            places.append((begin, len(loaded.raw_data)))
            end = sum(places[-1])

    write_blocks(target, blocks())
    for tensor, (offset, length) in zip(tensors, places, strict=True):
        del tensor.external_data[:]
        for key, value in (("location", target.name), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))


def _load(tensor: onnx.TensorProto, folder: Path) -> None:
    from onnx.checker import ValidationError
    from onnx.external_data_helper import load_external_data_for_tensor

    try:
        load_external_data_for_tensor(tensor, str(folder))
    except (OSError, ValueError, ValidationError) as error:
        text = " ".join(str(error).split())
        raise InputError(f"its weights cannot be read: {text}") from error
    # As ``load_external_data_for_model`` leaves it, in every version of onnx.
    tensor.data_location = tensor.DEFAULT
    del tensor.external_data[:]


def _external_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    held = [*graph.initializer]
    for sparse in graph.sparse_initializer:
        held += (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            held += (attribute.t, *attribute.tensors)
    for tensor in held:
        if tensor.data_location == tensor.EXTERNAL:
            yield tensor
    for node in graph.node:
        for body in bodies_of(node):
            yield from _external_tensors(body)
