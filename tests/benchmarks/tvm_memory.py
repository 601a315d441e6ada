"""Memory and time of networks that TVM runs, with its own planner and with ours.

    python tests/benchmarks/tvm_memory.py --csv notebooks/11_tvm.csv [--models resnet18 ...]

Networks of torchvision at 224 x 224, without trained weights, through TVM's importer of exported
programs, ops fused by its pipeline ``zero``. Bytes are those of all storages that one run asks
TVM's allocator for, the result's among them. Compile times are of one compilation each. Run times
are of one thread; runs take turns, and the ratio is the median over pairs of neighbouring runs.
Needs the extras ``tvm`` and ``zoo``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("TVM_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import torch
import tvm
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

import cpplan.tvm
from cpplan.zoo.torchvision_models import import_torchvision

MODELS = (
    "squeezenet1_1", "shufflenet_v2_x1_0", "resnet18", "mobilenet_v2", "googlenet", "densenet121",
)  # fmt: skip
PLANS: dict[str, dict[str, Any]] = {
    "given order": {},
    "searched, in place": {"order": "search", "in_place": True},
    "and 10 % more work": {
        "order": "search", "in_place": True, "remat": True, "cost_limit": 1.1, "time_limit": 20,
    },
}  # fmt: skip


def network(name: str, batch: int = 1) -> tuple[Any, np.ndarray]:
    """A network of torchvision as a module of fused kernels, and an input."""
    torch.manual_seed(0)
    more = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    net = import_torchvision().models.get_model(name, **more).eval()
    x = torch.randn(batch, 3, 224, 224)
    module = from_exported_program(torch.export.export(net, (x,)))
    module = relax.transform.DecomposeOpsForInference()(module)
    return relax.get_pipeline("zero")(module), x.numpy()


class Compiled:
    """A compiled module with its input on the device."""

    def __init__(self, module: Any, pipeline: Any, x: np.ndarray):
        begin = time.perf_counter()
        executable = tvm.compile(module, target="llvm", relax_pipeline=pipeline)
        self.compile_time = time.perf_counter() - begin
        self.executable = executable
        self.machine = relax.VirtualMachine(executable, tvm.cpu())
        self.x = tvm.runtime.tensor(x)

    def run(self) -> float:
        """Seconds of one run."""
        begin = time.perf_counter()
        self.machine["main"](self.x)
        return time.perf_counter() - begin

    def bytes(self) -> int:
        """Bytes of all storages that a run asks the allocator for."""
        total = 0

        def watch(_: Any, name: str, before: bool, __: Any, *arguments: Any) -> None:
            nonlocal total
            if before and name == "vm.builtin.alloc_storage":
                (size,) = arguments[1]
                total += int(size)

        machine = relax.VirtualMachine(self.executable, tvm.cpu())
        machine.set_instrument(watch)
        machine["main"](self.x)
        return total


def rows_of(name: str, runs: int) -> Iterator[dict[str, Any]]:
    """Yield what was measured of a network with each planner."""
    module, x = network(name)
    usual = Compiled(module, "default", x)
    yield {
        "model": name,
        "planner": "TVM's own",
        "bytes": usual.bytes(),
        "arena": None,
        "bound": None,
        "status": None,
        "compiled": usual.compile_time,
        "run": median(usual.run() for _ in range(3)),
        "ratio": 1.0,
    }
    for title, options in PLANS.items():
        ours = Compiled(module, cpplan.tvm.pipeline(**options), x)
        (plan,) = (each.plan for each in cpplan.tvm.last_plans())
        pairs = [(usual.run(), ours.run()) for _ in range(runs + 1)][1:]
        yield {
            "model": name,
            "planner": title,
            "bytes": ours.bytes(),
            "arena": plan.peak,
            "bound": plan.lower_bound,
            "status": plan.status,
            "compiled": ours.compile_time,
            "run": median(mine for _, mine in pairs),
            "ratio": median(mine / theirs for theirs, mine in pairs),
        }


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each network and planner; write all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--csv", type=Path, required=True)
    given = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    for name in given.models:
        for row in rows_of(name, given.runs):
            print(*row.values(), flush=True)
            rows.append(row)
            frame = pd.DataFrame(rows).astype({"arena": "Int64", "bound": "Int64"})
            frame.round(4).to_csv(given.csv, index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
