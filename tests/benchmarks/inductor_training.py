"""Loss curves and peak memory of training by inductor: with its own partitioner, and with ours.

Every way trains the same small model from the same start for twenty steps on the same data, in this
process and on the CPU. The peak is that of the second step, by the events of torch's allocator;
inductor takes its buffers from there too. Losses are compared with those of inductor's own
partitioner, and with those of eager torch. Dropout draws by torch's own kernels
(``fallback_random``), so that all ways draw the same numbers. Rows are added to a CSV file one by
one, and those that are there are not measured again.

    python tests/benchmarks/inductor_training.py --model vit
"""

from __future__ import annotations

import argparse
import copy
import csv
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
from torch import nn
from torch._inductor import config
from torch._inductor.utils import fresh_cache
from torch.nn import functional

from cpplan.io.torch import last_report, partitioner
from cpplan.io.torch.workspaces import count_allocated
from cpplan.zoo.torchvision_models import import_torchvision
from tests.benchmarks.training_models import Gpt2, Images, Recurrent, UNet

STEPS = 20
RATE = 0.02
PARTS = (0.5,)
COLUMNS = (
    "model", "way", "peak", "inductor", "eager", "predicted", "extra_flops", "first_loss",
    "last_loss", "loss_difference", "equal_steps", "eager_difference", "saved", "seconds",
)  # fmt: skip
ROWS = Path(__file__).with_suffix(".csv")
MIB = 1 << 20


class ConvNeXt(nn.Module):
    """Two stages of ConvNeXt blocks with global averages; cross-entropy."""

    def __init__(self, width: int = 48):
        super().__init__()
        block = import_torchvision().models.convnext.CNBlockConfig
        stages = [block(width, 2 * width, 2), block(2 * width, None, 2)]
        self.inner = import_torchvision().models.ConvNeXt(stages, num_classes=10)

    def forward(self, images, labels):
        return functional.cross_entropy(self.inner(images), labels)


def labelled(batch: int, size: int):
    return torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,))


def resnet18():
    return Images(import_torchvision().models.resnet18(num_classes=10)), labelled(16, 96)


def vit():
    """Three layers of ViT-B/16's kind at a quarter of its width, with dropout."""
    inner = import_torchvision().models.VisionTransformer(
        112, 16, 3, 3, 192, 768, dropout=0.1, num_classes=10
    )
    return Images(inner), labelled(16, 112)


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple]]] = {
    "resnet18": resnet18,
    "vit": vit,
    "gpt2": lambda: (Gpt2(3, 192, 6, 1000, 128), (torch.randint(0, 1000, (4, 128)),)),
    "convnext": lambda: (ConvNeXt(), labelled(8, 96)),
    "unet": lambda: (UNet(16), (torch.randn(4, 3, 96, 96),)),
    "lstm": lambda: (Recurrent(500, 128), (torch.randint(0, 500, (16, 12)),)),
}


class Trained:
    """Losses of the steps of a way to train, and the peak of the second one."""

    def __init__(self, module: nn.Module, inputs: tuple, compile_: Callable[[nn.Module], Any]):
        module = copy.deepcopy(module)
        torch._dynamo.reset()
        called = compile_(module)
        optimizer = torch.optim.SGD(module.parameters(), RATE, momentum=0.9)
        self.losses: list[float] = []

        def step() -> None:
            torch.manual_seed(len(self.losses))
            loss = called(*inputs)
            loss.backward()
            self.losses.append(float(loss.detach()))

        start = time.monotonic()
        for k in range(STEPS):
            optimizer.zero_grad()
            if k == 1:
                self.peak = count_allocated(step).most
            else:
                step()
            optimizer.step()
            if k == 0:
                self.seconds = time.monotonic() - start


def planned(**options: Any) -> Callable[[nn.Module], Any]:
    """Inductor with our partitioner."""
    found = partitioner(
        resident="outside", deterministic=True, cache=False, on_infeasible="best", **options
    )
    return lambda module: torch.compile(module, options={"custom_partitioner_fn": found})


def difference(one: list[float], other: list[float]) -> tuple[float, int]:
    """Largest difference of two curves of losses, relative; and the number of equal steps."""
    pairs = list(zip(one, other, strict=True))
    return max(abs(a - b) / abs(b) for a, b in pairs), sum(a == b for a, b in pairs)


def measure(name: str, path: Path, time_limit: float) -> None:
    """Measure the ways to train a model that are not in the file."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == name]
    known = {row["way"] for row in rows}
    torch.manual_seed(0)
    module, inputs = MODELS[name]()
    torch.backends.mkldnn.set_flags(name != "lstm")
    settings = {"time_limit": time_limit, "cost": "flops"}
    ways = {f"cpplan {part}": planned(memory_limit=f"{part:.0%}", **settings) for part in PARTS}
    ways = {"cpplan least": planned(cost_limit=1, **settings), **ways}
    if set(ways) <= known:
        return
    eager = Trained(module, inputs, lambda module: module)
    own = Trained(module, inputs, torch.compile)
    print(f"{name}: eager {eager.peak / MIB:.1f}, inductor {own.peak / MIB:.1f} MiB", flush=True)
    for way, compile_ in {"inductor": None, **ways}.items():
        if way in known:
            continue
        found = own if compile_ is None else Trained(module, inputs, compile_)
        largest, equal = difference(found.losses, own.losses)
        row = {
            "model": name, "way": way, "peak": found.peak, "inductor": own.peak,
            "eager": eager.peak, "first_loss": found.losses[0], "last_loss": found.losses[-1],
            "loss_difference": f"{largest:.1e}", "equal_steps": equal,
            "eager_difference": f"{difference(found.losses, eager.losses)[0]:.1e}",
            "seconds": round(found.seconds, 1),
        }  # fmt: skip
        if compile_ is not None:
            report = last_report()
            row |= {
                "predicted": report.predicted_peak,
                "extra_flops": round(report.schedule.extra_work, 6),
                "saved": report.saved_bytes,
            }
        with path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(row)
        print("  " + " ".join(f"{k}={v}" for k, v in row.items() if k != "model"), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--time-limit", type=float, default=5, help="for each plan")
    parser.add_argument("--csv", type=Path, default=ROWS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch._dynamo.config.allow_rnn = True
    config.fallback_random = True
    config.compile_threads = 1
    if not args.csv.exists():
        args.csv.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    for name in args.model or MODELS:
        with fresh_cache():
            measure(name, args.csv, args.time_limit)


if __name__ == "__main__":
    main()
