"""Axes of matrix products, attention and sums over axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from cpplan.io.axes.operation import NoAxes, Operation, same, shape_of
from cpplan.model.axes import Axis, Window
from cpplan.model.tensor import Tensor


def matmul_axes(
    operation: Operation,
    left: Tensor,
    right: Tensor,
    *,
    transposed: tuple[bool, bool] = (False, False),
    added: Iterable[Tensor | None] = (),
    vectors: Iterable[Tensor | None] = (),
    terms: bool = False,
) -> Iterator[Axis]:
    """Axes of a product of matrices, or of stacks of matrices that are broadcast.

    Parameters
    ----------
    transposed
        True for an operand that is stored with rows and columns exchanged.
    added
        What is broadcast to the output and added.
    vectors
        Scales and the like, of one element or of one for each column.
    terms
        True if products may be added up in parts.
    """
    output = operation.output
    shape, rows, columns = shape_of(output), shape_of(left), shape_of(right)
    if len(rows) < 2 or len(columns) < 2:
        raise NoAxes
    rank = len(shape)
    row = len(rows) - (1 if transposed[0] else 2)
    column = len(columns) - (2 if transposed[1] else 1)
    names = operation.names(rank) if rank != 4 else ("batch", "heads", "rows", "columns")
    others = [tensor for tensor in added if tensor is not None]
    for axis, (name, extent) in enumerate(zip(names, shape, strict=True)):
        places = [(output, axis)]
        if axis == rank - 2:
            places.append((left, row))
        elif axis == rank - 1:
            places.append((right, column))
            places += [(v, 0) for v in vectors if v is not None and shape_of(v) == (extent,)]
        else:
            for tensor in (left, right):
                own = axis - rank + len(shape_of(tensor))
                if own >= 0 and shape_of(tensor)[own] == extent:
                    places.append((tensor, own))
        for tensor in others:
            own = axis - rank + len(shape_of(tensor))
            if own >= 0 and shape_of(tensor)[own] == extent:
                places.append((tensor, own))
        yield same(name, extent, places)
    if terms:
        inner = len(rows) - (2 if transposed[0] else 1)
        over = len(columns) - (1 if transposed[1] else 2)
        yield Axis("terms", rows[inner], (Window(left.name, inner), Window(right.name, over)), True)


def attention_axes(operation: Operation) -> list[Axis]:
    """Batches, query rows and heads of an attention.

    Inputs are query, key and value, each ``(batch …, heads, rows, elements)`` or, without an axis
    of heads, ``(batch, rows, elements)``; and perhaps a mask, whose rows are the query's.
    """
    output = operation.output
    shape = shape_of(output)
    rank, heads = len(shape), len(shape) - 3
    query, *_ = inputs = [operation.input(k) for k in range(3)]
    if rank < 3 or any(len(shape_of(tensor)) != rank for tensor in inputs):
        raise NoAxes
    mask = operation.input(3) if operation.has(3) else None

    def masked(axis: int, from_end: int) -> list[tuple[Tensor, int]]:
        """The mask's own axis for one of the output."""
        own = -1 if mask is None else len(shape_of(mask)) - from_end
        return [(mask, own)] if mask and own >= 0 and shape_of(mask)[own] == shape[axis] else []

    def outer(name: str, axis: int) -> list[Axis]:
        """An axis of all tensors; a mask has an axis of heads, too, where the others have none."""
        if any(shape_of(tensor)[axis] != shape[axis] for tensor in inputs):
            return []
        places = [(tensor, axis) for tensor in (output, *inputs)]
        return [same(name, shape[axis], [*places, *masked(axis, max(rank, 4) - axis)])]

    batches = [outer(f"batch {k}" if heads > 1 else "batch", k) for k in range(max(1, heads))]
    rows = [(output, rank - 2), (query, rank - 2), *masked(rank - 2, 2)]
    return [
        *chain.from_iterable(batches),
        same("rows", shape[-2], rows),
        *(outer("heads", heads) if heads else ()),
    ]


def reduction_axes(
    operation: Operation, reduced: Iterable[int], *, keeps: bool, adds: bool = False
) -> Iterator[Axis]:
    """Axes of a reduction that it does not reduce, and those along which it may add up in parts."""
    source, output = operation.input(), operation.output
    shape = shape_of(source)
    away = {axis % len(shape) for axis in reduced} if shape else set()
    names, own = operation.names(len(shape)), 0
    if not away:
        raise NoAxes
    for axis, (name, extent) in enumerate(zip(names, shape, strict=True)):
        if axis not in away:
            yield same(name, extent, [(source, axis), (output, own)])
        elif adds:
            yield Axis(f"terms of {name}", extent, (Window(source.name, axis),), accumulates=True)
        own += keeps or axis not in away


def einsum_axes(operation: Operation, equation: str, *, adds: bool) -> Iterator[Axis]:
    """One axis for each label of an einsum's result, and of its sums.

    Parameters
    ----------
    adds
        True if products may be added up in parts.
    """
    equation = equation.replace(" ", "")
    if "." in equation:
        raise NoAxes
    operands, _, result = equation.partition("->")
    labels = operands.split(",")
    if "->" not in equation:
        letters = sorted(set(operands) - {","})
        result = "".join(letter for letter in letters if operands.count(letter) == 1)
    inputs = [operation.input(k) for k in range(len(labels))]
    output = operation.output
    for label in dict.fromkeys((*result, *operands.replace(",", ""))):
        if any(label * 2 in "".join(sorted(own)) for own in (*labels, result)):
            continue  # a diagonal
        places = [
            (tensor, own.index(label))
            for tensor, own in zip(inputs, labels, strict=True)
            if label in own
        ]
        extent = max(shape_of(tensor)[axis] for tensor, axis in places)
        if any(shape_of(tensor)[axis] != extent for tensor, axis in places):
            continue
        if label in result:
            yield same(f"axis {label}", extent, [*places, (output, result.index(label))])
        elif adds:
            windows = tuple(Window(tensor.name, axis) for tensor, axis in places)
            yield Axis(f"terms {label}", extent, windows, accumulates=True)
