"""Several sizes: one layout for all of them, against first fit in every order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import permutations

from cpplan import plan_sizes, verify

from .boxes import Box, TooLargeError, clash
from .case import Case
from .packing import arguments
from .runs import live_boxes
from .symbolic import graph_of, points, random_symbolic, value_at

_MOST = 6  # buffers


def sizes(rng: random.Random) -> Case:
    """A graph planned for one to three sizes."""
    text, extents = random_symbolic(rng, 2)
    chosen = rng.sample(points(), rng.randint(1, 3))
    options = {"prefix_stable": True, "deterministic": True, "time_limit": 3.0}
    lines = (
        f"graph = {text}",
        f"found = plan_sizes(graph, {chosen!r}, {arguments(options)})",
    )

    def false() -> list[str]:
        graph = graph_of(text)
        found = plan_sizes(graph, chosen, **options)
        verify(graph, found.plan)
        order = tuple(range(len(graph.ops)))
        at = [
            live_boxes(graph, order, {n: value_at(e, point) for n, e in extents.items()})
            for point in chosen
        ]
        number = {size.label: k for k, size in enumerate(found.sizes)}
        by_values = [chosen.index(dict(size.values)) for size in found.sizes]
        arenas = list(_arenas(at))

        def value(arena: tuple[int, ...], name: str) -> int:
            if name == "largest arena":
                return max(arena)
            return arena[by_values[number[name.removeprefix("arena at ")]]]

        names = [level.name for level in found.levels]
        best = min(tuple(value(arena, name) for name in names) for arena in arenas)
        shown = tuple(level.value for level in found.levels)
        bound = tuple(level.bound for level in found.levels)
        wrong = []
        if shown < best:
            wrong.append(f"assert tuple(level.value for level in found.levels) >= {best}")
        if bound > best:
            wrong.append(f"assert tuple(level.bound for level in found.levels) <= {best}")
        if found.status == "optimal" and shown != best:
            wrong.append(f"assert tuple(level.value for level in found.levels) == {best}")
        return wrong

    return Case(lines, false)


def _arenas(at: list[list[Box]]) -> Iterator[tuple[int, ...]]:
    """The arenas at every size of all layouts that nothing can be moved down in."""
    rows = range(len(at[0]))
    if len(rows) > _MOST:
        raise TooLargeError
    sizes = [max(boxes[row].size for boxes in at) for row in rows]
    # Distances at which two clash at some size: together they are one interval around 0.
    between = {
        (one, other): {
            distance
            for distance in range(-sizes[other], sizes[one] + 1)
            if any(clash(boxes[one], boxes[other], distance) for boxes in at)
        }
        for one in rows
        for other in rows
    }
    for order in permutations(rows):
        offset: dict[int, int] = {}
        for row in order:
            place = 0
            while any(place - there in between[other, row] for other, there in offset.items()):
                place += 1
            offset[row] = place
        yield tuple(max(offset[k] + box.size for k, box in enumerate(boxes)) for boxes in at)
