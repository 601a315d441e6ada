"""Scratch memory that CMSIS-NN's kernels request from TFLite Micro's arena.

Sizes follow from the kind, the shapes and the processor: without extensions (``cmsis-nn``), with
the DSP extension (``cmsis-nn-dsp``, Cortex-M4, M7 and M33) or with Helium (``cmsis-nn-mve``,
Cortex-M55 and M85). They are the sizes that the ``…_get_buffer_size`` functions of CMSIS-NN return
(ARM-software/CMSIS-NN, Apache-2.0, as of 2026); TFLite Micro's ``kernels/cmsis_nn`` request each
buffer separately. Other versions may differ.

==========================  ==================================================================
kind, all of int8           bytes of each buffer; ``taps`` are filter height × width
==========================  ==================================================================
``CONV_2D``                 none for 1×1 taps without padding and dilation; else taps × channels
                            of the input, rounded up to 4, times 4; with Helium, rounded up to 8,
                            times 4, and none for one row whose step is a multiple of 4 bytes
``DEPTHWISE_CONV_2D``       none for a batch, with dilation, and if channels are multiplied; with
                            DSP 2 × taps × channels, none for 3×3 taps with at most 1 of padding;
                            with Helium 496 × taps
``FULLY_CONNECTED``         with Helium 4 for each output; one of more than two axes that reads a
                            multiple of 4: none
``AVERAGE_POOL_2D``         with DSP 4 for each channel; int16 too
``TRANSPOSE_CONV``          of more than 16 channels, with strides of at most 2: what ``CONV_2D``
                            asks for, and the size of its weights; else 4 for each element of the
                            rows of the output that one row of the input reaches
==========================  ==================================================================

Float kernels, and kinds that CMSIS-NN does not have, run as reference kernels. The sizes for
``BATCH_MATMUL``, ``SVDF`` and ``UNIDIRECTIONAL_SEQUENCE_LSTM`` of integers, and for layers of int16
or with weights of 4 bits, are not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from cpplan.io.tflite.model import FileOperator, FileTensor

SCALAR, DSP, MVE = TARGETS = ("cmsis-nn", "cmsis-nn-dsp", "cmsis-nn-mve")

# Channels that Helium's depthwise kernel handles at once, and rows of unrolled columns.
_CHANNELS, _ROWS = 124, 4
# Number of channels above which a transposed convolution runs as a convolution with reversed
# weights.
_MANY_CHANNELS = 16
_INTEGERS = ("int8", "int16")
_UNKNOWN = frozenset({"BATCH_MATMUL", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM"})


def has_kernel(operator: FileOperator, tensors: Sequence[FileTensor]) -> bool:
    """True if CMSIS-NN has a kernel of its own for an operator, which may request memory."""
    data = _data(operator, tensors)
    known = operator.kind in _RULES or operator.kind in _UNKNOWN
    return known and not operator.custom and data is not None and data.dtype in _INTEGERS


def cmsis_nn_sizes(
    operator: FileOperator, tensors: Sequence[FileTensor], target: str
) -> tuple[int, ...] | None:
    """Bytes of each scratch buffer that a kernel of CMSIS-NN requests; ``None`` if not known."""
    data, output = _data(operator, tensors), tensors[operator.outputs[0]]
    weights = None if len(operator.inputs) < 2 else tensors[operator.inputs[1]]
    if data is None or operator.kind in _UNKNOWN:
        return None
    if operator.kind == "AVERAGE_POOL_2D":
        return _some(4 * data.shape[-1] if target == DSP and data.shape else 0)
    if weights is None or data.dtype != "int8" or weights.dtype != "int8":
        return None
    rank = {len(tensor.shape) for tensor in (data, weights, output)}
    if operator.kind != "FULLY_CONNECTED" and rank != {4}:
        return None  # the kernel refuses it
    return _RULES[operator.kind](_Layer(operator, data, weights, output, target))


def _data(operator: FileOperator, tensors: Sequence[FileTensor]) -> FileTensor | None:
    """The tensor that a layer reads besides its weights."""
    place = 2 if operator.kind == "TRANSPOSE_CONV" else 0
    if not operator.outputs or len(operator.inputs) <= place or operator.inputs[place] < 0:
        return None
    return tensors[operator.inputs[place]]


class _Layer:
    """A layer's shapes and settings."""

    def __init__(
        self,
        operator: FileOperator,
        data: FileTensor,
        weights: FileTensor,
        output: FileTensor,
        target: str,
    ):
        self.operator, self.target = operator, target
        self.data, self.weights, self.output = data.shape, weights.shape, output.shape

    def option(self, field: int, kind: str = "<i") -> int:
        options = self.operator.options
        return 0 if options is None else options.number(field, kind)

    def padding(self, strides: Sequence[int], dilations: Sequence[int]) -> list[int]:
        """Rows and columns of padding at the start; 0 unless the mode is SAME (0 in files)."""
        if self.option(0, "<b"):
            return [0, 0]
        found = []
        for axis, (stride, dilation) in enumerate(zip(strides, dilations, strict=True), 1):
            reach = (self.weights[axis] - 1) * dilation + 1
            missing = (self.output[axis] - 1) * stride + reach - self.data[axis]
            found.append(max(0, missing) // 2)
        return found


def _columns(layer: _Layer, channels: int) -> int:
    """Bytes of the columns that a convolution unrolls."""
    length = math.prod(layer.weights[1:3]) * channels
    if layer.target == MVE:
        return _ROWS * 8 * -(-length // 8)
    return 4 * 4 * -(-length // 4)


def _convolution(layer: _Layer) -> tuple[int, ...]:
    strides = [layer.option(field) or 1 for field in (2, 1)]
    dilations = [layer.option(field) or 1 for field in (5, 4)]
    taps, channels = layer.weights[1:3], layer.data[3]
    if (*taps, *dilations) == (1, 1, 1, 1) and not any(layer.padding(strides, dilations)):
        return ()
    one_row = layer.data[1] == taps[0] == dilations[1] == 1 and strides[1] * channels % 4 == 0
    if one_row and layer.target == MVE:
        return ()
    return _some(_columns(layer, channels))


def _depthwise(layer: _Layer) -> tuple[int, ...]:
    strides = [layer.option(field) or 1 for field in (2, 1)]
    dilations = [layer.option(field) or 1 for field in (6, 5)]
    taps = layer.weights[1:3]
    alike = layer.data[0] == 1 and layer.data[3] == layer.output[3] and dilations == [1, 1]
    if not alike or layer.target == SCALAR:
        return ()
    if layer.target == MVE:
        return _some(4 * _CHANNELS * math.prod(taps))
    if tuple(taps) == (3, 3) and max(layer.padding(strides, dilations)) <= 1:
        return ()
    return _some(2 * math.prod(taps) * layer.data[3])


def _dense(layer: _Layer) -> tuple[int, ...]:
    if layer.target != MVE or (len(layer.output) > 2 and layer.weights[-1] % 4 == 0):
        return ()
    return _some(4 * layer.output[-1])


def _transposed(layer: _Layer) -> tuple[int, ...]:
    strides = [layer.option(field) or 1 for field in (2, 1)]
    width, channels = layer.data[2:]
    taps = layer.weights[1:3]
    if max(strides) <= 2 and channels > _MANY_CHANNELS:
        return _some(_columns(layer, channels), math.prod(layer.weights))
    across = (width - 1) * strides[1] + max(taps[1], strides[0])
    return _some(4 * across * layer.output[3] * max(taps[0], strides[0]))


def _some(*sizes: int) -> tuple[int, ...]:
    return tuple(size for size in sizes if size)


_RULES: dict[str, Callable[[_Layer], tuple[int, ...]]] = {
    "AVERAGE_POOL_2D": lambda layer: (),
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _dense,
    "TRANSPOSE_CONV": _transposed,
}
