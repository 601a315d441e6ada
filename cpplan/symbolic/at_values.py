"""A plan of symbolic sizes at some values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.byte_sizes import format_bytes
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.plan import SizedPlan
from cpplan.model.problem import Ints, Problem
from cpplan.model.shapes import Range
from cpplan.model.symbolic_layout import SymbolicLayout
from cpplan.model.symbols import Symbols, check_values
from cpplan.model.tensor import Tensor

if TYPE_CHECKING:
    from cpplan.model.plan import Plan

# Sized plans remembered for each plan at its bounds.
MOST_CACHED = 256
# Function that plans again, from a sized plan beyond the bounds and its packing problem.
Growth = Callable[[SizedPlan, Problem], SizedPlan]


def at_values(plan: Plan, values: Mapping[str, int], *, grow: Growth | None = None) -> SizedPlan:
    """A plan at some values of its variables, remembered by value.

    Parameters
    ----------
    grow
        Function that plans again if a value is above its bound; without it, such a value is an
        error.

    Raises
    ------
    InputError
        As :meth:`cpplan.model.plan.Plan.at`.
    """
    layout = plan.symbols
    if layout is None:
        raise InputError("the plan has no symbolic dimensions")
    if plan.offset is None:
        raise InputError("there is no plan to bind: nothing that fits was found")
    key = (grow is not None, *(values.get(name) for name in layout.dims))
    exact = len(values) == len(layout.dims) and all(type(v) is int for v in values.values())
    if exact and key in plan.sized:
        return plan.sized[key]
    values = check_values(layout.dims, values)
    numbers = layout.table.evaluate(values)
    sized = SizedPlan(plan, values, numbers)
    _check_within(layout, sized)
    beyond = _beyond(layout, sized)
    if beyond is not None and layout.lost:
        name, why = next(iter(layout.lost.items()))
        raise InputError(f"{beyond}; there, the bytes of tensor {name!r} are not known: {why}")
    if beyond is not None:
        needed = _problem(plan, layout, numbers)
        if grow is None:
            live = int(needed.live_bytes().max(initial=0))
            raise InputError(
                f"{beyond}: the plan holds {plan.peak} B, and at least {live} B "
                f"({format_bytes(live)}) would be needed"
            )
        sized = grow(sized, needed)
    while len(plan.sized) >= MOST_CACHED:
        del plan.sized[next(iter(plan.sized))]
    plan.sized[key] = sized
    return sized


def _beyond(layout: SymbolicLayout, sized: SizedPlan) -> str | None:
    """The reason why the plan does not hold at these values, or ``None`` if it does."""
    for name, value in sized.values.items():
        upper = layout.dims[name].upper
        if upper is not None and value > upper:
            return f"dimension {name!r} is {value}, above its bound {upper}"
    size = sized.numbers[: len(layout.tensors)]
    more = size > layout.room
    if not layout.sizes or not more.any(axis=1).all():
        return None
    # The size at which the fewest tensors are too large.
    k = int(np.argmin(more.sum(axis=1)))
    row = int(np.argmax(more[k]))
    at, nearest = (
        ", ".join(f"{name} = {value}" for name, value in values.items())
        for values in (sized.values, layout.sizes[k])
    )
    return (
        f"{at} is not within any of the sizes planned: tensor {list(layout.tensors)[row]!r} has "
        f"{size[row]} B, and {layout.room[k, row]} B at {nearest}"
    )


def _check_within(layout: SymbolicLayout, sized: SizedPlan) -> None:
    """Raise if an extent is negative or a tensor lies beyond its buffer at these values.

    The bounds of the variables alone could not exclude these faults.
    """
    count, numbers = len(layout.tensors), sized.numbers
    size, within = numbers[:count], numbers[count : 2 * count]
    wrong = (within < 0) | (within + size > size[layout.holders])
    negative = numbers[2 * count :] < 0
    if not wrong.any() and not negative.any():
        return
    names = list(layout.tensors)
    at = ", ".join(f"{name} = {value}" for name, value in sized.values.items())
    if negative.any():
        k = 2 * count + int(np.argmax(negative))
        name = names[int(np.searchsorted(layout.extents, k, "right")) - 1]
        extent = layout.table.expressions[k]
        raise InputError(f"tensor {name!r}: its extent {extent} is {numbers[k]} at {at}")
    k = int(np.argmax(wrong))
    buffer = layout.tensors[names[k]].buffer
    raise InputError(
        f"tensor {names[k]!r}: bytes {within[k]}..{within[k] + size[k]} lie beyond {buffer!r} of "
        f"{size[layout.holders[k]]} B at {at}"
    )


def _problem(plan: Plan, layout: SymbolicLayout, numbers: Ints) -> Problem:
    """The packing problem at the new sizes; buffers that lie within others have no rows."""
    rows = [row for name, row in plan.row.items() if name not in layout.moving]
    names = [plan.buffers[row] for row in rows]
    lower, upper = plan.lower[rows].copy(), plan.upper[rows].copy()
    new = {name: k for k, name in enumerate(names)}
    for name in layout.moving:
        k, row = new[layout.tensors[name].buffer], plan.row[name]
        lower[k], upper[k] = min(lower[k], plan.lower[row]), max(upper[k], plan.upper[row])
    held = {layout.tensors[name].buffer for name in layout.moving}
    return Problem(
        names=tuple(names),
        lower=lower,
        upper=upper,
        size=np.array(
            [numbers[layout.rows[n]] if n in layout.rows else 0 for n in names], np.int64
        ),
        alignment=np.array([layout.alignment.get(name, 1) for name in names], np.int64),
        gaps={
            new[name]: plan.gaps[row]
            for name, row in plan.row.items()
            if row in plan.gaps and name in new and name not in held
        },
        pools=plan.pools[:1],
        name=plan.name,
    )


def narrow_to(graph: Graph, sizes: Sequence[Mapping[str, int]]) -> Graph:
    """The graph with every variable's upper bound at its largest value in some sizes.

    After this no variable is unbounded. Placements are left out, since their offsets may depend on
    the size.
    """
    assert graph.symbols is not None
    dims = {}
    for name, within in graph.symbols.dims.items():
        given = [values[name] for values in sizes]
        lower = min(given) if within.lower is None else within.lower
        dims[name] = Range(lower, max(given))
    return _narrow(graph, dims)


def _narrow(graph: Graph, dims: Mapping[str, Range]) -> Graph:
    symbols = graph.symbols
    if symbols is None:
        return graph
    tensors = tuple(_tensor(tensor, symbols) for tensor in graph.tensors)
    ops = tuple(
        replace(op, placements=(), bodies=tuple(_narrow(body, dims) for body in op.bodies))
        for op in graph.ops
    )
    within = Symbols({name: dims[name] for name in symbols.dims}, lost=symbols.lost)
    return Graph(graph.name, tensors, ops, within)


def _tensor(tensor: Tensor, symbols: Symbols) -> Tensor:
    if tensor.name in symbols.shapes:
        shape = symbols.shapes[tensor.name]
        tensor = replace(tensor, shape=shape, size=None)  # type: ignore[arg-type]
    if tensor.view_of is not None:
        base, offset = tensor.view_of
        view_of = base, symbols.offsets.get(tensor.name, offset)
        tensor = replace(tensor, view_of=view_of)  # type: ignore[arg-type]
    return tensor
