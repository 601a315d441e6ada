"""Packing problems cut from one rectangle, so that a packing is known beforehand.

A guillotine cut goes right through a piece and leaves two pieces. A pinwheel leaves five, four of
them around the fifth: the smallest pattern that guillotine cuts cannot make. All pieces together
are a perfect packing: no byte is free at any step. Its height is the maximum of the live bytes, and
therefore the smallest possible peak.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.problem import Ints, Problem

# A cut leaves each side at least this share of the piece, if the grid allows, to avoid slivers.
_THINNEST = 0.1


class Planted(NamedTuple):
    """A problem with the offsets (bytes, shape ``(n,)``) and the height of a known packing."""

    problem: Problem
    offset: Ints
    height: int


class _Piece(NamedTuple):
    """A rectangle of steps ``[lower, upper)`` and address units ``[begin, end)``."""

    lower: int
    upper: int
    begin: int
    end: int


def perfect_packing(
    count: int,
    *,
    seed: int,
    pinwheels: float = 0.0,
    steps: int = 1024,
    height: int = 1 << 20,
    alignment: int = 1024,
) -> Planted:
    """A box of ``steps`` × ``height`` bytes cut into ``count`` buffers, with optimum ``height``.

    Parameters
    ----------
    count
        Number of buffers.
    seed
        The same seed gives the same problem, on every machine.
    pinwheels
        Probability that a cut is a pinwheel rather than a guillotine cut.
    steps, height
        Extents of the box; ``height`` is in bytes, a multiple of ``alignment``.
    alignment
        Alignment, bytes: every size is a multiple of it, and every offset must be.

    Raises
    ------
    InputError
        If the box has fewer cells than buffers, or an argument is out of its range.
    """
    _check(count, steps, height, alignment)
    if not 0 <= pinwheels <= 1:
        raise InputError(f"pinwheels must be a probability, not {pinwheels!r}")
    rng = random.Random(seed)
    pieces = [_Piece(0, steps, 0, height // alignment)]
    while len(pieces) < count:
        number = _draw(pieces, rng)
        piece = pieces[number]
        room = min(piece.upper - piece.lower, piece.end - piece.begin) >= 3
        spiral = room and count - len(pieces) >= 4 and rng.random() < pinwheels
        if spiral:
            pieces[number : number + 1] = _pinwheel(piece, rng)
            continue
        # A cut through the whole box in time would leave two independent problems, both easier.
        whole = piece.end - piece.begin == height // alignment > 1
        pieces[number : number + 1] = _halves(piece, rng, in_time=False if whole else None)
    # The order of the rows must not reveal the places of the pieces.
    rng.shuffle(pieces)
    return _planted(pieces, height, alignment, f"perfect_{count}_{seed}")


def near_perfect_packing(
    count: int,
    *,
    seed: int,
    fill: float = 0.95,
    pinwheels: float = 0.3,
    steps: int = 1024,
    height: int = 1 << 20,
    alignment: int = 1024,
) -> Planted:
    """A perfect packing without some of its pieces; the rest covers at most ``fill`` of the area.

    It fits into ``height``, as hard benchmark problems fit into their capacity; the optimum may be
    smaller, and is known only if ``height`` bytes are live at some step.

    Parameters
    ----------
    count
        Number of buffers that remain.
    fill
        Largest share of the area that they cover, in ``(0, 1]``.
    seed, pinwheels, steps, height, alignment
        Arguments of the perfect packing; see :func:`perfect_packing`.

    Raises
    ------
    InputError
        If ``fill`` is out of its range, or :func:`perfect_packing` refuses one of the others.
    """
    if not 0 < fill <= 1:
        raise InputError(f"fill must be above 0 and at most 1, not {fill!r}")
    # Cut more pieces and drop random ones, more of them until their area is large enough.
    extra = 0
    while True:
        whole = perfect_packing(
            count + extra,
            seed=seed,
            pinwheels=pinwheels,
            steps=steps,
            height=height,
            alignment=alignment,
        )
        # Rows are in random order: the first ones are a random choice.
        problem = whole.problem.subset(np.arange(count))
        area = int(((problem.upper - problem.lower) * problem.size).sum())
        if area <= fill * steps * height:
            return Planted(problem, whole.offset[:count], height)
        extra += max(1, count // 100)


def _check(count: int, steps: int, height: int, alignment: int) -> None:
    if min(count, steps, height, alignment) < 1:
        raise InputError("count, steps, height and alignment must be at least 1")
    if height % alignment:
        raise InputError(f"height {height} must be a multiple of the alignment {alignment}")
    if count > steps * (height // alignment):
        raise InputError(f"a box of {steps} steps x {height} B cannot be cut into {count} pieces")


def _draw(pieces: list[_Piece], rng: random.Random) -> int:
    """Draw a piece that can be cut, larger ones more often, so that sizes spread less."""
    areas = [(p.upper - p.lower) * (p.end - p.begin) for p in pieces]
    return rng.choices(range(len(pieces)), [area if area > 1 else 0 for area in areas])[0]


def _halves(piece: _Piece, rng: random.Random, in_time: bool | None) -> list[_Piece]:
    """Two sides of a cut at one step, or at one address; at random if ``in_time`` is None."""
    lower, upper, begin, end = piece
    if in_time is None:
        in_time = upper - lower > 1 and (end - begin == 1 or rng.random() < 0.5)
    if in_time:
        cut = _between(lower, upper, rng)
        return [_Piece(lower, cut, begin, end), _Piece(cut, upper, begin, end)]
    cut = _between(begin, end, rng)
    return [_Piece(lower, upper, begin, cut), _Piece(lower, upper, cut, end)]


def _pinwheel(piece: _Piece, rng: random.Random) -> list[_Piece]:
    """Four arms around a centre, turning either way; the piece measures at least 3 × 3."""
    lower, upper, begin, end = piece
    left, right = _two_between(lower, upper, rng)
    low, high = _two_between(begin, end, rng)
    arms = [
        _Piece(lower, left, begin, high),
        _Piece(lower, right, high, end),
        _Piece(right, upper, low, end),
        _Piece(left, upper, begin, low),
        _Piece(left, right, low, high),
    ]
    if rng.random() < 0.5:
        return arms
    return [arm._replace(begin=begin + end - arm.end, end=begin + end - arm.begin) for arm in arms]


def _between(first: int, last: int, rng: random.Random) -> int:
    """A random cut in ``(first, last)``, away from both ends if there is room."""
    margin = max(1, round(_THINNEST * (last - first)))
    return rng.randint(first + margin, last - margin) if last - first > 2 else first + 1


def _two_between(first: int, last: int, rng: random.Random) -> tuple[int, int]:
    """Two different random cuts in ``(first, last)``, ascending; there must be room for both."""
    one = _between(first, last - 1, rng)
    return one, _between(one, last, rng)


def _planted(pieces: list[_Piece], height: int, alignment: int, name: str) -> Planted:
    lower, upper, begin, end = np.array(pieces, np.int64).T
    problem = Problem(
        [f"b{row}" for row in range(len(pieces))],
        lower=lower,
        upper=upper,
        size=(end - begin) * alignment,
        alignment=np.full(len(pieces), alignment),
        name=name,
    )
    return Planted(problem, begin * alignment, height)
