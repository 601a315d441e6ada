"""Bytes moved by every inference graph of the datasets, beside the eviction rules and the bound.

    python tests/benchmarks/spilling.py [--time-limit 20] [--order given] [--workers 2]
        [--deterministic] [--most-ops 200] [--csv FILE] [MODEL ...]

The fast pool holds 25, 50 and 75 % of the in-place peak. Few networks have no op that needs more
than that by itself, so ops may access the slow pool directly; the last column says what the op
that needs most asks for where they may not. A rule's figure is that of its evictions alone, which
need not be packed; ours is that of a verified plan. With ``--deterministic`` the time is counted by
work, with one worker; ``cpu s`` is the processor's time of the plan. Below the table: rows that
move more than the best rule, packed or not, and how many rows are proved optimal, of up to 200 ops
and of all. ``spilling.csv`` beside this file has the rows: ``--deterministic``, with 60 units of
time up to 200 ops and 20 beyond.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
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
FEW_OPS = 200
HEAD = ("model", "ops", "%", "Belady", "16 ahead", "whole", "best rule", "cpplan", "bound")
HEAD += ("bound by", "status", "to Belady", "bound to Belady", "cpu s", "largest op")


def models() -> list[Path]:
    """Inference graphs of ``zoo``, ``onnx`` and ``ordering``."""
    found = [*DATASETS.glob("zoo/*.infer.json.gz"), *DATASETS.glob("onnx/*.onnx")]
    found += [p for p in DATASETS.glob("ordering/*.json") if "training" not in p.name]
    return sorted(found)


def in_place_peak(graph: Graph, options: dict[str, object]) -> int:
    """The peak of the given order if ops write over their inputs."""
    seconds = float(options["time_limit"]) / 4  # type: ignore[arg-type]
    options = {**options, "time_limit": seconds, "order": "given"}
    plan = cpplan.solve(graph, in_place=True, placement=False, **options)
    assert plan.peak is not None
    return plan.peak


def row_of(graph: Graph, peak: int, share: int, options: dict[str, object]) -> dict[str, object]:
    """Bytes moved at one share of the peak, by heading; ``None`` where nothing was found."""
    program = to_anf(graph)
    fast, slow = Pool("sram", peak * share // 100), Pool("dram", direct=True)
    problem = spill_problem(program, Residency(), (fast, slow), share=True)
    kept = {name: heuristics.get(name)(problem, Deadline(math.inf)) for name in heuristics.names()}
    moved = {n: int(problem.paid(k).sum()) for n, k in kept.items() if k is not None}
    start = time.process_time()
    plan = cpplan.solve(graph, pools=[fast, slow], spill=True, in_place=True, **options)
    seconds = time.process_time() - start
    classic = spill_problem(program, Residency(), (fast, Pool("dram")), share=True)
    figures = (
        *(moved.get(name) for name in BASELINES),
        min(moved.values(), default=None),
        plan.moved_bytes,
        plan.moved_bytes_bound,
        plan.moved_bytes_bound_by,
        plan.status,
        _ratio(plan.moved_bytes, moved.get("belady")),
        _ratio(plan.moved_bytes_bound, moved.get("belady")),
        round(seconds, 1),
        round(int(classic.least_load().max()) / peak, 3),
    )
    return dict(zip(HEAD, (graph.name, len(graph.ops), share, *figures), strict=True))


def _ratio(ours: int | None, theirs: int | None) -> float | None:
    return None if ours is None or not theirs else round(ours / theirs - 1, 4)


def _shown(head: str, value: object) -> str:
    """A figure of the table: bytes in KiB, ratios in percent."""
    if value is None:
        return "-"
    if head in HEAD[3:9] and isinstance(value, int):
        return f"{value / 1024:.0f}"
    return f"{value:+.0%}" if head.endswith("to Belady") else str(value)


def summarize(rows: list[dict[str, object]]) -> list[str]:
    """Rows above the best rule, and the share proved optimal."""
    above = [
        f"above the best rule: {row['model']} {row['%']} %"
        for row in rows
        if row["best rule"] is not None
        and (row["cpplan"] is None or row["cpplan"] > row["best rule"])  # type: ignore[operator]
    ]
    few = [row for row in rows if row["ops"] <= FEW_OPS]  # type: ignore[operator]
    proved = sum(row["status"] in ("optimal", "infeasible") for row in few)
    every = sum(row["status"] in ("optimal", "infeasible") for row in rows)
    return [
        *above,
        f"proved optimal up to {FEW_OPS} ops: {proved} of {len(few)}",
        f"proved optimal of all: {every} of {len(rows)}",
    ]


def main() -> None:
    """Print the table, model by model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--time-limit", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--order", default="given", choices=("given", "search"))
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--most-ops", type=int)
    parser.add_argument("--csv", type=Path, help="also write all rows to this file")
    chosen = parser.parse_args()
    options = {
        "time_limit": chosen.time_limit,
        "order": chosen.order,
        "workers": None if chosen.deterministic else chosen.workers,
        "deterministic": chosen.deterministic,
    }
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    rows: list[dict[str, object]] = []
    for path in chosen.models or models():
        graph = cpplan.load(path)
        if chosen.most_ops is not None and len(graph.ops) > chosen.most_ops:
            continue
        peak = in_place_peak(graph, options)
        for share in SHARES:
            row = row_of(graph, peak, share, options)
            row["model"] = f"{path.parent.name}/{path.name.split('.')[0]}"
            rows.append(row)
            print("| " + " | ".join(_shown(h, row[h]) for h in HEAD) + " |", flush=True)
            if chosen.csv is not None:
                _write(chosen.csv, rows)
    print("\n".join(summarize(rows)))


def _write(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, HEAD)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
