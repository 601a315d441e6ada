"""Figures with and without one part of a search: what makes none of them worse can go.

    python tests/benchmarks/ablations.py [NAME …] [--seconds 20] [--seeds 0 1 2]

An ablation is an entry of ``ABLATIONS``: the overrides of tuning that switch a part off, and the
instances whose figure it should make worse. Runs are deterministic, so that the load of the machine
changes no figure; seconds are those of the processor.

Prints CSV, a row an instance and seed: the ratio of peak to bound with the part and without it, and
the seconds of both.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import cpplan
from cpplan.model.problem import Problem
from cpplan.zoo.packing import near_perfect_packing, perfect_packing, random_lifespans

COLUMNS = (
    *("ablation", "instance", "buffers", "seed", "ratio_with", "ratio_without"),
    *("seconds_with", "seconds_without"),
)


class Ablation(NamedTuple):
    """Overrides of tuning without the part, by room, and instances by name, made from a seed."""

    without: Mapping[str, Mapping[str, Any]]
    instances: Mapping[str, Callable[[int], Problem]]


def _lifespans(count: int, live: float) -> Callable[[int], Problem]:
    return lambda seed: random_lifespans(count, seed=seed, live=live)


def _perfect(count: int) -> Callable[[int], Problem]:
    return lambda seed: perfect_packing(count, seed=seed, pinwheels=0.3).problem


def _near_perfect(count: int, fill: float) -> Callable[[int], Problem]:
    return lambda seed: near_perfect_packing(count, seed=seed, fill=fill).problem


ABLATIONS: dict[str, Ablation] = {
    "ejection": Ablation(
        {"packing": {"most_to_eject": 0}},
        {"1000 live": _lifespans(10_000, 1000), "200 live": _lifespans(10_000, 200)},
    ),
    "windows": Ablation(
        {"packing": {"windows": 0, "wide_windows": 0}},
        {"50 live": _lifespans(10_000, 50), "200 live": _lifespans(10_000, 200)},
    ),
    "priority rules": Ablation(
        {"packing": {"rules": 0}},
        {"1000 live": _lifespans(10_000, 1000), "50 live": _lifespans(3000, 50)},
    ),
    "niche search": Ablation(
        {"packing": {"niche_buffers": 0}},
        {"perfect packing": _perfect(120), "nearly perfect": _near_perfect(200, 0.9)},
    ),
    "canonical search": Ablation(
        {"packing": {"canonical_share": 0.0}},
        {"perfect packing": _perfect(120), "nearly perfect": _near_perfect(300, 0.85)},
    ),
    "insertion": Ablation(
        {"packing": {"insertion_buffers": 0}},
        {"nearly perfect": _near_perfect(400, 0.9), "1000 buffers": _lifespans(1000, 50)},
    ),
}


def rows(
    name: str, ablation: Ablation, seconds: float, seeds: list[int]
) -> Iterator[dict[str, object]]:
    """One row an instance and seed."""
    for instance, make in ablation.instances.items():
        for seed in seeds:
            problem = make(seed)
            run = partial(_measure, problem, seconds, seed)
            ratio_with, seconds_with = run({})
            ratio_without, seconds_without = run(ablation.without)
            yield {
                "ablation": name,
                "instance": instance,
                "buffers": len(problem),
                "seed": seed,
                "ratio_with": f"{ratio_with:.5f}",
                "ratio_without": f"{ratio_without:.5f}",
                "seconds_with": f"{seconds_with:.2f}",
                "seconds_without": f"{seconds_without:.2f}",
            }


def _measure(
    problem: Problem, seconds: float, seed: int, tuning: Mapping[str, Mapping[str, Any]]
) -> tuple[float, float]:
    """The ratio of peak to bound, and seconds of the processor."""
    start = time.process_time()
    plan = cpplan.solve(
        problem, time_limit=seconds, seed=seed, workers=1, deterministic=True, tuning=tuning
    )
    assert plan.peak is not None
    return plan.peak / max(1, plan.lower_bound), time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    if unknown := set(options.names) - ABLATIONS.keys():
        parser.error(f"{min(unknown)!r} is not understood: expected one of {', '.join(ABLATIONS)}")
    cpplan.warm_up()
    table = csv.DictWriter(sys.stdout, COLUMNS)
    table.writeheader()
    for name in options.names or ABLATIONS:
        for row in rows(name, ABLATIONS[name], options.seconds, options.seeds):
            table.writerow(row)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
