"""Checks of a plan's symbolic layout: its expressions must be those of the model.

A plan of symbolic sizes is placed, and checked, at the bounds of the variables. What it says of
other values follows from its expressions, so these are derived again from the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.shapes import Dim, Range
from cpplan.model.shapes.substitution import at_most
from cpplan.model.symbolic_layout import SymbolicLayout, SymbolicTensor
from cpplan.model.symbols import Symbols, upper_bound
from cpplan.model.tensor import Tensor
from cpplan.program.anf import to_anf
from cpplan.program.copy_names import instances, tensor_copies


def check_symbols(graph: Graph, plan: Plan) -> None:
    """Check variables, sizes and places of a plan's symbolic layout against the model.

    A plan without one is for the bounds alone.

    Raises
    ------
    VerificationError
        Names the variable or the tensor, and what was expected.
    """
    symbols, layout = graph.symbols, plan.symbols
    if layout is None:
        free = () if symbols is None else filter(symbols.unbounded, graph.tensors)
        name = next((tensor.name for tensor in free), None)
        if name is not None:
            raise VerificationError(
                f"tensor {name!r} may have any size, of which the plan says nothing"
            )
        return
    if symbols is None:
        raise VerificationError("the plan's sizes depend on variables, but not the model's")
    _check_dims(layout.dims, symbols.dims)
    if dict(layout.lost) != dict(symbols.lost):
        raise VerificationError("the plan's tensors of lost sizes are not those of the model")
    _check_tensors(graph, symbols, plan, layout)
    _check_unbounded(plan, layout)


def _check_dims(claimed: Mapping[str, Range], known: Mapping[str, Range]) -> None:
    """Raise unless the plan is for the model's variables, and for no values beyond their ranges."""
    if claimed.keys() != known.keys():
        name = min(claimed.keys() ^ known.keys())
        raise VerificationError(f"variable {name!r} is one of the plan's or the model's alone")
    for name, (lower, upper) in known.items():
        low, high = claimed[name]
        below = lower is not None and (low is None or low < lower)
        above = upper is not None and (high is None or high > upper)
        if below or above:
            raise VerificationError(
                f"the plan is for {name!r} in {low}..{high}, but the model for {lower}..{upper}"
            )


def _check_tensors(graph: Graph, symbols: Symbols, plan: Plan, layout: SymbolicLayout) -> None:
    """Raise unless every tensor and buffer has the size, the shape and the place of the model's."""
    seen = set()
    for name, tensor, inner, place in _placed(graph, symbols, plan, layout):
        size = inner.size(tensor)
        unbounded = layout.unbounded.get(name)
        # A plan for some sizes has narrower ranges than the model.
        free = upper_bound(size, {**inner.dims, **layout.dims}) is None
        if free and name in plan.row:
            if unbounded is None or unbounded.nbytes != size:
                raise VerificationError(f"tensor {name!r} may have any size: {size} B")
            continue
        shape = inner.shapes.get(tensor.name, tensor.shape)
        expected = SymbolicTensor(*place, size, shape, tensor.dtype)
        found = layout.tensors.get(name)
        seen.add(name)
        if found is None or unbounded is not None or found != expected:
            raise VerificationError(
                f"the plan puts tensor {name!r} of symbolic size at {_shown(found)}, "
                f"expected {_shown(expected)}"
            )
    strange = next((name for name in layout.tensors if name not in seen), None)
    if strange is not None:
        raise VerificationError(
            f"the plan has a symbolic size of {strange!r}, which it does not place"
        )


def _shown(tensor: SymbolicTensor | None) -> str:
    if tensor is None:
        return "no place"
    extents = "?" if tensor.shape is None else ", ".join(map(str, tensor.shape))
    return (
        f"byte {tensor.within} of {tensor.buffer!r}, {tensor.nbytes} B of {tensor.dtype}[{extents}]"
    )


def _placed(
    graph: Graph, symbols: Symbols, plan: Plan, layout: SymbolicLayout
) -> Iterator[tuple[str, Tensor, Symbols, tuple[str, int | Dim]]]:
    """Every buffer, and every tensor in one: the tensor stored, its symbols and its place."""
    stored: dict[str, tuple[Tensor, Symbols]] = {}
    for prefix, inner in instances(to_anf(graph, plan.order)):
        own = inner.graph.symbols or Symbols({})
        stored.update((prefix + t.name, (t, own)) for t in inner.graph.tensors)
    copies = tensor_copies(graph)
    for name in plan.buffers:
        if name not in graph.tensor:
            tensor, own = stored[name if name in stored else copies.split(name)[0]]
            yield name, tensor, own, _holder(graph, symbols, plan, layout, name, 0)
    for tensor in graph.tensors:
        buffer = plan.views.get(tensor.name, (tensor.name, 0))[0]
        if buffer in plan.row and buffer not in layout.unbounded:
            within = _within(graph, symbols, tensor.name)
            place = _holder(graph, symbols, plan, layout, buffer, within)
            yield tensor.name, tensor, symbols, place
        elif tensor.name in plan.row:
            yield tensor.name, tensor, symbols, (tensor.name, 0)


def _holder(
    graph: Graph,
    symbols: Symbols,
    plan: Plan,
    layout: SymbolicLayout,
    buffer: str,
    within: int | Dim,
) -> tuple[str, int | Dim]:
    """The buffer, and the offset in it, of what lies in a buffer that may lie in another."""
    offsets = {(part, whole): at for (_, part, whole), at in symbols.placements.items()}
    for _ in range(len(layout.moving)):
        if buffer not in layout.moving:
            break
        related = [r for r in plan.relations if r.tensor == buffer and r.other in graph.tensor]
        related = [r for r in related if r.kind == "placement"]
        if not related:
            raise VerificationError(f"buffer {buffer!r} lies within none, but its offset varies")
        _, part, whole, offset = related[0]
        within = within + offsets.get((part, whole), offset) + _within(graph, symbols, whole)
        buffer = graph.root[whole][0]
    return buffer, within


def _within(graph: Graph, symbols: Symbols, name: str) -> int | Dim:
    """Byte offset of a tensor in its storage."""
    offset: int | Dim = 0
    while not graph.is_storage(name):
        base, at = graph.tensor[name].view_of or (name, 0)
        offset = offset + symbols.offsets.get(name, at)
        name = base
    return offset


def _check_unbounded(plan: Plan, layout: SymbolicLayout) -> None:
    """Raise unless tensors of one storage have equal bytes and are never live at one step."""
    held: dict[int, list[str]] = {}
    for name, free in layout.unbounded.items():
        if name not in plan.row:
            raise VerificationError(f"the plan has no buffer {name!r} that may have any size")
        held.setdefault(free.storage, []).append(name)
    for names in held.values():
        names.sort(key=lambda name: int(plan.lower[plan.row[name]]))
        for one, other in pairwise(names):
            sizes = [at_most(layout.unbounded[n].nbytes, layout.dims) for n in (one, other)]
            if sizes[0] != sizes[1]:
                raise VerificationError(
                    f"{one!r} and {other!r} share a storage, but differ in size"
                )
            if plan.upper[plan.row[one]] > plan.lower[plan.row[other]]:
                raise VerificationError(
                    f"{one!r} and {other!r} share a storage and are live at once"
                )
