"""Axes of ATen's operators: the table of rules, and nodes as the rules see them.

A rule holds for all overloads of an operator: ``aten.conv2d``. Point-wise operators need no rule,
not even if they overwrite their operand (``aten.relu_``). Views keep the axes of their tensor;
slices and parts of a split keep a part of an axis. Images are ``(batch, channels, rows, columns)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from cpplan.io.axes import find_axes
from cpplan.io.axes.moves import (
    block_axes,
    concat_axes,
    gather_axes,
    pad_axes,
    reshape_axes,
    slice_axes,
    split_axes,
    stack_axes,
    transpose_axes,
)
from cpplan.io.axes.operation import (
    NoAxes,
    Operation,
    Rule,
    alike,
    checked_axis,
    element_wise,
    same,
    shape_of,
)
from cpplan.io.axes.products import attention_axes, matmul_axes, reduction_axes
from cpplan.io.axes.resizing import between, nearest, resize_axes
from cpplan.io.axes.windows import Slide, channel_axes, slide_axes, transposed_axes
from cpplan.io.torch.effects import bind
from cpplan.io.torch.nodes import Names, names_in
from cpplan.model.axes import Axis, Window
from cpplan.model.tensor import Tensor

_POINTWISE = "aten point-wise"
# Ops that compute nothing, or each element by itself, but lack torch's point-wise tag. What they
# read is broadcast; repeated, it is needed whole.
_ELEMENT_WISE = """
    _to_copy alias clone contiguous detach dropout dropout_ expand full full_like hardswish
    hardswish_ lift_fresh ones ones_like repeat to where zeros zeros_like
""".split()  # noqa: SIM905
_RESHAPES = """
    _unsafe_view flatten reshape reshape_as squeeze squeeze_ unflatten unsqueeze unsqueeze_ view
    view_as
""".split()  # noqa: SIM905
_REDUCTIONS = """
    all amax amin any argmax argmin linalg_vector_norm logsumexp mean std var
""".split()  # noqa: SIM905
_SIZES = (torch.SymInt, torch.SymFloat, torch.SymBool)
_FLOATS = ("float32", "float64", "float16", "bfloat16")
_WIDE = (*_FLOATS, "int32", "int64")


def axes_of(
    node: Node,
    name_of: Callable[[Node], Names],
    values: Mapping[Node, Any],
    tensors: Mapping[str, Tensor],
) -> tuple[Axis, ...]:
    """Axes of a node that calls one of torch's operators; other nodes have none.

    A node that reads a size which is not known has none either.

    Parameters
    ----------
    name_of
        Function that gives the names of a node's results.
    values
        Values of the nodes before.
    tensors
        All tensors of the graph, by name.
    """
    overload = node.target
    if not isinstance(overload, torch._ops.OpOverload):
        return ()
    outputs = [tensors[name] for name in names_in(name_of(node))]
    if not outputs:
        return ()
    inputs: list[Tensor | None] = []
    attributes: dict[str, Any] = {}
    for name, value in bind(overload, node.args, node.kwargs).items():
        listed = value if isinstance(value, (tuple, list)) else (value,)
        names = [name_of(each) if isinstance(each, Node) else None for each in listed]
        if any(found is not None for found in names):
            inputs += [tensors[found] if isinstance(found, str) else None for found in names]
            continue
        inputs.append(None)
        attributes[name] = torch.fx.map_arg(value, values.__getitem__)
        if any(isinstance(each, _SIZES) for each in tree_leaves(attributes[name])):
            return ()
    kind = f"{overload.namespace}.{overload._schema.name.partition('::')[2]}"
    operation = Operation(kind, tuple(inputs), tuple(outputs), attributes)
    found_axes = find_axes("torch", operation)
    if found_axes or kind in rules() or torch.Tag.pointwise not in overload.tags:
        return found_axes
    return find_axes("torch", Operation(_POINTWISE, tuple(inputs), tuple(outputs), attributes))


def rules() -> dict[str, Rule]:
    """Kind of op -> its rule; point-wise ops share one."""
    return {f"aten.{kind}": rule for kind, rule in _RULES.items()} | {_POINTWISE: element_wise}


def _listed(value: Any, rank: int, default: int = 1) -> list[int]:
    """One number for each spatial axis, from an operator's argument."""
    if value is None or value == []:
        return [default] * rank
    found = list(value) if isinstance(value, (tuple, list)) else [value]
    if not all(type(each) is int for each in found):
        raise NoAxes
    return found * rank if len(found) == 1 else found


def _padding(given: Any, taps: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """Positions before the first one, for each spatial axis."""
    if given == "same":
        return [(count - 1) * far // 2 for count, far in zip(taps, dilation, strict=True)]
    return _listed(0 if given == "valid" else given, len(taps), 0)


def _convolution(operation: Operation) -> Iterator[Axis]:
    image, weights, given = operation.input(), operation.input(1), operation.attributes
    rank = len(shape_of(weights)) - 2
    if given.get("transposed"):
        yield from _transposed(operation)
        return
    taps = shape_of(weights)[2:]
    stride, dilation = _listed(given.get("stride"), rank), _listed(given.get("dilation"), rank)
    padding = _padding(given.get("padding"), taps, dilation)
    if len(shape_of(image)) != rank + 2:
        raise NoAxes  # without a batch
    slides = [Slide(*each) for each in zip(taps, stride, dilation, padding, strict=True)]
    yield from slide_axes(operation, image, slides, 2)
    bias = operation.input(2) if operation.has(2) else None
    terms = 1 if operation.output.dtype in _WIDE else None
    groups = given.get("groups", 1)
    yield from channel_axes(operation, image, (weights, 0), [bias], groups=groups, terms=terms)


def _transposed(operation: Operation) -> Iterator[Axis]:
    image, weights, given = operation.input(), operation.input(1), operation.attributes
    taps = shape_of(weights)[2:]
    rank = len(taps)
    stride, padding = _listed(given.get("stride"), rank), _listed(given.get("padding"), rank, 0)
    dilation = _listed(given.get("dilation"), rank)
    if len(shape_of(image)) != rank + 2:
        raise NoAxes
    slides = [Slide(*each) for each in zip(taps, stride, dilation, padding, strict=True)]
    yield from transposed_axes(operation, image, slides, 2)
    bias = operation.input(2) if operation.has(2) else None
    if given.get("groups", 1) == 1:
        yield from channel_axes(operation, image, (weights, 1), [bias], groups=1)


def _pool(operation: Operation) -> Iterator[Axis]:
    image, given = operation.input(), operation.attributes
    rank = len(shape_of(image)) - 2
    taps = _listed(given["kernel_size"], rank)
    stride = _listed(given.get("stride") or taps, rank)
    padding = _listed(given.get("padding"), rank, 0)
    dilation = _listed(given.get("dilation"), rank)
    if len(taps) != rank:
        raise NoAxes
    yield same("channels", operation.shape()[1], [(image, 1), (operation.output, 1)])
    slides = [Slide(*each) for each in zip(taps, stride, dilation, padding, strict=True)]
    counts = given.get("count_include_pad", False) and not given.get("divisor_override")
    for k, slide in enumerate(slides if counts else ()):
        past = (shape_of(operation.output)[2 + k] - 1) * slide.stride - slide.before + slide.reach
        if past > operation.shape()[2 + k] + slide.before:
            return
    yield from slide_axes(operation, image, slides, 2)


def _adaptive_pool(operation: Operation) -> Iterable[Axis]:
    shape, places = operation.shape(), shape_of(operation.output)
    tables = {
        axis: [(k * shape[axis] // n, -(-(k + 1) * shape[axis] // n)) for k in range(n)]
        for axis, n in enumerate(places)
        if axis >= len(shape) - 2
    }
    return resize_axes(operation, tables)


def _batch_norm(operation: Operation) -> Iterator[Axis]:
    image, shape = operation.input(), operation.shape()
    if operation.attributes.get("training"):
        raise NoAxes
    vectors = [operation.input(k) for k in range(1, 5) if operation.has(k)]
    for axis, (name, extent) in enumerate(zip(operation.names(len(shape)), shape, strict=True)):
        places = [(image, axis), (operation.output, axis)]
        places += [(vector, 0) for vector in vectors] if axis == 1 else []
        yield same(name, extent, places)


def _group_norm(operation: Operation) -> Iterator[Axis]:
    """Yield the batch, and the groups of channels."""
    image, output, shape = operation.input(), operation.output, operation.shape()
    places = [(image, 0), (output, 0)]
    yield same("batch", shape[0], places)
    groups = operation.attributes["num_groups"]
    wide = shape[1] // groups
    vectors = [(operation.input(k), 0) for k in (1, 2) if operation.has(k)]
    windows = [(image, 1), (output, 1), *vectors]
    yield Axis("groups", groups, tuple(Window(t.name, at, wide, 0, wide) for t, at in windows))


def _layer_norm(operation: Operation) -> Iterator[Axis]:
    image, shape = operation.input(), operation.shape()
    names = operation.names(len(shape))
    outputs = [tensor for tensor in operation.outputs if tensor is not None]
    for axis in range(len(shape) - len(operation.attributes["normalized_shape"])):
        places = [(image, axis), *((tensor, axis) for tensor in outputs)]
        yield same(names[axis], shape[axis], places)


def _softmax(operation: Operation) -> list[Axis]:
    return alike(operation, but=(operation.attributes["dim"],))


def _linear(operation: Operation) -> Iterable[Axis]:
    added = [operation.input(2)] if operation.has(2) else []
    adds = operation.output.dtype in _WIDE
    return matmul_axes(
        operation, operation.input(), operation.input(1),
        transposed=(False, True), added=added, terms=adds,
    )  # fmt: skip


def _matmul(operation: Operation) -> Iterable[Axis]:
    adds = operation.output.dtype in _WIDE
    return matmul_axes(operation, operation.input(0), operation.input(1), terms=adds)


def _addmm(operation: Operation) -> Iterable[Axis]:
    adds = operation.output.dtype in _WIDE
    return matmul_axes(
        operation, operation.input(1), operation.input(2), added=[operation.input()], terms=adds
    )


def _attention(operation: Operation) -> list[Axis]:
    given = operation.attributes
    if given.get("dropout_p") or given.get("enable_gqa"):
        raise NoAxes
    found = attention_axes(operation)
    # A causal mask depends on the row, so rows cannot be cut.
    return [axis for axis in found if axis.name != "rows" or not given.get("is_causal")]


def _cross_entropy(operation: Operation) -> Iterator[Axis]:
    """Yield the axis of the rows of scores; it accumulates if their losses are added up."""
    given, scores, wanted = operation.attributes, operation.input(), operation.input(1)
    if len(shape_of(scores)) != 2 or len(shape_of(wanted)) != 1 or given.get("label_smoothing"):
        raise NoAxes
    rows = shape_of(scores)[0]
    windows = Window(scores.name, 0), Window(wanted.name, 0)
    if given.get("reduction") == 0:
        yield Axis("rows", rows, (*windows, Window(operation.output.name, 0)))
    else:
        yield Axis("terms of rows", rows, windows, accumulates=True)


def _reduce(operation: Operation, *, adds: bool = False) -> Iterable[Axis]:
    given, rank = operation.attributes, len(operation.shape())
    listed = given.get("dim")
    listed = range(rank) if listed is None or listed == [] else listed
    axes = [listed] if isinstance(listed, int) else list(listed)
    keeps = bool(given.get("keepdim", False))
    adds = adds and operation.output.dtype in _WIDE
    return reduction_axes(operation, axes, keeps=keeps, adds=adds)


def _cat(operation: Operation) -> Iterable[Axis]:
    there = Operation(
        operation.kind,
        tuple(tensor for tensor in operation.inputs if tensor is not None),
        operation.outputs,
    )
    rank = len(shape_of(operation.output))
    return concat_axes(there, checked_axis(operation.attributes.get("dim", 0), rank))


def _pad(operation: Operation) -> Iterable[Axis]:
    rank, pads = len(operation.shape()), operation.attributes["pad"]
    if not all(type(each) is int for each in pads):
        raise NoAxes
    before = [0] * rank
    for k, count in enumerate(pads[::2]):
        before[rank - 1 - k] = count
    constant = operation.attributes.get("mode", "constant") == "constant"
    return pad_axes(operation, before, constant=constant)


def _upsample(operation: Operation, *, linear: bool) -> Iterable[Axis]:
    shape, places = operation.shape(), shape_of(operation.output)
    corners = bool(operation.attributes.get("align_corners"))
    tables: dict[int, list[tuple[int, int]]] = {}
    for axis in range(2, len(shape)):
        extent, n = shape[axis], places[axis]
        scale = (extent - 1) / max(1, n - 1) if corners else extent / n
        half = linear and not corners
        at = [(k + 0.5 * half) * scale - 0.5 * half for k in range(n)]
        found = [
            (between if linear else nearest)([int((a + off) // 1) for a in at], extent)
            for off in (-1e-4, 1e-4)
        ]
        tables[axis] = [(low[0], high[1]) for low, high in zip(*found, strict=True)]
    return resize_axes(operation, tables)


def _embedding(operation: Operation) -> list[Axis]:
    return gather_axes(operation, 0)


def _permute(operation: Operation) -> Iterable[Axis]:
    rank = len(operation.shape())
    return transpose_axes(operation, [axis % rank for axis in operation.attributes["dims"]])


def _transpose(operation: Operation) -> Iterable[Axis]:
    rank, given = len(operation.shape()), operation.attributes
    order = list(range(rank))
    one, other = (checked_axis(given.get(k, at), rank) for at, k in enumerate(("dim0", "dim1")))
    order[one], order[other] = order[other], order[one]
    return transpose_axes(operation, order)


def _slice(operation: Operation) -> Iterable[Axis]:
    given, shape = operation.attributes, operation.shape()
    dim = checked_axis(given.get("dim", 0), len(shape))
    start = given.get("start") or 0
    if type(start) is not int or type(given.get("step", 1)) is not int:
        raise NoAxes
    starts, steps = [0] * len(shape), [1] * len(shape)
    starts[dim] = min(max(start + shape[dim] * (start < 0), 0), shape[dim])
    steps[dim] = given.get("step", 1)
    return slice_axes(operation, starts, steps)


def _select(operation: Operation) -> Iterator[Axis]:
    """Yield all axes but the one along which a position is selected."""
    source, output = operation.input(), operation.output
    shape = shape_of(source)
    dim = checked_axis(operation.attributes["dim"], len(shape))
    names = operation.names(len(shape) - 1)
    for axis, extent in enumerate(shape):
        if axis != dim:
            own = axis - (axis > dim)
            yield same(names[own], extent, [(source, axis), (output, own)])


def _split(operation: Operation) -> Iterable[Axis]:
    dim = checked_axis(operation.attributes.get("dim", 0), len(operation.shape()))
    return split_axes(operation, dim, operation.input())


def _stack(operation: Operation) -> Iterable[Axis]:
    """Axes of a stack, and of what takes one apart."""
    rank = max(len(shape_of(t)) for t in (*operation.inputs, *operation.outputs) if t is not None)
    return stack_axes(operation, checked_axis(operation.attributes.get("dim", 0), rank))


def _roll(operation: Operation) -> Iterator[Axis]:
    """Yield all axes; along rolled or flipped axes, each piece needs the whole source."""
    given, source, output = operation.attributes, operation.input(), operation.output
    if not given.get("dims"):
        raise NoAxes
    shape = shape_of(output)
    mixed = {axis % len(shape) for axis in given["dims"]}
    for axis, (name, extent) in enumerate(zip(operation.names(len(shape)), shape, strict=True)):
        yield same(name, extent, [(output, axis), *([(source, axis)] if axis not in mixed else [])])


def _cumulative(operation: Operation) -> list[Axis]:
    return alike(operation, but=(operation.attributes["dim"],))


def _shuffled(operation: Operation, name: str, *, deeper: bool) -> Sequence[Axis]:
    return list(block_axes(operation, operation.attributes[name], deeper=deeper))


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution"), _convolution),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _transposed),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), _pool),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d"), _pool),
    **dict.fromkeys(("adaptive_avg_pool2d", "_adaptive_avg_pool2d"), _adaptive_pool),
    **dict.fromkeys(("softmax", "log_softmax", "_softmax", "_log_softmax"), _softmax),
    **dict.fromkeys(("layer_norm", "native_layer_norm"), _layer_norm),
    **dict.fromkeys(("matmul", "mm", "bmm"), _matmul),
    **dict.fromkeys(("addmm", "baddbmm"), _addmm),
    **dict.fromkeys(_REDUCTIONS, _reduce),
    **dict.fromkeys(("pad", "constant_pad_nd"), _pad),
    **dict.fromkeys(_ELEMENT_WISE, element_wise),
    **dict.fromkeys(_RESHAPES, reshape_axes),
    **dict.fromkeys(("chunk", "split", "split_with_sizes"), _split),
    **dict.fromkeys(("t", "transpose", "transpose_"), _transpose),
    **dict.fromkeys(("cumprod", "cumsum"), _cumulative),
    **dict.fromkeys(("flip", "roll"), _roll),
    **dict.fromkeys(("stack", "unbind"), _stack),
    "batch_norm": _batch_norm,
    "cat": _cat,
    "cross_entropy_loss": _cross_entropy,
    "embedding": _embedding,
    "expand_as": partial(element_wise, only=(0,)),
    "group_norm": _group_norm,
    "linear": _linear,
    "permute": _permute,
    "pixel_shuffle": partial(_shuffled, name="upscale_factor", deeper=False),
    "pixel_unshuffle": partial(_shuffled, name="downscale_factor", deeper=True),
    "select": _select,
    "slice": _slice,
    "scaled_dot_product_attention": _attention,
    "sum": partial(_reduce, adds=True),
    "upsample_bilinear2d": partial(_upsample, linear=True),
    "upsample_nearest2d": partial(_upsample, linear=False),
}
