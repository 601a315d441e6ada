"""Extents of axes that a TFLite file leaves open, as stored in the file or given.

An axis of an input whose extent is only known at run time has the name ``input[axis]``. A file
nevertheless stores an extent for it, which runtimes use unless another one is set; so does this
reader. Extents of other tensors are those stored, too, unless extents are given, or those stored
contradict each other: some files store 1 for every extent that their writer did not know. Then
LiteRT resizes the inputs and computes all other shapes, with the code that runs the model; it runs
the model once, on zeros, where shapes follow from values that themselves follow from extents. In a
body, a slice whose extents follow from the number of the turn, as of a loop over the rows of a
tensor, has at most the extents of its tensor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec

import numpy as np

from cpplan.io.litert_process import shapes_by_litert
from cpplan.io.tflite.axes import ELEMENT_WISE, constant_value
from cpplan.io.tflite.model import FileOperator, FileSubgraph, TfliteModel
from cpplan.model.errors import InputError, MissingExtraError

# Operators whose number of result rows depends on values.
_BY_VALUES = frozenset({"UNIQUE", "WHERE"})
_BY_ELEMENTS = "its shape follows from values at run time"
# Operators whose results have as many elements as their first operand.
_KEEPING = frozenset({"EXPAND_DIMS", "RESHAPE", "SQUEEZE", "TRANSPOSE"})
# Operators whose results have as many samples as their first operand: the extent of the first axis.
_BY_SAMPLES = frozenset(
    """
    AVERAGE_POOL_2D CONV_2D CONV_3D DEPTHWISE_CONV_2D DEPTH_TO_SPACE L2_POOL_2D MAX_POOL_2D
    RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR SPACE_TO_DEPTH
    """.split()  # noqa: SIM905
)
# Operators whose results follow from the extents of their operands, not from their elements.
_OF_EXTENTS = frozenset({"RANK", "SHAPE"})
# Operators whose results have shapes that follow from elements of these operands.
_SHAPED_BY: Mapping[str, Sequence[int]] = {
    **dict.fromkeys(("FILL", "SPLIT", "TRANSPOSE_CONV"), (0,)),
    **dict.fromkeys(("RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"), (0,)),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN", "BROADCAST_TO", "EXPAND_DIMS", "RESHAPE", "TILE"), (1,)),
    **dict.fromkeys(("MIRROR_PAD", "PAD", "PADV2", "RFFT2D", "TOPK_V2", "TRANSPOSE"), (1,)),
    **dict.fromkeys(("MULTINOMIAL", "ONE_HOT", "RESIZE_BILINEAR", "SPARSE_TO_DENSE"), (1,)),
    **dict.fromkeys(("MEAN", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN"), (1,)),
    **dict.fromkeys(("REDUCE_PROD", "RESIZE_NEAREST_NEIGHBOR", "SUM"), (1,)),
    **dict.fromkeys(("BATCH_TO_SPACE_ND", "SLICE", "SPACE_TO_BATCH_ND", "SPLIT_V"), (1, 2)),
    **dict.fromkeys(("SCATTER_ND", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN"), (2,)),
    **dict.fromkeys(("UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_SUM"), (2,)),
    "RANGE": (0, 1, 2),
    "SEGMENT_SUM": (1,),
    "STRIDED_SLICE": (1, 2, 3),
    "UNIQUE": (0,),
    "WHERE": (0,),
}


def stored_extents(model: TfliteModel, dims: Mapping[str, int] | None) -> dict[str, int]:
    """Extents that the file stores for the open axes of its inputs that ``dims`` leaves out.

    Axes without a stored extent are not listed.
    """
    tensors = model.subgraphs[0].tensors
    return {
        name: tensors[k].shape[axis]
        for name, (k, axis) in _open_axes(model).items()
        if name not in (dims or {}) and axis < len(tensors[k].shape) and tensors[k].shape[axis] > 0
    }


def bind_extents(model: TfliteModel, dims: Mapping[str, int] | None) -> TfliteModel:
    """The model without open axes: with the extents given, or else the extents in the file.

    Raises
    ------
    InputError
        If no extent is stored or given for an open axis, a name belongs to no open axis, an extent
        is not a positive integer, the runtime refuses the extents, or a shape follows from values.
        Names the axis or tensor.
    MissingExtraError
        If the package ``ai-edge-litert`` is missing, and extents are given, or those in the file
        contradict each other.
    """
    opened = _open_axes(model)
    model = replace(model, subgraphs=(model.subgraphs[0], *map(_bounded, model.subgraphs[1:])))
    given = dims or {}
    unknown = next((name for name in given if name not in opened), None)
    if unknown is not None:
        known = ", ".join(map(repr, opened)) or "none"
        raise InputError(f"dims: no axis {unknown!r} is open in this model: expected {known}")
    for name, extent in given.items():
        if isinstance(extent, bool) or not isinstance(extent, int) or not 0 < extent < 2**31:
            raise InputError(f"dims: {name!r} must be a positive integer, not {extent!r}")
    stored = stored_extents(model, dims)
    unbound = [name for name in opened if name not in given and name not in stored]
    if unbound:
        options = " ".join(f"--dim '{name}=8'" for name in unbound)
        raise InputError(
            f"the file stores no extent of axis {', '.join(map(repr, unbound))}: give dims, or "
            f"{options}"
        )
    if not given:
        as_stored = replace(model, subgraphs=tuple(map(_as_stored, model.subgraphs)))
        if not opened or _is_consistent(as_stored):
            return as_stored
    main = model.subgraphs[0]
    shapes = {k: list(main.tensors[k].signature) for k, _ in opened.values()}
    for name, (k, axis) in opened.items():
        shapes[k][axis] = given[name] if name in given else stored[name]
    found = _runtime_shapes(model, shapes)
    tensors = []
    for k, tensor in enumerate(main.tensors):
        shape = found.get(k, tensor.shape)
        if shape is None and -1 in tensor.signature:
            raise InputError(f"tensor {tensor.name!r}: {_BY_ELEMENTS}")
        extents = tensor.shape if shape is None else shape
        tensors.append(replace(tensor, shape=extents, signature=extents))
    bound = replace(main, tensors=tuple(tensors))
    return replace(model, subgraphs=(bound, *model.subgraphs[1:]))


def _open_axes(model: TfliteModel) -> dict[str, tuple[int, int]]:
    """Names of the open axes of the main subgraph's inputs -> tensor and axis."""
    main = model.subgraphs[0]
    return {
        f"{main.tensors[k].name}[{axis}]": (k, axis)
        for k in main.inputs
        for axis, extent in enumerate(main.tensors[k].signature)
        if extent == -1
    }


def _bounded(body: FileSubgraph) -> FileSubgraph:
    """A body whose slices of open extents have the largest extents that they can have."""
    tensors = list(body.tensors)
    for operator in body.operators:
        if operator.kind != "SLICE" or not operator.outputs or min(operator.inputs, default=-1) < 0:
            continue
        source, number = tensors[operator.inputs[0]], operator.outputs[0]
        opened = -1 in tensors[number].signature and -1 not in source.signature
        if opened and len(tensors[number].signature) == len(source.shape):
            pairs = zip(tensors[number].signature, source.shape, strict=True)
            shape = tuple(most if extent == -1 else extent for extent, most in pairs)
            tensors[number] = replace(tensors[number], shape=shape, signature=shape, bounded=True)
    return replace(body, tensors=tuple(tensors))


def _as_stored(subgraph: FileSubgraph) -> FileSubgraph:
    """The subgraph with its stored shapes, if its open axes follow from the inputs' axes.

    A shape that follows from values is left open.
    """
    follows = {k for k in subgraph.inputs if -1 in subgraph.tensors[k].signature}
    for operator in subgraph.operators:
        if operator.kind not in _BY_VALUES and not follows.isdisjoint(operator.inputs):
            follows.update(operator.outputs)
    tensors = tuple(
        replace(t, signature=t.shape) if k in follows and len(t.shape) == len(t.signature) else t
        for k, t in enumerate(subgraph.tensors)
    )
    return replace(subgraph, tensors=tensors)


def _runtime_shapes(
    model: TfliteModel, shapes: Mapping[int, list[int]]
) -> dict[int, tuple[int, ...] | None]:
    """Shapes of the main subgraph's tensors for these of its inputs, by the runtime."""
    if find_spec("ai_edge_litert") is None:
        raise MissingExtraError("ai-edge-litert", "tflite", "computing shapes of TFLite models")
    run = _follow_from_numbers(model)
    try:
        return shapes_by_litert(model.data, shapes, run=run)
    except InputError as error:
        raise InputError(f"the runtime refuses these extents: {error}") from None


def _is_consistent(model: TfliteModel) -> bool:
    """False if a result has another shape than its operator makes of its operands.

    Only what operators of few kinds make is checked: a shape may be wrong without being noticed.
    """
    main = model.subgraphs[0]
    for operator in main.operators:
        if not operator.outputs or min(operator.inputs[:2], default=-1) < 0:
            continue
        ends = [main.tensors[k] for k in (*operator.inputs, operator.outputs[0]) if k >= 0]
        if any(-1 in tensor.signature for tensor in ends):
            continue
        *operands, result = (tensor.shape for tensor in ends)
        if not _is_made(model, operator, operands, result):
            return False
    return True


def _is_made(
    model: TfliteModel, operator: FileOperator, read: Sequence[Sequence[int]], made: Sequence[int]
) -> bool:
    """False if an operator cannot make a tensor of this shape of operands of these shapes."""
    kind = operator.kind
    if operator.custom:
        return True
    if kind in _KEEPING:
        return math.prod(read[0]) == math.prod(made)
    if kind in ELEMENT_WISE:
        try:
            return np.broadcast_shapes(*map(tuple, read)) == tuple(made)
        except ValueError:
            return False
    if kind in _BY_SAMPLES:
        return list(read[0][:1]) == list(made[:1])
    if kind in ("BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND") and len(operator.inputs) > 1:
        sizes = constant_value(model, model.subgraphs[0].tensors[operator.inputs[1]])
        few, many = (made, read[0]) if kind == "BATCH_TO_SPACE_ND" else (read[0], made)
        times = None if sizes is None else math.prod(map(int, sizes))
        return times is None or [times * n for n in few[:1]] == list(many[:1])
    return True


def _follow_from_numbers(model: TfliteModel) -> bool:
    """True if open extents follow from numbers that the model computes, from extents alone.

    Raises
    ------
    InputError
        If they follow from elements of the inputs, or may: in a model with bodies.
    """
    main, found = model.subgraphs[0], False
    fixed = {k for k, t in enumerate(main.tensors) if t.data_bytes or 0 in t.signature}
    known = set(fixed)
    for operator in main.operators:
        opened = next((k for k in operator.outputs if -1 in main.tensors[k].signature), None)
        places = _SHAPED_BY.get(operator.kind, ())
        read = {operator.inputs[place] for place in places if place < len(operator.inputs)} - {-1}
        if opened is not None and not fixed.issuperset(read):
            if len(model.subgraphs) > 1 or not known.issuperset(read):
                raise InputError(f"tensor {main.tensors[opened].name!r}: {_BY_ELEMENTS}")
            found = True
        if operator.kind in _OF_EXTENTS or known.issuperset({*operator.inputs} - {-1}):
            known.update(operator.outputs)
    return found
