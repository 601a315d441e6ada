"""The smallest height in which boxes can be placed, by trying every offset.

A box holds some of its bytes at some steps. Two boxes clash at a distance if they hold one byte at
one step. All clashes are worked out bit by bit; then for one height after the other every offset of
every box is tried, and one that leaves another box without an offset is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cpplan import Problem

_MOST_PLACED = 100_000  # boxes of one case, each time counted


class TooLargeError(Exception):
    """A case that brute force would take too long for; it proves nothing."""


class Box(NamedTuple):
    """Bytes to be placed.

    Attributes
    ----------
    name
        Of the buffer or tensor.
    size
        Bytes, all of which lie below the height.
    held
        Step -> the bytes that it holds then, as bits.
    alignment
        Offsets are multiples of it.
    fixed
        The only offset allowed, if any.
    """

    name: str
    size: int
    held: Mapping[int, int]
    alignment: int = 1
    fixed: int | None = None


def boxes_of(problem: Problem) -> list[Box]:
    """The buffers of a problem as boxes; pools are left out."""
    boxes = []
    for row, name in enumerate(problem.names):
        size = int(problem.size[row])
        held = {}
        for step in range(int(problem.lower[row]), int(problem.upper[row])):
            windows = [g for g in problem.gaps.get(row, ()) if g.lower <= step < g.upper]
            held[step] = sum(ones(g.begin, g.end) for g in windows) if windows else ones(0, size)
        fixed = problem.fixed.get(row)
        boxes.append(Box(name, size, held, int(problem.alignment[row]), fixed))
    return boxes


def ones(begin: int, end: int) -> int:
    """Bits ``[begin, end)``."""
    return (1 << end) - (1 << begin) if begin < end else 0


def clash(one: Box, other: Box, distance: int) -> bool:
    """True if they hold one byte at one step, ``other`` lying ``distance`` bytes above ``one``."""
    for step in one.held.keys() & other.held.keys():
        mine, theirs = one.held[step], other.held[step]
        if distance < 0:
            mine <<= -distance
        else:
            theirs <<= distance
        if mine & theirs:
            return True
    return False


def least_height(boxes: Sequence[Box], most: int | None = None) -> int | None:
    """The smallest height that holds all boxes; ``None`` if it is above ``most``.

    Raises
    ------
    TooLargeError
        If there are too many layouts to try.
    """
    count, height = len(boxes), _most_held(boxes)
    if most is not None and height > most:
        return None
    # Bit d + size of the lower box: they clash at distance d.
    distances = {
        (i, j): sum(
            1 << (d + boxes[j].size)
            for d in range(-boxes[j].size, boxes[i].size + 1)
            if clash(boxes[i], boxes[j], d)
        )
        for i in range(count)
        for j in range(count)
        if i != j
    }

    placed = 0

    def place(domains: dict[int, int]) -> bool:
        nonlocal placed
        if not domains:
            return True
        placed += 1
        if placed > _MOST_PLACED:
            raise TooLargeError
        chosen = min(domains, key=lambda box: (domains[box].bit_count(), box))
        free = domains[chosen]
        while free:
            offset = (free & -free).bit_length() - 1
            free &= free - 1
            rest = {}
            for other, domain in domains.items():
                if other != chosen:
                    taken = distances[chosen, other] << offset >> boxes[other].size
                    rest[other] = domain & ~taken
            if all(rest.values()) and place(rest):
                return True
        return False

    while most is None or height <= most:
        domains = {}
        for k, box in enumerate(boxes):
            wanted = range(0, height - box.size + 1, box.alignment)
            places = [box.fixed] if box.fixed is not None else list(wanted)
            domains[k] = sum(1 << at for at in places if at + box.size <= height)
        if all(domains.values()) and place(domains):
            return height
        height += 1
    return None


def apart(boxes: Sequence[Box], offsets: Sequence[int]) -> str | None:
    """A broken rule of a layout, in words; ``None`` if it keeps them all."""
    for k, (box, at) in enumerate(zip(boxes, offsets, strict=True)):
        if at < 0 or at % box.alignment or box.fixed not in (None, at):
            return f"{box.name} may not lie at {at}"
        for other, there in zip(boxes[:k], offsets, strict=False):
            if clash(box, other, there - at):
                return f"{box.name} at {at} and {other.name} at {there} share a byte"
    return None


def _most_held(boxes: Sequence[Box]) -> int:
    steps = {step for box in boxes for step in box.held}
    return max(
        (sum(box.held.get(step, 0).bit_count() for box in boxes) for step in steps), default=0
    )
