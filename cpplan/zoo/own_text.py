"""Two small networks that predict the next token: an LSTM and a transformer."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from cpplan.zoo.network import Network
from cpplan.zoo.source import Options

TOKENS = 10_000
_LONGEST = 4096


class LSTM(nn.Module):  # type: ignore[misc]
    """The medium LSTM of Zaremba et al., "Recurrent Neural Network Regularization" (2014)."""

    def __init__(self, width: int = 650):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, width)
        self.layers = nn.LSTM(width, width, 2, batch_first=True, dropout=0.5)
        self.classify = nn.Linear(width, TOKENS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.classify(self.layers(self.embed(tokens))[0])


class Transformer(nn.Module):  # type: ignore[misc]
    """A transformer of four layers of causal attention with four heads."""

    def __init__(self, width: int = 256, depth: int = 4):
        super().__init__()
        self.embed, self.places = nn.Embedding(TOKENS, width), nn.Embedding(_LONGEST, width)
        self.layers = nn.ModuleList(_Layer(width) for _ in range(depth))
        self.norm, self.classify = nn.LayerNorm(width), nn.Linear(width, TOKENS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) + self.places.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.classify(self.norm(x))


class _Layer(nn.Module):  # type: ignore[misc]
    """A layer of attention and a feed-forward net, each after a norm and beside a shortcut."""

    def __init__(self, width: int, heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.read, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.forget = nn.Dropout(dropout)
        self.net = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.read(self.norm1(x)).chunk(3, 2)
        query, key, value = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in parts)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.forget(self.join(seen.transpose(1, 2).flatten(2)))
        return x + self.forget(self.net(self.norm2(x)))


class NextToken(nn.Module):  # type: ignore[misc]
    """A module that returns the mean cross entropy of a network's predictions."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.module(tokens).flatten(0, 1), targets.flatten())


TEXTS = {"lstm": (LSTM, 35), "transformer": (Transformer, 128)}


def read_text(model: str, options: Options) -> Network:
    """Build one of these networks with a batch of tokens; for training, with targets too."""
    make, length = TEXTS[model]
    shape = options.number("batch"), options.number("length", length)
    tokens = torch.randint(TOKENS, shape)
    if not options.training:
        return Network(make(), (tokens,))
    return Network(NextToken(make()), (tokens, torch.randint(TOKENS, shape)))
