"""Modules with their inputs: with weights to be run, or without weights to be traced.

Weights of a module that is only traced are never stored: as a layer is built, each of its weights
is replaced by a tensor that has only a shape. Buffers keep their values, which some models read.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.nn.modules.module import register_module_parameter_registration_hook

from cpplan.model.errors import InputError, first_line
from cpplan.zoo.source import Options

# Weight of auxiliary classifiers' losses, after Szegedy et al., "Going Deeper with Convolutions".
_AUXILIARY = 0.3


@dataclass(frozen=True)
class Network:
    """A module and its positional inputs; a module for training returns its loss."""

    module: nn.Module
    inputs: tuple[torch.Tensor, ...]


class CrossEntropy(nn.Module):  # type: ignore[misc]
    """A module that returns the mean cross entropy of scores, with auxiliary classifiers'."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        found = self.module(inputs)
        scores = list(found.values()) if isinstance(found, dict) else found
        first, *others = scores if isinstance(scores, (tuple, list)) else [scores]
        loss = functional.cross_entropy(first, targets)
        for other in others:
            loss = loss + _AUXILIARY * functional.cross_entropy(other, targets)
        return loss


def with_weights(build: Callable[[], Network], options: Options) -> Network:
    """Build a network, with the same weights and inputs at each call.

    Raises
    ------
    InputError
        If it cannot be built.
    """
    with torch.random.fork_rng(devices=()), quietly("built"):
        torch.manual_seed(0)
        network = build()
        return Network(network.module.train(options.training), network.inputs)


def without_weights(build: Callable[[], Network], options: Options) -> Network:
    """The network to be traced: its weights and inputs have shapes but no data."""
    with quietly("built"), _no_weights():
        network = build()
    module = network.module.train(options.training)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        _let_weights_pass_for_real(module)
    return Network(module, tuple(mode.from_tensor(given) for given in network.inputs))


@contextmanager
def _no_weights() -> Iterator[None]:
    """Give parameters of modules built in this context only shapes."""

    def without_data(module: nn.Module, name: str, weight: Any) -> Any:
        if weight is None or weight.is_meta:  # tied weights are met twice
            return weight
        return nn.Parameter(weight.to("meta"), requires_grad=weight.requires_grad)

    handle = register_module_parameter_registration_hook(without_data)
    try:
        yield
    finally:
        handle.remove()


def _let_weights_pass_for_real(module: nn.Module) -> None:
    """Give weights without data the device of the inputs, which decides how ops are traced."""
    known: dict[int, nn.Parameter] = {}
    for layer in module.modules():
        for name, weight in layer._parameters.items():
            if weight is None or not weight.is_meta:
                continue
            if id(weight) not in known:
                fake = torch.empty_strided(weight.shape, weight.stride(), dtype=weight.dtype)
                known[id(weight)] = nn.Parameter(fake, requires_grad=weight.requires_grad)
            layer._parameters[name] = known[id(weight)]


@contextmanager
def quietly(what: str) -> Iterator[None]:
    """Context in which other packages' warnings are dropped and their errors are ``InputError``s.

    ``what`` is done to the model: ``"built"`` or ``"traced"``.
    """
    log = logging.getLogger("torch._subclasses.fake_tensor")
    silent, log.disabled = (
        log.disabled,
        True,
    )  # silences its tracebacks: the errors are raised anyway
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except InputError:
        raise
    except Exception as error:  # whatever the packages raise
        text = first_line(error)
        raise InputError(f"the model cannot be {what}: {text}") from error
    finally:
        log.disabled = silent


def score_images(
    module: nn.Module,
    shape: tuple[int, ...],
    classes: int,
    options: Options,
    *,
    dense: bool = False,
) -> Network:
    """The module with a batch of images; for training, with their classes and its loss."""
    batch = options.number("batch")
    images = torch.rand(batch, *shape)
    if not options.training:
        return Network(module, (images,))
    targets = torch.randint(classes, (batch, *(shape[1:] if dense else ())))
    return Network(CrossEntropy(module), (images, targets))


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
