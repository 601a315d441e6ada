"""Pieces: the positions at which one op's work is cut along one or more of its axes."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.model.errors import InputError
from cpplan.model.names import check_name, tuple_of

__all__ = ["Pieces"]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Cuts of one op along some of its axes; its pieces are all products of the intervals.

    Attributes
    ----------
    op
        Name of the op.
    axes
        Names of the axes that are cut: one makes bands, two make tiles.
    cuts
        For each of these axes, the interior positions at which it is cut, ascending; at least one.

    Raises
    ------
    InputError
        If an axis has no cut, or positions do not ascend from at least 1.
    """

    op: str
    axes: tuple[str, ...]
    cuts: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        check_name("pieces: op", self.op)
        here = f"pieces of op {self.op!r}"
        object.__setattr__(self, "axes", tuple_of(str, f"{here}: axes", self.axes))
        cuts = tuple_of(object, f"{here}: cuts", self.cuts)
        if not self.axes or len(set(self.axes)) < len(self.axes) or len(cuts) != len(self.axes):
            raise InputError(
                f"{here}: expected different axes, and cuts for each, "
                f"not axes {list(self.axes)} and {len(cuts)} lists of cuts"
            )
        read = tuple(
            _read_cuts(f"{here}: axis {a!r}", c) for a, c in zip(self.axes, cuts, strict=True)
        )
        object.__setattr__(self, "cuts", read)

    def intervals(self, extents: tuple[int, ...]) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Intervals ``(start, stop)`` along each axis, for axes of these extents."""
        found = []
        for axis, cuts, extent in zip(self.axes, self.cuts, extents, strict=True):
            if cuts[-1] >= extent:
                raise InputError(
                    f"pieces of op {self.op!r}: axis {axis!r}: position {cuts[-1]} is not within "
                    f"its {extent} steps"
                )
            found.append(tuple(zip((0, *cuts), (*cuts, extent), strict=True)))
        return tuple(found)


def _read_cuts(here: str, given: object) -> tuple[int, ...]:
    cuts: tuple[int, ...] = tuple_of(int, f"{here}: cuts", given)
    if not cuts:
        raise InputError(f"{here}: expected at least one cut")
    before = 0
    for cut in cuts:
        if isinstance(cut, bool) or cut <= before:
            raise InputError(
                f"{here}: cuts must ascend from at least 1 (no piece has size 0), not {list(cuts)}"
            )
        before = cut
    return cuts
