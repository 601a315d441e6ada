"""``solve`` with sharing where ops write several outputs, some of them views of one another."""

from __future__ import annotations

import random

import pytest
from support.cases import seeds

from cpplan import Graph, Op, Pool, Tensor, simulate, solve
from cpplan.model.graph import Placement

OPTIONS = (
    {},
    {"order": "search"},
    {"pools": (Pool("sram", capacity=8), Pool("dram"))},
    {"inputs": "keep", "outputs": "outside"},
)


def random_results(seed: int) -> Graph:
    """Ops that write up to three tensors, views of one another or not, and scratch."""
    rng = random.Random(seed)
    tensors = [Tensor(f"x{k}", rng.randint(0, 6), kind="input") for k in range(2)]
    ops: list[Op] = []

    def add(bases: list[Tensor], kind: str) -> Tensor:
        name, size = f"t{len(tensors)}", rng.choice([0, 1, 2, 4, rng.choice(tensors).nbytes])
        if bases and rng.random() < 0.5:
            base = rng.choice(bases)
            at = rng.randint(0, base.nbytes)
            most = base.nbytes - at
            view = (base.name, at)
            tensors.append(Tensor(name, rng.randint(most // 2, most), kind=kind, view_of=view))
        else:
            tensors.append(Tensor(name, size, kind=kind))
        return tensors[-1]

    for k in range(rng.randint(1, 5)):
        readable = [t for t in tensors if t.kind != "workspace"]
        inputs = rng.sample(readable, rng.randint(1, 2))
        outputs: list[Tensor] = []
        for _ in range(rng.randint(1, 3)):
            bases = outputs if outputs and rng.random() < 0.8 else readable
            outputs.append(add(bases, rng.choice(["intermediate", "intermediate", "output"])))
        scratch = [add(outputs, "workspace")] if rng.random() < 0.2 else []
        pairs, placements = [], list[Placement]()
        for one in outputs:
            for other in inputs:
                if one.nbytes == other.nbytes:
                    pairs.append((one.name, other.name))
                # An output within an input: of several joined in one output, see elsewhere.
                if one.nbytes <= other.nbytes and rng.random() < 0.5:
                    at = rng.choice([0, other.nbytes - one.nbytes])
                    placements.append(Placement(one.name, other.name, at))
        rng.shuffle(outputs)
        names = [tuple(t.name for t in group) for group in (inputs, outputs, scratch)]
        ops.append(Op(f"o{k}", "", *names, in_place=tuple(pairs), placements=tuple(placements)))
    return Graph(f"results {seed}", tuple(tensors), tuple(ops))


@pytest.mark.parametrize("seed", seeds(60))
def test_plans_are_verified_and_simulated(seed):
    """Peaks lie between the bound and what is needed without sharing, where both are proved."""
    graph = random_results(seed)
    options = {"time_limit": 0.5, "workers": 1, **OPTIONS[seed % len(OPTIONS)]}
    alone, plan = solve(graph, **options), solve(graph, in_place=True, **options)
    simulate(graph, plan)
    assert plan.lower_bound is None or plan.peak >= plan.lower_bound
    if "pools" not in options and alone.status == plan.status == "optimal":
        assert plan.peak <= alone.peak
