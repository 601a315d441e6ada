"""Storages that may move between two pools, and those that stay, read from a model's accesses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cpplan.model.graph import Graph
from cpplan.model.moves import MoveKind, move_cycles
from cpplan.model.plan import Plan
from cpplan.verification.access_trace import lifespans
from cpplan.verification.moves import BareProgram
from cpplan.verification.runs import Run


class HeldStorage(NamedTuple):
    """A storage that cannot move: its room, and the steps at which it lies in the fast pool.

    ``lasts`` is true if its bytes are needed after the last step.
    """

    room: int
    lower: int
    upper: int
    lasts: bool


@dataclass(slots=True, eq=False)
class MovingStorage:
    """A storage that may move: its accesses, and its pool before the first and after the last."""

    size: int
    room: int
    spill: int
    reload: int
    brought: bool
    constant: bool
    output: bool
    retentions: bool
    fast_only: bool
    slow_only: bool
    steps: list[int] = field(default_factory=list)
    crossing: list[int] = field(default_factory=list)
    near: list[bool] = field(default_factory=list)

    @property
    def lasts(self) -> bool:
        """True if it is needed in a pool after its last access."""
        return (self.output or self.retentions) and not self.constant

    @property
    def readings(self) -> dict[int, int]:
        """Step of each reading -> cost of the read if it is not in the fast pool."""
        return {
            step: self.reload if self.near[k] else min(self.reload, self.crossing[k])
            for k, step in enumerate(self.steps)
            if self.brought or k
        }


class MovingStorages:
    """The storages of a program whose tensors move, and the fast pool's capacity.

    Attributes
    ----------
    kept
        Storages that may move.
    base
        Storages that cannot move, but lie in the fast pool.
    capacity
        Bytes of the fast pool, on the grid on which rooms are.
    """

    def __init__(self, graph: Graph, bare: BareProgram, plan: Plan):
        runs, spans = bare.runs, lifespans(bare.accesses)
        self.kept: dict[str, MovingStorage] = {}
        self.base: dict[str, HeldStorage] = {}
        pool = plan.pools[0]
        grids = [math.lcm(retention.alignment, pool.alignment) for retention in spans]
        grid = math.gcd(*grids) if grids else 1
        self.capacity = -(-(pool.capacity or 0) // grid) * grid
        fast, slow = plan.pools
        written: dict[str, list[str]] = {}
        for run in runs:
            for name in run.op.outputs + run.op.workspaces:
                if not _is_passed(run, name):
                    written.setdefault(run.places[name].retention.name, []).append(name)
        touched = {id(place.retention) for run in runs for place in run.places.values()}
        for retention, (lower, upper) in spans.items():
            kinds = {tensor.kind for tensor in retention.tensors}
            writers = written.get(retention.name, [])
            pools = [t.pools for t in retention.tensors if t.pools is not None]
            in_fast = all(fast.name in names for names in pools)
            in_slow = all(slow.name in names for names in pools)
            at_once = not writers or writers == [retention.name]
            movable = at_once and "workspace" not in kinds and retention.size > 0
            movable = movable and not ("output" in kinds and not writers)
            accessed = id(retention) in touched
            room = -(-retention.size // grid) * grid
            stays = "input" in kinds and plan.residency.inputs == "keep"
            if not movable or (not accessed and in_fast and not in_slow):
                if in_fast:
                    lasts = stays or not kinds.isdisjoint(("output", "constant"))
                    self.base[retention.name] = HeldStorage(room, lower, upper, lasts)
            elif accessed:
                self.kept[retention.name] = MovingStorage(
                    retention.size,
                    room,
                    _cost("spill", retention.size, plan),
                    _cost("reload", retention.size, plan),
                    not writers,
                    "constant" in kinds,
                    "output" in kinds,
                    stays and not writers,
                    in_fast and not in_slow,
                    in_slow and not in_fast,
                )
        for number, run in enumerate(runs):
            _add_accesses(run, number, self.kept, plan)
        for storage in self.kept.values():
            if storage.slow_only:
                storage.near = [False] * len(storage.steps)
            elif storage.fast_only:
                storage.near = [True] * len(storage.steps)

    @property
    def grain(self) -> int:
        """Greatest number known to divide the cost of every plan."""
        numbers = [n for s in self.kept.values() for n in (s.spill, s.reload, *s.crossing)]
        return math.gcd(*numbers) or 1


def _cost(kind: MoveKind, size: int, plan: Plan) -> int:
    """Bytes of a move, or the cycles that it takes if the plan has a bound on its time."""
    return size if plan.time_bound is None else move_cycles(kind, size, plan.pools[1])


def _is_passed(run: Run, name: str) -> bool:
    """True if the op also reads all bytes of a result, and so only passes them on."""
    place, inputs = run.places[name], [run.places[i] for i in run.op.inputs]
    at, reads = place.begin, [p for p in inputs if p.retention is place.retention]
    for begin, end in sorted((p.begin, p.end) for p in reads):
        at = max(at, end) if begin <= at else at
    return bool(reads) and at >= place.end


def _add_accesses(run: Run, number: int, found: Mapping[str, MovingStorage], plan: Plan) -> None:
    made = run.op.outputs + run.op.workspaces
    only_views = bool(run.op.outputs) and all(_is_passed(run, name) for name in made)
    free = {run.places[name].retention.name for name in run.op.outputs} if only_views else set()
    bytes_of: dict[str, int] = {}
    for name in dict.fromkeys(run.op.tensors):
        place = run.places[name]
        size = 0 if place.retention.name in free else place.end - place.begin
        bytes_of[place.retention.name] = bytes_of.get(place.retention.name, 0) + size
    for name, size in bytes_of.items():
        if name in found:
            storage = found[name]
            crossing = min(size, storage.size)
            storage.steps.append(number)
            storage.crossing.append(_cost("read", crossing, plan))
            storage.near.append(crossing > 0 and not plan.pools[1].direct)
