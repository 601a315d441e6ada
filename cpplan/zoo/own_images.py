"""Two networks with branches that no other family has: a U-Net and a randomly wired network."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import networkx
import torch
from torch import nn
from torch.nn import functional


class UNet(nn.Module):  # type: ignore[misc]
    """The U-Net of Ronneberger, Fischer and Brox (MICCAI 2015), with padding and batch norm.

    Four levels: each halves the extent and doubles the channels, and on the way up its input is
    concatenated to the result of the level below. Extents are multiples of 16.
    """

    CLASSES = 21

    def __init__(self, channels: int = 64):
        super().__init__()
        widths = [channels << level for level in range(5)]
        self.down = nn.ModuleList(_twice(a, b) for a, b in pairwise([3, *widths]))
        up = [(after, before) for before, after in pairwise(widths)][::-1]
        self.widen = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in up)
        self.up = nn.ModuleList(_twice(a, b) for a, b in up)
        self.classify = nn.Conv2d(channels, self.CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for level, block in enumerate(self.down):
            x = block(functional.max_pool2d(x, 2) if level else x)
            kept.append(x)
        kept.pop()
        for widen, block in zip(self.widen, self.up, strict=True):
            x = block(torch.cat([kept.pop(), widen(x)], 1))
        return self.classify(x)


class RandWire(nn.Module):  # type: ignore[misc]
    """A randomly wired network, small regime, WS(4, 3/4).

    Xie et al., "Exploring Randomly Wired Neural Networks" (ICCV 2019).

    Parameters
    ----------
    seed
        Seed of the wiring.
    """

    CLASSES = 1000

    def __init__(self, seed: int, nodes: int = 32, channels: int = 78):
        super().__init__()
        half = channels // 2
        self.stem = nn.Sequential(
            *(nn.Conv2d(3, half, 3, 2, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU()),
            *(nn.Conv2d(half, channels, 3, 2, 1, bias=False), nn.BatchNorm2d(channels)),
        )
        widths = [channels, channels, 2 * channels, 4 * channels]
        self.stages = nn.Sequential(
            *(_Stage(a, b, nodes, seed + stage) for stage, (a, b) in enumerate(pairwise(widths)))
        )
        self.last = nn.Sequential(
            nn.ReLU(), nn.Conv2d(widths[-1], 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU()
        )
        self.classify = nn.Linear(1280, self.CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classify(self.last(self.stages(self.stem(x))).mean((2, 3)))


class _Stage(nn.Module):  # type: ignore[misc]
    """A stage of nodes that add their weighted inputs; its first nodes halve the extent."""

    def __init__(self, before: int, channels: int, nodes: int, seed: int):
        super().__init__()
        wiring = networkx.connected_watts_strogatz_graph(nodes, 4, 0.75, seed=seed)
        self.reads = [sorted(other for other in wiring[n] if other < n) for n in range(nodes)]
        self.last = [n for n in range(nodes) if all(other < n for other in wiring[n])]
        self.nodes = nn.ModuleList(
            _separable(channels if reads else before, channels, 1 if reads else 2)
            for reads in self.reads
        )
        self.weights = nn.ParameterDict(
            {f"{n}": nn.Parameter(torch.zeros(len(r))) for n, r in enumerate(self.reads) if r[1:]}
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        results: list[torch.Tensor] = []
        for n, (node, reads) in enumerate(zip(self.nodes, self.reads, strict=True)):
            given = [results[other] for other in reads] or [x]
            if len(given) > 1:
                shares = torch.sigmoid(self.weights[f"{n}"]).unbind()
                given = [share * each for share, each in zip(shares, given, strict=True)]
            results.append(node(reduce(torch.add, given)))
        return reduce(torch.add, [results[n] for n in self.last]) / len(self.last)


def _twice(before: int, channels: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(before, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()),
        *(nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()),
    )


def _separable(before: int, channels: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.ReLU(),
        nn.Conv2d(before, before, 3, stride, 1, groups=before, bias=False),
        nn.Conv2d(before, channels, 1, bias=False),
        nn.BatchNorm2d(channels),
    )
