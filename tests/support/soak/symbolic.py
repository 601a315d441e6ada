"""Symbolic shapes: a plan at the bounds, checked at every value below them."""

from __future__ import annotations

import random
from itertools import product

from cpplan import Graph, Op, Tensor, simulate, solve, verify
from cpplan.model.symbols import Symbols

from .boxes import apart, least_height
from .case import Case
from .packing import arguments, false_peak
from .runs import live_boxes, orders

BOUNDS = {"n": (1, 4), "m": (0, 3)}
# Each variable once, so that bounds by intervals are exact.
EXTENTS = ("1", "3", "n", "m", "n + 1", "2*n", "n + m", "max(n, m)", "(n + 1)//2", "5 - n", "n*m")


def points() -> list[dict[str, int]]:
    """Every value of the variables."""
    ranges = [range(low, high + 1) for low, high in BOUNDS.values()]
    return [dict(zip(BOUNDS, values, strict=True)) for values in product(*ranges)]


def value_at(extent: str, point: dict[str, int]) -> int:
    """An extent at values of the variables, by Python's own arithmetic."""
    return int(eval(extent, {"__builtins__": {}, "max": max}, dict(point)))


def random_symbolic(rng: random.Random, most: int) -> tuple[str, dict[str, str]]:
    """A graph of symbolic sizes as Python, and the extent of each tensor."""
    extents: dict[str, str] = {}
    tensors, ops = [], []

    def add(name: str, kind: str) -> str:
        extents[name] = rng.choice(EXTENTS)
        tensors.append(f"Tensor({name!r}, shape=({extents[name]!r},), dtype='int8', kind={kind!r})")
        return name

    readable = [add("x", "input")]
    for k in range(rng.randint(1, most)):
        read = tuple(rng.sample(readable, min(len(readable), rng.randint(0, 2))))
        kind = rng.choice(["intermediate", "intermediate", "output"])
        made = tuple(add(f"t{k}{c}", kind) for c in "ab"[: rng.randint(1, 2)])
        spaces = tuple(add(f"s{k}", "workspace") for _ in range(rng.random() < 0.2))
        ops.append(f"Op('o{k}', 'op', {read!r}, {made!r}, {spaces!r})")
        readable += made
    text = f"Graph('soak', ({', '.join(tensors)},), ({', '.join(ops)},), Symbols({BOUNDS!r}))"
    return text, extents


def graph_of(text: str) -> Graph:
    """The graph that this Python makes."""
    graph = eval(text, {"Graph": Graph, "Tensor": Tensor, "Op": Op, "Symbols": Symbols})
    assert isinstance(graph, Graph)
    return graph


def symbolic(rng: random.Random) -> Case:
    """A plan at the bounds."""
    text, extents = random_symbolic(rng, 4)
    options = {"order": rng.choice(["given", "search"]), "deterministic": True, "time_limit": 3.0}
    lines = f"graph = {text}", f"plan = solve(graph, {arguments(options)})"

    def false() -> list[str]:
        graph = graph_of(text)
        plan = solve(graph, **options)
        everywhere = points()
        largest = {n: max(value_at(e, p) for p in everywhere) for n, e in extents.items()}
        given = tuple(range(len(graph.ops)))
        allowed = [given] if options["order"] == "given" else list(orders(graph))
        least: int | None = None
        for one in allowed:
            most = None if least is None else least - 1
            found = least_height(live_boxes(graph, one, largest), most)
            least = least if found is None else found
        wrong = false_peak(plan, least)
        number = {op.name: k for k, op in enumerate(graph.ops)}
        order = [number[name] for name in plan.order]
        for point in everywhere:
            verify(graph, plan, dims=point)
            here = plan.at(point).plan_at
            assert here.offset is not None
            at = dict(zip(here.buffers, here.offset.tolist(), strict=True))
            boxes = live_boxes(graph, order, {n: value_at(e, point) for n, e in extents.items()})
            broken = apart(boxes, [at[box.name] for box in boxes])
            peak = max(at[box.name] + box.size for box in boxes)
            if broken is not None:
                wrong.append(f"assert plan.at({point}) is None  # {broken}")
            elif here.peak is None or not peak <= here.peak <= (plan.peak or 0):
                wrong.append(f"assert plan.at({point}).peak == {peak}  # {here.peak}")
        simulate(graph, plan, dims=random.Random(text).choice(everywhere))
        return wrong

    return Case(lines, false)
