"""For every two storages that are live together, the distances at which they may share bytes."""

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
    """Rows ``(i, j)``, ``i < j`` -> addresses of ``j`` less that of ``i`` that both survive.

    Only pairs that some distance allows to share bytes are listed; all others that are live
    together must lie apart. O(pairs of pieces with one origin).
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
    """Pairs of rows -> distances at which they lie by a link, or bytes of one origin meet."""
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
