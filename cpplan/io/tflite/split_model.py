"""A TFLite model whose operators run in pieces, in the order of a plan.

Each piece is an operator of the kind it is a piece of, with the same weights. Where it reads more
than one band of a tensor, a ``CONCATENATION`` before it puts them together; where it writes more
than one, ``SLICE`` after it takes them apart. At true borders a convolution is padded as its own
padding does, or else by ``PAD``; pools only by their own. An operator that runs again is there
again. All of this is for TFLite Micro to place: a planner may lay bands within what they are
concatenated to, so that nothing is copied.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from cpplan.io.pieces import Box, PieceWork, piece_work, within
from cpplan.io.tflite.axes import SAME, constant_value, operation_of, slides_of
from cpplan.io.tflite.graph import Translation
from cpplan.io.tflite.model import FileOperator, TfliteModel
from cpplan.model.errors import InputError, MissingExtraError
from cpplan.model.graph import Op
from cpplan.model.plan import Plan
from cpplan.verification.pieces import describe_pieces

# Kinds whose operators compute a piece as they stand, but for their padding.
_AS_THEY_ARE = frozenset(
    """
    ABS ADD ADD_N AVERAGE_POOL_2D BATCH_MATMUL CAST CEIL CONCATENATION CONV_2D COS DEPTHWISE_CONV_2D
    DEQUANTIZE DIV ELU EQUAL EXP FLOOR FLOOR_DIV FLOOR_MOD FULLY_CONNECTED GATHER GELU GREATER
    GREATER_EQUAL HARD_SWISH L2_NORMALIZATION L2_POOL_2D LEAKY_RELU LESS LESS_EQUAL LOG LOGICAL_AND
    LOGICAL_NOT LOGICAL_OR LOGISTIC LOG_SOFTMAX MAXIMUM MAX_POOL_2D MEAN MINIMUM MUL NEG NOT_EQUAL
    PAD PADV2 POW PRELU QUANTIZE REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD RELU RELU6
    RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SELECT_V2 SIGN SIN SOFTMAX SQRT SQUARE SQUARED_DIFFERENCE
    SUB SUM TANH TRANSPOSE
    """.split()  # noqa: SIM905
)
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
_POOLS = ("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D")
_VALID = 1
# TFLite Micro's CONCATENATION takes no more.
_MOST_PARTS = 10
# Of operators that take eight bits.
_VERSION = 2


def split_tflite(model: TfliteModel, translation: Translation, plan: Plan) -> bytes:
    """The file of a model in pieces, without offsets.

    Parameters
    ----------
    model
        The whole model, with all extents known.
    translation
        Of this model.
    plan
        With cuts of its ops.

    Raises
    ------
    InputError
        If the plan is for another model, or no operator computes a piece; names the op.
    MissingExtraError
        If the package ``ai-edge-litert`` is missing.
    VerificationError
        If an op cannot be cut so.
    """
    if find_spec("ai_edge_litert") is None:
        raise MissingExtraError("ai-edge-litert", "tflite", "writing TFLite models in pieces")
    return _Writer(model, translation, plan).write()


class _Writer:
    """The tensors and operators of a model in pieces, in the making."""

    def __init__(self, model: TfliteModel, translation: Translation, plan: Plan):
        from ai_edge_litert import schema_py_generated as schema

        self._schema: Any = schema
        self._file, self._plan = model, plan
        self._whole, self._operators = translation.graph, translation.operators
        self._described = describe_pieces(self._whole, plan.pieces)
        self._bands = self._described.bands
        self._made: Any = schema.ModelT.InitFromPackedBuf(bytearray(model.data), 0)
        self._main = self._made.subgraphs[0]
        self._number = {name: k for name, (s, k) in translation.keys.items() if s == 0}
        self._name = {k: name for name, k in self._number.items()}
        # Tensor or band -> the tensor of the file with its latest value.
        self._at = {name: k for name, k in self._number.items() if name not in self._bands}
        self._constants: dict[Any, int] = {}
        self._old = list(self._main.operators)
        self._new: list[Any] = []
        self._written: set[int] = set()

    def write(self) -> bytes:
        import flatbuffers

        known = self._described.graph.op
        unknown = next((name for name in self._plan.order if name not in known), None)
        if unknown is not None:
            raise InputError(f"plan {self._plan.name!r} is for another model: no op {unknown!r}")
        for name in self._main.inputs:
            tensor = self._name[name]
            if tensor in self._bands:
                self._at[tensor] = name
        for name in self._plan.order:
            op = known[name]
            if name in self._described.works:
                source, axes, spans = self._described.works[name]
                self._piece(op, piece_work(self._whole, self._whole.op[source], axes, spans))
            else:
                self._whole_op(op)
        outputs = []
        for number in self._main.outputs:
            tensor = self._name[number]
            if tensor in self._bands:
                full = self._full(tensor)
                self._join(tensor, full, number)
                outputs.append(number)
            else:
                outputs.append(self._at[tensor])
        self._main.outputs = np.array(outputs, np.int32)
        self._main.operators = self._new
        self._made.signatureDefs = None
        self._made.metadata = [
            entry for entry in self._made.metadata or [] if entry.name != b"OfflineMemoryAllocation"
        ]
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(self._made.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    # --- tensors ---------------------------------------------------------------------------------

    def _tensor(self, like: int, name: str, shape: Sequence[int]) -> int:
        """A tensor of another shape and name, quantized as the first."""
        made = copy.copy(self._main.tensors[like])
        made.name, made.shape = name, np.array(shape, np.int32)
        made.shapeSignature, made.buffer = None, 0
        self._main.tensors.append(made)
        return len(self._main.tensors) - 1

    def _integers(self, values: Any) -> int:
        """A constant of 32-bit integers."""
        array = np.array(values, np.int32)
        key = ("integers", array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self._stored(
                array, f"integers {array.reshape(-1).tolist()}", self._schema.TensorType.INT32
            )
        return self._constants[key]

    def _stored(self, array: Any, name: str, kind: int) -> int:
        buffer, tensor = self._schema.BufferT(), self._schema.TensorT()
        buffer.data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        self._made.buffers.append(buffer)
        tensor.name, tensor.type = name, kind
        tensor.shape, tensor.buffer = (
            np.array(array.shape, np.int32),
            len(self._made.buffers) - 1,
        )
        self._main.tensors.append(tensor)
        return len(self._main.tensors) - 1

    def _weights(self, tensor: str, box: Box) -> int:
        """A part of a constant, with the scales of its channels."""
        number = self._number[tensor]
        if box == self._full(tensor):
            return number
        key = (tensor, box)
        if key not in self._constants:
            source, held = self._file.subgraphs[0].tensors[number], self._main.tensors[number]
            start, count = self._file.buffer_span(source.buffer)
            data = np.frombuffer(self._file.data[start : start + count], np.dtype(source.dtype))
            index = tuple(slice(low, high) for low, high in box)
            part = data.reshape(source.shape)[index]
            label = ",".join(f"{low}:{high}" for low, high in box)
            made = self._stored(part, f"{tensor}[{label}]", held.type)
            self._main.tensors[made].quantization = self._cut_scales(held.quantization, box)
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

    def _full(self, tensor: str) -> Box:
        return tuple((0, extent) for extent in self._whole.tensor[tensor].shape or ())

    # --- operators -------------------------------------------------------------------------------

    def _code(self, kind: str) -> int:
        number = getattr(self._schema.BuiltinOperator, kind)
        codes = self._made.operatorCodes
        for k, code in enumerate(codes):
            if max(code.builtinCode, code.deprecatedBuiltinCode) == number:
                code.version = max(code.version, _VERSION)
                return k
        code = self._schema.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode, code.version = (
            number,
            min(number, 127),
            _VERSION,
        )
        codes.append(code)
        return len(codes) - 1

    def _run(self, kind: str, inputs: Sequence[int], output: int, options: Any = None) -> int:
        made = self._schema.OperatorT()
        made.opcodeIndex = self._code(kind)
        made.inputs, made.outputs = np.array(inputs, np.int32), np.array([output], np.int32)
        if options is not None:
            name = type(options).__name__.removesuffix("T")
            made.builtinOptionsType = getattr(self._schema.BuiltinOptions, name)
            made.builtinOptions = options
        self._new.append(made)
        return output

    def _slice(self, whole: int, box: Box, output: int) -> int:
        begin = self._integers([low for low, _ in box])
        size = self._integers([high - low for low, high in box])
        return self._run("SLICE", [whole, begin, size], output, self._schema.SliceOptionsT())

    def _join(self, tensor: str, box: Box, output: int | None = None) -> int:
        """The part of a tensor that bands make up, put together axis by axis."""
        like = self._number[tensor]
        found = {
            part: self._at[name]
            for name in self._bands[tensor]
            for part in [self._described.parts[name][1]]
            if all(lo <= p[0] and p[1] <= hi for p, (lo, hi) in zip(part, box, strict=True))
        }
        for axis in reversed(range(len(box))):
            lines: dict[Box, list[tuple[int, int]]] = {}
            for part, number in found.items():
                key = (*part[:axis], box[axis], *part[axis + 1 :])
                lines.setdefault(key, []).append((part[axis][0], number))
            joined: dict[Box, int] = {}
            for key, listed in lines.items():
                numbers = [number for _, number in sorted(listed)]
                if len(numbers) == 1:
                    joined[key] = numbers[0]
                    continue
                while len(numbers) > _MOST_PARTS:
                    numbers = [
                        self._concatenate(like, numbers[k : k + _MOST_PARTS], axis, None)
                        for k in range(0, len(numbers), _MOST_PARTS)
                    ]
                joined[key] = self._concatenate(like, numbers, axis, output if key == box else None)
            found = joined
        (number,) = found.values()
        if output is not None and number != output:
            return self._slice(number, tuple((0, high - low) for low, high in box), output)
        return number

    def _concatenate(self, like: int, numbers: Sequence[int], axis: int, output: int | None) -> int:
        """Tensors put together along an axis; itself if there is only one."""
        if len(numbers) == 1:
            return numbers[0]
        if output is None:
            shapes = [self._main.tensors[k].shape for k in numbers]
            shape = list(shapes[0])
            shape[axis] = sum(each[axis] for each in shapes)
            output = self._tensor(like, f"joined {len(self._new)}", shape)
        options = self._schema.ConcatenationOptionsT()
        options.axis = axis
        return self._run("CONCATENATION", numbers, output, options)

    def _read(self, tensor: str, box: Box) -> int:
        """The part of a tensor that an operator reads."""
        kind = self._whole.tensor[tensor].kind
        if kind == "constant":
            return self._weights(tensor, box)
        if tensor in self._bands and kind != "input":
            return self._join(tensor, box)
        number = self._at[tensor]
        if box == self._full(tensor):
            return number
        shape = [high - low for low, high in box]
        made = self._tensor(number, f"{tensor} part {len(self._new)}", shape)
        return self._slice(number, box, made)

    def _result(self, name: str, like: int, shape: Sequence[int]) -> int:
        """The tensor for a run's result: another one for each run."""
        if name in self._number and self._number[name] not in self._written:
            made = self._number[name]
        else:
            made = self._tensor(like, name, shape)
        self._written.add(made)
        self._at[name] = made
        return made

    def _whole_op(self, op: Op) -> None:
        old = self._old[self._operators[op.name]]
        made = copy.copy(old)
        made.inputs = np.array(
            [
                k
                if k < 0 or k not in self._name
                else self._read(self._name[k], self._full(self._name[k]))
                for k in old.inputs
            ],
            np.int32,
        )
        outputs, after = [], []
        for k in old.outputs:
            tensor = self._name.get(k)
            if tensor is None:
                outputs.append(k)
            elif tensor in self._bands:
                number = self._tensor(k, f"{tensor} whole {len(self._new)}", self._shape(tensor))
                outputs.append(number)
                after.append((tensor, number))
            else:
                outputs.append(self._result(tensor, k, self._shape(tensor)))
        made.outputs = np.array(outputs, np.int32)
        self._new.append(made)
        for tensor, number in after:
            self._paste(number, self._full(tensor), tensor, self._bands[tensor])

    def _shape(self, tensor: str) -> Sequence[int]:
        return self._whole.tensor[tensor].shape or ()

    def _paste(self, whole: int, box: Box, tensor: str, bands: Iterable[str]) -> None:
        for band in bands:
            part = self._described.parts[band][1]
            shape = [high - low for low, high in part]
            made = self._result(band, self._number[tensor], shape)
            self._slice(whole, within(part, box), made)

    def _piece(self, op: Op, work: PieceWork) -> None:
        position = self._operators[work.op.name]
        old, source = self._old[position], self._file.subgraphs[0].operators[position]
        if source.custom or source.kind not in _AS_THEY_ARE:
            axes = ", ".join(axis.name for axis, _ in work.cut)
            raise InputError(
                f"op {work.op.name!r} ({source.kind}): no TFLite operator computes its pieces "
                f"along {axes}"
            )
        made = copy.copy(old)
        inputs = []
        for k in old.inputs:
            tensor = self._name.get(k)
            if k < 0 or tensor is None:
                inputs.append(k)
            elif tensor in work.boxes:
                inputs.append(self._read(tensor, work.boxes[tensor]))
            elif source.kind != "CONCATENATION":
                raise InputError(f"op {work.op.name!r}: a piece of it is padding alone")
        made.inputs = np.array(inputs, np.int32)
        if source.kind in _CONVOLUTIONS or source.kind in _POOLS:
            self._pad_window(made, source, work)
        elif source.kind in ("PAD", "PADV2"):
            made.inputs[1] = self._integers(self._paddings(source, work))
        (k,) = old.outputs
        tensor = self._name[k]
        box = work.boxes[tensor]
        if len(op.outputs) == 1:
            shape = [high - low for low, high in box]
            made.outputs = np.array([self._result(op.outputs[0], k, shape)], np.int32)
            self._new.append(made)
            return
        shape = [high - low for low, high in box]
        whole = self._tensor(k, f"{tensor} piece {len(self._new)}", shape)
        made.outputs = np.array([whole], np.int32)
        self._new.append(made)
        self._paste(whole, box, tensor, op.outputs)

    def _pad_window(self, made: Any, source: FileOperator, work: PieceWork) -> None:
        """Pad a piece where the whole operator is padded, and nowhere else."""
        tensors = self._tensors_of(source)
        operation = operation_of(source, *tensors, lambda _: None)
        image, output = (self._name[k] for k in (source.inputs[0], source.outputs[0]))
        before, after, same = [], [], True
        for slide, axis in zip(slides_of(operation), (1, 2), strict=True):
            start, stop = work.boxes[output][axis]
            low, high = work.boxes[image][axis]
            past = (stop - 1) * slide.stride - slide.before + slide.reach
            before.append(max(0, slide.before - start * slide.stride))
            after.append(max(0, past - self._shape(image)[axis]))
            places, extent = stop - start, high - low
            total = max(0, (places - 1) * slide.stride + slide.reach - extent)
            same &= -(-extent // slide.stride) == places
            same &= (total // 2, total - total // 2) == (before[-1], after[-1])
        made.builtinOptions = copy.copy(made.builtinOptions)
        made.builtinOptions.padding = SAME if same else _VALID
        if same or not any(before + after):
            return
        if source.kind in _POOLS:
            raise InputError(
                f"op {work.op.name!r} ({source.kind}): no TFLite operator pads its pieces so"
            )
        paddings = [[0, 0], *map(list, zip(before, after, strict=True)), [0, 0]]
        box = work.boxes[image]
        shape = [high - low + sum(pad) for (low, high), pad in zip(box, paddings, strict=True)]
        padded = self._tensor(self._number[image], f"{image} padded {len(self._new)}", shape)
        read = int(made.inputs[0])
        options = self._schema.PadOptionsT()
        made.inputs[0] = self._run("PAD", [read, self._integers(paddings)], padded, options)

    def _paddings(self, source: FileOperator, work: PieceWork) -> list[list[int]]:
        """Paddings of a piece of a ``PAD``: as much of the whole's as it covers."""
        held = self._file.subgraphs[0].tensors[source.inputs[1]]
        value = constant_value(self._file, held)
        assert value is not None  # else the op has no axes
        image, output = (self._name[k] for k in (source.inputs[0], source.outputs[0]))
        paddings = []
        for axis, ((start, stop), (low, high)) in enumerate(
            zip(work.boxes[output], work.boxes[image], strict=True)
        ):
            first = int(value.reshape(-1)[2 * axis])
            paddings.append([low + first - start, stop - (high + first)])
        return paddings

    def _tensors_of(self, source: FileOperator) -> tuple[list[Any], list[Any]]:
        def tensors(numbers: Iterable[int]) -> list[Any]:
            return [self._whole.tensor[self._name[k]] if k in self._name else None for k in numbers]

        return tensors(source.inputs), tensors(source.outputs)
