"""Small networks of our own, written out in this package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cpplan.model.errors import InputError
from cpplan.zoo.packages import need_packages
from cpplan.zoo.source import MODES, Options

if TYPE_CHECKING:
    from cpplan.zoo.network import Network

__all__ = ["MODES", "OPTIONS", "build", "names"]

OPTIONS: Mapping[str, int | None] = {"batch": 1, "size": None, "length": None, "seed": 1}

# Model -> its own options, besides the options of all models.
_MODELS = {
    "lstm": ("length",),
    "randwire": ("size", "seed"),
    "transformer": ("length",),
    "unet": ("size",),
}


def names() -> tuple[str, ...]:
    need_packages("torch")
    return tuple(_MODELS)


def build(model: str, options: Options) -> Network:
    for name, value in options.numbers.items():
        if name != "batch" and value != OPTIONS[name] and name not in _MODELS[model]:
            raise InputError(f"{model} has no {name}: it has batch, {', '.join(_MODELS[model])}")
    from cpplan.zoo.network import score_images
    from cpplan.zoo.own_images import RandWire, UNet
    from cpplan.zoo.own_text import TEXTS, read_text

    if model in TEXTS:
        return read_text(model, options)
    size = options.number("size", 256 if model == "unet" else 224)
    if model == "unet":
        return score_images(UNet(), (3, size, size), UNet.CLASSES, options, dense=True)
    module = RandWire(options.number("seed"))
    return score_images(module, (3, size, size), RandWire.CLASSES, options)
