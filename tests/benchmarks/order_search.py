"""Order search beside beam search in the same time, on layered random graphs.

    python tests/benchmarks/order_search.py [--seconds 60] [--ops 1000 5000] [--seed 1]

Beams of doubling width, forward only and in both directions, run until the time is over; the search
gets the same time. Prints CSV: what, ops, peak in bytes, ratio to the given order's peak, seconds,
versions.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import cpplan
from cpplan.model.order_problem import OrderProblem
from cpplan.ordering.heuristics.by_width import beam, beam_backward
from cpplan.ordering.problem import order_problem
from cpplan.ordering.solve import search_order
from cpplan.program.anf import to_anf
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline
from datasets.generators.layered import layered


def widening_beams(problem: OrderProblem, given: np.ndarray, seconds: float) -> int:
    """The best peak of beams of width 64, 128, … in both directions within the time."""
    return _widen((beam, beam_backward), problem, given, seconds)


def forward_beams(problem: OrderProblem, given: np.ndarray, seconds: float) -> int:
    """The same, forward only: what is usually called beam search."""
    return _widen((beam,), problem, given, seconds)


def _widen(searches, problem: OrderProblem, given: np.ndarray, seconds: float) -> int:
    deadline, best, width = Deadline(seconds), problem.peak(given), 64
    while not deadline.expired():
        for search in searches:
            best = min(best, problem.peak(search(problem, deadline, width)))
        width *= 2
    return best


def searched(problem: OrderProblem, given: np.ndarray, seconds: float) -> int:
    """The peak that the order search reaches in the time."""
    return search_order(problem, given, Budget(Deadline(seconds))).peak


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--ops", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    table = csv.writer(sys.stdout)
    table.writerow(["what", "ops", "peak", "ratio_to_given", "seconds", "cpplan", "numpy"])
    # The first call compiles: keep that out of either's time.
    search_order(order_problem(layered("warm", 60, 0)), np.arange(60), Budget(Deadline(5)))
    for ops in options.ops:
        graph = layered(f"layered_{ops}", ops, options.seed)
        problem, given = order_problem(graph), np.array(to_anf(graph).order)
        peak = problem.peak(given)
        runs = {"beam": forward_beams, "beam both ways": widening_beams, "search": searched}
        for what, run in runs.items():
            start = time.monotonic()
            found = run(problem, given, options.seconds)
            seconds = round(time.monotonic() - start, 1)
            versions = [cpplan.__version__, np.__version__]
            table.writerow([what, ops, found, round(found / peak, 4), seconds, *versions])
            sys.stdout.flush()


if __name__ == "__main__":
    main()
