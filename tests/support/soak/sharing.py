"""In place and placement: every layout in which an op may write over what it reads, or copies."""

from __future__ import annotations

import random
from dataclasses import replace

from support.sharing_oracle import least_peak

from cpplan import Graph, Op, Placement, Plan, Tensor, simulate, solve, verify
from cpplan.model.errors import VerificationError

from .case import Case, python_of
from .packing import arguments, false_peak
from .runs import orders, storage_of


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
        bare = without_empty_views(graph)
        given = [tuple(range(len(graph.ops)))]
        allowed = list(orders(graph)) if "order" in options else given
        # Between the two lies what an empty view keeps of the storage that it lies in.
        lowest = min(least_peak(bare, order) for order in allowed)
        highest = lowest
        if bare != graph:
            highest = min(least_peak(graph, order) for order in allowed)
        wrong = []
        if plan.peak != highest:
            wrong = false_peak(plan, lowest)
            if lowest < highest and plan.peak is not None and plan.peak < lowest:
                wrong.append(f"assert plan.peak >= {lowest}")
        elif plan.lower_bound is not None and plan.lower_bound > highest:
            wrong = false_peak(plan, highest)
        if lowest < highest and "order" not in options:
            wrong += _passing_below(graph, bare, plan)
        return wrong

    return Case(lines, false)


def _passing_below(graph: Graph, bare: Graph, plan: Plan) -> list[str]:
    """An assertion if a plan below the bound, made without the empty views, passes ``verify``."""
    below = solve(bare, in_place=True, deterministic=True, time_limit=3.0)
    gone = {t.name for t in graph.tensors} - {t.name for t in bare.tensors}
    views = dict(below.views)
    for name in gone:
        if name in plan.views:
            root = storage_of(graph, name)
            base, start = below.views.get(root, (root, 0))
            views[name] = base, start + _offset_within(graph, name)
    passing = replace(below, views=views, inputs=plan.inputs, outputs=plan.outputs)
    try:
        verify(graph, passing)
        simulate(graph, passing)
    except VerificationError:
        return []
    if plan.lower_bound is None or plan.lower_bound <= (passing.peak or 0):
        return []
    return [
        f"assert plan.lower_bound <= {passing.peak}  # {plan.lower_bound}, but a plan of "
        f"{passing.peak} B passes verify and simulate: {passing.relations}"
    ]


def _offset_within(graph: Graph, name: str) -> int:
    tensors, offset = {t.name: t for t in graph.tensors}, 0
    while (view := tensors[name].view_of) is not None:
        name, offset = view[0], offset + view[1]
    return offset


def without_empty_views(graph: Graph) -> Graph:
    """The graph without the views that hold no byte; no op reads or writes them."""
    gone = {t.name for t in graph.tensors if t.view_of is not None and t.size == 0}

    def kept(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if name not in gone)

    ops = tuple(
        replace(
            op,
            inputs=kept(op.inputs),
            outputs=kept(op.outputs),
            in_place=tuple(pair for pair in op.in_place if gone.isdisjoint(pair)),
            placements=tuple(p for p in op.placements if gone.isdisjoint(p[:2])),
        )
        for op in graph.ops
    )
    return Graph(graph.name, tuple(t for t in graph.tensors if t.name not in gone), ops)


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
