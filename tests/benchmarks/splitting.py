"""Peaks of models in pieces at several work factors, beside the bound on every splitting.

    python -m tests.benchmarks.splitting [--factors 1 1.02 1.1 1.2] [--time-limit 20]
        [--inputs outside] [--outputs outside] [--deterministic] [--csv FILE] [FILE ...]

Without a file, the networks of ``NETWORKS``; GPT-2's scores are outside the arena. A file is a
model, or a JSON of layer tables with published points (``{"nets": [{"name", "input_shape",
"layers": [[kind, channels, taps, stride, padding]], "published"}]}``), which is planned in the
accounting of such tables: neither the image nor the last output is in the arena. The unsplit peak
is that of the same options without pieces.

The largest work factor comes first; where its plan does no more work than a smaller factor allows,
it is the plan of that one, too. Rows of ``--csv`` replace those of the same model and work factor
in the file. ``splitting.csv`` beside this file has rows measured with ``--deterministic``; its
column ``limit s`` has the seconds counted. ``tests/support/splitting_table.py`` writes the guide's
table from it. GPT-2 at 1,024 tokens is ``zoo://transformers/gpt2?length=1024``, written to a file
``gpt2_1024.infer.json.gz`` and planned with ``--outputs outside``.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cpplan
from tests.support.split_networks import Network

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
NETWORKS: Mapping[str, Mapping[str, str]] = {
    "zoo/unet.infer.json.gz": {},
    "zoo/inception_v3.infer.json.gz": {},
    "zoo/densenet121.infer.json.gz": {},
    "zoo/resnet50.infer.json.gz": {},
    "zoo/shufflenet_v2_x1_0.infer.json.gz": {},
    "zoo/efficientnet_b0.infer.json.gz": {},
    "zoo/convnext_tiny.infer.json.gz": {},
    "zoo/swin_t.infer.json.gz": {},
    "zoo/vit_b_16.infer.json.gz": {},
    "zoo/gpt2.infer.json.gz": {"outputs": "outside"},
    "onnx/mobilenet_v2.onnx": {},
}
"""Model -> options for it."""


def read(path: str) -> Iterator[tuple[str, cpplan.Graph, dict[str, str], list[Mapping[str, Any]]]]:
    """Name, graph, residency and published points of every network of a file."""
    if path.endswith(".json"):
        nets = json.loads(Path(path).read_text()).get("nets")
        if nets is not None:
            for net in nets:
                where = {"inputs": "outside", "outputs": "outside"}
                yield net["name"], from_layers(net), where, net["published"]
            return
    yield Path(path).name, cpplan.load(path), {}, []


def from_layers(net: Mapping[str, Any]) -> cpplan.Graph:
    """The chain of convolutions that a table lists."""
    network = Network()
    x = network.image(*net["input_shape"])
    for kind, channels, taps, stride, padding in net["layers"]:
        depthwise = kind == "depthwise"
        x = network.conv(
            x, channels, taps=taps, stride=stride, depthwise=depthwise, padding=padding
        )
    return network.graph(net["name"])


def row_of(
    graph: cpplan.Graph, whole: int | None, factor: float, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Row of one model at one work factor, by heading: bytes, bound, work and seconds."""
    begin = time.process_time()
    plan = cpplan.solve(graph, split=True, cost_limit=factor, in_place=True, **options)
    cost = (plan.cost or 0) / plan.base_cost if plan.base_cost else 1.0
    return {
        "at most": factor,
        "whole": whole,
        "peak": plan.peak,
        "bound": plan.lower_bound,
        "work": round(cost, 6),
        "runs": len(plan.order),
        "copied": plan.copied_bytes,
        "status": plan.status,
        "limit s": options["time_limit"],
        "cpu s": round(time.process_time() - begin, 1),
    }


def main() -> None:
    """Print one line a model and work factor, and write the rows as CSV if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--factors", type=float, nargs="+", default=[1.0, 1.02, 1.1, 1.2])
    parser.add_argument("--time-limit", type=float, default=20.0, metavar="S")
    parser.add_argument("--inputs", default=None)
    parser.add_argument("--outputs", default=None)
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--csv", type=Path, default=None, metavar="FILE")
    arguments = parser.parse_args()
    options: dict[str, Any] = {"time_limit": arguments.time_limit}
    if arguments.deterministic:
        options["deterministic"] = True
    rows = []
    for path in arguments.files or [str(DATASETS / name) for name in NETWORKS]:
        for name, graph, where, published in read(path):
            given = {**where, **NETWORKS.get(f"{Path(path).parent.name}/{name}", {}), **options}
            for end in ("inputs", "outputs"):
                if getattr(arguments, end) is not None:
                    given[end] = getattr(arguments, end)
            whole = cpplan.solve(graph, in_place=True, **given).peak
            points = {point["mac_factor"]: point["bytes_measured"] for point in published}
            row: dict[str, Any] = {}
            for factor in sorted(points or arguments.factors, reverse=True):
                if not row or points or row["work"] > factor:
                    row = {"model": name, **row_of(graph, whole, factor, given)}
                row = {**row, "at most": factor}
                if points:
                    row["published"] = points[factor]
                print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
                rows.append(row)
                if arguments.csv is not None:
                    write(arguments.csv, rows)


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of a table, whose first has all headings; keep a file's other rows."""
    known: dict[tuple[str, float], Mapping[str, Any]] = {}
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            known = {_point(row): row for row in csv.DictReader(file)}
    known.update((_point(row), row) for row in rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, rows[0].keys(), lineterminator="\n", extrasaction="ignore")
        table.writeheader()
        table.writerows(known[point] for point in sorted(known))


def _point(row: Mapping[str, Any]) -> tuple[str, float]:
    """Model and work factor of a row."""
    return row["model"], float(row["at most"])


if __name__ == "__main__":
    main()
