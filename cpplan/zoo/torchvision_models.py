"""Classifiers and segmentation models of torchvision."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from cpplan.zoo.packages import need_packages
from cpplan.zoo.source import MODES, Options

if TYPE_CHECKING:
    from cpplan.zoo.network import Network

__all__ = ["MODES", "OPTIONS", "build", "names"]
OPTIONS: Mapping[str, int | None] = {"batch": 1, "size": None}


def names() -> tuple[str, ...]:
    models = import_torchvision().models
    classify = models.list_models(module=models)
    return (*classify, *models.list_models(module=models.segmentation))


def build(model: str, options: Options) -> Network:
    from cpplan.zoo.network import score_images

    models = import_torchvision().models
    dense = model in models.list_models(module=models.segmentation)
    size = options.number("size", _published_size(model))
    settings: dict[str, Any] = {"weights_backbone": None} if dense else {}
    if model in ("googlenet", "inception_v3"):
        # Only training has any use for the auxiliary classifiers.
        settings |= {"init_weights": False, "aux_logits": options.training}
    elif model.startswith("vit_"):
        settings["image_size"] = size
    elif model.startswith("maxvit"):
        settings["input_size"] = (size, size)
    module = models.get_model(model, weights=None, **settings)
    return score_images(module, (3, size, size), 21 if dense else 1000, options, dense=dense)


def _published_size(model: str) -> int:
    """Size of the images with which the first published weights were measured."""
    first = next(iter(import_torchvision().models.get_model_weights(model)))
    settings = first.transforms.keywords
    return int(settings["crop_size"] if "crop_size" in settings else settings["resize_size"])


@cache
def import_torchvision() -> Any:
    """Import torchvision, even with a torch that its compiled operators do not fit.

    The import needs the schemas of two operators for detection, which no model here uses.
    """
    need_packages("torch", "torchvision")
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
    import torch

    for name in ("nms", "qnms"):
        schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        torch.library.define(f"torchvision::{name}", schema)
    return importlib.import_module("torchvision")
