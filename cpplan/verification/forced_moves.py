"""The bound "forced moves", proved again: some ops leave too little room in every order."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

from cpplan.model.certificates import CutFlow, ForcedAt, ForcedMoves
from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph, Op
from cpplan.model.plan import Plan
from cpplan.verification.around import Surroundings, bytes_beside_one
from cpplan.verification.cited_bounds import proved_by_flow
from cpplan.verification.moves import BareProgram
from cpplan.verification.moving_storages import MovingStorage, MovingStorages
from cpplan.verification.storages import Storages

# Binary places of a part of a cost, and most sums of room that are kept.
PLACES, MOST_SUMS = 16, 1 << 12


def forced_moves_floor(graph: Graph, bare: BareProgram, plan: Plan, proof: ForcedMoves) -> int:
    """Bytes that every plan moves in every order, since ops leave too little room.

    The bytes live while an op runs are those that a flow proves, or those live in every order. What
    exceeds the fast pool is absent from it: of the tensors that may be absent, a knapsack chooses
    the cheapest that are large enough. A tensor that may be absent at several ops divides the cost
    of its write among them, and the cost of its read among those between which it need not be read.
    """
    if len(set(proof.at)) < len(proof.at):
        raise VerificationError("the moved_certificate has the same op twice")
    every = _EveryOrder(graph, bare, plan)
    ops = [_Crowded(every, cited) for cited in proof.at]
    parts: dict[tuple[int, str], int] = {}
    for name in {name for op in ops for name in op.absent}:
        at = [k for k, op in enumerate(ops) if name in op.absent]
        for k, part in zip(at, every.parts(name, [ops[k].op for k in at]), strict=True):
            parts[k, name] = part
    total = every.streamed << PLACES
    for k, op in enumerate(ops):
        items = [(parts[k, name], every.storages[name].room) for name in op.absent]
        total += _least_cost(items, op.excess)
    grain = every.moving.grain
    return -(-total // (grain << PLACES)) * grain


class _EveryOrder:
    """Facts that hold in every order: room, reads, and the ops before and after others."""

    def __init__(self, graph: Graph, bare: BareProgram, plan: Plan):
        self.graph, self.plan = graph, plan
        self.moving = MovingStorages(graph, bare, plan)
        self.storages = self.moving.kept
        number = {op.name: k for k, op in enumerate(graph.ops)}
        self.number = number
        self.of_step = [number[run.op.name] for run in bare.runs]
        self.around = Surroundings(graph.predecessors)
        self.reached: dict[int, tuple[set[int], set[int]]] = {}
        self.streams = {
            name for name, one in self.storages.items() if one.constant and not one.fast_only
        }
        self.streamed = sum(
            max(self.storages[name].readings.values(), default=0) for name in self.streams
        )

    @cached_property
    def held(self) -> Storages:
        """The storages in the fast pool by the room that they take, but for streamed constants."""
        held = Storages(self.graph, self.plan.residency, repeats=False)
        rooms = {name: one.room for name, one in self.storages.items() if name not in self.streams}
        rooms |= {name: one.room for name, one in self.moving.base.items()}
        held.size = {name: rooms[name] for name in held.size if name in rooms}
        held.accessors = {name: held.accessors[name] for name in held.size}
        held.accessed = [[name for name in some if name in rooms] for some in held.accessed]
        held.kept = [name for name in held.kept if name in rooms]
        return held

    def ops_around(self, op: int) -> tuple[set[int], set[int]]:
        """Ops before and after an op in every order."""
        if op not in self.reached:
            self.reached[op] = self.around.before(op), self.around.after(op)
        return self.reached[op]

    def readers(self, name: str) -> dict[int, int]:
        """Op -> cost of its read of a storage that is not in the fast pool; none that cost 0."""
        costs = self.storages[name].readings
        return {self.of_step[step]: cost for step, cost in costs.items() if cost}

    def room_at(self, op: Op) -> int:
        """Room that an op's streamed constants take, less what it may save by overwriting."""
        held, graph = self.held.size, self.graph
        saved: dict[str, int] = {}
        for output, source in op.in_place if "in place" in self.plan.sharing else ():
            one, other = graph.root[output][0], graph.root[source][0]
            if one != other and one in held and other in held:
                saved[one] = max(saved.get(one, 0), min(held[one], held[other]))
        near = sum(
            one.room
            for name in self.streams
            for one in (self.storages[name],)
            for step, there in zip(one.steps, one.near, strict=True)
            if there and graph.ops[self.of_step[step]] is op
        )
        return near - sum(saved.values())

    def parts(self, name: str, ops: Sequence[int]) -> list[int]:
        """The part of a storage's cost that each op may count, in units of ``2**-PLACES``."""
        storage, readers = self.storages[name], self.readers(name)
        write = 0 if storage.brought else storage.spill
        parts = [(write << PLACES) // len(ops)] * len(ops)
        free = any(not cost for cost in storage.readings.values())
        always = bool(readers) and not free and not storage.lasts
        due = [
            k
            for k, op in enumerate(ops)
            if always or any(one == op or one in self.ops_around(op)[1] for one in readers)
        ]
        waiting = set(due)
        while waiting:
            group, fresh = set[int](), {waiting.pop()}
            while fresh:
                k = fresh.pop()
                group.add(k)
                joined = {j for j in waiting if not self._parted(ops[k], ops[j], readers)}
                waiting -= joined
                fresh |= joined
            for k in group:
                parts[k] += (min(readers.values()) << PLACES) // len(group)
        return parts

    def _parted(self, one: int, other: int, readers: Collection[int]) -> bool:
        """True if an op reads between two others in every order; the first of them may do it."""
        for first, last in ((one, other), (other, one)):
            after, before = self.ops_around(first)[1], self.ops_around(last)[0]
            if last in after and any(
                op in before and (op == first or op in after) for op in readers
            ):
                return True
        return False


class _Crowded:
    """An op that a certificate names, the bytes absent at least, and what may be absent."""

    def __init__(self, every: _EveryOrder, cited: ForcedAt | CutFlow):
        if cited.op not in every.number:
            raise VerificationError(f"the moved_certificate names an unknown op {cited.op!r}")
        held, self.op = every.held, every.number[cited.op]
        predecessors = every.graph.predecessors
        if isinstance(cited, CutFlow):
            _, beside = proved_by_flow(held, predecessors, cited)
        else:
            beside = bytes_beside_one(held, predecessors, self.op)
        own = sum(held.size[name] for name in held.accessed[self.op])
        self.excess = own + beside + every.room_at(every.graph.ops[self.op]) - every.moving.capacity
        certain = isinstance(cited, ForcedAt)
        self.absent = [
            name
            for name, storage in every.storages.items()
            if name not in every.streams
            and not storage.fast_only
            and storage.room
            and self._may_be_absent(every, storage, certain=certain)
        ]

    def _may_be_absent(self, every: _EveryOrder, storage: MovingStorage, *, certain: bool) -> bool:
        """True if a storage may be needed while the op runs, or is in every order, but not near."""
        accessing = [every.of_step[step] for step in storage.steps]
        if self.op in accessing:
            return not storage.near[accessing.index(self.op)]
        before, after = every.ops_around(self.op)
        writer = None if storage.brought else accessing[0]
        readers = accessing if storage.brought else accessing[1:]
        if certain:
            begun = writer is None or writer in before
            return begun and (storage.lasts or any(op in after for op in readers))
        begun = writer is None or writer not in after
        return begun and (storage.lasts or any(op not in before for op in readers))


def _least_cost(items: Iterable[tuple[int, int]], needed: int) -> int:
    """Least cost of items with enough room together; at least, if there are too many sums."""
    if needed <= 0:
        return 0
    ranked = sorted(items, key=lambda item: Fraction(*item))
    rooms = accumulate(room for _, room in ranked)
    enough = next((k for k, room in enumerate(rooms) if room >= needed), len(ranked))
    best = sum(cost for cost, _ in ranked[: enough + 1])
    least = {0: 0}  # cost, less than the best -> most room, less than needed
    for cost, room in ranked:
        # All items left cost at least as much for their room: what is missing, in part.
        rate = Fraction(cost, room)
        least = {paid: have for paid, have in least.items() if paid + (needed - have) * rate < best}
        if len(least) > MOST_SUMS:
            return min(math.floor(paid + (needed - have) * rate) for paid, have in least.items())
        found = dict(least)
        for paid, have in least.items():
            found[paid + cost] = max(found.get(paid + cost, 0), have + room)
        best = min([best, *(paid for paid, have in found.items() if have >= needed)])
        least, most = {}, -1
        for paid in sorted(found):
            if most < found[paid] < needed:
                least[paid] = most = found[paid]
    return best
