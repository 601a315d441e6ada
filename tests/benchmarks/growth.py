"""Time and memory of planning by the number of buffers.

    python tests/benchmarks/growth.py [--buffers 1000 3000 … 1000000] [--live 50] [--seeds 1]
        [--seconds 10] [--good-enough 1.005]

The problems are those of ``cpplan.zoo.packing.random_lifespans``: of n buffers, about 50 live at a
step, or as many as asked. Each size and seed is planned and verified by ``cpplan.solve`` on one
thread in a process of its own, compiled before, within ``--seconds``. Improving a packing ends once
its peak is within ``--good-enough`` of the live bytes, a ratio; where that is never reached, status
is ``unknown``.

Prints CSV: seconds for making the problem and for the plan; its peak's ratio to the bound; the most
memory that the process ever had, MiB, and how much of it was there before ``solve``; microseconds
and bytes a buffer; and ratios to the first size.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from itertools import product

SIZES = [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
PACKAGES = ("cpplan", "llvmlite", "numpy")
COLUMNS = (
    *("buffers", "live", "seed", "status", "method", "peak", "lower_bound", "peak_to_bound"),
    *("seconds_problem", "seconds_plan", "mib_before", "mib_most", "microseconds_a_buffer"),
    *("bytes_a_buffer", "time_ratio", "memory_ratio", *PACKAGES, "python"),
)


def most_memory() -> float:
    """The most memory this process ever had, MiB."""
    import resource

    # Linux counts kibibytes, macOS bytes. A process also inherits what the one that started it
    # had: the one below imports nothing large.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def one(
    buffers: int, live: float, seed: int, seconds: float, good_enough: float
) -> dict[str, object]:
    """Plan one problem in this process."""
    import cpplan
    from cpplan.zoo.packing import random_lifespans

    cpplan.warm_up("niche")
    for warm_up in (300, 5_000):
        cpplan.solve(random_lifespans(warm_up, seed=0), time_limit=1.0, workers=1)
    start = time.perf_counter()
    problem = random_lifespans(buffers, seed=seed, live=live)
    made, before = time.perf_counter(), most_memory()
    target = int(good_enough * problem.live_profile()[1].max())
    begin = time.perf_counter()
    plan = cpplan.solve(problem, capacity=target, time_limit=seconds, workers=1)
    end, most = time.perf_counter(), most_memory()
    return {
        "status": plan.status,
        "method": plan.method,
        # Where nothing good enough was found in time, the best of what was found.
        "peak": min(entry.peak for entry in plan.history if entry.peak is not None),
        "lower_bound": plan.lower_bound,
        "seconds_problem": made - start,
        "seconds_plan": end - begin,
        "mib_before": before,
        "mib_most": most,
    }


def in_own_process(
    buffers: int, live: float, seed: int, seconds: float, good_enough: float
) -> dict[str, object]:
    """The same in a fresh one, so that memory is its own."""
    command = [sys.executable, __file__, "--one", "--buffers", str(buffers), "--seeds", str(seed)]
    command += ["--live", str(live)]
    limits = ["--seconds", str(seconds), "--good-enough", str(good_enough)]
    run = subprocess.run([*command, *limits], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--buffers", type=int, nargs="+", default=SIZES)
    parser.add_argument("--live", type=float, nargs="+", default=[50.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--good-enough", type=float, default=1.005)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    limits = options.seconds, options.good_enough
    if options.one:
        json.dump(one(options.buffers[0], options.live[0], options.seeds[0], *limits), sys.stdout)
        return
    versions = {name: version(name) for name in PACKAGES}
    table = csv.DictWriter(sys.stdout, COLUMNS)
    table.writeheader()
    first: dict[str, float] = {}
    for buffers, live in product(options.buffers, options.live):
        for seed in options.seeds:
            found = in_own_process(buffers, live, seed, *limits)
            plan, most = found["seconds_plan"], found["mib_most"]
            first = first or {"plan": plan, "most": most}
            derived = {
                "peak_to_bound": f"{found['peak'] / found['lower_bound']:.5f}",
                "microseconds_a_buffer": f"{1e6 * plan / buffers:.2f}",
                "bytes_a_buffer": f"{2**20 * most / buffers:.0f}",
                "time_ratio": f"{plan / first['plan']:.3f}",
                "memory_ratio": f"{most / first['most']:.3f}",
            }
            rounded = {k: round(v, 3) if isinstance(v, float) else v for k, v in found.items()}
            table.writerow(
                {
                    "buffers": buffers,
                    "live": live,
                    "seed": seed,
                    **rounded,
                    **derived,
                    **versions,
                    "python": platform.python_version(),
                }
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
