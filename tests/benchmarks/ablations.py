"""Figures with and without a part of the planner: what makes none of them worse can go.

Run ``python tests/benchmarks/ablations.py [--seconds 2] [NAME …]``: each name of ``ABLATIONS`` is a
tuning that leaves something out, run on the instances that it is for, in deterministic time. A line
is the instances proved optimal, and the mean of value / bound over the levels of all others.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cpplan
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.packing.pools.solve import pack_pools
from cpplan.packing.sizes.solve import layout_for_sizes
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem
from cpplan.runtime.budget import Budget, Tuning, using
from cpplan.runtime.deadline import Deadline
from cpplan.solving.tuning import make_tuning
from cpplan.zoo.packing import near_perfect_packing, perfect_packing, random_lifespans

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
MODELS = "light_inception_v1", "light_resnet50", "light_shufflenet", "ordering/nasnet_mobile"


SEEDS = range(3)

LIMITS = {
    "ordering/layered_100": "60%",
    "ordering/layered_250": "70%",
    "ordering/vgg11_training": "50%",
    "training/resnet18_training": "60%",
}


class Figure(NamedTuple):
    """An instance's status, and the value and the bound of its levels."""

    status: str
    value: tuple[float, ...]
    bound: tuple[float, ...]


def of_pools(budget: Callable[[], Budget]) -> Iterator[Figure]:
    """Models and perfect packings in two pools of random capacities, for every objective."""
    problems = [model(name) for name in MODELS[:3]] + [
        perfect_packing(16, seed=k).problem for k in range(3)
    ]
    for number, problem in enumerate(problems):
        rng, pressure = random.Random(number), int(problem.live_bytes().max())
        for objective in ("preference", "total", "cost"):
            capacity = int(pressure * rng.uniform(0.2, 0.8))
            fast = Pool("fast", capacity=capacity, cost_per_byte=4, read_bandwidth=8)
            slow = Pool("slow", read_bandwidth=1, read_latency=100)
            found = pack_pools(replace(problem, pools=(fast, slow)), objective, budget())
            yield Figure(found.status, found.objective_value, found.objective_bound)


def of_packing(
    makers: Mapping[str, Callable[[int], Problem]], budget: Callable[[], Budget]
) -> Iterator[Figure]:
    """Problems of one pool, each for a few seeds."""
    for make in makers.values():
        for seed in SEEDS:
            seconds = budget().deadline.seconds
            plan = cpplan.solve(
                make(seed), time_limit=seconds, seed=seed, workers=1,
                deterministic=True,
            )  # fmt: skip
            assert plan.peak is not None
            yield Figure(plan.status, (plan.peak,), (plan.lower_bound,))


def lifespans(count: int, live: float) -> Callable[[int], Problem]:
    """Random lifespans by seed."""
    return lambda seed: random_lifespans(count, seed=seed, live=live)


def perfect(count: int) -> Callable[[int], Problem]:
    """Perfect packings by seed."""
    return lambda seed: perfect_packing(count, seed=seed, pinwheels=0.3).problem


def near_perfect(count: int, fill: float) -> Callable[[int], Problem]:
    """Packings that almost fill a rectangle, by seed."""
    return lambda seed: near_perfect_packing(count, seed=seed, fill=fill).problem


FLAT = partial(
    of_packing, {"1000 live": lifespans(10_000, 1000), "200 live": lifespans(10_000, 200)}
)
TIMED = partial(of_packing, {"50 live": lifespans(10_000, 50), "200 live": lifespans(10_000, 200)})
RULED = partial(of_packing, {"1000 live": lifespans(10_000, 1000), "50 live": lifespans(3000, 50)})
TIGHT = partial(of_packing, {"perfect": perfect(120), "nearly perfect": near_perfect(200, 0.9)})
LOOSE = partial(of_packing, {"perfect": perfect(120), "nearly perfect": near_perfect(300, 0.85)})
MIDDLE = partial(
    of_packing, {"nearly perfect": near_perfect(400, 0.9), "1000 buffers": lifespans(1000, 50)}
)


def of_sizes(budget: Callable[[], Budget]) -> Iterator[Figure]:
    """Models and perfect packings of which every third buffer grows, shrinks or stays."""
    factors = np.array([[1, 8, 3], [8, 1, 3], [2, 2, 3]])
    problems = [model(name) for name in MODELS] + [
        perfect_packing(16, seed=k).problem for k in range(4)
    ]
    for problem in problems:
        bytes = problem.size * factors[:, np.arange(len(problem)) % 3]
        for objective in ("largest", "ratio"):
            found = layout_for_sizes(
                problem, bytes, budget(), prefix_stable=True, objective=objective
            )
            yield Figure(found.status, found.value, found.bound)


def of_schedules(budget: Callable[[], Budget]) -> Iterator[Figure]:
    """Costs of running ops again within limits; infinite where nothing was found."""
    for name, limit in LIMITS.items():
        graph, seconds = cpplan.load(DATASETS / f"{name}.json"), budget().deadline.seconds
        plan = cpplan.solve(
            graph, remat=True, memory_limit=limit, time_limit=seconds, workers=1, deterministic=True
        )
        found = plan.offset is not None and plan.cost is not None
        value = float(plan.cost or 0) if found else math.inf
        yield Figure(plan.status, (value,), (float(plan.cost_bound or plan.base_cost or 1),))


ABLATIONS: dict[str, tuple[Callable[[Callable[[], Budget]], Iterator[Figure]], dict[str, Any]]] = {
    "packing without ejection": (FLAT, {"packing": {"most_to_eject": 0}}),
    "packing without windows": (TIMED, {"packing": {"windows": 0, "wide_windows": 0}}),
    "packing without priority rules": (RULED, {"packing": {"rules": 0}}),
    "packing without niche search": (TIGHT, {"packing": {"niche_buffers": 0}}),
    "packing without canonical search": (LOOSE, {"packing": {"canonical_share": 1e-9}}),
    "packing without insertion": (MIDDLE, {"packing": {"insertion_buffers": 0}}),
    "pools without liquid bytes": (of_pools, {"packing": {"pools_liquid_runs": 0}}),
    "pools without a climb": (of_pools, {"packing": {"pools_first_moves": 0}}),
    "pools without CP-SAT": (of_pools, {"packing": {"pools_entries": 0}}),
    "pools by heuristics alone": (
        of_pools,
        {"packing": {"pools_entries": 0, "pools_ordered_buffers": 0}},
    ),
    "schedules without their offsets": (of_schedules, {"remat": {"together_units": 0}}),
    "sizes without a climb": (of_sizes, {"packing": {"sizes_moves_a_buffer": 0}}),
    "sizes without CP-SAT": (of_sizes, {"packing": {"section_entries": 0}}),
    "sizes without the topmost buffer": (of_sizes, {"packing": {"sizes_top_pairs": 0}}),
}


def model(name: str) -> Problem:
    """The buffers of a model in its given order."""
    return to_problem(to_anf(cpplan.load(DATASETS / f"{name}.json")))


def run(
    figures: Callable[[Callable[[], Budget]], Iterator[Figure]], tuning: Tuning, seconds: float
) -> tuple[int, int, float]:
    """Instances proved optimal, instances, and the mean of value / bound over all levels."""
    with using(tuning):
        found = list(figures(lambda: Budget(Deadline(seconds, deterministic=True), tuning=tuning)))
    ratios = [
        value / bound
        for figure in found
        for value, bound in zip(figure.value, figure.bound, strict=True)
        if bound
    ]
    proved = sum(figure.status == "optimal" for figure in found)
    return proved, len(found), float(np.mean(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(ABLATIONS))
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args()
    print(f"{'ablation':<36} proved  mean value / bound")
    known: dict[object, tuple[int, int, float]] = {}
    for name in options.names:
        figures, changed = ABLATIONS[name]
        if figures not in known:
            known[figures] = run(figures, Tuning(), options.seconds)
            show("with everything", known[figures])
        show(name, run(figures, make_tuning(changed), options.seconds))


def show(name: str, row: tuple[int, int, float]) -> None:
    """Print a line of the table."""
    proved, count, ratio = row
    print(f"{name:<36} {proved:>3}/{count:<3} {ratio:.5f}", flush=True)


if __name__ == "__main__":
    main()
