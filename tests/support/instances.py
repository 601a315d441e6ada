"""Named problems and graphs, each with the reason it exists."""

from __future__ import annotations

import random

import numpy as np

from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.problem import Gap, Problem


def triangle() -> Problem:
    """Live bytes 2, optimum 3: any two of three buffers meet, but never all three.

    ``a`` rests during step 1, where ``b`` and ``c`` meet; so no two may share a byte.
    """
    return Problem(
        ("a", "b", "c"),
        lower=np.array([0, 0, 1]),
        upper=np.array([3, 2, 3]),
        size=np.array([1, 1, 1]),
        gaps={0: [Gap(1, 2)]},
    )


def chain(count: int = 6, size: int = 8) -> Problem:
    """Each buffer meets the next only: two of them fill the arena, and every heuristic finds it."""
    steps = np.arange(count)
    names = tuple(f"t{k}" for k in steps)
    return Problem(names, lower=steps, upper=steps + 2, size=np.full(count, size))


def stubborn() -> Problem:
    """1200 buffers of random sizes, some 400 live at once: no bound is met within minutes."""
    rng = random.Random(0)
    middle = [rng.randrange(1200) for _ in range(1200)]
    reach = [1 + int(rng.expovariate(1 / 200)) for _ in middle]
    return Problem(
        tuple(f"b{k}" for k in range(len(middle))),
        lower=[max(0, m - r) for m, r in zip(middle, reach, strict=True)],
        upper=[min(1200, m + r) for m, r in zip(middle, reach, strict=True)],
        size=[rng.randrange(1, 1 << 20) for _ in middle],
    )


def perfect_packing(seed: int, count: int, *, steps: int = 400, height: int = 4096) -> Problem:
    """Rectangles cut from one by guillotine: the optimum is ``height``, and no byte is ever free.

    Greedy heuristics miss it, so that the exact stages have to run.
    """
    rng = random.Random(seed)
    pieces = [(0, steps, 0, height)]
    while len(pieces) < count:
        lower, upper, begin, end = pieces.pop(_largest(pieces))
        if (upper - lower) * height > (end - begin) * steps and upper - lower > 1:
            cut = rng.randint(lower + 1, upper - 1)
            pieces += [(lower, cut, begin, end), (cut, upper, begin, end)]
        else:
            cut = rng.randint(begin + 1, end - 1)
            pieces += [(lower, upper, begin, cut), (lower, upper, cut, end)]
    rng.shuffle(pieces)
    table = np.array(pieces)
    return Problem(
        tuple(f"b{k}" for k in range(count)),
        lower=table[:, 0],
        upper=table[:, 1],
        size=table[:, 3] - table[:, 2],
    )


def _largest(pieces: list[tuple[int, int, int, int]]) -> int:
    areas = [(upper - lower) * (end - begin) for lower, upper, begin, end in pieces]
    return areas.index(max(areas))


def side_by_side() -> Graph:
    """While u, 8 B of its own, runs, the 2 B that a reads are live or the 3 B that it writes."""
    tensors = (
        Tensor("s", 2),
        Tensor("t", 3),
        Tensor("space", 8, kind="workspace"),
        Tensor("y", 1, kind="output"),
    )
    ops = (
        Op("start", outputs=("s",)),
        Op("a", inputs=("s",), outputs=("t",)),
        Op("u", workspaces=("space",), after=("start",)),
        Op("end", inputs=("t",), outputs=("y",), after=("u",)),
    )
    return Graph("side by side", tensors, ops)
