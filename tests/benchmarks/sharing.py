"""In-place results and placements against plain packing, ops in the order that models list them in.

    python tests/benchmarks/sharing.py [--seconds 10] [--execute] [MODEL.onnx …]

Without models: those of ``datasets/onnx`` and the light ones of the ``onnx`` package. Prints
CSV: bytes of four plans, the bound that holds for every choice, the peak's ratio to it, what is
saved, how much is shared, storages without offsets as ratios to the plain arena, and versions. With
``--execute`` each plan with both also runs in the arena, with random weights; a plan that changes
any byte ends the run with an error.
"""

from __future__ import annotations

import argparse
import csv
import sys
from importlib.metadata import version
from pathlib import Path

import onnx

import cpplan
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.packing.storage_ids import share_storages

EXPORTS = Path(__file__).resolve().parents[2] / "datasets/onnx"
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
PACKAGES = ("cpplan", "numpy", "onnx", "ortools")
COLUMNS = (
    *("model", "ops", "plain", "in_place", "placement", "both", "bound", "status"),
    *("ratio_to_bound", "saved", "results_in_place", "placed_within", "bytes_compared"),
    *("storage_tokens", "shared_objects", "least_storages", "least_status", *PACKAGES),
)


def four_plans(graph: Graph, seconds: float) -> dict[str, Plan]:
    """Plans with neither, with in-place results, with placements, with both."""
    switches = {
        "plain": (False, False),
        "in_place": (True, False),
        "placement": (False, True),
        "both": (True, True),
    }
    return {
        name: cpplan.solve(graph, time_limit=seconds, in_place=in_place, placement=placement)
        for name, (in_place, placement) in switches.items()
    }


def row(path: Path, seconds: float, execute: bool) -> dict[str, object]:
    """One model's row of the table: peaks, bound, shares and times."""
    graph = cpplan.load(path)
    plans = four_plans(graph, seconds)
    plain, both = plans["plain"].peak, plans["both"]
    least = share_storages(graph, time_limit=seconds)
    in_place = sum(relation.kind == "in place" for relation in both.relations)
    return {
        "model": path.stem,
        "ops": len(graph.ops),
        **{name: plan.peak for name, plan in plans.items()},
        "bound": both.lower_bound,
        "status": both.status,
        "ratio_to_bound": f"{both.peak / both.lower_bound:.4f}",
        "saved": f"{1 - both.peak / plain:.4f}",
        "results_in_place": in_place,
        "placed_within": len(both.relations) - in_place,
        "bytes_compared": cpplan.execute(path, both, weights="random").bytes_checked
        if execute
        else None,
        **{
            name: f"{share_storages(graph, algorithm=name).total / plain:.4f}"
            for name in ("storage_tokens", "shared_objects")
        },
        "least_storages": f"{least.total / plain:.4f}",
        "least_status": least.status,
        **{package: version(package) for package in PACKAGES},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--execute", action="store_true")
    options = parser.parse_args()
    known = [*sorted(EXPORTS.glob("*.onnx")), *sorted(LIGHT.glob("light_*.onnx"))]
    table = csv.DictWriter(sys.stdout, COLUMNS)
    table.writeheader()
    for path in options.models or known:
        table.writerow(row(path, options.seconds, options.execute))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
