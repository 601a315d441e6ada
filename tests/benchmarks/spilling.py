"""Bytes moved by every inference graph of the datasets, beside the eviction rules and the bound.

    python tests/benchmarks/spilling.py [--time-limit 20] [--order given] [--workers 2] [MODEL ...]

The fast pool holds 25, 50 and 75 % of the in-place peak. Few networks have no op that needs more
than that by itself, so ops may access the slow pool directly; the last column says what the op that
needs most asks for where they may not. A rule's figure is that of its evictions alone, which need
not be packed; ours is that of a verified plan.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import cpplan
from cpplan import Graph, Pool
from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.runtime.deadline import Deadline
from cpplan.spilling import heuristics
from cpplan.spilling.problem import spill_problem

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
SHARES = (25, 50, 75)
BASELINES = ("belady", "belady, 16 ops ahead", "whole tensors")


def models() -> list[Path]:
    """Inference graphs of ``zoo``, ``onnx`` and ``ordering``."""
    found = [*DATASETS.glob("zoo/*.infer.json.gz"), *DATASETS.glob("onnx/*.onnx")]
    found += [p for p in DATASETS.glob("ordering/*.json") if "training" not in p.name]
    return sorted(found)


def in_place_peak(graph: Graph, seconds: float) -> int:
    """The peak of the given order if ops write over their inputs."""
    plan = cpplan.solve(graph, in_place=True, placement=False, time_limit=seconds)
    assert plan.peak is not None
    return plan.peak


def rows_of(path: Path, seconds: float, workers: int, order: str) -> list[list[object]]:
    """One row for every share of the peak."""
    graph = cpplan.load(path)
    program, peak, rows = to_anf(graph), in_place_peak(graph, seconds / 4), []
    for share in SHARES:
        fast, slow = Pool("sram", peak * share // 100), Pool("dram", direct=True)
        problem = spill_problem(program, Residency(), (fast, slow), share=True)
        kept = {
            name: heuristics.get(name)(problem, Deadline(math.inf)) for name in heuristics.names()
        }
        moved = {n: int(problem.moved(k).sum()) for n, k in kept.items() if k is not None}
        plan = cpplan.solve(
            graph,
            pools=[fast, slow],
            spill=True,
            in_place=True,
            order=order,
            time_limit=seconds,
            workers=workers,
        )
        classic = spill_problem(program, Residency(), (fast, Pool("dram")), share=True)
        need = int(classic.least_load().max())
        least = min(moved.values(), default=None)
        rows.append(
            [
                path.name.split(".")[0],
                len(graph.ops),
                share,
                *(_shown(moved.get(name)) for name in BASELINES),
                _shown(least),
                _shown(plan.moved_bytes),
                _shown(plan.moved_bytes_bound),
                plan.moved_bytes_bound_by,
                plan.status,
                _saved(plan.moved_bytes, moved.get("belady")),
                _saved(plan.moved_bytes_bound, moved.get("belady")),
                f"{plan.runtime:.1f}",
                f"{need / peak:.0%}",
            ]
        )
    return rows


def _shown(moved: int | None) -> str:
    return "-" if moved is None else f"{moved / 1024:.0f}"


def _saved(ours: int | None, theirs: int | None) -> str:
    return "-" if ours is None or not theirs else f"{ours / theirs - 1:+.0%}"


def main() -> None:
    """Print the table, model by model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--time-limit", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--order", default="given", choices=("given", "search"))
    chosen = parser.parse_args()
    head = ["model", "ops", "%", "Belady", "16 ahead", "whole", "best rule", "cpplan", "bound"]
    head += ["bound by", "status", "to Belady", "bound to Belady", "s", "largest op"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for path in chosen.models or models():
        for row in rows_of(path, chosen.time_limit, chosen.workers, chosen.order):
            print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
