"""Random small networks of torch, exported."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import nn
from torch.nn import functional

ROWS, WIDTH = 4, 8


class RandomNetwork(nn.Module):
    """Layers on matrices of one width: shared weights, views, two results, an operand twice."""

    def __init__(self, rng: random.Random):
        super().__init__()
        self.shared, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.steps = [
            (rng.choice(KINDS), rng.randint(1, 3), rng.randint(1, 3))
            for _ in range(rng.randint(3, 7))
        ]

    def forward(self, x: Any) -> Any:
        made = [x]
        for kind, one, other in self.steps:
            a, b = made[-min(one, len(made))], made[-min(other, len(made))]
            made.append(getattr(self, f"_{kind}")(a, b))
        return made[-1], made[-2] * 2

    def _linear(self, a: Any, b: Any) -> Any:
        return self.shared(a)

    def _tied(self, a: Any, b: Any) -> Any:
        return self.other(torch.relu(self.shared(b)))

    def _square(self, a: Any, b: Any) -> Any:
        return a * a

    def _add(self, a: Any, b: Any) -> Any:
        return a + b

    def _halves(self, a: Any, b: Any) -> Any:
        left, right = a.chunk(2, -1)
        return torch.cat([functional.silu(right), left], -1)

    def _turned(self, a: Any, b: Any) -> Any:
        return (a.transpose(-1, -2).contiguous() + 1).transpose(-1, -2)

    def _norm_(self, a: Any, b: Any) -> Any:
        return self.norm(a)

    def _pooled(self, a: Any, b: Any) -> Any:
        values, _ = functional.max_pool1d(a.unsqueeze(1), 2, return_indices=True)
        return values.squeeze(1).repeat(1, 2)

    def _softmax(self, a: Any, b: Any) -> Any:
        return torch.softmax(a, -1) * b.view(-1, 2, WIDTH // 2).flatten(1)


KINDS = ("linear", "tied", "square", "add", "halves", "turned", "norm_", "pooled", "softmax")


def exported(rng: random.Random, *, symbolic: bool = False) -> torch.export.ExportedProgram:
    """A random network as torch exports it, for any number of rows up to 16 if asked."""
    torch.manual_seed(rng.randrange(2**31))
    model = RandomNetwork(rng).eval()
    rows = {0: torch.export.Dim("rows", min=2, max=16)} if symbolic else None
    with torch.no_grad():
        x = torch.randn(ROWS, WIDTH)
        return torch.export.export(model, (x,), dynamic_shapes=({**rows},) if rows else None)
