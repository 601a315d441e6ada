"""The architectures of timm."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from cpplan.model.errors import InputError
from cpplan.zoo.packages import need_packages
from cpplan.zoo.source import MODES, Options
from cpplan.zoo.torchvision_models import import_torchvision

if TYPE_CHECKING:
    from cpplan.zoo.network import Network

__all__ = ["MODES", "OPTIONS", "build", "names"]

OPTIONS: Mapping[str, int | None] = {"batch": 1, "size": None}


def names() -> tuple[str, ...]:
    return tuple(_import_timm().list_models())


def build(model: str, options: Options) -> Network:
    from cpplan.zoo.network import score_images

    module = _import_timm().create_model(model, pretrained=False)
    if options.training and not module.num_classes:
        raise InputError(f"{model} has no classifier whose loss could be trained")
    channels, height, width = module.pretrained_cfg["input_size"]
    size = options.numbers["size"]
    if size is not None:
        height = width = size
        if hasattr(module, "set_input_size"):  # those with a weight for every position
            module.set_input_size(img_size=(size, size))
    return score_images(module, (channels, height, width), module.num_classes, options)


@cache
def _import_timm() -> Any:
    need_packages("torch", "torchvision", "timm")
    import_torchvision()  # which timm imports too
    import timm

    return timm
