"""Problems stated as pairs of buffers that may not share bytes, without lifespans.

The algorithms of TVM's Unified Static Memory Planner read such lists. Here they become lifespans:
every step is a clique of the conflict graph, and a buffer has gaps at the steps between its
cliques. Two buffers are then live at a common step exactly if they conflict, so that bounds,
heuristics and models need no change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.pool import Pool
from cpplan.model.problem import Gap, Ints, Problem


def from_conflicts(
    size: Mapping[str, int],
    conflicts: Iterable[tuple[str, str]],
    *,
    alignment: Mapping[str, int] | None = None,
    pools: Sequence[Pool] = (Pool(),),
    candidates: Mapping[str, Sequence[str]] | None = None,
    name: str = "problem",
) -> Problem:
    """The packing problem in which exactly these pairs of buffers may not share bytes.

    A pair counts in both directions, however it is listed; a buffer does not conflict with itself.
    O(buffers × conflicts).

    Parameters
    ----------
    size
        Buffer -> bytes; the order of the buffers is kept.
    conflicts
        Pairs of buffers.
    alignment
        Buffer -> alignment in bytes; 1 by default.
    pools
        Pools for the buffers, in order of preference.
    candidates
        Buffer -> names of its candidate pools, in order of preference; all pools by default.
    name
        Name of the problem.

    Raises
    ------
    InputError
        If a conflict, an alignment or a candidate names an unknown buffer, or a candidate an
        unknown pool.
    """
    row = {buffer: k for k, buffer in enumerate(size)}
    neighbours: list[set[int]] = [set() for _ in row]
    pairs = [(one, other) for one, other in conflicts]
    for buffer in [*(b for pair in pairs for b in pair), *(alignment or {})]:
        if buffer not in row:
            raise InputError(f"unknown buffer {buffer!r} among the conflicts or alignments")
    for one, other in pairs:
        if one != other:
            neighbours[row[one]].add(row[other])
            neighbours[row[other]].add(row[one])
    sizes = np.array(list(size.values()))
    steps_of: list[list[int]] = [[] for _ in row]
    for step, clique in enumerate(_clique_cover(sizes, neighbours)):
        for k in clique:
            steps_of[k].append(step)
    return Problem(
        tuple(size),
        lower=np.array([steps[0] for steps in steps_of], np.int64),
        upper=np.array([steps[-1] + 1 for steps in steps_of], np.int64),
        size=sizes,
        alignment=np.array([(alignment or {}).get(buffer, 1) for buffer in size]),
        gaps={k: gaps for k, steps in enumerate(steps_of) if (gaps := _gaps(steps))},
        pools=pools,
        candidates=_candidates(row, pools, candidates or {}),
        name=name,
    )


def _candidates(
    row: Mapping[str, int], pools: Sequence[Pool], candidates: Mapping[str, Sequence[str]]
) -> dict[int, tuple[int, ...]]:
    number = {pool.name: k for k, pool in enumerate(pools)}
    for buffer, names in candidates.items():
        if buffer not in row:
            raise InputError(f"unknown buffer {buffer!r} among the candidates")
        for name in names:
            if name not in number:
                known = ", ".join(number)
                raise InputError(f"buffer {buffer!r}: unknown pool {name!r}: expected {known}")
    return {row[b]: tuple(number[name] for name in names) for b, names in candidates.items()}


def _clique_cover(size: Ints, neighbours: Sequence[set[int]]) -> list[list[int]]:
    """Cliques that contain every edge and every vertex, grown from the largest buffers down.

    Large cliques of large buffers make the live-bytes bound strong; any cover is exact.
    """
    largest_first = sorted(range(len(size)), key=lambda k: (-int(size[k]), k))
    open_edges = [set(others) for others in neighbours]
    cliques = []
    for k in largest_first:
        if not neighbours[k]:
            cliques.append([k])
        while open_edges[k]:
            clique, common = [k], set(neighbours[k])
            # The first companion closes an open edge; others join if the clique stays one.
            first = next(other for other in largest_first if other in open_edges[k])
            for other in [first, *largest_first]:
                if other in common:
                    clique.append(other)
                    common &= neighbours[other]
            for member in clique:
                open_edges[member].difference_update(clique)
            cliques.append(sorted(clique))
    return cliques


def _gaps(steps: Sequence[int]) -> list[Gap]:
    return [Gap(one + 1, other) for one, other in pairwise(steps) if other > one + 1]
