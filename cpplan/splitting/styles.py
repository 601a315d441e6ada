"""Styles of running a region in pieces, and what a style takes: bytes, work and runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cpplan.model.axes import Axis


class Style(NamedTuple):
    """Axes and sizes of the pieces of a region.

    Attributes
    ----------
    inner, outer
        Names of the axes of its last op, or ``None``: the region is then not cut along one.
    strips
        Number of strips along the outer axis.
    step
        Steps of the last op at a time, along the inner axis.
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
    """Steps of an op that run at once; ``None`` along an axis that it has not got."""

    step: int
    outer: tuple[int, int] | None
    inner: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes and work of a region run in some style.

    Attributes
    ----------
    peak
        Most bytes live at once, with everything else that is live meanwhile.
    cost
        Sum of the costs of all runs.
    pieces
        Number of runs.
    """

    peak: int
    cost: float
    pieces: int


@dataclass(frozen=True, slots=True)
class Family:
    """One axis of each op of a region, and of each tensor: those that correspond to each other."""

    axes: list[Axis | None]
    at: dict[int, int]
