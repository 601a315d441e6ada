"""The spilling problem of a program at its order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.moves import MoveKind, move_cycles
from cpplan.model.pool import Pool
from cpplan.model.problem import Ints
from cpplan.model.residency import Residency
from cpplan.model.spill_problem import SpillProblem
from cpplan.model.tensor import LIMIT, Storage
from cpplan.program.anf import Program
from cpplan.program.moved import may_lie
from cpplan.program.storages import accessed_storages, crossing_bytes, find_storages, overwritten


@dataclass(slots=True)
class _Rows:
    """Accesses and gaps while they are collected."""

    names: list[str] = field(default_factory=list)
    storages: list[Storage] = field(default_factory=list)
    accesses: list[tuple[int, int, int, bool]] = field(default_factory=list)
    gaps: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)


def spill_problem(
    program: Program,
    residency: Residency,
    pools: tuple[Pool, Pool],
    *,
    share: bool = False,
    time: bool = False,
) -> SpillProblem:
    """The spilling problem of a program at its order. O(ops + tensors).

    Parameters
    ----------
    program
        The program: it runs every op once, and no op has bodies.
    residency
        Which inputs, outputs and constants the pools hold.
    pools
        The fast pool, which has a capacity, and the slow one.
    share
        True if an op may write over an input that no later op reads.
    time
        True to count the cycles of moves instead of their bytes.

    Raises
    ------
    InputError
        If the program runs an op twice or has bodies, the fast pool has no capacity, a storage may
        lie in neither pool, or its alignments have no common multiple below 2**62.
    """
    graph, fast = program.graph, pools[0]
    _check_program(program, fast)
    storages = find_storages(graph, residency)
    accessed: dict[str, list[tuple[int, int]]] = {name: [] for name in storages}
    for step, op in enumerate(program.ops):
        crossing = crossing_bytes(graph, op)
        for root in accessed_storages(graph, op, storages):
            accessed[root].append((step, crossing[root]))
    steps = max(1, len(program.order))
    grids = {name: _grid(storage, fast) for name, storage in storages.items()}
    grid = math.gcd(*grids.values()) if grids else 1
    change, rows = np.zeros(steps + 1, np.int64), _Rows()
    for name, storage in storages.items():
        _add(rows, change, storage, accessed[name], pools, grid)
    base = np.cumsum(change)[:-1]
    access = np.array(rows.accesses, np.int64).reshape(-1, 4)
    gap = np.array(rows.gaps, np.int64).reshape(-1, 6)
    size = np.array([s.tensor.nbytes for s in rows.storages], np.int64)
    room = -(-size // grid) * grid
    movable = np.array([s.movable for s in rows.storages], bool)
    moved, cross = np.where(movable, size, 0), np.where(movable[access[:, 0]], access[:, 2], 0)
    credit, over = _credits(program if share else None, rows, access, gap, room)
    slow = pools[1] if time else None
    assert fast.capacity is not None
    return SpillProblem(
        names=tuple(rows.names),
        size=size,
        room=room,
        alignment=np.array([grids[name] for name in rows.names], np.int64),
        spill_cost=_costs("spill", moved, slow),
        reload_cost=_costs("reload", moved, slow),
        movable=movable,
        written=np.array([not _is_brought(s) for s in rows.storages], bool),
        stay=np.array([_stays(s) for s in rows.storages], bool),
        lasts=np.array([_lasts(s) for s in rows.storages], bool),
        access_storage=access[:, 0],
        access_step=access[:, 1],
        access_bytes=access[:, 2],
        access_cost=_costs("read", cross, slow),
        access_near=access[:, 3].astype(bool),
        gap_storage=gap[:, 0],
        gap_lower=gap[:, 1],
        gap_upper=gap[:, 2],
        gap_before=gap[:, 3],
        gap_after=gap[:, 4],
        gap_fixed=gap[:, 5],
        credit_step=credit[:, 0],
        credit_room=credit[:, 1],
        credit_access=credit[:, 2],
        over_credit=over[:, 0],
        over_access=over[:, 1],
        over_gap=over[:, 2],
        base=base,
        capacity=-(-fast.capacity // grid) * grid,
        ops=program.names,
        storages=storages,
    )


def _costs(kind: MoveKind, sizes: Ints, slow: Pool | None) -> Ints:
    """Costs of moves: their bytes, or their cycles if the slow pool is given."""
    if slow is None:
        return sizes
    cycles = (move_cycles(kind, bytes_, slow) for bytes_ in sizes.tolist())
    return np.fromiter(cycles, np.int64, len(sizes))


def _check_program(program: Program, fast: Pool) -> None:
    if len(program.order) != len(program.graph.ops):
        raise InputError("spill=True needs a program that runs every op once")
    for op in program.ops:
        if op.bodies:
            raise InputError(f"spill=True cannot plan op {op.name!r}, which has bodies")
    if fast.capacity is None:
        raise InputError(f"spill=True needs a capacity of the fast pool {fast.name!r}")


def _grid(storage: Storage, fast: Pool) -> int:
    grid = math.lcm(fast.alignment, *(tensor.alignment for tensor in storage.tensors))
    if grid >= LIMIT:
        raise InputError(
            f"tensor {storage.tensor.name!r}: alignments in it and of pool {fast.name!r} have no "
            "common multiple below 2**62"
        )
    return grid


def _is_brought(storage: Storage) -> bool:
    """True for a storage that the caller writes before the first op, if ops write in it too."""
    return storage.brought or any(t.kind in ("input", "constant") for t in storage.tensors)


def _stays(storage: Storage) -> bool:
    """True for an input kept to the end, which must then lie where the caller put it."""
    return _is_brought(storage) and _lasts(storage)


def _lasts(storage: Storage) -> bool:
    """True for a storage that the caller wants in a pool after the last op, and no constant."""
    return storage.kept and all(tensor.kind != "constant" for tensor in storage.tensors)


def _add(
    rows: _Rows,
    change: Ints,
    storage: Storage,
    accessed: Sequence[tuple[int, int]],
    pools: tuple[Pool, Pool],
    grid: int,
) -> None:
    """Add a storage's accesses and gaps, or if it has none, its bytes to the base's change."""
    fast, slow = pools
    steps, name = len(change) - 1, storage.tensor.name
    in_fast, in_slow = may_lie(storage, fast.name), may_lie(storage, slow.name)
    if not (in_fast or in_slow):
        raise InputError(f"tensor {name!r}: may lie neither in {fast.name!r} nor in {slow.name!r}")
    if not storage.tensor.nbytes:
        return
    if accessed and not storage.movable and not in_fast:
        raise InputError(
            f"tensor {name!r}: may lie in {slow.name!r} only, but cannot move: expected a tensor "
            "that the caller or one op writes as a whole, and no workspace"
        )
    in_slow &= storage.movable
    if not accessed:
        if in_fast and not in_slow:
            room = -(-storage.tensor.nbytes // grid) * grid
            change[0] += room
            change[steps if storage.kept else 1] -= room
        return
    row = len(rows.names)
    rows.names.append(name)
    rows.storages.append(storage)
    constant = any(tensor.kind == "constant" for tensor in storage.tensors)
    fixed = 0 if not in_fast else 1 if not in_slow else -1
    first = len(rows.accesses)
    for step, crossing in accessed:
        near = in_fast and (not in_slow or (crossing > 0 and not slow.direct))
        if not near and crossing > 0 and not slow.direct:
            raise InputError(
                f"tensor {name!r} may lie in {slow.name!r} only, but ops cannot access it there: "
                "the pool is not direct"
            )
        rows.accesses.append((row, step, crossing, near))
    last = len(rows.accesses) - 1
    if _is_brought(storage):
        rows.gaps.append((row, 0, accessed[0][0], -1, first, 0 if constant and in_slow else fixed))
    for k in range(first, last):
        rows.gaps.append((row, rows.accesses[k][1] + 1, rows.accesses[k + 1][1], k, k + 1, fixed))
    begin = accessed[-1][0] + 1
    if _lasts(storage):
        rows.gaps.append((row, begin, steps, last, -1, fixed))
    elif not _is_brought(storage) and first == last and in_fast and not rows.accesses[last][3]:
        rows.gaps.append((row, begin, begin, last, -1, fixed))


def _credits(
    program: Program | None,
    rows: _Rows,
    access: Ints,
    gap: Ints,
    room: Ints,
) -> tuple[Ints, Ints]:
    """Credits of outputs that may be written over inputs, and the inputs of each credit."""
    number = {name: k for k, name in enumerate(rows.names) if rows.storages[k].shared}
    position = {(int(s), int(t)): k for k, (s, t) in enumerate(access[:, :2].tolist())}
    after = {int(before): k for k, before in enumerate(gap[:, 3].tolist()) if before >= 0}
    credits: dict[int, list[tuple[int, int]]] = {}
    room_of: dict[int, int] = {}
    for step, op in enumerate(program.ops if program is not None else ()):
        for inner, outer in overwritten(program.graph, op) if program is not None else ():
            if inner not in number or outer not in number:
                continue
            output, source = position[number[inner], step], position[number[outer], step]
            credits.setdefault(output, []).append((source, after.get(source, -1)))
            least = min(int(room[number[inner]]), int(room[number[outer]]))
            room_of[output] = max(room_of.get(output, 0), least)
    credit = [(int(access[output, 1]), room_of[output], output) for output in credits]
    over = [
        (k, source, following)
        for k, sources in enumerate(credits.values())
        for source, following in sources
    ]
    return (
        np.array(credit, np.int64).reshape(-1, 3),
        np.array(over, np.int64).reshape(-1, 3),
    )
