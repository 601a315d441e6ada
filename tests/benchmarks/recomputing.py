"""Time of training steps by capacity: recomputation alone, moves alone, and both together.

    python tests/benchmarks/recomputing.py [--time-limit 20] [--bandwidth 0.03]
        [--shares 85 70 60 50 40] [--csv FILE] [MODEL ...]

Times are multiples of the cost of running every op once. Moves are weighed against work by the
slow pool's bandwidth, in bytes a unit of cost: costs are floating-point operations, so 0.03 stands
for 30 GB a second beside 1 TFLOP a second. The fast pool holds shares of the in-place peak at the
given order. Time is counted by work, with one worker. ``recomputing.csv`` beside this file
has rows measured with ``--time-limit 10``.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import cpplan
from cpplan import Pool

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
MODELS = (
    "zoo/resnet18.train.json.gz",
    "training/resnet18_training.json",
    "training/vgg16_training.json",
    "zoo/unet.train.json.gz",
    "training/unet_training.json",
    "zoo/gpt2.train.json.gz",
)
SHARES = (85, 70, 60, 50, 40)
HEAD = ("model", "ops", "%", "recomputed", "moved", "both", "work of both", "bytes moved", "cpu s")


def main() -> None:
    """Print the table, model by model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--time-limit", type=float, default=20.0)
    parser.add_argument("--bandwidth", type=float, default=0.03)
    parser.add_argument("--shares", type=int, nargs="+", default=SHARES)
    parser.add_argument("--csv", type=Path, help="also write all rows to this file")
    chosen = parser.parse_args()
    options = {"in_place": True, "time_limit": chosen.time_limit, "deterministic": True}
    speed = {"read_bandwidth": chosen.bandwidth, "write_bandwidth": chosen.bandwidth}
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    rows: list[tuple[object, ...]] = []
    for path in chosen.models or [DATASETS / name for name in MODELS]:
        graph = cpplan.load(path)
        peak = cpplan.solve(graph, placement=False, **options).peak
        assert peak is not None
        for share in chosen.shares:
            capacity = peak * share // 100
            moving = {
                "pools": [Pool("fast", capacity), Pool("slow", **speed)],
                "spill": True,
                "objective": "time",
            }
            alone = cpplan.solve(graph, remat=True, memory_limit=capacity, **options)
            moved = cpplan.solve(graph, **moving, **options)
            start = time.process_time()
            both = cpplan.solve(graph, remat=True, **moving, **options)
            seconds = time.process_time() - start
            base = both.base_cost or 1
            times = alone.cost if alone.offset is not None else None, moved.time, both.time
            work = both.cost if both.offset is not None else None
            shown = ["-" if value is None else round(value / base, 4) for value in (*times, work)]
            name = f"{path.parent.name}/{path.name.split('.')[0]}"
            rows.append((name, len(graph.ops), share, *shown, both.moved_bytes, round(seconds, 1)))
            print("| " + " | ".join(map(str, rows[-1])) + " |", flush=True)
            if chosen.csv is not None:
                with chosen.csv.open("w", newline="") as file:
                    csv.writer(file).writerows([HEAD, *rows])


if __name__ == "__main__":
    main()
