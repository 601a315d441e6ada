"""Relay's two-dimensional tokens: textures that are reused at about the right width and height.

The rule of TVM's ``TokenAllocator2D`` for storages that have rows and columns instead of bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.problem import Ints, Problem

MOST_RATIO = 5
SCOPES = ("global.texture", "global.texture-weight", "global.texture-nhwc")


@dataclass(frozen=True, slots=True, eq=False)
class TextureAssignment:
    """Buffers in whole textures.

    Attributes
    ----------
    storage
        Number of the texture that each buffer lies in, shape ``(n,)``.
    width, height
        Texels of each texture, shape ``(m,)``.
    """

    storage: Ints
    width: Ints
    height: Ints

    def __len__(self) -> int:
        """Number of textures."""
        return len(self.width)


def texture_extent(shape: Sequence[int], scope: str = "global.texture") -> tuple[int, int]:
    """Width and height in texels of a tensor whose last extent is the channels of a texel.

    Of the others, the first ones make the height: all but one for activations (``[N, C, H, W, c]``
    is W wide), one for weights, N and H for ``nhwc``.

    Raises
    ------
    InputError
        If the scope is not known, or the shape has fewer than three extents.

    Examples
    --------
    >>> texture_extent((1, 8, 40, 30, 4)), texture_extent((32, 8, 3, 3, 4), "global.texture-weight")
    ((30, 320), (72, 32))
    """
    if scope not in SCOPES:
        raise InputError(f"scope {scope!r} is not understood: expected one of {', '.join(SCOPES)}")
    if len(shape) < 3:
        raise InputError(f"a texture's shape has at least three extents, not {tuple(shape)}")
    axis = len(shape) - 2
    if scope != "global.texture":
        axis = 2 if scope == "global.texture-nhwc" and len(shape) > 3 else 1
    return int(np.prod(shape[axis:-1])), int(np.prod(shape[:axis]))


def texture_tokens(
    problem: Problem,
    width: Ints,
    height: Ints,
    group: Ints,
    *,
    most_ratio: int = MOST_RATIO,
) -> TextureAssignment:
    """Serve the buffers by first step; what has ended by then is free again. O(n × textures).

    A request takes a free texture of its group whose width and height are at most about
    ``most_ratio`` times larger or smaller (integer quotients): one that need not grow, with the
    least to spare, else one that grows the least. Relay compares width and height each for
    itself, a texture being better if it is so in either; so does this.

    Parameters
    ----------
    problem
        The buffers; sizes in bytes do not matter here.
    width, height
        Texels of each buffer, at least 1, shape ``(n,)``.
    group
        A label a row for dtype and scope, shape ``(n,)``.
    most_ratio
        Relay's is 5.

    Raises
    ------
    InputError
        If an extent is below 1; names the buffer.

    Examples
    --------
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[1, 2, 3], size=[8, 8, 8])
    >>> textures = texture_tokens(
    ...     problem, np.array([4, 6, 40]), np.array([8, 2, 2]), np.zeros(3, np.int64)
    ... )
    >>> textures.storage.tolist(), textures.width.tolist(), textures.height.tolist()
    ([0, 0, 1], [6, 40], [8, 2])
    """
    for row in np.flatnonzero((width < 1) | (height < 1)).tolist():
        raise InputError(
            f"buffer {problem.names[row]!r}: a texture of {width[row]} × {height[row]} texels: "
            "expected at least 1 × 1"
        )
    storage = np.zeros(len(problem), np.int64)
    widths: list[int] = []
    heights: list[int] = []
    free: dict[int, list[int]] = {label: [] for label in group.tolist()}
    ending = np.argsort(problem.upper, kind="stable").tolist()
    ended = 0
    for row in np.argsort(problem.lower, kind="stable").tolist():
        while problem.upper[ending[ended]] <= problem.lower[row]:
            gone = ending[ended]
            free[int(group[gone])].append(int(storage[gone]))
            ended += 1
        mine = free[int(group[row])]
        wide, high = int(width[row]), int(height[row])
        sizes = [(number, widths[number], heights[number]) for number in sorted(mine)]
        found = _best_match(sizes, wide, high, most_ratio)
        if found is None:
            found = len(widths)
            widths.append(wide)
            heights.append(high)
        else:
            mine.remove(found)
            widths[found] = max(widths[found], wide)
            heights[found] = max(heights[found], high)
        storage[row] = found
    return TextureAssignment(storage, np.array(widths, np.int64), np.array(heights, np.int64))


def _best_match(
    free: Sequence[tuple[int, int, int]], wide: int, high: int, most_ratio: int
) -> int | None:
    """The free texture (number, width, height) to take, if any."""
    best: int | None = None
    added = spare = (1 << 62, 1 << 62)
    for number, width, height in free:
        ratios = (wide // width, width // wide, high // height, height // high)
        if max(ratios) > most_ratio:
            continue
        adds = (max(0, wide - width), max(0, high - height))
        spares = (max(0, width - wide), max(0, height - high))
        if any(
            (least > 0 and add < least) or (add == least and left < less)
            for least, add, less, left in zip(added, adds, spare, spares, strict=True)
        ):
            best, added, spare = number, adds, spares
    grows_too_much = added[0] > wide and added[1] > high
    return None if grows_too_much else best
