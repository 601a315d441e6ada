"""Peaks of models in pieces at several work factors.

Run ``python -m tests.benchmarks.splitting FILE …``.

A file is a model, or a JSON of layer tables with published points (``{"nets": [{"name",
"input_shape", "layers": [[kind, channels, taps, stride, padding]], "published"}]}``), which is
planned in the accounting of such tables: neither the image nor the last output is in the arena.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import cpplan
from tests.support.split_networks import Network


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


def main() -> None:
    """Print one line a model and work factor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--factors", type=float, nargs="+", default=[1.0, 1.02, 1.1, 1.2, 1.5])
    parser.add_argument("--time-limit", type=float, default=20.0, metavar="S")
    parser.add_argument("--inputs", default=None)
    arguments = parser.parse_args()
    for path in arguments.files:
        for name, graph, where, published in read(path):
            if arguments.inputs is not None:
                where = {**where, "inputs": arguments.inputs}
            points = {point["mac_factor"]: point["bytes_measured"] for point in published}
            for factor in sorted(points) or arguments.factors:
                plan = cpplan.solve(
                    graph, split=True, cost_limit=factor, in_place=True,
                    time_limit=arguments.time_limit, **where,  # type: ignore[arg-type]
                )  # fmt: skip
                work = (plan.cost or 0) / plan.base_cost if plan.base_cost else 1.0
                print(
                    f"{name}  at most {factor:.4f}: {plan.peak} B at {work:.4f}, "
                    f"bound {plan.lower_bound} B, {len(plan.order)} runs, "
                    f"copied {plan.copied_bytes} B"
                    + (f", published {points[factor]} B" if factor in points else ""),
                    flush=True,
                )


if __name__ == "__main__":
    main()
