"""Peak memory of training steps against recomputed operations: PyTorch's planner, and ours.

Each way of training runs once in this process, on the CPU, and the bytes that torch's allocator
hands out are counted by its own events. The first step compiles and plans; the second is measured.
Operations are those that ``torch.utils.flop_counter`` knows, in both graphs of a compiled step.
Gradients are compared with those of eager torch.

    python tests/benchmarks/torch_training.py --model gpt2 --time-limit 60
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from cpplan.io.torch import last_report
from cpplan.io.torch.training import backend, running
from cpplan.io.torch.training.backend import cpplan
from cpplan.io.torch.training.work import WORKS
from cpplan.io.torch.workspaces import count_allocated
from cpplan.model.errors import CpplanError

BUDGETS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.5, 0.7, 0.9)
PARTS = [0.9, 0.7, 0.5, 0.3]
MIB = 1 << 20


class Norm(nn.Module):
    """Root mean square normalisation."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class LlamaLayer(nn.Module):
    """Attention with rotary positions and a gated feed-forward net."""

    def __init__(self, width: int, heads: int, inner: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        y = self.norm1(x)
        q, k, v = (
            part(y).view(batch, length, self.heads, -1).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        q, k = self.turned(q, cos, sin), self.turned(k, cos, sin)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, length, width))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    @staticmethod
    def turned(x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Llama(nn.Module):
    """A thin llama: next-token cross-entropy."""

    def __init__(self, layers=32, width=128, heads=4, inner=344, words=1024, length=256):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(LlamaLayer(width, heads, inner) for _ in range(layers))
        self.norm, self.head = Norm(width), nn.Linear(width, words, bias=False)
        size = width // heads
        turns = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, size, 2) / size)
        self.register_buffer("cos", torch.cat([turns, turns], -1).cos())
        self.register_buffer("sin", torch.cat([turns, turns], -1).sin())
        self.run: Callable[..., Any] = lambda block, *given: block(*given)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = self.run(block, x, self.cos, self.sin)
        found = self.head(self.norm(x))
        return functional.cross_entropy(found[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


class Gpt2(nn.Module):
    """GPT-2 small from plain layers, with dropout; next-token cross-entropy."""

    def __init__(self, layers=12, width=768, heads=12, words=50257, length=128):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, 4 * width, 0.1, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))
        self.run: Callable[..., Any] = lambda block, *given: block(*given)

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight
        for block in self.blocks:
            x = self.run(block, x, self.mask)
        found = self.head(self.norm(x))
        return functional.cross_entropy(found[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


class Images(nn.Module):
    """A classifier of images with cross-entropy."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, images, labels):
        return functional.cross_entropy(self.inner(images), labels)


class UNet(nn.Module):
    """Three scales with skips; the mean square."""

    def __init__(self, width=32):
        super().__init__()
        sizes = [width, 2 * width, 4 * width, 8 * width]

        def twice(a, b):
            return nn.Sequential(
                nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(),
                nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(),
            )  # fmt: skip

        pairs = list(zip([3, *sizes], sizes, strict=False))
        self.down = nn.ModuleList(twice(a, b) for a, b in pairs)
        self.widen = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairwise(sizes))
        self.up = nn.ModuleList(twice(2 * a, a) for a in sizes[:-1])
        self.last = nn.Conv2d(width, 3, 1)

    def forward(self, x):
        skips, y = [], x
        for k, stage in enumerate(self.down):
            y = stage(functional.max_pool2d(y, 2) if k else y)
            skips.append(y)
        for k in reversed(range(len(self.up))):
            y = self.up[k](torch.cat([skips[k], self.widen[k](y)], 1))
        return (self.last(y) - x).square().mean()


class Recurrent(nn.Module):
    """Two layers of LSTM on words; next-token cross-entropy."""

    def __init__(self, words=2000, width=256):
        super().__init__()
        self.embedding, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        self.inner = nn.LSTM(width, width, 2, batch_first=True)

    def forward(self, tokens):
        found = self.head(self.inner(self.embedding(tokens))[0])
        return functional.cross_entropy(found[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def images(name: str, batch: int):
    import torchvision

    inner = getattr(torchvision.models, name)(weights=None)
    return Images(inner), (torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,)))


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple]]] = {
    "llama8": lambda: (Llama(8), (torch.randint(0, 1024, (4, 256)),)),
    "llama32": lambda: (Llama(32), (torch.randint(0, 1024, (4, 256)),)),
    "gpt2": lambda: (Gpt2(), (torch.randint(0, 50257, (4, 128)),)),
    "vit_b_16": lambda: images("vit_b_16", 4),
    "resnet50": lambda: images("resnet50", 8),
    "convnext_tiny": lambda: images("convnext_tiny", 4),
    "lstm": lambda: (Recurrent(), (torch.randint(0, 2000, (16, 32)),)),
    "unet": lambda: (UNet(), (torch.randn(4, 3, 128, 128),)),
}


def step(module: nn.Module, called: Callable[..., Any], inputs: tuple) -> torch.Tensor:
    torch.manual_seed(0)
    for weight in module.parameters():
        weight.grad = None
    loss = called(*inputs)
    loss.backward()
    return loss.detach()


def operations_in(module: torch.fx.GraphModule) -> int:
    """Operations of the nodes of a graph module, of those that the counter knows."""
    total = 0
    for node in module.graph.nodes:
        packet = getattr(node.target, "_overloadpacket", None)
        if packet in flop_registry:
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
            total += flop_registry[packet](*args, **kwargs, out_val=node.meta["val"])
    return total


# Graph modules compiled since the last look.
compiled_modules: list[torch.fx.GraphModule] = []


def recorded(module: torch.fx.GraphModule) -> Any:
    compiled_modules.append(module)
    return running.boxed(module)


backend.boxed = recorded


class Counted:
    """Operations, bytes and gradients of the second step of a way to train."""

    def __init__(self, module: nn.Module, inputs: tuple, compile_: Callable[[nn.Module], Any]):
        module = copy.deepcopy(module)
        torch._dynamo.reset()
        compiled_modules.clear()
        start = time.process_time()
        called = compile_(module)
        step(module, called, inputs)
        self.seconds = time.process_time() - start
        for weight in module.parameters():
            weight.grad = None
        found = count_allocated(lambda: step(module, called, inputs))
        self.peak = found.most
        self.loss = found.result
        self.gradients = [w.grad.clone() for w in module.parameters() if w.grad is not None]
        if compiled_modules:
            self.operations = sum(map(operations_in, compiled_modules))
        else:
            with FlopCounterMode(display=False) as counter:
                step(module, called, inputs)
            self.operations = counter.get_total_flops()


def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """Selective checkpointing: matrix products and attention are saved."""
    heavy = ("mm", "addmm", "bmm", "convolution", "_scaled_dot_product_flash_attention_for_cpu")
    kept = op._overloadpacket.__name__ in heavy
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


def ways(
    name: str, unplanned: int, settings: dict[str, Any]
) -> Iterator[tuple[str, Callable[[nn.Module], Any]]]:
    """Ways to train by name; each compiles a module."""

    def budget(part: float, solver: str) -> Callable[[nn.Module], Any]:
        def compiled(module: nn.Module) -> Any:
            from torch._dynamo.backends.common import aot_autograd
            from torch._functorch import config
            from torch._functorch.partitioners import min_cut_rematerialization_partition

            def partition(*args: Any, **kwargs: Any) -> Any:
                changed = {
                    "activation_memory_budget": part,
                    "activation_memory_budget_solver": solver,
                }
                with config.patch(changed):
                    return min_cut_rematerialization_partition(*args, **kwargs)

            # Of networks with batch norms, most of its plans fail here: they save statistics that
            # the forward pass then overwrites.
            run = aot_autograd(fw_compiler=lambda g, i: recorded(g), partition_fn=partition)
            return torch.compile(module, backend=run)

        return compiled

    def limited(limit: int) -> Callable[[nn.Module], Any]:
        options = {"resident": "outside", "memory_limit": limit, **settings}
        del options["parts"]
        return lambda module: torch.compile(module, backend=cpplan, options=options)

    for part in (1.0, *BUDGETS):
        for solver in ("dp", "ilp"):
            yield f"{solver} {part}", budget(part, solver)
    if name in ("llama8", "llama32", "gpt2"):

        def full(module: Any) -> Any:
            module.run = lambda *given: checkpoint(*given, use_reentrant=False)
            return module

        def selective(module: Any) -> Any:
            def contexts() -> Any:
                return create_selective_checkpoint_contexts(policy)

            module.run = lambda *given: checkpoint(*given, use_reentrant=False, context_fn=contexts)
            return module

        yield "full checkpointing", full
        yield "selective checkpointing", selective
    for part in settings["parts"]:
        yield f"cpplan {part}", limited(int(part * unplanned))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--time-limit", type=float, default=60)
    parser.add_argument("--ways", nargs="*", help="only ways whose names begin so")
    parser.add_argument("--parts", type=float, nargs="*", default=PARTS, help="of eager's peak")
    parser.add_argument("--cost", choices=WORKS, default="operations", help="what is to be least")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    settings = {"time_limit": args.time_limit, "cache": False, "on_infeasible": "best"}
    settings |= {"parts": args.parts, "cost": args.cost}
    rows = []
    for name in args.model or MODELS:
        torch.manual_seed(0)
        module, inputs = MODELS[name]()
        torch.backends.mkldnn.set_flags(name != "lstm")
        torch._dynamo.config.allow_rnn = True
        eager = Counted(module, inputs, lambda module: module)
        print(f"{name}: eager {eager.peak / MIB:.1f} MiB, {eager.operations / 1e9:.2f} Gflop")
        for way, compile_ in ways(name, eager.peak, settings):
            if args.ways and not way.startswith(tuple(args.ways)):
                continue
            try:
                found = Counted(module, inputs, compile_)
            except (CpplanError, RuntimeError) as error:
                print(f"  {way:24} failed: {str(error).strip().splitlines()[-1][:120]}")
                continue
            pairs = list(zip(eager.gradients, found.gradients, strict=True))
            equal = torch.equal(eager.loss, found.loss) and all(torch.equal(a, b) for a, b in pairs)
            close = all(torch.allclose(a, b, 1e-3, 1e-5) for a, b in pairs)
            row: dict[str, Any] = {
                "model": name, "way": way, "peak": found.peak, "part": found.peak / eager.peak,
                "extra": found.operations / eager.operations - 1,
                "gradients": "equal" if equal else "close" if close else "differ",
                "seconds": found.seconds,
            }  # fmt: skip
            if way.startswith("cpplan"):
                report = last_report()
                row["predicted"] = report.predicted_peak
                row["work"], row["bound"] = report.schedule.extra_work, report.schedule.extra_bound
                row["least"] = report.schedule.least
            rows.append(row)
            more = ""
            if "predicted" in row:
                more = (
                    f" predicted {row['predicted'] / MIB:.1f} work +{row['work']:.2%} "
                    f"(bound {row['bound']:.2%}) least {row['least'] / MIB:.1f}"
                )
            print(
                f"  {way:24} {found.peak / MIB:8.1f} MiB {row['part']:6.1%} "
                f"flops +{row['extra']:6.2%} {row['gradients']} {found.seconds:.0f} s{more}",
                flush=True,
            )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
