"""Language models as modules that take only tokens and return scores, or the loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class LanguageModel(nn.Module):  # type: ignore[misc]
    """A module that returns the scores of every token, or in training the loss.

    Parameters
    ----------
    causal
        True if a token sees only the tokens before it.
    pairs
        True if the model reads one sequence and writes another, its second input.
    """

    def __init__(self, module: nn.Module, *, causal: bool, pairs: bool, training: bool):
        super().__init__()
        self.module, self.causal, self.pairs, self.gives_loss = module, causal, pairs, training

    def forward(self, tokens: torch.Tensor, others: torch.Tensor | None = None) -> torch.Tensor:
        if self.gives_loss:
            given = self._seen(tokens) if self.causal else {}
            return self.module(input_ids=tokens, labels=others, **given).loss
        if self.pairs:
            return self.module(input_ids=tokens, decoder_input_ids=others).logits
        return self.module(input_ids=tokens).logits

    def _seen(self, tokens: torch.Tensor) -> dict[str, Any]:
        """Positions and attention mask, which transformers would otherwise derive from the tokens.

        Traced tokens have no data. (Within torch.export, transformers knows that it is traced;
        within the trace of a training step it does not.)
        """
        places = torch.arange(tokens.shape[1])
        seen = places[None, :] <= places[:, None]
        return {"position_ids": places[None], "attention_mask": seen[None, None]}
