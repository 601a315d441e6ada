"""Models whose training steps are measured: forward passes that return their loss, with inputs.

Widths are those of the models as published, but for those named thin; batches, images and sequences
are small enough for a machine with little memory.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from cpplan.zoo.torchvision_models import import_torchvision


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
    """A thin llama: next-token cross-entropy.

    Layers and positions are those of the llama in pytorch/pytorch#197838, whose width is not told.
    """

    def __init__(self, layers=32, width=128, heads=4, inner=344, words=1024, length=1024):
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


def labelled(batch: int):
    return torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,))


def images(name: str, batch: int):
    return Images(getattr(import_torchvision().models, name)(weights=None)), labelled(batch)


def thin_vit():
    """ViT-B/16 of a quarter of the width, so that values outweigh gradients."""
    return import_torchvision().models.VisionTransformer(224, 16, 12, 3, 192, 768)


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple]]] = {
    "llama8": lambda: (Llama(8), (torch.randint(0, 1024, (1, 1024)),)),
    "llama32": lambda: (Llama(32), (torch.randint(0, 1024, (1, 1024)),)),
    "gpt2": lambda: (Gpt2(), (torch.randint(0, 50257, (8, 128)),)),
    "gpt2_thin": lambda: (Gpt2(12, 192, 6, 1000, 256), (torch.randint(0, 1000, (2, 256)),)),
    "vit_b_16": lambda: images("vit_b_16", 16),
    "vit_thin": lambda: (Images(thin_vit()), labelled(4)),
    "resnet50": lambda: images("resnet50", 8),
    "convnext_tiny": lambda: images("convnext_tiny", 4),
    "lstm": lambda: (Recurrent(), (torch.randint(0, 2000, (16, 32)),)),
    "unet": lambda: (UNet(), (torch.randn(4, 3, 128, 128),)),
}
