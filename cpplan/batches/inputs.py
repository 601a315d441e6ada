"""A caller's models and settings, turned into lists with distinct names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import Any

from cpplan.batches.model_entry import Model
from cpplan.batches.setting import Setting
from cpplan.model.errors import InputError


def as_models(given: Mapping[str, Any] | Iterable[Any]) -> list[Model]:
    if isinstance(given, (str, PathLike)) or not isinstance(given, Iterable):
        raise InputError(f"models must be a list or a mapping, not {given!r}")
    if isinstance(given, Mapping):
        models = [Model(name, source) for name, source in given.items()]
    else:
        models = [_model(entry) for entry in given]
    check_distinct("model", (model.name for model in models))
    return models


def _model(entry: Any) -> Model:
    if isinstance(entry, Model):
        return entry
    if isinstance(entry, (str, PathLike)):
        return Model(fspath(entry), fspath(entry))
    name = getattr(entry, "name", None)
    if not isinstance(name, str):
        raise InputError(f"a model has no name ({type(entry).__name__}): give models by name")
    return Model(name, entry)


def as_settings(
    given: Mapping[str, Mapping[str, Any]] | Iterable[Setting] | None,
) -> list[Setting]:
    if given is None:
        return [Setting("default")]
    if isinstance(given, Mapping):
        return [Setting(name, options) for name, options in given.items()]
    settings = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(setting, Setting) for setting in settings):
        raise InputError("settings must be a mapping of names to keywords, or a list of Setting")
    check_distinct("setting", (setting.name for setting in settings))
    return settings


def check_distinct(what: str, names: Iterable[str]) -> None:
    """Raise if two names are equal."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"two {what}s are named {name!r}: give them different names")
        seen.add(name)
