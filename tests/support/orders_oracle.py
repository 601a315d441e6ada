"""The least pressure over all orders of a small graph, from the definitions alone."""

from __future__ import annotations

import random
from functools import cache

import numpy as np

from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.order_problem import OrderProblem


def least_pressure(graph: Graph) -> int:
    """By dynamic programming over sets of ops; inputs reusable, outputs kept; no bodies."""
    ops = graph.ops
    users: dict[str, set[int]] = {}
    for k, op in enumerate(ops):
        for name in op.tensors:
            users.setdefault(graph.root[name][0], set()).add(k)
    born = {name for op in ops for name in op.outputs + op.workspaces}
    kept = {graph.root[t.name][0] for t in graph.tensors if t.kind == "output"}
    arena = [t for t in graph.tensors if t.view_of is None and t.kind != "constant"]
    idle = sum(t.nbytes for t in arena if t.name not in users and t.name in kept)
    entry = sum(t.nbytes for t in arena if t.name not in users and t.name not in kept)

    def live(done: frozenset[int], op: int) -> int:
        """Bytes live while ``op`` runs after ``done``."""
        total = idle + (0 if done else entry)
        for tensor in arena:
            used = users.get(tensor.name, set())
            if not used:
                continue
            began = tensor.name not in born or used & (done | {op})
            ended = tensor.name not in kept and used <= done
            if began and not ended:
                total += tensor.nbytes
        return total

    @cache
    def best(done: frozenset[int]) -> int:
        """The least peak of what is still to run."""
        ready = [
            k for k in range(len(ops)) if k not in done and done.issuperset(graph.predecessors[k])
        ]
        return min((max(live(done, k), best(done | {k})) for k in ready), default=idle)

    return best(frozenset())


def random_graph(seed: int, count: int) -> Graph:
    """A DAG of ``count`` ops with several outputs, views, workspaces, shared inputs and outputs."""
    rng = random.Random(seed)
    tensors = [Tensor(f"x{k}", rng.randint(0, 9), kind="input") for k in range(rng.randint(0, 2))]
    constants = [Tensor("w", 5, kind="constant")]
    ops = []
    for k in range(count):
        known = [t for t in tensors if t.kind != "workspace"]
        inputs = rng.sample(known, min(len(known), rng.randint(0, 3)))
        view = bool(inputs) and inputs[0].nbytes > 0 and rng.random() < 0.2
        outputs, spaces = [], []
        if view:
            base = inputs[0]
            size = rng.randint(1, base.nbytes)
            at = rng.randint(0, base.nbytes - size)
            outputs.append(Tensor(f"v{k}", size, view_of=(base.name, at)))
        else:
            for j in range(rng.randint(1, 2)):
                kind = "output" if rng.random() < 0.15 else "intermediate"
                outputs.append(Tensor(f"t{k}_{j}", rng.randint(0, 12), kind=kind))
            if rng.random() < 0.3:
                spaces.append(Tensor(f"s{k}", rng.randint(1, 9), kind="workspace"))
        read = [t.name for t in inputs] + (["w"] if rng.random() < 0.3 else [])
        ops.append(
            Op(
                f"op{k}",
                inputs=tuple(read),
                outputs=tuple(t.name for t in outputs),
                workspaces=tuple(t.name for t in spaces),
                after=(ops[-1].name,) if ops and rng.random() < 0.05 else (),
            )
        )
        tensors += outputs + spaces
    return Graph(f"random {seed}", (*constants, *tensors), tuple(ops))


def layered(seed: int, layers: int, width: int) -> OrderProblem:
    """Layers of ops, each reading a few results of those before: many orders, few good ones."""
    rng = random.Random(seed)
    predecessors: list[tuple[int, ...]] = []
    readers: list[list[int]] = []
    for layer in range(layers):
        for _ in range(width):
            op = len(predecessors)
            pool = range(max(0, (layer - 2) * width), layer * width)
            before = sorted(rng.sample(pool, min(len(pool), rng.randint(1, 3)))) if pool else []
            predecessors.append(tuple(before))
            readers.append([op])
            for other in before:
                readers[other].append(op)
    count = len(predecessors)
    return OrderProblem(
        predecessors=tuple(predecessors),
        extra=np.zeros(count, np.int64),
        size=np.array([rng.randint(1, 100) for _ in range(count)]),
        accessed_by=tuple(map(tuple, readers)),
        present=np.zeros(count, bool),
        kept=np.zeros(count, bool),
    )
