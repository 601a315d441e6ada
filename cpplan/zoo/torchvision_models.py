"""Classifiers and segmentation models of torchvision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cpplan.zoo.source import MODES, Options
from cpplan.zoo.torchvision_import import import_torchvision

if TYPE_CHECKING:
    from cpplan.zoo.network import Network

__all__ = ["MODES", "OPTIONS", "build", "names"]

OPTIONS: Mapping[str, int | None] = {"batch": 1, "size": None}


def names() -> tuple[str, ...]:
    models = import_torchvision().models
    classify = models.list_models(module=models)
    return (*classify, *models.list_models(module=models.segmentation))


def build(model: str, options: Options) -> Network:
    from cpplan.zoo.images import score_images

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
