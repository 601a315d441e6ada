"""Modules that classify images, with their inputs and loss."""

from __future__ import annotations

import torch
from torch import nn

from cpplan.zoo.network import CrossEntropy, Network
from cpplan.zoo.source import Options


def score_images(
    module: nn.Module,
    shape: tuple[int, ...],
    classes: int,
    options: Options,
    *,
    dense: bool = False,
) -> Network:
    """The module with a batch of images; for training, with their classes and its loss.

    Parameters
    ----------
    shape
        Shape of one image: channels, height, width.
    dense
        True if every pixel has a class.
    """
    batch = options.number("batch")
    images = torch.rand(batch, *shape)
    if not options.training:
        return Network(module, (images,))
    targets = torch.randint(classes, (batch, *(shape[1:] if dense else ())))
    return Network(CrossEntropy(module), (images, targets))
