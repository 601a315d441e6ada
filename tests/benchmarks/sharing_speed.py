"""Models of many ops with in-place results and placements: the whole process, start-up included.

    python tests/benchmarks/sharing_speed.py [--ops 1000] [--seeds 1 2 3] [--seconds 60]

Each model is a random sequence of residual blocks, dense blocks and blocks that split, compute and
concatenate, at falling resolution. ``cpplan plan MODEL --in-place`` plans it. Prints CSV: ops,
seed, bytes with and without sharing, bound, status, seconds of the whole process, versions.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from cpplan.io.graph_json import write_graph
from cpplan.model.graph import Graph, Op, Placement
from cpplan.model.tensor import Tensor


class Network:
    """A graph under construction: every method appends an op and returns its result's name."""

    def __init__(self, channels: int, extent: int):
        self.size = {"image": 4 * channels * extent * extent}
        self.ops: list[Op] = []

    def op(
        self, kind: str, inputs: list[str], sizes: list[int], in_place: bool = False
    ) -> list[str]:
        name = f"{kind}_{len(self.ops)}"
        outputs = [f"{name}:{k}" for k in range(len(sizes))]
        self.size.update(zip(outputs, sizes, strict=True))
        whole, parts = (outputs[0], inputs) if kind == "concat" else (inputs[0], outputs)
        placements, end = [], 0
        for part in parts if kind in ("concat", "split") else ():
            placements.append(Placement(part, whole, end))
            end += self.size[part]
        pairs = tuple((outputs[0], source) for source in inputs) if in_place else ()
        self.ops.append(
            Op(name, kind, tuple(inputs), tuple(outputs), in_place=pairs, placements=placements)
        )
        return outputs

    def conv(self, x: str, size: int) -> str:
        (y,) = self.op("conv", [x], [size])
        return y

    def relu(self, x: str) -> str:
        (y,) = self.op("relu", [x], [self.size[x]], in_place=True)
        return y

    def add(self, x: str, y: str) -> str:
        (z,) = self.op("add", [x, y], [self.size[x]], in_place=True)
        return z

    def concat(self, parts: list[str]) -> str:
        (whole,) = self.op("concat", parts, [sum(self.size[part] for part in parts)])
        return whole


def residual_block(network: Network, x: str, rng: random.Random) -> str:
    inner = network.relu(network.conv(x, network.size[x] // rng.choice((1, 2, 4))))
    return network.relu(network.add(network.conv(inner, network.size[x]), x))


def dense_block(network: Network, x: str, rng: random.Random) -> str:
    """A dense block: every layer reads the concatenation of all earlier results."""
    features, growth = [x], network.size[x] // 4
    for _ in range(rng.randint(2, 6)):
        source = network.concat(features) if len(features) > 1 else x
        features.append(network.relu(network.conv(source, growth)))
    return network.conv(network.concat(features), network.size[x])


def split_block(network: Network, x: str, rng: random.Random) -> str:
    halves = network.op("split", [x], [network.size[x] // 2] * 2)
    kept = [network.relu(network.conv(half, network.size[half])) for half in halves]
    if rng.random() < 0.5:
        kept[0] = halves[0]
    return network.concat(kept)


def random_network(ops: int, seed: int) -> Graph:
    """A random network of about ``ops`` ops; equal seeds give equal networks."""
    rng, network = random.Random(seed), Network(channels=64, extent=64)
    x = "image"
    shrink = {ops // 3, 2 * ops // 3}
    while len(network.ops) < ops - 1:
        block = rng.choice((residual_block, dense_block, split_block))
        x = block(network, x, rng)
        if shrink and len(network.ops) >= min(shrink):
            shrink.remove(min(shrink))
            x = network.conv(x, network.size[x] // 2)
    result = network.relu(x)
    kinds = {"image": "input", result: "output"}
    tensors = (
        Tensor(name, size, kind=kinds.get(name, "intermediate"))
        for name, size in network.size.items()
    )
    return Graph(f"blocks_{ops}_{seed}", tuple(tensors), tuple(network.ops))


def plan(path: Path, seconds: float, switch: str) -> tuple[dict[str, object], float]:
    """The plan that the command line prints, and how long that took."""
    command = [sys.executable, "-m", "cpplan", "plan", str(path), "-q", "--json", "-"]
    start = time.monotonic()
    run = subprocess.run(
        [*command, switch, "--time-limit", str(seconds)], capture_output=True, check=True
    )
    return json.loads(run.stdout), time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--ops", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    table = csv.writer(sys.stdout)
    table.writerow(
        ["ops", "seed", "plain", "shared", "bound", "status", "seconds", "cpplan", "numpy"]
    )
    for seed in options.seeds:
        graph = random_network(options.ops, seed)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.json"
            write_graph(graph, path)
            plain, _ = plan(path, options.seconds, "--no-in-place")
            shared, seconds = plan(path, options.seconds, "--in-place")
        found = [plain["peak"], *(shared[key] for key in ("peak", "lower_bound", "status"))]
        versions = [version("cpplan"), version("numpy")]
        table.writerow([len(graph.ops), seed, *found, round(seconds, 2), *versions])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
