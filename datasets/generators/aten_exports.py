"""The training step of ResNet-18 as PyTorch traces it: forward and backward in one ATen graph.

Run by hand, ``python datasets/generators/aten_exports.py``, in an environment of its own with
cpplan and ``torch==2.13.0``: other versions may trace other ops. Running it twice changes nothing.

Nothing is computed but shapes. The network is written out below, after He et al., "Deep Residual
Learning for Image Recognition" (CVPR 2016), and has no weights to keep: parameters and running
statistics are constants of the graph. What the step hands back (the loss, a gradient for every
parameter, new running statistics) are outputs. The trace is functional, so that every op may run
again.

Views (``t``, ``view``, ``expand``, ``detach``) are left out: who reads one reads its base.

Costs are floating-point operations: two for each product of convolutions and matrix products (a
convolution's backward op has that for each gradient it gives), 7 for every element of batch norm
and 9 of its backward op, the window for every result of the pool, and one for every element of the
largest tensor that another op reads or writes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._functorch.aot_autograd import aot_export_module

from cpplan.io.graph_json import write_graph
from cpplan.model.graph import Graph, Op, Tensor

FOLDER = Path(__file__).resolve().parents[1] / "aten"
BATCH, EXTENT, CLASSES = 32, 224, 1000
VIEWS = ("t", "view", "expand", "detach")


class Block(nn.Module):
    """Two 3×3 convolutions beside the identity, or beside a 1×1 convolution where extents halve."""

    def __init__(self, before: int, channels: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.side = nn.Sequential()
        if stride > 1:
            conv = nn.Conv2d(before, channels, 1, stride, bias=False)
            self.side = nn.Sequential(conv, nn.BatchNorm2d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.side(x))


class Step(nn.Module):
    """The mean cross entropy of ResNet-18."""

    def __init__(self) -> None:
        super().__init__()
        stem = (nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        blocks, before = [], 64
        for channels in (64, 128, 256, 512):
            for stride in (1 if channels == 64 else 2, 1):
                blocks.append(Block(before, channels, stride))
                before = channels
        head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES))
        self.network = nn.Sequential(*stem, nn.MaxPool2d(3, 2, 1), *blocks, *head)

    def forward(self, image: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor]:
        return (nn.functional.cross_entropy(self.network(image), labels),)


def traced(name: str) -> Graph:
    """The step as one graph, its ops in the order in which they were traced."""
    image, labels = torch.zeros(BATCH, 3, EXTENT, EXTENT), torch.zeros(BATCH, dtype=torch.int64)
    module, signature = aot_export_module(
        Step(), (image, labels), trace_joint=True, output_loss_index=0
    )
    weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    data = dict(zip(signature.user_inputs, ("image", "labels"), strict=True))
    # Of every node of the trace, the tensors that it stands for; views have those of their base.
    stands_for: dict[Any, list[str | None]] = {}
    tensors: dict[str, Tensor] = {}
    ops: list[Op] = []
    for node in module.graph.nodes:
        if node.op == "output":
            for result in node.args[0]:
                (made,) = stands_for[result]
                values = tensors[made]
                tensors[made] = Tensor(made, shape=values.shape, dtype=values.dtype, kind="output")
        elif node.op == "placeholder":
            kind = "input" if node.name in data else "constant"
            called = data.get(node.name) or weights[node.name].removeprefix("network.")
            tensors[called] = tensor(called, node.meta["val"], kind)
            stands_for[node] = [called]
        elif node.target.__name__ == "getitem":
            source, number = node.args
            stands_for[node] = [stands_for[source][number]]
        elif node.target._opname in VIEWS:
            stands_for[node] = stands_for[node.args[0]]
        else:
            reads = tuple(dict.fromkeys(t for n in node.all_input_nodes for t in stands_for[n]))
            writes = dict(results(node))
            tensors.update({t.name: t for t in writes.values()})
            several = isinstance(node.meta["val"], (tuple, list))
            count = len(node.meta["val"]) if several else 1
            stands_for[node] = [writes[k].name if k in writes else None for k in range(count)]
            written = tuple(t.name for t in writes.values())
            cost = operations(node, [tensors[t] for t in (*reads, *written)])
            ops.append(Op(node.name, str(node.target), reads, written, cost=cost))
    return Graph(name, tuple(tensors.values()), tuple(ops))


def results(node: torch.fx.Node) -> Iterator[tuple[int, Tensor]]:
    """The tensors that a node computes, by their place among its results."""
    value = node.meta["val"]
    if not isinstance(value, (tuple, list)):
        yield 0, tensor(node.name, value)
        return
    for k, part in enumerate(value):
        if part is not None:
            yield k, tensor(f"{node.name}.{k}", part)


def tensor(name: str, value: torch.Tensor, kind: str = "intermediate") -> Tensor:
    dtype = str(value.dtype).removeprefix("torch.")
    return Tensor(name, shape=tuple(value.shape), dtype=dtype, kind=kind)


def operations(node: torch.fx.Node, accessed: list[Tensor]) -> int:
    """Floating-point operations of a node, see above."""
    kind, value = node.target._opname, node.meta["val"]
    shapes = [n.meta["val"].shape for n in node.all_input_nodes]
    elements = [math.prod(t.shape or ()) for t in accessed]
    if kind == "convolution":
        return 2 * value.numel() * math.prod(shapes[1][1:])
    if kind == "convolution_backward":
        return sum(node.args[-1][:2]) * 2 * math.prod(shapes[0]) * math.prod(shapes[2][1:])
    if kind in ("mm", "addmm"):
        return 2 * value.numel() * shapes[-1][0]
    if kind == "max_pool2d_with_indices":
        return value[0].numel() * math.prod(node.args[1])
    per_element = {"_native_batch_norm_legit_functional": 7, "native_batch_norm_backward": 9}
    return per_element.get(kind, 1) * max(elements)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    write_graph(traced("resnet18_aten_training"), FOLDER / "resnet18_aten_training.json")


if __name__ == "__main__":
    main()
