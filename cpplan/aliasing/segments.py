"""The ordering problem with shared bytes, in which stretches of bytes take the place of storages.

A candidate that holds in every order of the ops can always be used. An alias set is cut at the
addresses at which its storages begin and end. Each stretch is live, like a storage, from the first
op that accesses a storage over it to the last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cpplan.aliasing.alias_candidates import AliasCandidate, find_candidates
from cpplan.aliasing.alias_sets import AliasSets, SharingRules, Storage, form_alias_sets
from cpplan.aliasing.bounds import placement_groups
from cpplan.aliasing.lives import AnyOrderLives
from cpplan.aliasing.value_numbers import Origins
from cpplan.model.graph import Graph
from cpplan.model.order_problem import OrderProblem
from cpplan.model.residency import Residency

# Largest number of ops for which candidates that hold in every order are looked for: with
# many more, the bit sets of ancestors and the pairs of storages that may be live together
# take gigabytes.
_ANY_ORDER_OPS = 2000


def share_in_any_order(
    graph: Graph,
    ordering: OrderProblem,
    residency: Residency,
    candidates: Sequence[AliasCandidate] | None = None,
) -> tuple[OrderProblem, bool]:
    """The ordering problem with all candidates that hold in every order, and True if it is exact.

    If the second value is true, no choice of candidates needs fewer bytes in any order than this
    problem: its bounds hold for every plan. O(ops² / 64 + candidates × storages that they join).
    With more than ``_ANY_ORDER_OPS`` ops, only in-place pairs are used for which the direct
    predecessors of the op prove that it reads last, in linear time.

    Parameters
    ----------
    graph
        The graph that is computed.
    ordering
        The graph's ordering problem (``order_problem``), without sharing.
    residency
        The boundary tensors that the arena holds.
    candidates
        The candidates that may be used; all by default.
    """
    candidates = find_candidates(graph, residency) if candidates is None else candidates
    size = dict(zip(ordering.storages, ordering.size.tolist(), strict=True))
    usable = [
        candidate for candidate in candidates if candidate.inner in size and candidate.outer in size
    ]
    if len(graph.ops) > _ANY_ORDER_OPS:
        problem, whole = _cut_up(ordering, _handed_over(ordering, usable))
        return problem, whole and not candidates
    lives = AnyOrderLives(graph, residency)
    # Bytes are only counted here; alignment is left to packing.
    storages = {name: Storage(count) for name, count in size.items()}
    rules = SharingRules(storages, lives, Origins(graph, candidates), usable)
    alias_sets = form_alias_sets(usable, rules)
    groups = [
        {name: alias_sets.place[name] for name in members}
        for members in alias_sets.members.values()
        if len(members) > 1
    ]
    problem, whole = _cut_up(ordering, groups)
    return problem, whole and len(usable) == len(candidates) and _none_better(usable, alias_sets)


def _handed_over(
    ordering: OrderProblem, candidates: Sequence[AliasCandidate]
) -> list[dict[str, int]]:
    """Chains of storages that ops can write in place in every order, each over the one before.

    An op may continue a chain if all other ops that access the old storage are its direct
    predecessors, and if it is a direct predecessor of all other ops that access the new one. So
    only neighbours in a chain are ever live together. O(candidates + accesses): precedences that
    follow only from longer paths are not used.
    """
    row = {name: k for k, name in enumerate(ordering.storages)}
    following: dict[str, str] = {}
    taken: set[str] = set()
    asked, before = -1, frozenset[int]()
    for candidate in candidates:
        old, new = row[candidate.outer], row[candidate.inner]
        size = int(ordering.size[old])
        whole = (
            candidate.shift == 0
            and candidate.begin == 0
            and candidate.end == size == ordering.size[new]
        )
        if (
            not (candidate.in_place and whole)
            or candidate.outer in following
            or candidate.inner in taken
        ):
            continue
        if candidate.op != asked:
            asked, before = candidate.op, frozenset(ordering.predecessors[candidate.op])
        last = not ordering.kept[old] and before.issuperset(
            op for op in ordering.accessed_by[old] if op != candidate.op
        )
        first = not ordering.present[new] and all(
            op == candidate.op or candidate.op in ordering.predecessors[op]
            for op in ordering.accessed_by[new]
        )
        if last and first:
            following[candidate.outer] = candidate.inner
            taken.add(candidate.inner)
    groups = []
    for start in [name for name in following if name not in taken]:
        group, name = {start: 0}, start
        while name in following:
            name = following[name]
            group[name] = 0
        groups.append(group)
    return groups


def relax_sharing(
    ordering: OrderProblem, candidates: Sequence[AliasCandidate]
) -> tuple[OrderProblem, int]:
    """A relaxed problem that needs no more bytes, in any order, than any choice of candidates.

    All placements are taken at once, as in ``cpplan.aliasing.bounds``; if the placements of a group
    contradict each other, only its largest storage counts. Results that an op may write in place
    are subtracted at its own step. To keep all sizes non-negative, every op gets additional bytes:
    the second value, to be subtracted from a peak or a bound of the problem.
    """
    size = dict(zip(ordering.storages, ordering.size.tolist(), strict=True))
    row = {name: k for k, name in enumerate(size)}
    groups: list[dict[str, int]] = []
    hidden: set[str] = set()
    for places in placement_groups(candidate for candidate in candidates if not candidate.in_place):
        known = {name: place for name, place in places.items() if name in size}
        if None in known.values() or len(known) < len(places):
            hidden.update(sorted(known, key=lambda name: (-size[name], row[name]))[1:])
        else:
            lowest = min(place for place in known.values() if place is not None)
            groups.append({n: place - lowest for n, place in known.items() if place is not None})
    problem, _ = _cut_up(ordering, groups)
    kept = [k for k, name in enumerate(problem.storages) if name not in hidden]
    saved = np.zeros(len(ordering), np.int64)
    for op, count in _savings(candidates).values():
        saved[op] += count
    more = int(saved.max(initial=0))
    relaxed = replace(
        problem,
        extra=problem.extra + more - saved,
        size=problem.size[kept],
        accessed_by=tuple(problem.accessed_by[k] for k in kept),
        present=problem.present[kept],
        kept=problem.kept[kept],
        storages=tuple(problem.storages[k] for k in kept),
    )
    return relaxed, more


def _cut_up(
    ordering: OrderProblem, groups: Iterable[Mapping[str, int]]
) -> tuple[OrderProblem, bool]:
    """The problem in which stretches of bytes replace the storages of groups.

    A group maps storages to their places. A stretch is named by its bytes of the first storage over
    it, in the order of the problem. The second value is True if every stretch is live without a
    pause in every order. A stretch that may pause gets the lifespan of one storage over it, so that
    it is never live too long.
    """
    row = {name: k for k, name in enumerate(ordering.storages)}
    size = dict(zip(row, ordering.size.tolist(), strict=True))
    groups = list(groups)
    inside = {name for places in groups for name in places}
    alone = [k for name, k in row.items() if name not in inside]
    sizes = [int(ordering.size[k]) for k in alone]
    accessed = [ordering.accessed_by[k] for k in alone]
    present = [bool(ordering.present[k]) for k in alone]
    kept = [bool(ordering.kept[k]) for k in alone]
    names, known = [ordering.storages[k] for k in alone], set(ordering.storages)
    whole = True
    for places in groups:
        places = {name: places[name] for name in sorted(places, key=row.__getitem__)}
        for begin, end, over in _stretches(places, size):
            first = places[over[0]]
            name = f"{over[0]}[{begin - first}:{end - first}]"
            while name in known:
                name += "'"
            known.add(name)
            rows = [row[name] for name in over]
            if not _connected([ordering.accessed_by[k] for k in rows]):
                whole = False
                rows = [max(rows, key=lambda k: (len(ordering.accessed_by[k]), -k))]
            sizes.append(end - begin)
            accessed.append(tuple(sorted({op for k in rows for op in ordering.accessed_by[k]})))
            present.append(any(ordering.present[k] for k in rows))
            kept.append(any(ordering.kept[k] for k in rows))
            names.append(name)
    problem = replace(
        ordering,
        size=np.array(sizes, np.int64),
        accessed_by=tuple(accessed),
        present=np.array(present, bool),
        kept=np.array(kept, bool),
        storages=tuple(names),
    )
    return problem, whole


def _savings(candidates: Iterable[AliasCandidate]) -> dict[str, tuple[int, int]]:
    """Storage -> the op that may write it in place, and the most bytes that this saves."""
    savings: dict[str, tuple[int, int]] = {}
    for candidate in candidates:
        if candidate.in_place:
            saved = max(candidate.end - candidate.begin, savings.get(candidate.inner, (0, 0))[1])
            savings[candidate.inner] = candidate.op, saved
    return savings


def _stretches(
    places: Mapping[str, int], size: Mapping[str, int]
) -> Iterable[tuple[int, int, list[str]]]:
    """The stretches of a group, with the storages that lie over each."""
    extent = {name: (place, place + size[name]) for name, place in places.items()}
    cuts = sorted({edge for edges in extent.values() for edge in edges})
    over: dict[int, list[str]] = defaultdict(list)
    position = {cut: k for k, cut in enumerate(cuts)}
    for name, (begin, end) in extent.items():
        for k in range(position[begin], position[end]):
            over[k].append(name)
    for k, names in sorted(over.items()):
        yield cuts[k], cuts[k + 1], names


def _connected(accessed: Sequence[Sequence[int]]) -> bool:
    """True if common ops connect the storages: their union is then live without a pause.

    That holds in every order. O(accesses).
    """
    by_op: dict[int, list[int]] = defaultdict(list)
    for k, ops in enumerate(accessed):
        for op in ops:
            by_op[op].append(k)
    reached, waiting = {0}, [0]
    while waiting:
        for op in accessed[waiting.pop()]:
            for other in by_op.pop(op, ()):
                if other not in reached:
                    reached.add(other)
                    waiting.append(other)
    return len(reached) == len(accessed)


def _none_better(candidates: Sequence[AliasCandidate], alias_sets: AliasSets) -> bool:
    """True if all placements are in force, and all results that can be in place are.

    The layout then has all placements, as ``cpplan.aliasing.bounds`` assumes, and every result that
    an op can write over an input is written over one. So no choice saves more at any step of any
    order.
    """
    used = set(alias_sets.candidates)
    placed = all(candidate in used for candidate in candidates if not candidate.in_place)
    saved = {
        candidate.inner: candidate.end - candidate.begin for candidate in used if candidate.in_place
    }
    return placed and all(
        saved.get(candidate.inner, -1) >= candidate.end - candidate.begin
        for candidate in candidates
        if candidate.in_place
    )
