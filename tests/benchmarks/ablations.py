"""Figures with and without a part of the planner: what makes none of them worse can go.

Run ``python tests/benchmarks/ablations.py [--seconds 2] [NAME …]``: each name of ``ABLATIONS`` is a
tuning or a replacement that leaves something out, run on the instances that it is for, in
deterministic time. A line is the instances proved optimal, and the mean of value / bound over the
levels of all. First plans are timed by the clock, as they are there to be soon.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import cpplan
from cpplan.model.graph import Graph, Op
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.model.shapes import Range, bounding, parse_dim
from cpplan.model.symbols import Symbols
from cpplan.model.tensor import Tensor
from cpplan.packing import solve
from cpplan.packing.incumbent import Incumbent
from cpplan.packing.pools.solve import pack_pools
from cpplan.packing.sizes.solve import layout_for_sizes
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem
from cpplan.runtime.budget import Budget, Tuning, using
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.solving.tuning import make_tuning
from cpplan.symbolic import layout
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
    """Models and perfect packings whose buffers grow, shrink or stay, a third of them each."""
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


def of_first_plans(budget: Callable[[], Budget]) -> Iterator[Figure]:
    """Peaks of what many buffers get by the clock before loops are compiled."""
    for count, live in ((20_000, 200), (100_000, 1000)):
        incumbent = Incumbent(random_lifespans(count, seed=0, live=live))
        with patch.object(solve, "is_ready", lambda group: False), suppress(TimeUpError):
            solve.offer_first_plans(incumbent, Deadline(budget().deadline.seconds))
        yield Figure("feasible", (incumbent.peak,), (incumbent.bound.value,))


# Extents as strides, crops, pads and shapes in two parts leave them.
EXTENTS = (
    *("(h + 1)//2", "h - 2*(h//2) + 1", "h - h//2", "w*(h - h//2)", "(h - h//2)*(w - 3)"),
    *("h - min(h, 2)", "(h - min(h, 2))*(w + 20)", "max(h, 5) - min(h, 3)", "h % 7 * (w % 3)"),
)
RANGES = {"h": Range(0, 40), "w": Range(0, 30)}


def of_symbols(budget: Callable[[], Budget]) -> Iterator[Figure]:
    """Upper bounds of symbolic extents, and the largest values there are."""
    for text in EXTENTS:
        extent = parse_dim(text)
        values = [extent.evaluate({"h": h, "w": w}) for h in range(41) for w in range(31)]
        upper = extent.bounds(RANGES).upper
        assert upper is not None
        status = "optimal" if upper == max(values) else "feasible"
        yield Figure(status, (upper,), (max(values),))


def of_unbounded(budget: Callable[[], Budget]) -> Iterator[Figure]:
    """Storages of a chain of tensors whose extent has no upper bound, and those live at once."""
    for count in (4, 16, 64):
        tensors = tuple(
            Tensor(f"t{k}", shape=("n", 8), dtype="int8", kind="input" if k == 0 else "output"
                   if k == count - 1 else "intermediate") for k in range(count)
        )  # fmt: skip
        ops = tuple(
            Op(f"f{k}", inputs=(f"t{k}",), outputs=(f"t{k + 1}",)) for k in range(count - 1)
        )
        graph = Graph("chain", tensors, ops, Symbols({"n": (0, None)}))
        plan = cpplan.solve(graph, time_limit=budget().deadline.seconds)
        assert plan.symbols is not None
        yield Figure(plan.status, (len(plan.symbols.storages),), (2,))


def apart(sizes: Mapping[str, Any], *_: object) -> dict[str, layout.Unbounded]:
    """A storage for each tensor without a bound."""
    return {name: layout.Unbounded(size, k) for k, (name, size) in enumerate(sizes.items())}


def without_size_classes(problem: Problem) -> dict[str, float]:
    """Seconds of the first plans but for size classes, the quickest first."""
    return {name: s for name, s in PLAIN_SECONDS(problem).items() if name != "size_classes"}


PLAIN_SECONDS = solve._plain_seconds
Figures = Callable[[Callable[[], Budget]], Iterator[Figure]]
# What is left out: by tuning, or by replacing (object, attribute, value).
Without = dict[str, Any] | tuple[Any, str, Any]

ABLATIONS: dict[str, tuple[Figures, Without]] = {
    "packing without staged insertion": (FLAT, {"packing": {"staged_buffers": 0}}),
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
    "first plans without size classes": (
        of_first_plans,
        (solve, "_plain_seconds", without_size_classes),
    ),
    "symbols without rewriting": (of_symbols, (bounding, "MOST_EFFORT", 0)),
    "symbols without corners": (of_symbols, (bounding, "MOST_CORNERS", 0)),
    "symbols without branches": (of_symbols, (bounding, "MOST_BRANCHES", 0)),
    "symbols without remainders": (of_symbols, (bounding, "substitute", lambda terms, atom: None)),
    "symbols without joined quotients": (
        of_symbols,
        (bounding, "absorb", lambda terms, atom: None),
    ),
    "unbounded tensors apart": (of_unbounded, (layout, "share_equal", apart)),
}


def model(name: str) -> Problem:
    """The buffers of a model in its given order."""
    return to_problem(to_anf(cpplan.load(DATASETS / f"{name}.json")))


def run(figures: Figures, without: Without, seconds: float) -> tuple[int, int, float]:
    """Instances proved optimal, instances, and the mean of value / bound over all levels."""
    tuning = make_tuning(without) if isinstance(without, dict) else Tuning()
    replaced: AbstractContextManager[Any] = (
        nullcontext() if isinstance(without, dict) else patch.object(*without)
    )
    with using(tuning), replaced:
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
            known[figures] = run(figures, {}, options.seconds)
            show("with everything", known[figures])
        show(name, run(figures, changed, options.seconds))


def show(name: str, row: tuple[int, int, float]) -> None:
    """Print a line of the table."""
    proved, count, ratio = row
    print(f"{name:<36} {proved:>3}/{count:<3} {ratio:.5f}", flush=True)


if __name__ == "__main__":
    main()
