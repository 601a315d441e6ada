"""Distances at which two storages may share bytes in some order of the ops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cpplan.aliasing.alias_candidates import Link
from cpplan.aliasing.shifts import suggested_shifts
from cpplan.aliasing.value_numbers import Origins

if TYPE_CHECKING:
    from formulations.joint_sharing import Meeting


def find_meetings(
    row: Mapping[str, int], size: Sequence[int], links: Sequence[Link], origins: Origins
) -> dict[tuple[int, int], list[Meeting]]:
    """For pairs of storages, the distances at which they may share bytes, with the op if in place.

    Keys are ``(i, j)`` with ``i < j``.

    Parameters
    ----------
    row
        Number of every storage.
    size
        Bytes, by number.
    links
        Between these storages.
    origins
        Origins of their bytes.
    """
    from formulations.joint_sharing import Meeting

    names = {k: name for name, k in row.items()}
    found: dict[tuple[int, int], list[Meeting]] = defaultdict(list)
    copies: dict[tuple[int, int], list[Link]] = defaultdict(list)
    for link in links:
        copies[row[link.outer], row[link.inner]].append(link)
    for (i, j), shifts in suggested_shifts(row, links, origins).items():
        for shift in sorted(shifts):
            overlap = shift < size[i] and -shift < size[j]
            overlap &= not any(
                link.overlaps_itself(distance)
                for pair, distance in (((i, j), shift), ((j, i), -shift))
                for link in copies[pair]
            )
            if overlap and origins.equal(names[i], names[j], shift):
                found[i, j].append(Meeting(shift))
    for link in links:
        if link.in_place:
            old, new = row[link.outer], row[link.inner]
            whole = link.begin <= max(0, link.shift)
            whole &= min(size[old], link.shift + size[new]) <= link.end
            i, j = min(old, new), max(old, new)
            shift = link.shift if old < new else -link.shift
            meeting = Meeting(shift, link.op, old)
            if whole and meeting not in found[i, j] and Meeting(shift) not in found[i, j]:
                found[i, j].append(meeting)
    return {pair: meetings for pair, meetings in sorted(found.items()) if meetings}
