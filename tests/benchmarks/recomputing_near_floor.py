"""Extra cost of recomputation alone within limits near the least bytes, against its bound.

    python tests/benchmarks/recomputing_near_floor.py [--time-limit 60] [MODEL:OUTPUTS:LIMIT ...]

OUTPUTS is ``keep`` or ``outside``, for gradients in the arena or not. LIMIT is a percentage of the
bytes that the given order keeps live, or a multiple of the least bytes of any schedule that are
proved at once (``x1.1``). Time is counted by work, with one worker. ``ratio`` divides the extra
cost by the bound on it.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import cpplan
from cpplan.model.residency import Residency
from cpplan.remat.footprint import least_footprint
from cpplan.remat.heuristics.checkpoints import given_order
from cpplan.remat.problem import remat_problem

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
CASES = (
    "zoo/lstm.train.json.gz:outside:80",
    "zoo/lstm.train.json.gz:outside:x1.1",
    "ordering/layered_250.json:keep:60",
    "ordering/layered_1000.json:keep:80",
    "zoo/vit_b_16.train.json.gz:keep:60",
    "zoo/gpt2.train.json.gz:keep:60",
)
HEAD = ("case", "live", "limit / floor", "extra %", "bound %", "ratio", "found by", "cpu s")


def main() -> None:
    """Print the table, case by case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("--time-limit", type=float, default=60.0)
    chosen = parser.parse_args()
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    for case in chosen.cases:
        name, outputs, asked = case.rsplit(":", 2)
        graph = cpplan.load(DATASETS / name)
        problem = remat_problem(graph, Residency(outputs=outputs))
        live, floor = problem.peak(given_order(problem)), least_footprint(problem).bytes
        limit = int(floor * float(asked[1:]) if asked[0] == "x" else live * float(asked) / 100)
        start = time.process_time()
        plan = cpplan.solve(
            graph,
            remat=True,
            memory_limit=limit,
            outputs=outputs,
            time_limit=chosen.time_limit,
            deterministic=True,
        )
        seconds, base = time.process_time() - start, plan.base_cost or 1
        extra = None if plan.offset is None or plan.cost is None else plan.cost / base - 1
        bound = None if plan.cost_bound is None else plan.cost_bound / base - 1
        ratio = extra / bound if extra is not None and bound else None
        shown = [
            "-" if value is None else f"{scale * value:.2f}"
            for value, scale in ((extra, 100), (bound, 100), (ratio, 1))
        ]
        row = (case, live, f"{limit / floor:.3f}", *shown, plan.found_by, round(seconds, 1))
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
