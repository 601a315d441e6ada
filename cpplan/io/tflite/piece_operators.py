"""Operators that compute the pieces of a TFLite model's operators, in the making.

A piece is an operator of the same kind as the whole, with the same weights or a part of them; of
reshaping operators, a ``RESHAPE``. At true borders a convolution is padded by its own padding, or
else by ``PAD``, and a pool that takes the greatest by ``PADV2`` with the least number.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from cpplan.io.axes.operation import Operation
from cpplan.io.pieces import Box, PieceWork
from cpplan.io.tflite.axes import (
    SAME,
    constant_value,
    operation_of,
    slice_steps,
    slides_of,
    transposed_slides,
)
from cpplan.io.tflite.graph import Translation
from cpplan.io.tflite.model import FileOperator, TfliteModel
from cpplan.model.errors import InputError, MissingExtraError

# Kinds whose operators compute a piece unchanged, except for their padding.
_AS_THEY_ARE = frozenset(
    """
    ABS ADD ADD_N AVERAGE_POOL_2D BATCH_MATMUL CAST CEIL CONCATENATION CONV_2D COS DEPTHWISE_CONV_2D
    DEPTH_TO_SPACE DEQUANTIZE DIV ELU EQUAL EXP FLOOR FLOOR_DIV FLOOR_MOD FULLY_CONNECTED GATHER
    GELU GREATER GREATER_EQUAL HARD_SWISH L2_NORMALIZATION L2_POOL_2D LEAKY_RELU LESS LESS_EQUAL LOG
    LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC LOG_SOFTMAX MAXIMUM MAX_POOL_2D MEAN MINIMUM
    MIRROR_PAD MUL NEG NOT_EQUAL PACK PAD PADV2 POW PRELU QUANTIZE REDUCE_ALL REDUCE_ANY REDUCE_MAX
    REDUCE_MIN REDUCE_PROD RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SELECT_V2 SIGN SIN
    SOFTMAX SPACE_TO_DEPTH SPLIT SPLIT_V SQRT SQUARE SQUARED_DIFFERENCE SUB SUM TANH TRANSPOSE
    UNPACK ZEROS_LIKE
    """.split()  # noqa: SIM905
)
_ENLARGING = frozenset({"RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "TRANSPOSE_CONV"})
# Kinds whose operators take the shape of their result, or the part that they take.
_WITH_SHAPES = frozenset({"EXPAND_DIMS", "RESHAPE", "SLICE", "SQUEEZE", "STRIDED_SLICE"})
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
_POOLS = ("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D")
_VALID = 1
# Version of operators that take elements of eight bits; of some kinds there is one version.
_VERSION = 2
_VERSIONS = {"RESHAPE": 1}


def check_litert(use: str) -> None:
    """Raise if the package ``ai-edge-litert`` is missing, which ``use`` needs."""
    if find_spec("ai_edge_litert") is None:
        raise MissingExtraError("ai-edge-litert", "tflite", use)


def pack_model(made: Any) -> bytes:
    """The file of a model in the making."""
    import flatbuffers

    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(made.Pack(builder), b"TFL3")
    return bytes(builder.Output())


class NoOperatorError(InputError):
    """Error for a piece that no TFLite operator computes."""


class PieceOperators:
    """Tensors and operators of a model in the making: first the whole model, without operators.

    Parameters
    ----------
    model
        The whole model, with all extents known.
    translation
        Translation of this model.
    made
        The model parsed from its bytes; the operators of subgraph 0 are replaced.

    Attributes
    ----------
    schema
        LiteRT's module of tables.
    main
        Subgraph 0 in the making.
    made
        The model in the making.
    new, old
        New operators so far, and operators of the whole model.
    number, name
        Tensor of the graph -> its number in subgraph 0, and the other way round.
    """

    def __init__(self, model: TfliteModel, translation: Translation, made: Any):
        from ai_edge_litert import schema_py_generated as schema

        self.schema: Any = schema
        self._file, self._whole = model, translation.graph
        self._positions = translation.operators
        self.made, self.main = made, made.subgraphs[0]
        self.number = {name: k for name, (s, k) in translation.keys.items() if s == 0}
        self.name = {k: name for name, k in self.number.items()}
        self.old = list(self.main.operators)
        self.new: list[Any] = []
        self.main.operators = self.new
        self._constants: dict[Any, int] = {}

    def shape(self, tensor: str) -> Sequence[int]:
        """Extents of a tensor of the whole model."""
        return self._whole.tensor[tensor].shape or ()

    def full(self, tensor: str) -> Box:
        """The box of a whole tensor."""
        return tuple((0, extent) for extent in self.shape(tensor))

    def tensor(self, like: int, name: str, shape: Sequence[int]) -> int:
        """Number of a new tensor of another shape and name, quantized like tensor ``like``."""
        made = copy.copy(self.main.tensors[like])
        made.name, made.shape = name, np.array(shape, np.int32)
        made.shapeSignature, made.buffer = None, 0
        self.main.tensors.append(made)
        return len(self.main.tensors) - 1

    def integers(self, values: Any) -> int:
        """Number of a constant of 32-bit integers."""
        array = np.array(values, np.int32)
        key = ("integers", array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self._stored(
                array, f"integers {array.reshape(-1).tolist()}", self.schema.TensorType.INT32
            )
        return self._constants[key]

    def _stored(self, array: Any, name: str, kind: int) -> int:
        buffer, tensor = self.schema.BufferT(), self.schema.TensorT()
        buffer.data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        self.made.buffers.append(buffer)
        tensor.name, tensor.type = name, kind
        tensor.shape, tensor.buffer = (
            np.array(array.shape, np.int32),
            len(self.made.buffers) - 1,
        )
        self.main.tensors.append(tensor)
        return len(self.main.tensors) - 1

    def weights(self, tensor: str, box: Box) -> int:
        """Number of a constant that is a part of another, with the scales of its channels."""
        number = self.number[tensor]
        if box == self.full(tensor):
            return number
        key = (tensor, box)
        if key not in self._constants:
            source, held = self._file.subgraphs[0].tensors[number], self.main.tensors[number]
            start, count = self._file.buffer_span(source.buffer)
            data = np.frombuffer(self._file.data[start : start + count], np.dtype(source.dtype))
            index = tuple(slice(low, high) for low, high in box)
            part = data.reshape(source.shape)[index]
            label = ",".join(f"{low}:{high}" for low, high in box)
            made = self._stored(part, f"{tensor}[{label}]", held.type)
            self.main.tensors[made].quantization = self._cut_scales(held.quantization, box)
            self._constants[key] = made
        return self._constants[key]

    def _cut_scales(self, given: Any, box: Box) -> Any:
        if given is None or given.scale is None or len(given.scale) < 2:
            return given
        cut = copy.copy(given)
        low, high = box[given.quantizedDimension]
        for name in ("scale", "zeroPoint", "min", "max"):
            values = getattr(given, name)
            if values is not None and len(values) > 1:
                setattr(cut, name, values[low:high])
        return cut

    def _code(self, kind: str) -> int:
        number = getattr(self.schema.BuiltinOperator, kind)
        codes = self.made.operatorCodes
        for k, code in enumerate(codes):
            if max(code.builtinCode, code.deprecatedBuiltinCode) == number:
                code.version = max(code.version, _VERSIONS.get(kind, _VERSION))
                return k
        code = self.schema.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode = number, min(number, 127)
        code.version = _VERSIONS.get(kind, _VERSION)
        codes.append(code)
        return len(codes) - 1

    def run(self, kind: str, inputs: Sequence[int], output: int, options: Any = None) -> int:
        """Add an operator of a kind, and return its output."""
        made = self.schema.OperatorT()
        made.opcodeIndex = self._code(kind)
        made.inputs, made.outputs = np.array(inputs, np.int32), np.array([output], np.int32)
        if options is not None:
            name = type(options).__name__.removesuffix("T")
            made.builtinOptionsType = getattr(self.schema.BuiltinOptions, name)
            made.builtinOptions = options
        self.new.append(made)
        return output

    def slice(self, whole: int, box: Box, output: int) -> int:
        """Add an operator that takes a part out of a tensor."""
        begin = self.integers([low for low, _ in box])
        size = self.integers([high - low for low, high in box])
        return self.run("SLICE", [whole, begin, size], output, self.schema.SliceOptionsT())

    def piece(
        self,
        work: PieceWork,
        read: Callable[[str, Box], int],
        result: Callable[[int, Sequence[int]], int],
    ) -> None:
        """Add the operator that computes a piece.

        Parameters
        ----------
        work
            The piece.
        read
            Function that returns the tensor with the part of a tensor that the piece reads.
        result
            Function that returns the tensor for the piece's part of a result of the operator, which
            has this number and the part this shape.

        Raises
        ------
        NoOperatorError
            If no operator computes the piece; names the op.
        """
        position = self._positions[work.op.name]
        old, source = self.old[position], self._file.subgraphs[0].operators[position]
        if source.custom or source.kind not in _AS_THEY_ARE | _WITH_SHAPES | _ENLARGING:
            axes = ", ".join(axis.name for axis, _ in work.cut)
            raise NoOperatorError(
                f"op {work.op.name!r} ({source.kind}): no TFLite operator computes its pieces "
                f"along {axes}"
            )
        output = source.outputs[0]
        shapes = [[high - low for low, high in work.boxes[self.name[k]]] for k in source.outputs]
        shape = shapes[0]
        image = self.name.get(source.inputs[0])
        if source.kind in ("PAD", "PADV2") and image not in work.boxes:
            self._fill(source, shape, result(output, shape))
            return
        made = copy.copy(old)
        inputs = []
        for k in old.inputs:
            tensor = self.name.get(k)
            if k < 0 or tensor is None:
                inputs.append(k)
            elif tensor in work.boxes:
                inputs.append(self._operand(tensor, work.boxes[tensor], read))
            elif source.kind != "CONCATENATION":
                raise NoOperatorError(f"op {work.op.name!r}: a piece of it is padding alone")
        made.inputs = np.array(inputs, np.int32)
        if source.kind in _ENLARGING:
            self._enlarge(made, source, work, result)
            return
        if source.kind in _CONVOLUTIONS or source.kind in _POOLS:
            self._pad_window(made, source, work)
        elif source.kind in ("PAD", "PADV2"):
            made.inputs[1] = self.integers(self._paddings(source, work))
        elif source.kind in _WITH_SHAPES:
            self._with_shape(made, source, work, shape)
        parts = [result(k, part) for k, part in zip(source.outputs, shapes, strict=True)]
        made.outputs = np.array(parts, np.int32)
        self.new.append(made)

    def _enlarge(
        self,
        made: Any,
        source: FileOperator,
        work: PieceWork,
        result: Callable[[int, Sequence[int]], int],
    ) -> None:
        """Add an operator of the part that is read, and one that takes the piece out of its result.

        The result of the part alone has more rows than the piece if neighbours read the same rows.
        """
        (k,) = source.outputs
        output = self.name[k]
        box, shape = work.boxes[output], self.shape(output)
        image = self.name[source.inputs[2 if source.kind == "TRANSPOSE_CONV" else 0]]
        read, extents = work.boxes[image], self.shape(image)
        whole, part = [high - low for low, high in box], list(box)
        if source.kind == "TRANSPOSE_CONV":
            if any(box[axis] != (0, shape[axis]) for axis in (1, 2)):
                slides = transposed_slides(self._operation(source))
                for axis, slide in enumerate(slides, 1):
                    low, high = read[axis]
                    whole[axis] = (high - low - 1) * slide.stride + slide.taps
                    start = low * slide.stride - slide.before
                    part[axis] = (box[axis][0] - start, box[axis][1] - start)
                made.builtinOptions = copy.copy(made.builtinOptions)
                made.builtinOptions.padding = _VALID
            made.inputs[0] = self.integers(whole)
        else:
            for axis in (1, 2):
                low, high = read[axis]
                times = shape[axis] // extents[axis]
                if (low, high) == (0, extents[axis]):
                    whole[axis] = shape[axis]
                else:
                    whole[axis] = (high - low) * times
                    part[axis] = (box[axis][0] - low * times, box[axis][1] - low * times)
            made.inputs[1] = self.integers(whole[1:3])
        self.new.append(made)
        part = [
            (low, high) if axis in (1, 2) else (0, high - low)
            for axis, (low, high) in enumerate(part)
        ]
        size = [high - low for low, high in part]
        if size == whole:
            made.outputs = np.array([result(k, size)], np.int32)
            return
        made.outputs = np.array([self.tensor(k, f"{output} part {len(self.new)}", whole)], np.int32)
        self.slice(int(made.outputs[0]), tuple(part), result(k, size))

    def _with_shape(
        self, made: Any, source: FileOperator, work: PieceWork, shape: Sequence[int]
    ) -> None:
        """Set the constants of an operator that takes the shape of its result, or a part."""
        if source.kind in ("SLICE", "STRIDED_SLICE"):
            firsts, steps = slice_steps(self._operation(source))
            image, output = (self.name[k] for k in (source.inputs[0], source.outputs[0]))
            begin, end, to_start = [], [], 0
            for axis, (first, step, (low, _), (start, stop)) in enumerate(
                zip(firsts, steps, work.boxes[image], work.boxes[output], strict=True)
            ):
                begin.append(first + start * step - low)
                last = begin[-1] + (stop - start - 1) * step
                end.append(last + (1 if step > 0 else -1))
                # As an end, -1 means the last position, not the one in front of the first.
                to_start |= (end[-1] < 0) << axis
            made.inputs[1] = self.integers(begin)
            made.inputs[2] = self.integers(end if source.kind == "STRIDED_SLICE" else shape)
            if source.kind == "STRIDED_SLICE":
                made.builtinOptions = self.schema.StridedSliceOptionsT()
                made.builtinOptions.endMask = to_start
            return
        made.opcodeIndex = self._code("RESHAPE")
        made.inputs = np.array([made.inputs[0], self.integers(shape)], np.int32)
        made.builtinOptionsType = self.schema.BuiltinOptions.ReshapeOptions
        made.builtinOptions = self.schema.ReshapeOptionsT()
        made.builtinOptions.newShape = list(shape)

    def _fill(self, source: FileOperator, shape: Sequence[int], output: int) -> None:
        """Add the operator of a piece of a padding that is padding alone."""
        if source.kind == "PADV2":
            value = source.inputs[2]
        else:
            zeros = self._file.subgraphs[0].tensors[source.inputs[0]].zero_points
            value = self._number(source.inputs[0], zeros[0] if zeros else 0)
        self.run("FILL", [self.integers(shape), value], output, self.schema.FillOptionsT())

    def _number(self, like: int, value: Any) -> int:
        """Number of a constant of one element, of the type and quantization of tensor ``like``."""
        held, dtype = self.main.tensors[like], self._file.subgraphs[0].tensors[like].dtype
        key = ("number", like, value)
        if key not in self._constants:
            made = self._stored(np.array(value, dtype), f"{value} {like}", held.type)
            self.main.tensors[made].quantization = held.quantization
            self._constants[key] = made
        return self._constants[key]

    def _operand(self, tensor: str, box: Box, read: Callable[[str, Box], int]) -> int:
        constant = self._whole.tensor[tensor].kind == "constant"
        return self.weights(tensor, box) if constant else read(tensor, box)

    def _pad_window(self, made: Any, source: FileOperator, work: PieceWork) -> None:
        """Pad a piece at the borders at which the whole operator is padded, and not elsewhere."""
        operation = self._operation(source)
        image, output = (self.name[k] for k in (source.inputs[0], source.outputs[0]))
        before, after, same = [], [], True
        for slide, axis in zip(slides_of(operation), (1, 2), strict=True):
            start, stop = work.boxes[output][axis]
            low, high = work.boxes[image][axis]
            past = (stop - 1) * slide.stride - slide.before + slide.reach
            before.append(max(0, slide.before - start * slide.stride))
            after.append(max(0, past - self.shape(image)[axis]))
            places, extent = stop - start, high - low
            total = max(0, (places - 1) * slide.stride + slide.reach - extent)
            same &= -(-extent // slide.stride) == places
            same &= (total // 2, total - total // 2) == (before[-1], after[-1])
        made.builtinOptions = copy.copy(made.builtinOptions)
        made.builtinOptions.padding = SAME if same else _VALID
        if same or not any(before + after):
            return
        if source.kind in _POOLS and source.kind != "MAX_POOL_2D":
            raise NoOperatorError(
                f"op {work.op.name!r} ({source.kind}): no TFLite operator pads its pieces so"
            )
        paddings = [[0, 0], *map(list, zip(before, after, strict=True)), [0, 0]]
        box = work.boxes[image]
        shape = [high - low + sum(pad) for (low, high), pad in zip(box, paddings, strict=True)]
        padded = self.tensor(self.number[image], f"{image} padded {len(self.new)}", shape)
        read = int(made.inputs[0])
        operands = [read, self.integers(paddings)]
        if source.kind in _POOLS:
            dtype = np.dtype(self._file.subgraphs[0].tensors[source.inputs[0]].dtype)
            info = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
            operands.append(self._number(source.inputs[0], info.min))
            made.inputs[0] = self.run("PADV2", operands, padded, self.schema.PadV2OptionsT())
        else:
            made.inputs[0] = self.run("PAD", operands, padded, self.schema.PadOptionsT())

    def _paddings(self, source: FileOperator, work: PieceWork) -> list[list[int]]:
        """Paddings of a piece of a ``PAD``: the part of the whole padding that the piece covers."""
        held = self._file.subgraphs[0].tensors[source.inputs[1]]
        value = constant_value(self._file, held)
        assert value is not None  # without a known value the op has no axes
        image, output = (self.name[k] for k in (source.inputs[0], source.outputs[0]))
        paddings = []
        for axis, ((start, stop), (low, high)) in enumerate(
            zip(work.boxes[output], work.boxes[image], strict=True)
        ):
            first = int(value.reshape(-1)[2 * axis])
            paddings.append([low + first - start, stop - (high + first)])
        return paddings

    def _operation(self, source: FileOperator) -> Operation:
        """An operator of the whole model as the rules of axes see it."""

        def tensors(numbers: Iterable[int]) -> list[Any]:
            return [self._whole.tensor[self.name[k]] if k in self.name else None for k in numbers]

        def value(position: int) -> Any:
            held = self._file.subgraphs[0].tensors[source.inputs[position]]
            return constant_value(self._file, held)

        return operation_of(source, tensors(source.inputs), tensors(source.outputs), value)
