"""Bytes moved by models in pieces beside a small fast pool, against whole ops.

    python tests/benchmarks/spilling_pieces.py [--kib 128 256] [--time-limit 20] [--processor]
        [--csv FILE] [MODEL ...]

Floats count as one byte, as after quantization. Ops may access the slow pool, and no op runs more
than once. With ``--processor`` the limit counts processor time, with one worker. Every plan is
simulated. ``spilling_pieces.csv`` beside this file has a row measured with ``--processor
--time-limit 25``.
"""

from __future__ import annotations

import argparse
import csv
import time
from dataclasses import replace
from pathlib import Path

import cpplan
from cpplan import Graph, Pool

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
HEAD = ("model", "KiB", "whole", "whole bound", "pieces", "ops cut", "copied")
HEAD += ("extra work", "cpu s")


def of_bytes(path: Path) -> Graph:
    """A model whose floats take one byte each."""
    read = cpplan.load(path)
    tensors = tuple(
        replace(t, dtype="int8", size=None) if t.dtype == "float32" and t.shape is not None else t
        for t in read.tensors
    )
    return Graph(path.name.split(".")[0], tensors, read.ops)


def main() -> None:
    """Print the table, model by model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--kib", type=int, nargs="+", default=[128, 256])
    parser.add_argument("--time-limit", type=float, default=20.0)
    parser.add_argument("--processor", action="store_true", help="limit processor time")
    parser.add_argument("--csv", type=Path, help="also write all rows to this file")
    chosen = parser.parse_args()
    if chosen.processor:
        time.monotonic = time.process_time
    options = {"in_place": True, "time_limit": chosen.time_limit, "workers": 1}
    rows: list[tuple[object, ...]] = [HEAD]
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    for path in chosen.models or [DATASETS / "onnx" / "mobilenet_v2.onnx"]:
        graph = of_bytes(path)
        for kib in chosen.kib:
            pools = [Pool("sram", kib << 10), Pool("psram", direct=True)]
            whole = cpplan.solve(graph, pools=pools, spill=True, **options)
            start = time.process_time()
            cut = cpplan.solve(graph, pools=pools, spill=True, split=True, **options)
            seconds = round(time.process_time() - start, 1)
            for plan in (whole, cut):
                if plan.offset is not None:
                    cpplan.simulate(graph, plan)
            extra = round((cut.cost or 0) / (cut.base_cost or 1) - 1, 4)
            moved = whole.moved_bytes, whole.moved_bytes_bound, cut.moved_bytes
            figures = *moved, len(cut.pieces), cut.copied_bytes or 0
            rows.append((graph.name, kib, *figures, extra, seconds))
            print("| " + " | ".join(map(str, rows[-1])) + " |", flush=True)
            if chosen.csv is not None:
                with chosen.csv.open("w", newline="") as file:
                    csv.writer(file).writerows(rows)


if __name__ == "__main__":
    main()
