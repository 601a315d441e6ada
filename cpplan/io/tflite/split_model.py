"""A TFLite model whose operators run in pieces, in the order of a plan.

Each piece is an operator of the same kind as the whole, with the same weights. If it reads several
bands of a tensor, a ``CONCATENATION`` before it joins them; if it writes several, ``SLICE`` after
it cuts them out. At true borders a convolution is padded by its own padding, or else by ``PAD``;
pools only by their own padding. An operator that runs again is listed again. A planner may place
bands within the tensor that they are concatenated to, so that no bytes are copied.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

import numpy as np

from cpplan.io.pieces import Box, PieceWork, outer_box, piece_work, within
from cpplan.io.tflite.graph import Translation
from cpplan.io.tflite.model import TfliteModel
from cpplan.io.tflite.offsets import METADATA
from cpplan.io.tflite.piece_operators import PieceOperators, check_litert
from cpplan.io.tflite.single import single_model
from cpplan.model.errors import InputError
from cpplan.model.graph import Op
from cpplan.model.plan import Plan
from cpplan.verification.pieces import describe_pieces

# Most inputs of TFLite Micro's CONCATENATION.
_MOST_PARTS = 10


def split_tflite(model: TfliteModel, translation: Translation, plan: Plan) -> bytes:
    """The file of a model in pieces, without offsets."""
    check_litert("writing TFLite models in pieces")
    return _Writer(model, translation, plan).write()


class _Writer:
    """The tensors and operators of a model in pieces, in the making."""

    def __init__(self, model: TfliteModel, translation: Translation, plan: Plan):
        from ai_edge_litert import schema_py_generated as schema

        self._plan = plan
        self._whole, self._positions = translation.graph, translation.operators
        self._described = describe_pieces(self._whole, plan.pieces)
        written = {name for op in self._whole.ops for name in op.outputs}
        # Tensors that are there in bands only; what no operator writes is there whole.
        self._bands = {t: b for t, b in self._described.bands.items() if t in written}
        made = schema.ModelT.InitFromPackedBuf(bytearray(model.data), 0)
        self._ops = PieceOperators(model, translation, made)
        # Tensor or band -> the tensor of the file with its latest value.
        self._at = {name: k for name, k in self._ops.number.items() if name not in self._bands}
        self._written: set[int] = set()
        # Parts of tensors that the operator in the making reads.
        self._parts: dict[tuple[str, Box], int] = {}

    def write(self) -> bytes:
        """The file."""
        known, main, made = self._described.graph.op, self._ops.main, self._ops.made
        unknown = next((name for name in self._plan.order if name not in known), None)
        if unknown is not None:
            raise InputError(f"plan {self._plan.name!r} is for another model: no op {unknown!r}")
        for name in self._plan.order:
            op = known[name]
            self._parts.clear()
            if name in self._described.pieces:
                source, axes, spans = self._described.pieces[name]
                self._piece(op, piece_work(self._whole, self._whole.op[source], axes, spans))
            else:
                self._whole_op(op)
        outputs = []
        for number in main.outputs:
            tensor = self._ops.name[number]
            if tensor in self._bands:
                full = self._ops.full(tensor)
                self._join(tensor, full, number)
                outputs.append(number)
            else:
                outputs.append(self._at[tensor])
        # TFLite Micro reserves memory for tensors that no operator accesses: leave them out.
        plain = [e for e in made.metadata or [] if e.name != METADATA.encode()]
        return single_model(made, self._ops.new, main.inputs, outputs, plain)

    def _join(self, tensor: str, box: Box, output: int | None = None) -> int:
        """The part of a tensor that bands make up, joined axis by axis."""
        like = self._ops.number[tensor]
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
            return self._ops.slice(number, tuple((0, high - low) for low, high in box), output)
        return number

    def _concatenate(self, like: int, numbers: Sequence[int], axis: int, output: int | None) -> int:
        """Tensors joined along an axis; the tensor itself if there is only one."""
        if len(numbers) == 1:
            return numbers[0]
        if output is None:
            shapes = [self._ops.main.tensors[k].shape for k in numbers]
            shape = list(shapes[0])
            shape[axis] = sum(each[axis] for each in shapes)
            output = self._ops.tensor(like, f"joined {len(self._ops.new)}", shape)
        options = self._ops.schema.ConcatenationOptionsT()
        options.axis = axis
        return self._ops.run("CONCATENATION", numbers, output, options)

    def _read(self, tensor: str, box: Box) -> int:
        """The part of a tensor that an operator reads, made once for each operator."""
        if self._whole.tensor[tensor].kind == "constant":
            return self._ops.weights(tensor, box)
        if (tensor, box) not in self._parts:
            if tensor in self._bands:
                outer = outer_box((self._described.parts[n][1] for n in self._bands[tensor]), box)
                number = self._join(tensor, outer)
            else:
                outer, number = self._ops.full(tensor), self._at[tensor]
            if outer != box:
                shape = [high - low for low, high in box]
                made = self._ops.tensor(number, f"{tensor} part {len(self._ops.new)}", shape)
                number = self._ops.slice(number, within(box, outer), made)
            self._parts[tensor, box] = number
        return self._parts[tensor, box]

    def _result(self, name: str, like: int, shape: Sequence[int]) -> int:
        """The tensor for a run's result: a new one for each run."""
        if name in self._ops.number and self._ops.number[name] not in self._written:
            made = self._ops.number[name]
        else:
            made = self._ops.tensor(like, name, shape)
        self._written.add(made)
        self._at[name] = made
        return made

    def _whole_op(self, op: Op) -> None:
        old = self._ops.old[self._positions[op.name]]
        made = copy.copy(old)
        made.inputs = np.array(
            [
                k
                if k < 0 or k not in self._ops.name
                else self._read(self._ops.name[k], self._ops.full(self._ops.name[k]))
                for k in old.inputs
            ],
            np.int32,
        )
        outputs, after = [], []
        for k in old.outputs:
            tensor = self._ops.name.get(k)
            if tensor is None:
                outputs.append(k)
            elif tensor in self._bands:
                number = self._ops.tensor(
                    k, f"{tensor} whole {len(self._ops.new)}", self._ops.shape(tensor)
                )
                outputs.append(number)
                after.append((tensor, number))
            else:
                outputs.append(self._result(tensor, k, self._ops.shape(tensor)))
        made.outputs = np.array(outputs, np.int32)
        self._ops.new.append(made)
        for tensor, number in after:
            self._paste(number, self._ops.full(tensor), tensor, self._bands[tensor])

    def _paste(self, whole: int, box: Box, tensor: str, bands: Iterable[str]) -> None:
        for band in bands:
            part = self._described.parts[band][1]
            shape = [high - low for low, high in part]
            made = self._result(band, self._ops.number[tensor], shape)
            self._ops.slice(whole, within(part, box), made)

    def _piece(self, op: Op, work: PieceWork) -> None:
        pastes: list[tuple[int, str, list[str]]] = []

        def result(number: int, shape: Sequence[int]) -> int:
            tensor = self._ops.name[number]
            bands = [name for name in op.outputs if self._tensor_of(name) == tensor]
            if len(bands) == 1:
                return self._result(bands[0], number, shape)
            made = self._ops.tensor(number, f"{tensor} piece {len(self._ops.new)}", shape)
            pastes.append((made, tensor, bands))
            return made

        self._ops.piece(work, self._read, result)
        for whole, tensor, bands in pastes:
            self._paste(whole, work.boxes[tensor], tensor, bands)

    def _tensor_of(self, name: str) -> str:
        """The tensor of the whole model that a result of a piece is a part of."""
        return self._described.parts[name][0] if name in self._described.parts else name
