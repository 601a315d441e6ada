"""Moves of tensors between a fast and a slow pool, as a plan lists them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

from cpplan.model.errors import InputError
from cpplan.model.pool import Pool

MoveKind = Literal["spill", "reload", "wait", "read", "write"]
KEYS = ("kind", "name", "tensor", "bytes", "from", "to")


class Move(NamedTuple):
    """Bytes that cross from one pool to another.

    Attributes
    ----------
    kind
        ``spill``: a copy from the fast pool to the slow one; ``reload``: a copy back. ``wait``: the
        step by which a copy must have ended, if ops run beside it; a copy without a wait ends at
        its own step. ``read``, ``write``: an op reads the tensor in the slow pool, or is the first
        to write it, there.
    name
        Entry of the plan's order: the spill, reload or wait itself, or the op that reads or writes.
    tensor
        The tensor whose storage moves.
    size
        Bytes moved; 0 for a wait, and if an op only passes a view on.
    source, target
        Names of the pools that the bytes leave and enter.
    """

    kind: MoveKind
    name: str
    tensor: str
    size: int
    source: str
    target: str

    @property
    def is_copy(self) -> bool:
        """True for a spill or a reload."""
        return self.kind in ("spill", "reload")

    @property
    def is_step(self) -> bool:
        """True for a spill, a reload or a wait, which is a step of the plan's order by itself."""
        return self.is_copy or self.kind == "wait"

    def to_dict(self) -> dict[str, Any]:
        """The move as values that JSON can hold."""
        return dict(zip(KEYS, self, strict=True))


def read_moves(values: object) -> tuple[Move, ...]:
    """The moves that ``to_dict`` described, from a list of objects."""
    if not isinstance(values, list):
        raise InputError("not a valid plan: moves must be a list")
    return tuple(_read_move(number, value) for number, value in enumerate(values))


def _read_move(number: int, value: object) -> Move:
    here = f"not a valid plan: move {number}"
    if not isinstance(value, dict) or set(value) != set(KEYS):
        raise InputError(f"{here} must be an object of {', '.join(KEYS)}")
    for key in KEYS:
        wanted = int if key == "bytes" else str
        if type(value[key]) is not wanted:
            raise InputError(f"{here}: {key} must be a {'byte count' if wanted is int else 'name'}")
    if value["kind"] not in get_args(MoveKind):
        kinds = ", ".join(get_args(MoveKind))
        raise InputError(f"{here}: kind {value['kind']!r}: expected one of {kinds}")
    if not 0 <= value["bytes"] < 2**62:
        raise InputError(f"{here}: bytes must be a count below 2**62")
    return Move(*(value[key] for key in KEYS))


def count_moved(moves: Sequence[Move]) -> int:
    """Bytes that all moves carry together."""
    return sum(move.size for move in moves)


def move_cycles(kind: MoveKind, size: int, slow: Pool) -> int:
    """Cycles that a move takes, rounded up: the latency and the bytes at the slow pool's bandwidth.

    Only the slow pool's figures count: the fast pool and the ops are assumed to keep up with it.
    """
    if not size:
        return 0
    out = kind in ("spill", "write")
    return math.ceil(slow.access_cycles(size, reads=int(not out), writes=int(out)))
