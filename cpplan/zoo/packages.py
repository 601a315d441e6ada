"""Check that the packages of a family of models are installed."""

from __future__ import annotations

from importlib.util import find_spec

from cpplan.model.errors import MissingExtraError


def need_packages(*packages: str, extra: str = "zoo") -> None:
    """Raise if one of these packages is not installed."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtraError(package, extra, "a model of this family")
