"""Random problems and graphs for the soak, small enough for brute force."""

from __future__ import annotations

import random

from cpplan import Graph, Op, Pool, Problem, Tensor
from cpplan.model.problem import Gap


def random_problem(rng: random.Random, most: int, *, fixed: bool = True) -> Problem:
    """Up to ``most`` buffers with gaps, windows, alignments, zero sizes, now and then fixed."""
    count, steps = rng.randint(0, most), rng.randint(1, 7)
    lower = [rng.randrange(steps) for _ in range(count)]
    upper = [rng.randint(low + 1, steps) for low in lower]
    large = rng.choice([3, 6, 9])
    size = [rng.randint(0, large) for _ in range(count)]
    units = rng.choice([(1,), (1, 1, 2, 4), (1, 2, 3, 5), (4, 8)])
    alignment = [rng.choice(units) for _ in range(count)]
    gaps = {}
    if rng.random() < 0.6:
        for row in range(count):
            if rng.random() < 0.4:
                gaps[row] = _gaps(rng, lower[row], upper[row], size[row])
    wanted = {}
    if fixed and rng.random() < 0.2 and count:
        row = rng.randrange(count)
        wanted[row] = alignment[row] * rng.randint(0, 3)
    names = tuple(f"b{row}" for row in range(count))
    return Problem(names, lower, upper, size, alignment, gaps, wanted)


def _gaps(rng: random.Random, lower: int, upper: int, size: int) -> list[Gap]:
    found, step = [], lower
    while step < upper and len(found) < 4:
        begin = rng.randint(step, upper)
        end = rng.randint(begin, upper)
        if begin < end:
            windows = [sorted(rng.randint(0, size) for _ in range(2))]
            if rng.random() < 0.3 and windows[0][1] < size:
                windows.append(sorted(rng.randint(windows[0][1], size) for _ in range(2)))
            if rng.random() < 0.4:
                windows = [[0, 0]]
            found += [Gap(begin, end, *window) for window in windows]
        step = end + 1
    return found


def random_graph(
    rng: random.Random, ops: int, *, views: bool = True, largest: int = 6, costs: bool = False
) -> Graph:
    """Ops with several outputs, workspaces, unread results, views (empty too), side effects."""
    units = rng.choice([(1,), (1, 1, 2, 4)])
    tensors = [
        Tensor(f"x{k}", rng.randint(0, largest), kind="input", alignment=rng.choice(units))
        for k in range(rng.randint(0, 2))
    ]
    made: list[Op] = []
    for k in range(ops):
        readable = [t for t in tensors if t.kind != "workspace"]
        read = rng.sample(readable, min(len(readable), rng.randint(0, 3)))
        if views and read and rng.random() < 0.25:
            begin, end = sorted(rng.randint(0, read[0].size or 0) for _ in range(2))
            tensors.append(Tensor(f"v{k}", end - begin, view_of=(read[0].name, begin)))
            made.append(Op(f"o{k}", "view", (read[0].name,), (f"v{k}",)))
            continue
        outputs = [
            Tensor(f"t{k}{letter}", rng.randint(0, largest), alignment=rng.choice(units))
            for letter in "ab"[: rng.choice([1, 1, 2])]
        ]
        spaces = [Tensor(f"s{k}", rng.randint(1, largest), kind="workspace")]
        spaces = spaces[: rng.random() < 0.2]
        made.append(
            Op(
                f"o{k}",
                "op",
                tuple(t.name for t in read),
                tuple(t.name for t in outputs),
                tuple(t.name for t in spaces),
                cost=rng.randint(1, 4) if costs else 1,
                recomputable=not costs or rng.random() < 0.8,
                after=(rng.choice(made).name,) if made and rng.random() < 0.1 else (),
                sequence="effects" if rng.random() < 0.1 and not costs else None,
            )
        )
        tensors += [*outputs, *spaces]
    read_names = {name for op in made for name in op.inputs}
    tensors = [
        _as_output(t)
        if t.kind == "intermediate" and rng.random() < (0.1 if t.name in read_names else 0.6)
        else t
        for t in tensors
    ]
    return Graph("soak", tuple(tensors), tuple(made))


def _as_output(tensor: Tensor) -> Tensor:
    return Tensor(
        tensor.name,
        tensor.size,
        kind="output",
        alignment=tensor.alignment,
        view_of=tensor.view_of,
    )


def random_pools(rng: random.Random) -> tuple[Pool, ...]:
    """Two or three pools, some too small for all, with costs that add up exactly."""
    return tuple(
        Pool(
            f"p{k}",
            rng.choice([None, rng.randint(0, 12), rng.randint(0, 12)]),
            rng.choice([1, 1, 2, 4]),
            cost_per_byte=rng.choice([0, 1, 2, 0.5]),
            read_bandwidth=rng.choice([None, 1, 2, 4]),
            write_bandwidth=rng.choice([None, 1, 2]),
            read_latency=rng.choice([0, 1, 2.5]),
            write_latency=rng.choice([0, 1]),
        )
        for k in range(rng.randint(2, 3))
    )
