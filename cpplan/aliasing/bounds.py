"""A lower bound on the live bytes of a step, for every choice of candidates.

Assume all placements at once, even if they exclude each other. At any step, the live storages then
cover no more bytes than in any plan: a plan that uses fewer placements only moves storages apart.
In addition, an op may write a result over an input that it is the last to read: the sizes of such
results are subtracted at the op's step only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from cpplan.aliasing.alias_candidates import AliasCandidate
from cpplan.aliasing.lives import ProgramLives
from cpplan.model.problem import Problem
from cpplan.packing.bounds import Bound

NAME = "live bytes, shared"


def shared_bound(
    problem: Problem,
    candidates: Sequence[AliasCandidate],
    lives: ProgramLives,
    poll: Callable[[], object] = lambda: None,
) -> Bound:
    """A lower bound on the peak of every plan at this order, whichever candidates it uses.

    ``poll`` is called for every group of storages that placements join, and may raise.
    O(n log n + candidates × storages that placements join).
    """
    row = {name: k for k, name in enumerate(problem.names)}
    groups = placement_groups([candidate for candidate in candidates if not candidate.in_place])
    grouped = {root for places in groups for root in places}
    times = np.unique(np.concatenate([problem.lower, problem.upper]))
    change = np.zeros(len(times), np.int64)
    spans = problem.spans
    alone = ~np.isin(spans.buffer, [row[name] for name in grouped])
    held = (spans.end - spans.begin)[alone]
    np.add.at(change, np.searchsorted(times, spans.lower[alone]), held)
    np.subtract.at(change, np.searchsorted(times, spans.upper[alone]), held)
    for places in groups:
        poll()
        rows = [row[name] for name in places]
        here = np.unique(np.concatenate([problem.lower[rows], problem.upper[rows]]))
        covered = _covered(problem, row, places, here)
        change[np.searchsorted(times, here)] += np.diff(covered, prepend=0)
    live = np.cumsum(change)
    for step, size in _credits(candidates, lives).items():
        live[np.searchsorted(times, step)] -= size
    if not len(live):
        return Bound(0, NAME, None)
    k = int(np.argmax(live))
    return Bound(int(live[k]), NAME, int(times[k]))


def _credits(candidates: Sequence[AliasCandidate], lives: ProgramLives) -> Mapping[int, int]:
    """Step -> bytes of its op's results that may be written over inputs that it reads last."""
    saved: dict[str, tuple[int, int]] = {}
    for candidate in candidates:
        if candidate.in_place and lives.hands_over(candidate.outer, candidate.inner, candidate.op):
            size = max(candidate.end - candidate.begin, saved.get(candidate.inner, (0, 0))[1])
            saved[candidate.inner] = lives.step[candidate.op], size
    at: dict[int, int] = defaultdict(int)
    for step, size in saved.values():
        at[step] += size
    return at


def placement_groups(
    placements: Iterable[AliasCandidate],
) -> list[dict[str, int] | dict[str, None]]:
    """Groups of storages that placements join, with their relative places, bytes.

    If the placements of a group contradict each other, its places are ``None``.
    """
    neighbours: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for candidate in placements:
        neighbours[candidate.outer].append((candidate.inner, candidate.shift))
        neighbours[candidate.inner].append((candidate.outer, -candidate.shift))
    seen: set[str] = set()
    groups: list[dict[str, int] | dict[str, None]] = []
    for start in neighbours:
        if start in seen:
            continue
        places, stack, agreed = {start: 0}, [start], True
        while stack:
            root = stack.pop()
            for other, shift in neighbours[root]:
                if other not in places:
                    places[other] = places[root] + shift
                    stack.append(other)
                agreed &= places[other] == places[root] + shift
        seen.update(places)
        groups.append(places if agreed else dict.fromkeys(places))
    return groups


def _covered(
    problem: Problem,
    row: Mapping[str, int],
    places: Mapping[str, int] | Mapping[str, None],
    times: np.ndarray,
) -> np.ndarray:
    """Bytes that the live storages of a group cover, from each time to the next."""
    covered = np.zeros(len(times), np.int64)
    rows = [row[name] for name in places]
    lower = np.searchsorted(times, problem.lower[rows])
    upper = np.searchsorted(times, problem.upper[rows])
    size = problem.size[rows]
    if None in places.values():
        # The group covers at least its largest live storage.
        for k in np.argsort(size, kind="stable"):
            covered[lower[k] : upper[k]] = size[k]
        return covered
    begin = np.array(list(places.values()), np.int64)
    cuts = np.unique(np.concatenate([begin, begin + size]))
    low, high = np.searchsorted(cuts, begin), np.searchsorted(cuts, begin + size)
    # A stretch of bytes between two cuts is live while any storage over it is.
    stretches: list[list[int]] = [[] for _ in range(len(cuts) - 1)]
    for k in range(len(rows)):
        for stretch in range(low[k], high[k]):
            stretches[stretch].append(k)
    for stretch, over in enumerate(stretches):
        length = int(cuts[stretch + 1] - cuts[stretch])
        end = 0
        for k in sorted(over, key=lambda k: (int(lower[k]), k)):
            start = max(end, int(lower[k]))
            if start < upper[k]:
                covered[start : upper[k]] += length
                end = int(upper[k])
    return covered
