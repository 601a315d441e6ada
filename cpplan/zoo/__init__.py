"""Named models, ``zoo://family/model?option=value``, with random weights and without downloads.

In :func:`cpplan.load` and on the command line, such a name can take the place of a model file. The
families, and their options beside ``mode`` (``infer``, or ``train`` for the loss and its
gradients):

``torchvision``
    Image classification and segmentation; ``batch``, ``size`` (pixels).
``timm``
    All its architectures; ``batch``, ``size``.
``transformers``
    Language models of published sizes; ``batch``, ``length`` (tokens).
``onnx``
    The models without weights that the package ``onnx`` carries; no options, no mode.
``cpplan``
    Small networks of our own: a U-Net, a randomly wired one, an LSTM and a transformer; ``batch``,
    ``size``, ``length``, ``seed`` (of the wiring).

A number that is left out is 1 for ``batch``, and the model's own default for all other options.
Reading a model creates only shapes, so that a large model takes no memory.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from cpplan.model.errors import InputError, MissingExtraError, located
from cpplan.zoo.source import Options, Source, parse_source, read_options, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpplan.zoo.network import Network

__all__ = ["build_network", "find_model", "names"]


class Family(Protocol):
    """A module of this package that provides models of one kind.

    It has ``build``, which makes a model's module, or ``path``, a model's ONNX file.
    """

    OPTIONS: Mapping[str, int | None]
    MODES: tuple[str, ...]

    def names(self) -> tuple[str, ...]: ...

    def build(self, model: str, options: Options) -> Network: ...

    def path(self, model: str) -> Path: ...


_FAMILIES = {
    "torchvision": "torchvision_models",
    "timm": "timm_models",
    "transformers": "transformers_models",
    "onnx": "onnx_models",
    "cpplan": "own_models",
}


def names(family: str | None = None) -> tuple[str, ...]:
    """Names of models, as ``zoo://family/model``.

    Parameters
    ----------
    family
        The family; if left out, all families whose packages are installed.

    Raises
    ------
    InputError
        If no family has this name.
    MissingExtraError
        If its package is missing.
    """
    if family is not None:
        found = _family(Source(f"zoo://{family}", family, "", {}))
        return tuple(f"zoo://{family}/{name}" for name in found.names())
    listed: list[str] = []
    for each in _FAMILIES:
        with suppress(MissingExtraError):
            listed += names(each)
    return tuple(listed)


def build_network(text: str) -> Network:
    """The module of a named model, with random weights, and inputs for it.

    Raises
    ------
    InputError
        If the name has another form, if there is no such family, model or option, or if the model
        cannot be built; names what was expected. Also if the family has only graphs.
    MissingExtraError
        If the family's package is missing.
    """
    family, source, options = find_model(text)
    if not hasattr(family, "build"):
        raise InputError(f"{text}: models of {source.family} are graphs only, there is no module")
    from cpplan.zoo.network import with_weights

    with located(text):
        return with_weights(lambda: family.build(source.model, options), options)


def find_model(text: str) -> tuple[Family, Source, Options]:
    """The family of a model by its name, the name's parts, and the options it is built with.

    Raises
    ------
    InputError
        As :func:`build_network`, before anything is built.
    MissingExtraError
        If the family's package is missing.
    """
    source = parse_source(text)
    family = _family(source)
    options = read_options(source, family.OPTIONS, family.MODES)
    known = family.names()
    if source.model not in known:
        raise unknown(source, f"model of {source.family}", source.model, known)
    return family, source, options


def _family(source: Source) -> Family:
    if source.family not in _FAMILIES:
        raise unknown(source, "family", source.family, _FAMILIES)
    return cast(Family, import_module(f"cpplan.zoo.{_FAMILIES[source.family]}"))
