"""Every program of a small graph with views, from the definitions: what it costs, what it holds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

from cpplan import Graph, Op, Residency, Tensor, to_anf
from cpplan.program.liveness import to_problem


def graph_with_views(seed: int, ops: int) -> Graph:
    """Many views with a cost of their own, some outputs, some edges that carry no bytes."""
    rng = random.Random(seed)
    tensors: list[Tensor] = []
    made: list[Op] = []
    root: dict[str, Tensor] = {}
    for k in range(ops):
        kind = "output" if rng.random() < 0.15 else "intermediate"
        if root and rng.random() < 0.35:
            read: tuple[str, ...] = (rng.choice(list(root)),)
            base = root[read[0]]
            result = Tensor(f"v{k}", base.nbytes, kind=kind, view_of=(base.name, 0))
            root[result.name] = base
        else:
            known = list(root)
            read = tuple(rng.sample(known, min(len(known), rng.choice((1, 1, 2)))))
            result = root[f"t{k}"] = Tensor(f"t{k}", rng.randint(2, 8), kind=kind)
        tensors.append(result)
        after = (made[-1].name,) if made and rng.random() < 0.12 else ()
        made.append(
            Op(
                f"op{k}",
                inputs=read,
                outputs=(result.name,),
                cost=rng.choice((0, 1, 1, 3, 7)),
                recomputable=rng.random() < 0.92,
                after=after,
            )
        )
    return Graph("views", tuple(tensors), tuple(made))


def programs(graph: Graph, repeats: int, most: int) -> list[tuple[int, float, list[str]]]:
    """Live bytes, cost and order of up to ``most`` programs with up to ``repeats`` repetitions."""
    found = []
    for order in islice(_orders(graph, repeats), most):
        names = [graph.ops[k].name for k in order]
        live = to_problem(to_anf(graph, names), Residency()).live_bytes().max(initial=0)
        found.append((int(live), sum(graph.ops[k].cost for k in order), names))
    return found


def _orders(graph: Graph, repeats: int) -> Iterator[list[int]]:
    longest = len(graph.ops) + repeats

    def extend(order: list[int]) -> Iterator[list[int]]:
        done = set(order)
        if len(done) == len(graph.ops):
            yield order
        for op in range(len(graph.ops)):
            may = graph.ops[op].recomputable and order[-1:] != [op]
            room = len(order) + len(graph.ops) - len(done) < longest
            if (op not in done or (may and room)) and done.issuperset(graph.predecessors[op]):
                yield from extend([*order, op])

    return extend([])
