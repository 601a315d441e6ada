"""An ONNX model whose ops run in pieces: bands are tensors, gathered by Concat, cut by Slice.

Each piece is a node of its own. If it reads several bands of a tensor, a Concat before it joins
them; if it writes several, Slices after it cut them out; pieces that add up are followed by an Add.
A Slice takes the part of a model input that a piece reads, and the model's outputs are joined at
the end. Runtimes copy bytes for these nodes, and need memory for the copies.

Tensors that follow from constants alone are constants for the reader: parts of weights, and pieces
of padding that read no element of the image. The nodes that compute them are not ops of the model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.graph import Source, Translation
from cpplan.io.onnx.kernels import KernelError, make_kernel, to_numpy
from cpplan.io.onnx.model import opset_versions
from cpplan.io.onnx.names import FreshNames, reads_of, rebind, tensor_names
from cpplan.io.onnx.operation import operation_of
from cpplan.io.onnx.piece_nodes import piece_node
from cpplan.io.pieces import Box, PieceWork, outer_box, piece_work, within
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op
from cpplan.model.plan import Plan
from cpplan.verification.pieces import describe_pieces

if TYPE_CHECKING:
    import onnx

# The first opset whose Slice takes its bounds as inputs; before, they are attributes.
_SLICE_OF_INPUTS = 10
# In older versions, a stored tensor is the default of an input of the graph.
_LEAST_IR_VERSION = 4


def split_model(
    model: onnx.ModelProto, translation: Translation, plan: Plan
) -> tuple[onnx.ModelProto, list[str]]:
    """The model in pieces, and the names of its ops in the plan's order."""
    opset = opset_versions(model).get("", 1)
    writer = _Writer(model, translation, plan, opset)
    order = writer.write()
    return model, order


class _Constants:
    """Values of a model's constants, computed when they are needed."""

    def __init__(
        self, graph: onnx.GraphProto, sources: Sequence[Source], opsets: Mapping[str, int]
    ):
        self._stored = {tensor.name: tensor for tensor in graph.initializer}
        self._sources = {name: s for s in sources for name in s.node.output if name}
        self._opsets = opsets
        self._values: dict[str, Array] = {}

    def value(self, name: str) -> Array | None:
        if name not in self._values:
            if name in self._stored:
                self._values[name] = to_numpy(self._stored[name])
            elif name in self._sources:
                source = self._sources[name]
                read = {n: self.value(n) for n in source.reads}
                known = {n: array for n, array in read.items() if array is not None}
                if len(known) < len(read):
                    return None
                try:
                    self._values.update(make_kernel(source.node, {}, self._opsets)(known))
                except KernelError:
                    return None
        return self._values.get(name)


class _Writer:
    """The nodes of a model in pieces, in groups by op of the graph of pieces."""

    def __init__(self, model: onnx.ModelProto, translation: Translation, plan: Plan, opset: int):
        self._model, self._plan, self._opset = model, plan, opset
        self._whole: Graph = translation.graph
        self._sources = translation.ops
        self._described = describe_pieces(self._whole, plan.pieces)
        self._constants = _Constants(model.graph, translation.constants, opset_versions(model))
        self._written = {name for op in self._whole.ops for name in op.outputs}
        # Tensors that are there in bands only; what no op writes is there whole.
        self._bands = {t: b for t, b in self._described.bands.items() if t in self._written}
        self._nodes: list[onnx.NodeProto] = []
        self._numbers: dict[tuple[int, ...], str] = {}
        self._weight_parts: dict[tuple[str, Box], str] = {}
        self._constant_names = {t.name for t in self._whole.tensors if t.kind == "constant"}
        graph, pieces = model.graph, self._described.graph
        self._names = FreshNames({*tensor_names(graph, graph.node), *pieces.tensor})
        self._node_names = FreshNames({*(node.name for node in graph.node), *pieces.op})

    def write(self) -> list[str]:
        graph, pieces = self._model.graph, self._described.graph
        # Nodes that compute constants or shapes are kept.
        kept = [node for node in graph.node if not self._written.intersection(node.output)]
        groups = {op.name: self._group(op) for op in pieces.ops}
        ends = self._ends()
        del graph.node[:]
        graph.node.extend([*kept, *self._nodes])
        changed = self._bands.keys()
        infos = [info for info in graph.value_info if info.name not in changed]
        del graph.value_info[:]
        graph.value_info.extend(infos)
        # The positions of slices are stored beside the graph's inputs.
        self._model.ir_version = max(self._model.ir_version, _LEAST_IR_VERSION)
        order = [name for op in self._plan.order for name in groups[op]]
        return [*order, *ends]

    def _node(
        self, kind: str, inputs: Sequence[str], output: str, name: str, **attributes: Any
    ) -> str:
        import onnx

        name = self._node_names.name(name)
        self._nodes.append(onnx.helper.make_node(kind, inputs, [output], name=name, **attributes))
        return output

    def _constant(self, name: str, value: Array) -> str:
        import onnx

        name = self._names.name(name)
        self._model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
        self._constant_names.add(name)
        return name

    def _integers(self, values: Sequence[int]) -> str:
        key = tuple(values)
        if key not in self._numbers:
            name = f"integers {','.join(map(str, key))}"
            self._numbers[key] = self._constant(name, np.array(key, np.int64))
        return self._numbers[key]

    def _slice(self, source: str, box: Box, extents: Sequence[int], output: str) -> str:
        """A Slice for a part of a tensor; only cut axes are named."""
        axes = [k for k, span in enumerate(box) if span != (0, extents[k])]
        starts, ends = [box[k][0] for k in axes], [box[k][1] for k in axes]
        name = f"{output}/slice"
        if self._opset < _SLICE_OF_INPUTS:
            return self._node("Slice", [source], output, name, starts=starts, ends=ends, axes=axes)
        inputs = [source, *map(self._integers, (starts, ends, axes))]
        return self._node("Slice", inputs, output, name)

    def _joined(self, tensor: str, box: Box, output: str) -> str:
        """The bands that make up a part of a tensor, joined axis by axis into ``output``.

        If one band is the part, no node is added; returns the tensor that holds the part.
        """
        found = {
            part: name
            for name in self._bands[tensor]
            for part in [self._described.parts[name][1]]
            if all(lo <= p[0] and p[1] <= hi for p, (lo, hi) in zip(part, box, strict=True))
        }
        steps = 0
        for axis in reversed(range(len(box))):
            lines: dict[Box, list[tuple[int, str, Box]]] = {}
            for part, name in found.items():
                key = (*part[:axis], box[axis], *part[axis + 1 :])
                lines.setdefault(key, []).append((part[axis][0], name, part))
            joined = {}
            for key, listed in lines.items():
                names = [name for _, name, _ in sorted(listed)]
                if len(names) == 1:
                    joined[key] = names[0]
                    continue
                whole = len(lines) == 1
                done = whole and self._is_done(lines, box)
                made = output if done else self._names.name(f"{output}/{steps}")
                steps += 1
                joined[key] = self._node("Concat", names, made, f"{made}/concat", axis=axis)
            found = joined
        (name,) = found.values()
        return name

    def _is_done(self, lines: Mapping[Box, object], box: Box) -> bool:
        return next(iter(lines)) == box

    def _read(self, tensor: str, box: Box, label: str) -> str:
        """The part of a tensor that a node reads."""
        extents = self._whole.tensor[tensor].shape
        assert extents is not None
        full = all(span == (0, extent) for span, extent in zip(box, extents, strict=True))
        if tensor in self._bands:
            output = self._names.name(f"{label}/{tensor}")
            outer = outer_box((self._described.parts[n][1] for n in self._bands[tensor]), box)
            if outer == box:
                return self._joined(tensor, box, output)
            joined = self._joined(tensor, outer, self._names.name(f"{output}/bands"))
            lengths = [high - low for low, high in outer]
            return self._slice(joined, within(box, outer), lengths, output)
        if full:
            return tensor
        if self._whole.tensor[tensor].kind != "constant":
            return self._slice(tensor, box, extents, self._names.name(f"{label}/{tensor}"))
        if (tensor, box) not in self._weight_parts:
            part = f"{tensor}[{','.join(f'{low}:{high}' for low, high in box)}]"
            output = self._names.name(part)
            self._weight_parts[tensor, box] = self._slice(tensor, box, extents, output)
        return self._weight_parts[tensor, box]

    def _group(self, op: Op) -> list[str]:
        """Add the nodes of a piece, or of a whole op; returns their names."""
        first = len(self._nodes)
        if op.name in self._described.pieces:
            name, axes, spans = self._described.pieces[op.name]
            source = self._whole.op[name]
            self._piece(op, source, piece_work(self._whole, source, axes, spans))
        else:
            self._untouched(op)
        return self._ops_since(first, () if op.recomputable else (op.name,))

    def _ops_since(self, first: int, random: Collection[str] = ()) -> list[str]:
        """Names of the nodes from ``first`` on, without nodes that compute constants."""
        found = []
        for node in self._nodes[first:]:
            read = set(filter(None, reads_of(node)))
            if read and read <= self._constant_names and node.name not in random:
                self._constant_names.update(node.output)
            else:
                found.append(node.name)
        return found

    def _untouched(self, op: Op) -> None:
        """Add a whole op, which may read and write tensors that are cut."""
        import onnx

        node = onnx.NodeProto()
        node.CopyFrom(self._sources[op.name].node)
        reads = [name for name in dict.fromkeys(reads_of(node)) if name in self._bands]
        rebind(node, {name: self._read(name, self._full(name), op.name) for name in reads})
        after: list[tuple[str, str]] = []
        for k, name in enumerate(node.output):
            if name in self._bands:
                node.output[k] = self._names.name(f"{op.name}/{name}")
                after.append((name, node.output[k]))
        node.name = op.name
        self._nodes.append(node)
        for name, whole in after:
            self._cut(name, whole, self._full(name), self._bands[name])

    def _piece(self, op: Op, source: Op, work: PieceWork) -> None:
        import onnx

        node = self._sources[source.name].node
        operation = operation_of(node, self._whole.tensor, self._constants.value, self._opset)
        made = piece_node(node, operation, work)
        if made is None:
            axes = ", ".join(axis.name for axis, _ in work.cut)
            raise InputError(
                f"op {source.name!r} ({source.kind}): no ONNX node computes its pieces along {axes}"
            )
        piece = onnx.NodeProto()
        piece.CopyFrom(made.node)
        parts = {name: self._constant(f"{op.name}/{name}", a) for name, a in made.constants.items()}
        for name in dict.fromkeys(piece.input):
            if name in work.boxes and name not in parts:
                parts[name] = self._read(name, work.boxes[name], op.name)
        for axis, positions in made.takes.items():
            image = piece.input[0]
            taken = self._names.name(f"{op.name}/{image}/axis {axis}")
            inputs = [parts[image], self._integers(positions)]
            parts[image] = self._node("Gather", inputs, taken, f"{taken}/gather", axis=axis)
        rebind(piece, parts)
        adds = any(axis.accumulates for axis, _ in work.cut)
        pastes = []
        for k, name in enumerate(piece.output):
            if name not in work.boxes:  # left out, or no one reads it, as the mask of a Dropout
                piece.output[k] = ""
                continue
            bands = [n for n in op.outputs if self._tensor_of(n, source) == name]
            if len(bands) == 1 and not (adds and not work.begins):
                piece.output[k] = bands[0]
                continue
            piece.output[k] = self._names.name(f"{op.name}/{name}")
            pastes.append((name, piece.output[k], bands))
        piece.name = op.name
        self._nodes.append(piece)
        for name, whole, bands in pastes:
            if not (adds and not work.begins):
                self._cut(name, whole, work.boxes[name], bands)
                continue
            for band in bands:
                part = whole
                if len(bands) > 1:
                    part = self._names.name(f"{whole}/{band}")
                    self._cut_one(whole, work.boxes[name], band, part)
                before = next(n for n in op.inputs if self._same_sum(n, band, source))
                self._node("Add", [before, part], band, f"{band}/add")

    def _tensor_of(self, name: str, source: Op) -> str:
        """The whole op's tensor that an output of a piece is a part of."""
        if name in self._described.parts:
            return self._described.parts[name][0]
        return name if name in source.outputs else name.rpartition("+")[0]

    def _same_sum(self, one: str, other: str, source: Op) -> bool:
        """True if both are partial sums of the same band."""
        places = self._described.parts
        if one in places or other in places:
            return places.get(one) == places.get(other)
        return one not in source.inputs and self._tensor_of(one, source) == self._tensor_of(
            other, source
        )

    def _cut(self, tensor: str, whole: str, box: Box, bands: Sequence[str]) -> None:
        for band in bands:
            self._cut_one(whole, box, band, band)

    def _cut_one(self, whole: str, box: Box, band: str, output: str) -> None:
        part = within(self._described.parts[band][1], box)
        self._slice(whole, part, [high - low for low, high in box], output)

    def _full(self, tensor: str) -> Box:
        return tuple((0, extent) for extent in self._whole.tensor[tensor].shape or ())

    def _ends(self) -> list[str]:
        """Add the nodes that join the model's outputs; returns their names."""
        first = len(self._nodes)
        for name in self._outputs():
            made = self._joined(name, self._full(name), name)
            if made != name:
                self._node("Identity", [made], name, f"{name}/identity")
        return self._ops_since(first)

    def _outputs(self) -> Iterator[str]:
        for value in self._model.graph.output:
            if value.name in self._bands:
                yield value.name
