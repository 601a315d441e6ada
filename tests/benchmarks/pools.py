"""Two pools of 20 random capacities on real models: how often the optimum is proved, and how soon.

Run ``python tests/benchmarks/pools.py [--seconds 10] [--count 20] [MODEL …]``.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import cpplan
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.packing import heuristics
from cpplan.packing.heuristics.in_pools import run_in_pools
from cpplan.packing.pools.objective import objective_value
from cpplan.packing.pools.solve import pack_pools
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
MODELS = ("light_inception_v1", "light_resnet50", "light_shufflenet")


def cases(model: str, count: int) -> Iterator[Problem]:
    """A fast pool of 5 % to 95 % of the live bytes, and a slow one without limit."""
    problem = to_problem(to_anf(cpplan.load(DATASETS / f"{model}.json")))
    pressure, rng = int(problem.live_bytes().max()), random.Random(model)
    for _ in range(count):
        capacity = int(pressure * rng.uniform(0.05, 0.95))
        fast = Pool("fast", capacity=capacity, cost_per_byte=4, read_bandwidth=8, write_bandwidth=8)
        slow = Pool("slow", read_bandwidth=1, write_bandwidth=1, read_latency=100)
        yield replace(problem, pools=(fast, slow))


def best_baseline(problem: Problem, objective: str) -> tuple[int | float, ...]:
    """The best value that a named heuristic reaches."""
    found = []
    for name in heuristics.names():
        layout = run_in_pools(name, problem, Deadline(60))
        if layout is not None:
            found.append(objective_value(problem, objective, layout.pool, layout.offset))
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--objectives", nargs="*", default=["preference", "total", "cost"])
    options = parser.parse_args()
    print(f"{'model':<20} {'objective':<11} {'capacity':>9} {'status':<9} {'seconds':>7}  value")
    for objective in options.objectives:
        for model in options.models:
            proved = worse = 0
            for problem in cases(model, options.count):
                start = time.perf_counter()
                packing = pack_pools(
                    problem, objective, Budget(Deadline(options.seconds), workers=2)
                )
                seconds = time.perf_counter() - start
                baseline = best_baseline(problem, objective)
                proved += packing.status == "optimal"
                worse += packing.objective_value > baseline
                print(
                    f"{model:<20} {objective:<11} {problem.pools[0].capacity:>9} "
                    f"{packing.status:<9} {seconds:7.2f}  {packing.objective_value} "
                    f"(bound {packing.objective_bound}, best baseline {baseline})",
                    flush=True,
                )
            print(f"{model}, {objective}: {proved} of {options.count} proved, {worse} worse")


if __name__ == "__main__":
    main()
