"""Axes of matrix products, attention and sums over axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
    """Batch, heads and query rows of an attention.

    Inputs are query, key and value, each ``(batch, heads, rows, elements)`` or, without an axis of
    heads, ``(batch, rows, elements)``; and perhaps a mask, whose rows are the query's.
    """
    output = operation.output
    shape = shape_of(output)
    query, key, value = (operation.input(k) for k in range(3))
    rank = len(shape)
    if rank not in (3, 4) or any(len(shape_of(t)) != rank for t in (query, key, value)):
        raise NoAxes
    given = operation.input(3) if operation.has(3) else None

    def masked(axis: int) -> list[tuple[Tensor, int]]:
        """The mask's own axis for one of the scores' four."""
        if given is None:
            return []
        own = axis - 4 + len(shape_of(given))
        extent = (shape[0], shape[1] if rank == 4 else 0, shape[-2], 0)[axis]
        return [(given, own)] if own >= 0 and shape_of(given)[own] == extent else []

    axes = [
        same("batch", shape[0], [*((t, 0) for t in (output, query, key, value)), *masked(0)]),
        same("rows", shape[-2], [(output, rank - 2), (query, rank - 2), *masked(2)]),
    ]
    if rank == 4 and shape_of(key)[1] == shape_of(query)[1] == shape[1]:
        places = [(t, 1) for t in (output, query, key, value)]
        axes.append(same("heads", shape[1], [*places, *masked(1)]))
    return axes


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
