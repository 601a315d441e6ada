"""Loss curves of small models trained by inductor with the partitioner, and measured peaks.

Each model trains 20 steps of SGD three times from the same weights: by eager torch, by inductor,
and by inductor with the partition of a plan within a part of the unplanned peak. Rows are added to
a CSV file; those that are there are not measured again. A C++ compiler must be there.

    python tests/benchmarks/inductor_training.py --csv inductor.csv
"""

from __future__ import annotations

import argparse
import copy
import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
from torch import nn

import cpplan.io.torch as planning
from cpplan.io.torch.workspaces import count_allocated
from tests.benchmarks.training_models import SMALL

PART = 0.5
COLUMNS = ("model", "way", "peak", "extra_work", "first_loss", "last_loss", "largest_difference")


def train(module: nn.Module, inputs: tuple, called: Any, steps: int) -> tuple[list[float], int]:
    """Losses of all steps, and the most bytes that the last one allocates before the update."""
    optimizer = torch.optim.SGD(module.parameters(), 0.01)
    losses, peak = [], 0
    for k in range(steps):
        torch.manual_seed(k)
        optimizer.zero_grad()

        def step() -> torch.Tensor:
            loss = called(*inputs)
            loss.backward()
            return loss.detach()

        found = count_allocated(step)
        losses.append(float(found.result))
        peak = found.most
        optimizer.step()
    return losses, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=SMALL, action="append")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--csv", type=Path, default=Path("inductor.csv"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False  # its LSTM cannot be compiled
    torch._dynamo.config.allow_rnn = True
    # Dropout then draws what eager torch draws.
    torch._inductor.config.fallback_random = True
    if not args.csv.exists():
        args.csv.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    with args.csv.open(newline="", encoding="utf-8") as file:
        known = {(row["model"], row["way"]) for row in csv.DictReader(file)}
    for name in args.model or SMALL:
        torch.manual_seed(0)
        module, inputs = SMALL[name]()
        eager = copy.deepcopy(module)
        expected, unplanned = train(eager, inputs, eager, args.steps)
        limited = planning.partitioner(
            memory_limit=int(PART * unplanned), resident="outside", cache=False, time_limit=5,
            deterministic=True, on_infeasible="best",
        )  # fmt: skip
        ways: dict[str, Callable[[nn.Module], Any]] = {
            "eager": lambda module: module,
            "inductor": torch.compile,
            f"inductor, cpplan {PART}": lambda module, limited=limited: torch.compile(
                module, options={"custom_partitioner_fn": limited}
            ),
        }
        for way, compile_ in ways.items():
            if (name, way) in known:
                continue
            torch._dynamo.reset()
            copied = copy.deepcopy(module)
            losses, peak = train(copied, inputs, compile_(copied), args.steps)
            differences = [abs(a / b - 1) for a, b in zip(losses, expected, strict=True)]
            row = [name, way, peak, "", losses[0], losses[-1], max(differences)]
            if "cpplan" in way:
                row[3] = round(planning.last_report().schedule.extra_work, 6)
            with args.csv.open("a", newline="", encoding="utf-8") as file:
                csv.writer(file, lineterminator="\n").writerow(row)
            print(*row, flush=True)


if __name__ == "__main__":
    main()
