"""Styles of running a region in pieces, and the bytes, work and runs that a style takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cpplan.model.axes import Axis


class Style(NamedTuple):
    """Axes and sizes of the pieces of a region.

    Attributes
    ----------
    inner, outer
        Names of axes of its last op; ``None`` if the region has no inner or no outer axis.
    strips
        Number of strips along the outer axis.
    step
        Steps that the last op runs at a time, along the inner axis.
    longest
        Most steps of a piece of any op, along the inner axis.
    both
        True if halos are kept along both axes.
    """

    inner: str | None = None
    outer: str | None = None
    strips: int = 1
    step: int = 1
    longest: int = 1
    both: bool = False


class Run(NamedTuple):
    """Steps of one op that run at once: an interval, or ``None``, along each axis."""

    step: int
    outer: tuple[int, int] | None
    inner: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes and work of a region in one style.

    Attributes
    ----------
    peak
        Most bytes live at once, tensors that the region does not access included.
    cost
        Sum of the costs of all runs.
    pieces
        Number of runs.
    weight
        Sum of their weights.
    """

    peak: int
    cost: float
    pieces: int
    weight: int


@dataclass(frozen=True, slots=True)
class Family:
    """Corresponding axes: one of each op of a region, and one of each of its tensors."""

    axes: list[Axis | None]
    at: dict[int, int]
