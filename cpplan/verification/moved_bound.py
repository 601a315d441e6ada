"""Bounds on the bytes moved, proved again from the accesses of the model's ops."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from cpplan.model.certificates import ForcedAt, RoomPrices
from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph
from cpplan.model.moves import MoveKind, move_cycles
from cpplan.model.plan import Plan
from cpplan.verification.access_trace import lifespans
from cpplan.verification.aliasing import sharing_retentions
from cpplan.verification.moves import BareProgram
from cpplan.verification.runs import Retention, Run

# Most binary places of prices.
_MOST_PLACES = 64


class _Held(NamedTuple):
    """A storage that cannot move: its room, and the steps at which it lies in the fast pool."""

    room: int
    lower: int
    upper: int


@dataclass(slots=True, eq=False)
class _Kept:
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


def moved_bytes_floor(graph: Graph, bare: BareProgram, plan: Plan, prices: RoomPrices) -> int:
    """Bytes that every plan at the program's order moves, proved from prices of room.

    Every storage takes the cheapest way through its accesses by itself: it pays for the bytes that
    it moves, and the price of its room at each step at which it lies in the fast pool. If an output
    may be written over inputs, the price of its room is given back: to each input that leaves the
    pool after the op, or once if an input ends at the op anyway. The sum of all payments, less the
    price of the whole fast pool, bounds the bytes moved.
    """
    if type(prices.places) is not int or not 0 <= prices.places <= _MOST_PLACES:
        raise VerificationError(
            f"places of the certificate must be from 0 to {_MOST_PLACES}, not {prices.places!r:.80}"
        )
    runs, spans = bare.runs, lifespans(bare.accesses)
    pool = plan.pools[0]
    grids = [math.lcm(retention.alignment, pool.alignment) for retention in spans]
    grid = math.gcd(*grids) if grids else 1
    step_of = {run.op.name: number for number, run in enumerate(runs)}
    price = [0] * max(1, len(runs))
    for op, amount in prices.prices:
        if type(amount) is not int or amount < 0:
            raise VerificationError(f"the certificate's price at op {op!r} is {amount!r:.80}")
        if op in step_of:
            price[step_of[op]] += amount
    summed = [0]
    for amount in price:
        summed.append(summed[-1] + amount)
    storages, base = _storages(graph, plan, runs, spans, grid)
    capacity = -(-(pool.capacity or 0) // grid) * grid
    total = sum(
        held.room * (summed[min(held.upper, len(price))] - summed[held.lower])
        for held in base.values()
    )
    total -= capacity * summed[-1]
    shared = sharing_retentions(bare.accesses).keys()
    refunds = _refunds(runs, storages, base, shared, price, plan, graph)
    unit = 1 << prices.places
    for name, storage in storages.items():
        total += _cheapest(storage, price, summed, refunds.get(name, {}), unit)
    total -= refunds.get("", {}).get(0, 0)
    numbers = [n for s in storages.values() for n in (s.spill, s.reload, *s.crossing)]
    grain = math.gcd(*numbers) or 1
    return max(0, -(-total // (unit * grain)) * grain)


def forced_moves_floor(graph: Graph, bare: BareProgram, plan: Plan, at: ForcedAt) -> int:
    """Bytes that every plan moves in every order, because of an op that leaves little room.

    Two kinds of tensors compete for the fast pool at the op: its operands, and the tensors live
    beside it in every order (an earlier op writes them or the caller brings them, and a later op
    reads them or the caller wants them). Together they are larger than the pool. A tensor that does
    not lie there moves: to the slow pool if an op wrote it, and back for a later op. A fractional
    knapsack chooses the cheapest tensors to move.

    Raises
    ------
    VerificationError
        If the graph has no op of that name.
    """
    runs, spans = bare.runs, lifespans(bare.accesses)
    pool = plan.pools[0]
    grids = [math.lcm(retention.alignment, pool.alignment) for retention in spans]
    grid = math.gcd(*grids) if grids else 1
    storages, _ = _storages(graph, plan, runs, spans, grid)
    capacity = -(-(pool.capacity or 0) // grid) * grid
    number = {op.name: k for k, op in enumerate(graph.ops)}
    of_step = [number[run.op.name] for run in runs]
    step = next((k for k, run in enumerate(runs) if run.op.name == at.op), None)
    if step is None:
        raise VerificationError(f"the moved_certificate names an unknown op {at.op!r}")
    op = of_step[step]
    earlier = _reached(graph.predecessors, op)
    followers: list[list[int]] = [[] for _ in graph.ops]
    for one, waits in enumerate(graph.predecessors):
        for other in waits:
            followers[other].append(one)
    later = _reached(followers, op)
    streamed = {n for n, s in storages.items() if s.constant and not s.fast_only}
    always = sum(max(_readings(storages[name]).values(), default=0) for name in streamed)
    excess = -capacity - _overwritable(runs[step], storages, plan, graph)
    # Cost and room of the storages that may lie in the slow pool.
    choices: list[tuple[int, int]] = []
    for name, storage in storages.items():
        born = None if storage.brought else of_step[storage.steps[0]]
        readings = _readings(storage)
        if step in storage.steps:
            if storage.near[storage.steps.index(step)]:
                excess += storage.room
                continue
            cost = readings.get(step, 0) + (0 if born is None else storage.spill)
        else:
            if name in streamed or not (born is None or born in earlier):
                continue
            after = [cost for k, cost in readings.items() if of_step[k] in later]
            if not (after or _lasts(storage)):
                continue
            cost = max(after, default=0) + (0 if born is None else storage.spill)
        excess += storage.room
        choices.append((0 if name in streamed else cost, storage.room))
    paid = Fraction(0)
    choices = [(cost, room) for cost, room in choices if room]
    for cost, room in sorted(choices, key=lambda choice: Fraction(*choice)):
        part = min(room, max(0, excess))
        paid += Fraction(part * cost, room)
        excess -= part
    numbers = [n for s in storages.values() for n in (s.spill, s.reload, *s.crossing)]
    grain = math.gcd(*numbers) or 1
    return -(-math.ceil(always + paid) // grain) * grain


def _reached(next_to: Sequence[Sequence[int]], op: int) -> set[int]:
    """Ops to which a path leads from an op."""
    found: set[int] = set()
    waiting = list(next_to[op])
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += next_to[one]
    return found


def _readings(storage: _Kept) -> dict[int, int]:
    """Step of each reading -> bytes moved to read a storage that is not in the fast pool."""
    return {
        step: storage.reload if storage.near[k] else min(storage.reload, storage.crossing[k])
        for k, step in enumerate(storage.steps)
        if storage.brought or k
    }


def _overwritable(run: Run, storages: Mapping[str, _Kept], plan: Plan, graph: Graph) -> int:
    """Most room that an op may save by writing its outputs over its inputs."""
    if "in place" not in plan.sharing:
        return 0
    saved: dict[str, int] = {}
    for output, source in run.op.in_place:
        one, other = graph.root[output][0], graph.root[source][0]
        if one != other and one in storages and other in storages:
            room = min(storages[one].room, storages[other].room)
            saved[one] = max(saved.get(one, 0), room)
    return sum(saved.values())


def _storages(
    graph: Graph,
    plan: Plan,
    runs: Sequence[Run],
    spans: Mapping[Retention, tuple[int, int]],
    grid: int,
) -> tuple[dict[str, _Kept], dict[str, _Held]]:
    """Storages that may move, and those that cannot but lie in the fast pool."""
    fast, slow = plan.pools
    written: dict[str, list[str]] = {}
    for run in runs:
        for name in run.op.outputs + run.op.workspaces:
            if not _is_passed(run, name):
                written.setdefault(run.places[name].retention.name, []).append(name)
    found: dict[str, _Kept] = {}
    base: dict[str, _Held] = {}
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
        if not movable or (not accessed and in_fast and not in_slow):
            if in_fast:
                base[retention.name] = _Held(room, lower, upper)
        elif accessed:
            kept = "input" in kinds and plan.residency.inputs == "keep" and not writers
            found[retention.name] = _Kept(
                retention.size,
                room,
                _cost("spill", retention.size, plan),
                _cost("reload", retention.size, plan),
                not writers,
                "constant" in kinds,
                "output" in kinds,
                kept,
                in_fast and not in_slow,
                in_slow and not in_fast,
            )
    for number, run in enumerate(runs):
        _add_accesses(run, number, found, plan)
    for storage in found.values():
        if storage.slow_only:
            storage.near = [False] * len(storage.steps)
        elif storage.fast_only:
            storage.near = [True] * len(storage.steps)
    return found, base


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


def _add_accesses(run: Run, number: int, found: Mapping[str, _Kept], plan: Plan) -> None:
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


def _refunds(
    runs: Sequence[Run],
    storages: Mapping[str, _Kept],
    base: Mapping[str, _Held],
    shared: Collection[str],
    price: list[int],
    plan: Plan,
    graph: Graph,
) -> dict[str, dict[int, int]]:
    """Storage -> step -> price given back if it leaves the pool then; under ``""``, in any case."""
    found: dict[str, dict[int, int]] = {}
    if "in place" not in plan.sharing:
        return found
    rooms = {name: one.room for name, one in storages.items() if name in shared}
    rooms |= {name: one.room for name, one in base.items() if name in shared}
    for number, run in enumerate(runs):
        # The inputs of an output, each once.
        inputs: dict[str, dict[str, None]] = {}
        for output, source in run.op.in_place:
            one, other = graph.root[output][0], graph.root[source][0]
            several = inputs.setdefault(one, {})
            # An input that cannot move is written over only if it ends here.
            ends = other not in base or base[other].upper == number + 1
            if one != other and one in rooms and other in rooms and ends:
                several[other] = None
        for one, several in inputs.items():
            if not several:
                continue
            room = max(min(rooms[one], rooms[other]) for other in several)
            dead = any(
                other in base
                or (storages[other].steps[-1] == number and not _lasts(storages[other]))
                for other in several
            )
            for name, step in [("", 0)] if dead else [(other, number) for other in several]:
                of = found.setdefault(name, {})
                of[step] = of.get(step, 0) + room * price[number]
    return found


def _lasts(storage: _Kept) -> bool:
    """True if a storage is needed in a pool after its last access."""
    return (storage.output or storage.retentions) and not storage.constant


def _cheapest(
    storage: _Kept, price: list[int], summed: list[int], refund: Mapping[int, int], unit: int
) -> int:
    """Least price of a storage over all ways through its accesses.

    A state tells the pools that hold its bytes after a step: the fast pool, the slow pool, or both.
    """
    spill, room = storage.spill * unit, storage.room
    begins_slow = storage.slow_only or (storage.constant and not storage.fast_only)
    begin = 0 if storage.brought else storage.steps[0]
    end = len(price) if _lasts(storage) else storage.steps[-1] + 1
    if not (refund or begins_slow or summed[end] > summed[begin]):
        return 0  # It stays in the fast pool, where its room costs nothing.
    fast, slow, both = (True, False), (False, True), (True, True)
    if not storage.brought:
        states: dict[tuple[bool, bool] | None, int] = {None: 0}
    else:
        states = {}
        first = storage.steps[0]
        if not begins_slow:
            states[fast] = room * summed[first]
        if not storage.fast_only:
            states[slow] = 0
    least: list[int] = []
    for start, paid in states.items():
        # An input that is kept ends in the pool where it began; if that is the fast one, it stays.
        stuck = storage.retentions and start == fast
        now: dict[tuple[bool, bool] | None, int] = {start: paid}
        for k, step in enumerate(storage.steps):
            last = k + 1 == len(storage.steps)
            following: dict[tuple[bool, bool], int] = {}
            for state, cost in now.items():
                for there, more in _accessed(storage, k, state, unit):
                    here = cost + more
                    if there[0]:
                        here += room * price[step]
                    end = len(price) if last else storage.steps[k + 1]
                    options = [(there, here)]
                    if there == fast and not storage.fast_only and not stuck:
                        options.append((both, here + spill))
                    for place, pays in options:
                        # It stays in the fast pool to the next access, or to the end.
                        if place[0] and (not last or _lasts(storage)):
                            hold = room * (summed[end] - summed[step + 1])
                            _offer(following, place, pays + hold)
                        back = refund.get(step, 0) if place[0] else 0
                        needed = not last or _lasts(storage)
                        bound_here = stuck or storage.fast_only or not place[1]
                        if not (needed and bound_here):
                            _offer(following, (False, place[1]), pays - back)
            now = dict(following.items())
        least += now.values()
    return min(least)


def _accessed(
    storage: _Kept, k: int, state: tuple[bool, bool] | None, unit: int
) -> list[tuple[tuple[bool, bool], int]]:
    """Pools that may hold the bytes at access ``k``, each with the price of the bytes moved."""
    near_only, cross = storage.near[k], storage.crossing[k] * unit
    if state is None:
        options = [] if storage.slow_only else [((True, False), 0)]
        if not near_only:
            options.append(((False, True), storage.spill * unit))
        return options
    if state[0]:
        return [(state, 0)]
    options = [] if storage.slow_only else [((True, True), storage.reload * unit)]
    if not near_only:
        options.append(((False, True), cross))
    return options


def _offer(states: dict[tuple[bool, bool], int], state: tuple[bool, bool], cost: int) -> None:
    if cost < states.get(state, cost + 1):
        states[state] = cost
