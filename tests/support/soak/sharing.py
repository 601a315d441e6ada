"""In place and placement: every layout in which an op may write over what it reads, or copies."""

from __future__ import annotations

import random
from dataclasses import replace

from support.sharing_oracle import least_peak

from cpplan import Graph, Op, Placement, Tensor, simulate, solve, verify

from .case import Case, python_of
from .packing import arguments, false_peak
from .runs import orders, without_empty


def sharing(rng: random.Random) -> Case:
    """A graph that may share bytes, at one order or the best."""
    graph = random_sharing(rng, rng.randint(1, 5))
    options = {"in_place": True, "deterministic": True, "time_limit": 3.0}
    if len(graph.ops) <= 4 and rng.random() < 0.4:
        options["order"] = "search"
    lines = f"graph = {python_of(graph)}", f"plan = solve(graph, {arguments(options)})"

    def false() -> list[str]:
        plan = solve(graph, **options)
        verify(graph, plan)
        simulate(graph, plan)
        full = without_empty(graph)
        given = [tuple(range(len(graph.ops)))]
        allowed = list(orders(graph)) if "order" in options else given
        return false_peak(plan, min(least_peak(full, order) for order in allowed))

    return Case(lines, false)


def random_sharing(rng: random.Random, ops: int) -> Graph:
    """Element-wise ops, sums, concatenations, splits, views and plain ops; empty tensors too."""
    least = rng.choice([0, 1])
    tensors = [
        Tensor(f"x{k}", rng.randint(least, 3), kind="input") for k in range(rng.randint(1, 2))
    ]
    made: list[Op] = []

    def add(size: int, **more: object) -> str:
        tensors.append(Tensor(f"t{len(tensors)}", size, **more))  # type: ignore[arg-type]
        return tensors[-1].name

    for k in range(ops):
        readable = [t for t in tensors if t.kind != "workspace"]
        x = rng.choice(readable)
        size = x.size or 0
        kind = rng.choice(
            ["unary", "unary", "binary", "concat", "split", "plain", *["view"] * (2 - least)]
        )
        if kind == "unary":
            made.append(Op(f"o{k}", kind, (x.name,), (y := add(size),), in_place=((y, x.name),)))
        elif kind == "binary":
            other = rng.choice([t for t in readable if t.size == size])
            y = add(size)
            pairs = tuple((y, name) for name in dict.fromkeys((x.name, other.name)))
            pairs = pairs[: rng.randint(1, 2)]
            made.append(Op(f"o{k}", kind, (x.name, other.name), (y,), in_place=pairs))
        elif kind == "concat":
            parts = rng.sample(readable, min(len(readable), rng.randint(1, 3)))
            while sum(part.size or 0 for part in parts) > 6:
                parts.pop()
            places, end = [], 0
            y = add(sum(part.size or 0 for part in parts))
            for part in parts:
                places.append(Placement(part.name, y, end))
                end += part.size or 0
            names = tuple(part.name for part in parts)
            made.append(Op(f"o{k}", kind, names, (y,), placements=tuple(places)))
        elif kind == "split" and size >= max(1, 2 * least):
            cut = rng.randint(least, size - least)
            y, z = add(cut), add(size - cut)
            places = [Placement(y, x.name, 0), Placement(z, x.name, cut)]
            made.append(Op(f"o{k}", kind, (x.name,), (y, z), placements=tuple(places)))
        elif kind == "view" and size >= least:
            length = rng.randint(least, size)
            y = add(length, view_of=(x.name, rng.randint(0, size - length)))
            made.append(Op(f"o{k}", kind, (x.name,), (y,)))
        else:
            spaces = (add(rng.randint(1, 2), kind="workspace"),) if rng.random() < 0.2 else ()
            made.append(Op(f"o{k}", "plain", (x.name,), (add(rng.randint(least, 3)),), spaces))
    read = {name for op in made for name in op.inputs}
    produced = {name for op in made for name in op.outputs}
    shown = [
        replace(t, kind="output") if t.name in produced and rng.random() < _shown(t, read) else t
        for t in tensors
    ]
    return Graph("soak", tuple(shown), tuple(made))


def _shown(tensor: Tensor, read: set[str]) -> float:
    """The chance that a result is an output; of empty views it is high, read or not."""
    if tensor.name not in read:
        return 0.8
    return 0.5 if tensor.view_of is not None and not tensor.size else 0.15
