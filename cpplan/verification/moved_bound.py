"""Bounds on the bytes moved, proved again from the accesses of the model's ops."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from cpplan.model.certificates import RoomPrices
from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.verification.aliasing import sharing_retentions
from cpplan.verification.moves import BareProgram
from cpplan.verification.moving_storages import HeldStorage, MovingStorage, MovingStorages
from cpplan.verification.runs import Run

# Most binary places of prices.
_MOST_PLACES = 64


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
    runs = bare.runs
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
    moving = MovingStorages(graph, bare, plan)
    storages, base = moving.kept, moving.base
    total = sum(
        held.room * (summed[min(held.upper, len(price))] - summed[held.lower])
        for held in base.values()
    )
    total -= moving.capacity * summed[-1]
    shared = sharing_retentions(bare.accesses).keys()
    refunds = _refunds(runs, storages, base, shared, price, plan, graph)
    unit = 1 << prices.places
    for name, storage in storages.items():
        total += _cheapest(storage, price, summed, refunds.get(name, {}), unit)
    total -= refunds.get("", {}).get(0, 0)
    return max(0, -(-total // (unit * moving.grain)) * moving.grain)


def _refunds(
    runs: Sequence[Run],
    storages: Mapping[str, MovingStorage],
    base: Mapping[str, HeldStorage],
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
            held = base.get(other)
            ends = held is None or (held.upper == number + 1 and not held.lasts)
            if one != other and one in rooms and other in rooms and ends:
                several[other] = None
        for one, several in inputs.items():
            if not several:
                continue
            room = max(min(rooms[one], rooms[other]) for other in several)
            dead = any(
                other in base or (storages[other].steps[-1] == number and not storages[other].lasts)
                for other in several
            )
            for name, step in [("", 0)] if dead else [(other, number) for other in several]:
                of = found.setdefault(name, {})
                of[step] = of.get(step, 0) + room * price[number]
    return found


def _cheapest(
    storage: MovingStorage,
    price: list[int],
    summed: list[int],
    refund: Mapping[int, int],
    unit: int,
) -> int:
    """Least price of a storage over all ways through its accesses.

    A state tells the pools that hold its bytes after a step: the fast pool, the slow pool, or both.
    """
    spill, room = storage.spill * unit, storage.room
    begins_slow = storage.slow_only or (storage.constant and not storage.fast_only)
    begin = 0 if storage.brought else storage.steps[0]
    end = len(price) if storage.lasts else storage.steps[-1] + 1
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
                        if place[0] and (not last or storage.lasts):
                            hold = room * (summed[end] - summed[step + 1])
                            _offer(following, place, pays + hold)
                        back = refund.get(step, 0) if place[0] else 0
                        needed = not last or storage.lasts
                        bound_here = stuck or storage.fast_only or not place[1]
                        if not (needed and bound_here):
                            _offer(following, (False, place[1]), pays - back)
            now = dict(following.items())
        least += now.values()
    return min(least)


def _accessed(
    storage: MovingStorage, k: int, state: tuple[bool, bool] | None, unit: int
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
