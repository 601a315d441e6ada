"""Small models of known shapes, with random weights: each returns its loss."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut, as in ResNet-18."""

    def __init__(self, inside: int, outside: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Sequential()
        if inside != outside:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    """Eighteen layers with weights, for images of 32 pixels and more; cross-entropy."""

    def __init__(self, width: int = 64):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.pool = nn.MaxPool2d(3, 2, 1)
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(Block(inside, outside, 1 + (k > 0)), Block(outside, outside, 1))
                for k, (inside, outside) in enumerate(pairwise(widths))
            )
        )
        self.head = nn.Linear(8 * width, 10)

    def forward(self, x, target):
        y = self.blocks(self.pool(self.stem(x)))
        return functional.cross_entropy(self.head(y.mean((2, 3))), target)


class Transformer(nn.Module):
    """Two layers of attention and a feed-forward net, with dropout; the mean square as loss."""

    def __init__(self, width: int = 32, dropout: float = 0.1):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        return self.layers(x).square().mean()


def arguments(module: nn.Module, inputs: tuple) -> list[torch.Tensor]:
    """Arguments of the training module: parameters, buffers, inputs."""
    return [p.detach() for p in module.parameters()] + [*module.buffers(), *inputs]


def random_order(graph, rng) -> list[str]:
    """Names of a graph's ops in some order that keeps what it must."""
    waiting = [len(before) for before in graph.predecessors]
    ready = [k for k, count in enumerate(waiting) if not count]
    order = []
    while ready:
        done = ready.pop(rng.randrange(len(ready)))
        order.append(graph.ops[done].name)
        for k, before in enumerate(graph.predecessors):
            if done in before:
                waiting[k] -= 1
                ready += [k] if not waiting[k] else []
    return order
