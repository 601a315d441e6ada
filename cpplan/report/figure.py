"""The one place that loads matplotlib."""

from __future__ import annotations

from typing import Any

from cpplan.errors import MissingExtraError


def new_axes(ax: Any = None) -> Any:
    """``ax``, or fresh axes.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "drawing a figure") from error
    return pyplot.subplots(figsize=(10, 4), layout="constrained")[1]
