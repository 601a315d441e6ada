"""Distances at which two storages that are live together may share bytes, at one order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from cpplan.aliasing.alias_candidates import Link
from cpplan.aliasing.alias_sets import SharingRules
from cpplan.aliasing.value_numbers import Origins
from cpplan.model.problem import Problem


def allowed_shifts(
    problem: Problem, links: Sequence[Link], rules: SharingRules
) -> dict[tuple[int, int], list[int]]:
    """For pairs of rows, the distances at which both keep their values.

    Keys are ``(i, j)`` with ``i < j``; a distance is the address of ``j`` less that of ``i``. Pairs
    without any distance are left out: if live together, they must lie apart. O(pairs of pieces with
    one origin).
    """
    row, names = {name: k for k, name in enumerate(problem.names)}, problem.names
    return {
        (i, j): shifts
        for (i, j), found in suggested_shifts(row, links, rules.origins).items()
        if not rules.lives.apart(names[i], names[j])
        and (shifts := sorted(d for d in found if rules.may_meet(names[i], names[j], d)))
    }


def suggested_shifts(
    row: Mapping[str, int], links: Sequence[Link], origins: Origins
) -> dict[tuple[int, int], set[int]]:
    """For pairs of rows, the distances of links and those at which bytes of one origin coincide."""
    wanted: dict[tuple[int, int], set[int]] = defaultdict(set)

    def suggest(one: str, other: str, shift: int) -> None:
        i, j = row[one], row[other]
        wanted[min(i, j), max(i, j)].add(shift if i < j else -shift)

    for link in links:
        suggest(link.outer, link.inner, link.shift)
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
