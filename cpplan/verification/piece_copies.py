"""Bytes copied by a runtime whose kernels need each operand in one part."""

from __future__ import annotations

from collections.abc import Sequence

from cpplan.model.plan import Plan
from cpplan.program.anf import Program
from cpplan.verification.access_trace import Access
from cpplan.verification.piece_bands import Part, count_elements
from cpplan.verification.pieces import Described


def copied_bytes(
    described: Described, program: Program, plan: Plan, accesses: Sequence[Access]
) -> int:
    """Bytes that a runtime copies whose kernels need each operand in one part.

    The bands of one tensor that a run accesses are all copied unless they lie in the arena as one
    part of the tensor: one after another along one axis, with a single position on each axis before
    it.
    """
    offsets = [] if plan.offset is None else plan.offset.tolist()
    at = dict(zip(plan.buffers, zip(plan.pool.tolist(), offsets, strict=True), strict=True))
    places: dict[tuple[int, str], tuple[int, int]] = {}
    for access in accesses:
        if access.op is not None and access.owner is not None:
            pool, offset = at[access.place.retention.name]
            begin = int(offset) + access.place.begin
            places[access.owner, access.place.tensor] = int(pool), begin
    total = 0
    for op, step in zip(program.ops, program.starts, strict=False):
        for names in (op.inputs, op.outputs):
            by_tensor: dict[str, dict[Part, str]] = {}
            for name in names:
                if name in described.parts:
                    tensor, part = described.parts[name]
                    by_tensor.setdefault(tensor, {})[part] = name
            for bands in by_tensor.values():
                sizes = [described.graph.tensor[name].nbytes for name in bands.values()]
                where = [places.get((step, name)) for name in bands.values()]
                if not _is_one_part(list(bands), sizes, where):
                    total += sum(sizes)
    return total


def _is_one_part(
    parts: Sequence[Part], sizes: Sequence[int], where: Sequence[tuple[int, int] | None]
) -> bool:
    """True if bands lie one after another as in a tensor made of these bands."""
    if len(parts) == 1:
        return True
    unlike = [k for k in range(len(parts[0])) if len({part[k] for part in parts}) > 1]
    if len(unlike) > 1 or count_elements(parts[0][: unlike[0]]) != 1:
        return False
    expected = where[0]
    for place, size in zip(where, sizes, strict=True):
        if place != expected:
            return False
        expected = None if place is None else (place[0], place[1] + size)
    return True
