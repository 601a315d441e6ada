"""Distances at which two storages may share bytes: at a given order, or in some order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cpplan.aliasing.alias_candidates import AliasCandidate
from cpplan.aliasing.alias_sets import SharingRules
from cpplan.aliasing.value_numbers import Origins
from cpplan.model.problem import Problem

if TYPE_CHECKING:
    from formulations.joint_sharing import Meeting


def allowed_shifts(
    problem: Problem, candidates: Sequence[AliasCandidate], rules: SharingRules
) -> dict[tuple[int, int], list[int]]:
    """Rows ``(i, j)``, ``i < j`` -> distances of ``j`` from ``i`` at which both keep their values.

    Only pairs that may share bytes at some distance are listed; all other pairs that are live
    together must lie apart. O(pairs of pieces with one origin).
    """
    row, names = {name: k for k, name in enumerate(problem.names)}, problem.names
    return {
        (i, j): shifts
        for (i, j), found in suggested_shifts(row, candidates, rules.origins).items()
        if not rules.lives.apart(names[i], names[j])
        and (shifts := sorted(d for d in found if rules.may_meet(names[i], names[j], d)))
    }


def find_meetings(
    row: Mapping[str, int],
    size: Sequence[int],
    candidates: Sequence[AliasCandidate],
    origins: Origins,
) -> dict[tuple[int, int], list[Meeting]]:
    """Storages ``(i, j)``, ``i < j`` -> the distances at which both may keep their values, and why.

    Parameters
    ----------
    row
        Number of every storage.
    size
        Size of every storage, bytes, by its number.
    candidates
        Alias candidates between these storages.
    origins
        Origins of the storages' bytes.
    """
    from formulations.joint_sharing import Meeting

    names = {k: name for name, k in row.items()}
    found: dict[tuple[int, int], list[Meeting]] = defaultdict(list)
    copies: dict[tuple[int, int], list[AliasCandidate]] = defaultdict(list)
    for candidate in candidates:
        copies[row[candidate.outer], row[candidate.inner]].append(candidate)
    for (i, j), shifts in suggested_shifts(row, candidates, origins).items():
        for shift in sorted(shifts):
            overlap = shift < size[i] and -shift < size[j]
            overlap &= not any(
                candidate.overlaps_itself(distance)
                for pair, distance in (((i, j), shift), ((j, i), -shift))
                for candidate in copies[pair]
            )
            if overlap and origins.equal(names[i], names[j], shift):
                found[i, j].append(Meeting(shift))
    for candidate in candidates:
        if candidate.in_place:
            old, new = row[candidate.outer], row[candidate.inner]
            whole = candidate.begin <= max(0, candidate.shift)
            whole &= min(size[old], candidate.shift + size[new]) <= candidate.end
            i, j = min(old, new), max(old, new)
            shift = candidate.shift if old < new else -candidate.shift
            meeting = Meeting(shift, candidate.op, old)
            if whole and meeting not in found[i, j] and Meeting(shift) not in found[i, j]:
                found[i, j].append(meeting)
    return {pair: meetings for pair, meetings in sorted(found.items()) if meetings}


def suggested_shifts(
    row: Mapping[str, int], candidates: Sequence[AliasCandidate], origins: Origins
) -> dict[tuple[int, int], set[int]]:
    """Pairs of rows -> distances that candidates name, or at which bytes of one origin meet."""
    wanted: dict[tuple[int, int], set[int]] = defaultdict(set)

    def suggest(one: str, other: str, shift: int) -> None:
        i, j = row[one], row[other]
        wanted[min(i, j), max(i, j)].add(shift if i < j else -shift)

    for candidate in candidates:
        suggest(candidate.outer, candidate.inner, candidate.shift)
    pieces = defaultdict(list)
    for name, found in origins.of.items():
        for piece in found:
            pieces[piece.origin].append((name, piece))
    for same in pieces.values():
        for k, (one, a) in enumerate(same):
            for other, b in same[:k]:
                apart = a.past <= b.start or b.past <= a.start
                if one != other and not apart:
                    suggest(one, other, (a.begin - a.start) - (b.begin - b.start))
    return dict(sorted(wanted.items()))
