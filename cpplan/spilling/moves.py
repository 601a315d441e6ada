"""Moves that follow from a choice of gaps, and the order that includes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cpplan.model.moves import Move, MoveKind
from cpplan.model.spill_problem import Flags, SpillProblem


@dataclass(frozen=True, slots=True)
class Hidden:
    """Copies that run while ops run.

    Attributes
    ----------
    spill_until
        Storage -> step before which its spill ends; it begins right after the storage is written.
    reload_from
        Access -> step before which its reload begins.
    """

    spill_until: Mapping[int, int] = field(default_factory=dict)
    reload_from: Mapping[int, int] = field(default_factory=dict)


NOTHING_HIDDEN = Hidden()


def order_with_moves(
    problem: SpillProblem,
    kept: Flags,
    pools: tuple[str, str],
    hidden: Hidden = NOTHING_HIDDEN,
) -> tuple[tuple[str, ...], tuple[Move, ...]]:
    """The order including its moves, and the moves, for a choice of gaps.

    A storage that an op writes is spilled right after that op, and an input right before its first
    access. Reloads come right before the op that needs them, after all spills there: so between
    two ops, no more bytes lie in the fast pool than during one of them.

    Parameters
    ----------
    problem
        The problem.
    kept
        Gaps kept, shape ``(gaps,)``.
    pools
        Names of the fast and of the slow pool.
    hidden
        Copies that run while ops run: each begins earlier, or ends later, than other copies.
    """
    fast, slow = pools
    near, spilled = problem.near(kept), problem.spilled(kept)
    dropped_before = set(problem.gap_after[~kept].tolist())
    steps = problem.steps
    waits: list[list[tuple[int, bool]]] = [[] for _ in range(steps + 1)]
    spills: list[list[int]] = [[] for _ in range(steps + 1)]
    reloads: list[list[int]] = [[] for _ in range(steps + 1)]
    begun: list[list[int]] = [[] for _ in range(steps + 1)]
    direct: list[list[Move]] = [[] for _ in range(steps)]
    rows = zip(problem.access_storage.tolist(), problem.access_step.tolist(), strict=True)
    previous = -1
    for access, (storage, step) in enumerate(rows):
        first, previous = storage != previous, storage
        name, op = problem.names[storage], problem.ops[step] if problem.ops else ""
        writes = first and bool(problem.written[storage])
        crossing = int(problem.access_bytes[access])
        if not near[access]:
            if writes:
                direct[step].append(Move("write", op, name, crossing, fast, slow))
            else:
                direct[step].append(Move("read", op, name, crossing, slow, fast))
        elif access in dropped_before:
            begin = hidden.reload_from.get(access)
            (reloads[step] if begin is None else begun[begin]).append(storage)
            if begin is not None:
                waits[step].append((storage, False))
        if first and spilled[storage] and near[access]:
            spills[step + 1 if writes else step].append(storage)
            if storage in hidden.spill_until:
                waits[hidden.spill_until[storage]].append((storage, True))
    names = _Names(problem.ops)
    order: list[str] = []
    moves: list[Move] = []

    def add(kind: MoveKind, storage: int, *, out: bool) -> None:
        """Add a step for a move of a storage, out of the fast pool or into it."""
        order.append(names.of(f"{kind} {problem.names[storage]}"))
        size = 0 if kind == "wait" else int(problem.size[storage])
        ends = (fast, slow) if out else (slow, fast)
        moves.append(Move(kind, order[-1], problem.names[storage], size, *ends))

    for step in range(steps + 1):
        for storage, out in waits[step]:
            add("wait", storage, out=out)
        for storage in spills[step]:
            add("spill", storage, out=True)
        for storage in (*reloads[step], *begun[step]):
            add("reload", storage, out=False)
        if step < steps and problem.ops:
            order.append(problem.ops[step])
            moves += direct[step]
    return tuple(order), tuple(moves)


class _Names:
    """Makes names of moves that differ from all ops' names; a repeated name gets a number."""

    def __init__(self, ops: Iterable[str]):
        self.taken = set(ops)
        # Name -> the last number it was given: a tensor may move thousands of times.
        self.last: dict[str, int] = {}

    def of(self, name: str) -> str:
        found, number = name, self.last.get(name, 1)
        while found in self.taken:
            number += 1
            found = f"{name} #{number}"
        self.taken.add(found)
        self.last[name] = number
        return found
