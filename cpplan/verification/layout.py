"""Checks of a layout: allowed pools, alignment, and buffers that do not overlap."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cpplan.model.errors import VerificationError
from cpplan.model.problem import Ints, Problem
from cpplan.model.tensor import LIMIT
from cpplan.verification.aliasing import Union
from cpplan.verification.rectangles import Rectangles, check_apart, find_overlap, overlap_error


def check_pools(needed: Problem, pool: Ints) -> None:
    """Check that every buffer lies in a pool that it may lie in."""
    if not needed.candidates and ((pool >= 0) & (pool < len(needed.pools))).all():
        return
    for row, number in enumerate(pool.tolist()):
        if not 0 <= number < len(needed.pools):
            raise VerificationError(f"buffer {needed.names[row]!r} lies in no pool of the plan")
        if number not in needed.candidates_of(row):
            allowed = ", ".join(repr(needed.pools[k].name) for k in needed.candidates_of(row))
            raise VerificationError(
                f"buffer {needed.names[row]!r} lies in pool {needed.pools[number].name!r}, but "
                f"may only lie in {allowed}"
            )


def check_addresses(needed: Problem, pool: Ints, offset: Ints) -> None:
    """Check that offsets are not negative, that addresses are aligned, and fixed offsets kept.

    Raises
    ------
    VerificationError
        Names the buffer and the rule.
    """
    pool_alignment = np.array([p.alignment for p in needed.pools], np.int64)[pool]
    base = np.array([p.base for p in needed.pools], np.int64)[pool]
    for wrong, rule in (
        (offset < 0, "must not be negative"),
        (offset > LIMIT, "is beyond 2**62"),
        (offset % needed.alignment != 0, "is not a multiple of the alignment"),
        (offset % pool_alignment != 0, "is not a multiple of its pool's alignment"),
        (base % needed.alignment != 0, "is aligned, but the base of its pool is not"),
    ):
        if wrong.any():
            k = int(np.argmax(wrong))
            raise VerificationError(
                f"buffer {needed.names[k]!r}, live from step {needed.lower[k]} and aligned to "
                f"{math.lcm(int(needed.alignment[k]), int(pool_alignment[k]))} B: offset "
                f"{offset[k]} {rule}"
            )
    for k, wanted in needed.fixed.items():
        if offset[k] != wanted:
            raise VerificationError(
                f"buffer {needed.names[k]!r}: offset {offset[k]}, but it is fixed at {wanted}"
            )


def check_all_apart(
    needed: Problem,
    rectangles: Rectangles,
    pool: Ints,
    offset: Ints,
    unions: Mapping[str, tuple[Sequence[str], Sequence[Union]]] | None = None,
) -> None:
    """Check that no byte of a pool belongs to two buffers at one step, unions counting as one."""
    for number in range(len(needed.pools)):
        here = rectangles
        if len(needed.pools) > 1:
            here = _chosen(rectangles, pool[rectangles.buffer] == number)
        if not unions:
            check_apart(here, needed.names, offset)
            continue
        inside = set(np.flatnonzero(pool == number).tolist())
        groups = {k: g for k, g in _groups(needed, unions).items() if k in inside}
        together, addresses = _with_unions(needed, here, offset, groups, unions)
        found = find_overlap(together, addresses)
        if found is not None:
            one, other = _culprits(here, offset, groups, together, addresses, *found)
            raise overlap_error(here, needed.names, offset, one, other)


def _chosen(rectangles: Rectangles, which: NDArray[np.bool_]) -> Rectangles:
    return Rectangles(*(column[which] for column in rectangles))


def _groups(
    needed: Problem, unions: Mapping[str, tuple[Sequence[str], Sequence[Union]]]
) -> dict[int, int]:
    """Row -> number of its group, for buffers that share bytes."""
    row = {name: k for k, name in enumerate(needed.names)}
    return {row[name]: k for k, (names, _) in enumerate(unions.values()) for name in names}


def _with_unions(
    needed: Problem,
    rectangles: Rectangles,
    offset: Ints,
    groups: Mapping[int, int],
    unions: Mapping[str, tuple[Sequence[str], Sequence[Union]]],
) -> tuple[Rectangles, Ints]:
    """All rectangles and offsets; buffers that share bytes are replaced by their unions.

    The union of group ``k`` is buffer ``len(needed) + k``, with offset 0: its bytes are addresses.
    """
    alone = np.array([row not in groups for row in rectangles.buffer.tolist()], bool)
    present = set(groups.values())
    extra = [
        (len(needed) + k, u.lower, u.upper, u.begin, u.end)
        for k, (_, filled) in enumerate(unions.values())
        for u in filled
        if k in present
    ]
    added = np.array(extra, np.int64).reshape(-1, 5)
    columns = enumerate(_chosen(rectangles, alone))
    together = Rectangles(*(np.concatenate([c, added[:, k]]) for k, c in columns))
    return together, np.concatenate([offset, np.zeros(len(unions), np.int64)])


def _culprits(
    rectangles: Rectangles,
    offset: Ints,
    groups: Mapping[int, int],
    together: Rectangles,
    addresses: Ints,
    *found: int,
) -> list[int]:
    """Positions of one rectangle of each of two that meet, holding their first common byte."""
    pair = np.array(found)
    step = together.lower[pair].max()
    byte = (addresses[together.buffer[pair]] + together.begin[pair]).max()
    start = offset[rectangles.buffer]
    holds = (rectangles.lower <= step) & (step < rectangles.upper)
    holds &= (start + rectangles.begin <= byte) & (byte < start + rectangles.end)
    side: dict[int, int] = {}
    for k in np.flatnonzero(holds).tolist():
        row = int(rectangles.buffer[k])
        side.setdefault(len(offset) + groups[row] if row in groups else row, k)
    return [side[int(row)] for row in together.buffer[pair]]
