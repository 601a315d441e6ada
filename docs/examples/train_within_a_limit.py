"""Train a small transformer on synthetic data under three memory limits; print measured peaks.

python docs/examples/train_within_a_limit.py
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

from cpplan.io.torch import last_report
from cpplan.io.torch.training.backend import cpplan


class NextToken(nn.Module):
    """Four layers of attention; returns the cross-entropy of the next token."""

    def __init__(self, words: int = 64, width: int = 64):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True)
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found = self.head(self.layers(self.embedding(tokens[:, :-1])))
        return nn.functional.cross_entropy(found.flatten(0, 1), tokens[:, 1:].flatten())


def train(options: dict, steps: int) -> float:
    """The last loss of training on sequences that count upwards."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = NextToken()
    # The backend's name works too where cpplan is installed.
    step = torch.compile(model, backend=cpplan, options={"resident": "outside", **options})
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(steps):
        tokens = (torch.randint(0, 64, (16, 1)) + torch.arange(65)) % 64
        optimizer.zero_grad()
        loss = step(tokens)
        loss.backward()
        optimizer.step()
    return float(loss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--time-limit", type=float, default=10)
    args = parser.parse_args()
    loss = train({"cost_limit": 1, "time_limit": args.time_limit}, args.steps)
    unplanned = last_report().schedule.unplanned
    print(f"loss {loss:.6f}  {last_report()}")
    for part in (0.8, 0.6, 0.4):
        limit = {"memory_limit": int(part * unplanned), "on_infeasible": "best"}
        loss = train({**limit, "time_limit": args.time_limit}, args.steps)
        print(f"loss {loss:.6f}  {last_report()}")


if __name__ == "__main__":
    main()
