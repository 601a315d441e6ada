"""Random perfect packings: how many of them each packer solves, and how soon.

    python tests/benchmarks/perfect_packings.py [--buffers 50 100 200 400] [--count 10]
        [--seconds 10] [--packers cpplan cp_sat …]

Half of the problems are cut by guillotine, half with pinwheels among the cuts
(``cpplan.zoo.packing``). The optimum is the live bytes, so that whoever finds it has proved it. All
packers run in one process, on one thread, compiled before, and take turns, each first in its turn;
all minimise, and none is told the optimum. Every answer is checked.

Prints CSV: for each size, kind and packer the share solved, the worst and mean ratio of peak to
optimum over what was found, the median of the seconds (those unsolved count in full), and its ratio
to the first packer's.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from statistics import mean, median

from packers import PACKAGES, PACKERS, Packer, Result, run, versions, warm
from packing import in_turn

from cpplan.zoo.packing import perfect_packing

KINDS = {"guillotine": 0.0, "pinwheels": 0.3}
COLUMNS = (
    *("buffers", "kind", "problems", "packer", "found", "share_solved", "worst_peak", "mean_peak"),
    *("median_seconds", "time_ratio", *PACKAGES, "python"),
)


def rows(
    buffers: int, kind: str, count: int, packers: dict[str, Packer], seconds: float
) -> Iterator[dict[str, object]]:
    """One row for each packer, over the problems with seeds 0, 1, … up to ``count``."""
    results: dict[str, list[Result]] = {name: [] for name in packers}
    ratios: dict[str, list[float]] = {name: [] for name in packers}
    for seed in range(count):
        planted = perfect_packing(buffers, seed=seed, pinwheels=KINDS[kind])
        for name in in_turn(list(packers), seed):
            result = run(packers[name], lambda p=planted: p.problem, None, seconds, seed)
            results[name].append(result)
            if result.peak is not None:
                ratios[name].append(result.peak / planted.height)
    medians = {name: median(result.seconds for result in of) for name, of in results.items()}
    for name in packers:
        yield {
            "buffers": buffers,
            "kind": kind,
            "problems": count,
            "packer": name,
            "found": len(ratios[name]),
            "share_solved": f"{ratios[name].count(1.0) / count:.2f}",
            "worst_peak": f"{max(ratios[name]):.4f}" if ratios[name] else None,
            "mean_peak": f"{mean(ratios[name]):.4f}" if ratios[name] else None,
            "median_seconds": f"{medians[name]:.3f}",
            "time_ratio": f"{medians[name] / medians[next(iter(packers))]:.4f}",
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--buffers", type=int, nargs="+", default=[50, 100, 200, 400])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--packers", nargs="+", choices=PACKERS, default=list(PACKERS))
    options = parser.parse_args()
    packers = {name: PACKERS[name] for name in options.packers}
    warm(list(packers.values()))
    table = csv.DictWriter(sys.stdout, COLUMNS)
    table.writeheader()
    for buffers in options.buffers:
        for kind in options.kinds:
            for found in rows(buffers, kind, options.count, packers, options.seconds):
                table.writerow({**found, **versions()})
                sys.stdout.flush()


if __name__ == "__main__":
    main()
