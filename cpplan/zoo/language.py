"""A language model as a module that takes tokens alone and returns scores, or its loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class LanguageModel(nn.Module):  # type: ignore[misc]
    """Scores of every token; for training the loss of predicting the second input.

    Parameters
    ----------
    causal
        Whether a token sees those before it only.
    pairs
        Whether the model reads one sequence and writes another: the second input then.
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
        """Places and what each of them sees; else transformers asks the tokens, which have no data.

        (In torch.export it knows that it is being traced, in the trace of a training step not.)
        """
        places = torch.arange(tokens.shape[1])
        seen = places[None, :] <= places[:, None]
        return {"position_ids": places[None], "attention_mask": seen[None, None]}
