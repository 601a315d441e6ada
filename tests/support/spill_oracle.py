"""Spilling of small graphs: the fewest bytes or cycles of moves, from the definitions.

The oracle walks over the ops done and over what lies in the fast and the slow pool; it knows no
gaps and no order of moves. Offsets are left out, or tried byte by byte. An op may write each of its
results into either pool, whether anything reads them or not, unless it cannot access the slow one.
Only the choice of a capacity for a random case asks ``spilling/``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from math import gcd
from typing import Any, NamedTuple

import cpplan
from cpplan import Graph, Op, Plan, Pool, Tensor
from cpplan.model.moves import MoveKind, move_cycles
from cpplan.model.residency import Residency
from cpplan.model.spill_problem import SpillProblem
from cpplan.program.anf import Program, to_anf
from cpplan.spilling.problem import spill_problem

# Storages in the fast pool, each with its offset, or 0 if offsets are left out.
Fast = frozenset[tuple[str, int]]


def random_spill_graph(
    rng: random.Random, *, uniform: bool = False, ops_count: int | None = None
) -> Graph:
    """A random graph of ``ops_count`` ops (two to five if not given), with in-place pairs."""
    size = 8 if uniform else 0
    names: list[str] = []
    tensors: list[Tensor] = []

    def add(name: str, kind: str, given: int | None = None) -> None:
        bytes_ = given or size or 8 * rng.choice([1, 1, 2, 3])
        tensors.append(Tensor(name, bytes_, kind=kind))
        names.append(name)

    for k in range(rng.randint(1, 2)):
        add(f"x{k}", "input")
    if rng.random() < 0.3:
        add("w", "constant")
    ops = []
    for k in range(ops_count or rng.randint(2, 5)):
        reads = tuple(rng.sample(names, min(len(names), rng.randint(1, 2))))
        pairs = ()
        if rng.random() < 0.5:
            over = next((t for t in tensors if t.name == reads[0]), None)
            assert over is not None
            add(f"t{k}", "intermediate", over.size)
            pairs = ((f"t{k}", reads[0]),) if over.kind != "constant" else ()
        else:
            add(f"t{k}", "intermediate")
        ops.append(Op(f"op{k}", inputs=reads, outputs=(f"t{k}",), in_place=pairs))
    read = {name for op in ops for name in op.inputs}
    tensors = [
        Tensor(t.name, t.size, kind="output")
        if t.kind == "intermediate" and (t.name not in read or rng.random() < 0.2)
        else t
        for t in tensors
    ]
    return Graph("random", tuple(tensors), tuple(ops))


@dataclass(frozen=True)
class Case:
    """A graph, its residency and pools; ops may overwrite inputs, or cycles be counted."""

    graph: Graph
    residency: Residency
    pools: tuple[Pool, Pool]
    in_place: bool
    time: bool = False

    def problem(self, order: tuple[int, ...] | None = None) -> SpillProblem:
        """The spilling problem at an order, by default the listed one."""
        program = to_anf(self.graph) if order is None else Program(self.graph, order)
        return spill_problem(
            program, self.residency, self.pools, share=self.in_place, time=self.time
        )

    def least(self, *, any_order: bool, offsets: bool = False) -> int | None:
        """The fewest bytes moved, or cycles of moves, by brute force."""
        return least_moved(
            self.graph, self.residency, self.pools, in_place=self.in_place, any_order=any_order,
            offsets=offsets, time=self.time,
        )  # fmt: skip

    def solve(self, order: str = "given", **options) -> Plan:
        """The plan of one worker whose time is counted by work."""
        objective = {"objective": "time"} if self.time else {}
        return cpplan.solve(
            self.graph,
            pools=self.pools,
            spill=True,
            in_place=self.in_place,
            order=order,
            inputs=self.residency.inputs,
            outputs=self.residency.outputs,
            constants=self.residency.constants,
            **{"time_limit": 20, "deterministic": True, **objective, **options},
        )


def random_spill_case(seed: int, *, uniform: bool = False) -> Case:
    """A small graph with a fast pool between the least that an op needs and all live bytes."""
    rng = random.Random(seed)
    graph = random_spill_graph(rng, uniform=uniform)
    residency = Residency(
        rng.choice(["reuse", "keep", "outside"]),
        rng.choice(["keep", "keep", "outside"]),
        rng.choice(["outside", "keep"]),
    )
    direct, in_place = rng.random() < 0.5, rng.random() < 0.5
    case = Case(graph, residency, (Pool("fast", 1 << 30), Pool("slow", direct=direct)), in_place)
    problem = case.problem()
    most = int(problem.load(problem.all_kept()).max())
    least = 0 if direct else int(problem.least_load().max())
    capacity = max(1, rng.randint(least, max(most, least)))
    return replace(case, pools=(Pool("fast", capacity), case.pools[1]))


class _Maker:
    """A random graph of at most six ops: unused results, several results, views, empty tensors."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.unit = rng.choice([1, 1, 4])
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        # Tensors that the next op may read.
        self.known: list[str] = []

    def make(self) -> Graph:
        rng = self.rng
        for k in range(rng.randint(1, 2)):
            self.known.append(self.add(f"x{k}", self.size(), kind="input"))
        if rng.random() < 0.25:
            self.known.append(self.add("w", self.size(), kind="constant"))
        many = rng.randint(1, 6)
        while len(self.ops) < many:
            draw = rng.random()
            if draw < 0.15:
                self.view()
            elif draw < 0.2 and len(self.ops) + 2 < many:
                self.parts()
            elif draw < 0.25:
                self.update()
            else:
                self.op()
        return Graph("random", tuple(self.tensors.values()), tuple(self.ops))

    def size(self) -> int:
        return 0 if self.rng.random() < 0.05 else self.unit * self.rng.randint(1, 6)

    def add(self, name: str, size: int, **facts: Any) -> str:
        """Add a tensor: an output by chance, and sometimes of one pool alone."""
        rng = self.rng
        if "kind" not in facts:
            facts["kind"] = "output" if rng.random() < 0.2 else "intermediate"
        if rng.random() < 0.04 and "view_of" not in facts and size:
            facts["pools"] = ("fast",)
        self.tensors[name] = Tensor(name, size, **facts)
        return name

    def op(self) -> None:
        rng, k = self.rng, len(self.ops)
        reads = rng.choices(self.known, k=rng.choice([0, 1, 1, 2, 2, 3])) if self.known else []
        outputs, pairs = [], []
        for n in range(rng.choice([1, 1, 1, 2, 2, 3])):
            over = rng.choice(reads) if reads and rng.random() < 0.5 else None
            base = over and self.tensors[over]
            if base and base.nbytes and base.view_of is None and base.kind != "constant":
                pairs.append((self.add(f"t{k}.{n}", base.nbytes), over))
            else:
                self.add(f"t{k}.{n}", self.size())
            outputs.append(f"t{k}.{n}")
        scratch = (self.add(f"s{k}", self.unit, kind="workspace"),) if rng.random() < 0.08 else ()
        self.ops.append(
            Op(
                f"op{k}", inputs=tuple(reads), outputs=tuple(outputs), workspaces=scratch,
                in_place=tuple(pairs),
            )
        )  # fmt: skip
        # Results that are never read are ordinary.
        self.known += [name for name in outputs if rng.random() < 0.7]

    def part(self, name: str, bases: list[str], **facts: Any) -> str | None:
        """Add a view of a part of one of some tensors, and return its base."""
        named = [base for base in bases if self.tensors[base].nbytes >= self.unit]
        if not named:
            return None
        base = self.rng.choice(named)
        size = self.unit * self.rng.randint(1, self.tensors[base].nbytes // self.unit)
        at = self.rng.randrange(0, self.tensors[base].nbytes - size + 1, self.unit)
        self.add(name, size, view_of=(base, at), **facts)
        return base

    def view(self) -> None:
        """Add an op that passes on a part of a tensor, or writes a tensor and a part of it."""
        k = len(self.ops)
        if self.rng.random() < 0.3:
            result = self.add(f"t{k}", self.unit * self.rng.randint(1, 4))
            self.part(f"v{k}", [result])
            self.ops.append(Op(f"op{k}", outputs=(result, f"v{k}")))
            self.known.append(result)
        elif base := self.part(f"v{k}", self.known):
            self.ops.append(Op(f"op{k}", inputs=(base,), outputs=(f"v{k}",)))
            self.known.append(f"v{k}")

    def update(self) -> None:
        """Add an op that writes a part of an input, which others read."""
        k, inputs = len(self.ops), [name for name in self.known if name.startswith("x")]
        if self.part(f"u{k}", inputs, kind="intermediate"):
            self.ops.append(Op(f"op{k}", inputs=tuple(self.known[-1:]), outputs=(f"u{k}",)))
            self.known.append(f"u{k}")

    def parts(self) -> None:
        """Add two ops that write the halves of a tensor, and one that passes the whole on."""
        k, size = len(self.ops), self.unit * self.rng.randint(1, 3)
        whole = self.add(f"c{k}", 2 * size)
        halves = f"c{k}.0", f"c{k}.1"
        for n, half in enumerate(halves):
            reads = tuple(self.rng.sample(self.known, min(1, len(self.known))))
            self.add(half, size, view_of=(whole, n * size), kind="intermediate")
            self.ops.append(Op(f"op{k + n}", inputs=reads, outputs=(half,)))
        self.ops.append(Op(f"op{k + 2}", inputs=halves, outputs=(whole,)))
        self.known.append(whole)


def random_unused_case(seed: int) -> Case:
    """A small graph with results that nothing reads; the fast pool may be far too small for it."""
    rng = random.Random(seed)
    graph = _Maker(rng).make()
    residency = Residency(
        rng.choice(["reuse", "reuse", "keep", "outside"]),
        rng.choice(["keep", "keep", "outside"]),
        rng.choice(["outside", "keep"]),
    )
    sizes = {t.name: t.nbytes for t in graph.tensors}
    most = max(sum(sizes[name] for name in set(op.tensors)) for op in graph.ops)
    slow, time = Pool("slow", direct=rng.random() < 0.6), rng.random() < 0.2
    if time:
        slow = replace(slow, read_bandwidth=2, write_bandwidth=1, read_latency=3, write_latency=5)
    if rng.random() < 0.1:
        slow = replace(slow, capacity=rng.randint(1, 2 * most + 1))
    fast = Pool("fast", rng.randint(1, 2 * most + 1))
    return Case(graph, residency, (fast, slow), rng.random() < 0.5, time)


def least_moved(
    graph: Graph,
    residency: Residency,
    pools: tuple[Pool, Pool],
    *,
    in_place: bool,
    any_order: bool,
    offsets: bool = False,
    time: bool = False,
) -> int | None:
    """The fewest bytes moved, or cycles of moves; ``None`` if no plan fits.

    Without offsets, the bytes in the fast pool need only be as few as it holds; what they still
    cost guides the walk with offsets. The slow pool holds everything.
    """
    loose = _Walk(graph, residency, pools, in_place=in_place, offsets=False, time=time)
    left = _costs_left(loose, any_order=any_order)
    if not offsets:
        return min((left[start] for start in loose.starts() if start in left), default=None)
    walk = _Walk(graph, residency, pools, in_place=in_place, offsets=True, time=time)
    best: dict[State, int] = {}
    number = count()
    queue: list[tuple[int, int, int, State]] = []

    def reach(moved: int, state: State) -> None:
        rest = left.get(_without_offsets(state))
        if rest is not None and best.get(state, moved + 1) > moved:
            best[state] = moved
            heappush(queue, (moved + rest, -next(number), moved, state))

    for start in walk.starts():
        reach(0, start)
    while queue:
        _, _, moved, state = heappop(queue)
        if walk.ended(state):
            return moved
        if best[state] == moved:
            for more, following in walk.steps(state, any_order=any_order):
                reach(moved + more, following)
    return None


def _without_offsets(state: State) -> State:
    return state._replace(fast=frozenset((name, 0) for name, _ in state.fast))


def _costs_left(walk: _Walk, *, any_order: bool) -> dict[State, int]:
    """State -> the fewest bytes moved from there to the end, of all states with an end."""
    before: dict[State, list[tuple[int, State]]] = {}
    waiting = list(walk.starts())
    seen = set(waiting)
    while waiting:
        state = waiting.pop()
        for more, following in walk.steps(state, any_order=any_order):
            before.setdefault(following, []).append((more, state))
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    left = {state: 0 for state in seen if walk.ended(state)}
    number = count()
    queue = [(0, next(number), state) for state in left]
    while queue:
        cost, _, state = heappop(queue)
        if cost == left[state]:
            for more, earlier in before.get(state, ()):
                if left.get(earlier, cost + more + 1) > cost + more:
                    left[earlier] = cost + more
                    heappush(queue, (cost + more, next(number), earlier))
    return left


class State(NamedTuple):
    """Ops done, offsets of the storages in the fast pool, those in the slow one, inputs pinned."""

    done: frozenset[str]
    fast: Fast
    slow: frozenset[str]
    pinned: frozenset[str]


@dataclass
class _Storage:
    """A storage: its bytes, its ops, the pools that it may lie in, and what becomes of it."""

    size: int
    kinds: set[str]
    ops: set[str]
    writes: list[tuple[str, str]]
    fast: bool
    slow: bool
    kept: bool = False
    streams: bool = False
    shared: bool = False

    @property
    def brought(self) -> bool:
        return not self.writes or bool(self.kinds & {"input", "constant"})


class _Walk:
    def __init__(
        self,
        graph: Graph,
        residency: Residency,
        pools: tuple[Pool, Pool],
        *,
        in_place: bool,
        offsets: bool,
        time: bool,
    ):
        self.graph, self.pools, self.in_place, self.offsets = graph, pools, in_place, offsets
        self.time = time
        self.capacity = pools[0].capacity or 0
        self.root = {t.name: graph.root[t.name][0] for t in graph.tensors}
        self.storages = self._storages(residency)
        # An op's storages in the pools, with the bytes of a read in the slow pool.
        self.crossing = {op.name: self._crossing(op) for op in graph.ops}
        ops, before = graph.ops, graph.predecessors
        self.before = {op.name: {ops[k].name for k in before[i]} for i, op in enumerate(ops)}
        self.unit = gcd(*(s.size for s in self.storages.values()), 0) or 1

    def cost(self, kind: MoveKind, size: int) -> int:
        """Bytes of a move, or its cycles."""
        return move_cycles(kind, size, self.pools[1]) if self.time else size

    def _storages(self, residency: Residency) -> dict[str, _Storage]:
        found: dict[str, _Storage] = {}
        fast, slow = (pool.name for pool in self.pools)
        for tensor in self.graph.tensors:
            root = self.root[tensor.name]
            new = _Storage(self.graph.tensor[root].nbytes, set(), set(), [], True, True)
            one = found.setdefault(root, new)
            one.kinds.add(tensor.kind)
            one.fast &= tensor.pools is None or fast in tensor.pools
            one.slow &= tensor.pools is None or slow in tensor.pools
        for op in self.graph.ops:
            for name in op.tensors:
                found[self.root[name]].ops.add(op.name)
            for name in op.outputs + op.workspaces:
                if not self._passed_on(op, name):
                    found[self.root[name]].writes.append((op.name, name))
        for root, one in found.items():
            keeps = {"output"} | ({"input"} if residency.inputs == "keep" else set())
            whole = not one.writes or [name for _, name in one.writes] == [root]
            handed_back = one.brought and "output" in one.kinds
            if not whole or handed_back or "workspace" in one.kinds:
                one.slow = False
            ops = {op for op, _ in one.writes} | (one.kinds & {"input"})
            one.shared = len(ops) == 1 and not one.kinds & {"constant", "workspace"}
            # A constant in the slow pool is there to be read again, one in the fast pool stays.
            one.streams = "constant" in one.kinds and one.slow
            one.kept = bool(one.kinds & (keeps | {"constant"})) and not one.streams
        kinds = "input", "output", "constant"
        away = {kind for kind in kinds if getattr(residency, f"{kind}s") == "outside"}
        return {r: one for r, one in found.items() if one.size and not one.kinds & away}

    def _passed_on(self, op: Op, name: str) -> bool:
        """True if the op's inputs hold every byte of an output already."""
        root, begin = self.graph.root[name]
        held: set[int] = set()
        for other in op.inputs:
            if self.root[other] == root:
                first = self.graph.root[other][1]
                held |= set(range(first, first + self.graph.tensor[other].nbytes))
        size = self.graph.tensor[name].nbytes
        same = any(self.root[other] == root for other in op.inputs)
        return same and held >= set(range(begin, begin + size))

    def _crossing(self, op: Op) -> dict[str, int]:
        passes = bool(op.outputs) and not op.workspaces
        passes = passes and all(self._passed_on(op, name) for name in op.outputs)
        free = {self.root[name] for name in op.outputs} if passes else set()
        found: dict[str, int] = {}
        for name in dict.fromkeys(op.tensors):
            root = self.root[name]
            if root in self.storages:
                size = 0 if root in free else self.graph.tensor[name].nbytes
                found[root] = min(found.get(root, 0) + size, self.storages[root].size)
        return found

    def starts(self) -> Iterator[State]:
        """Inputs begin in either pool, constants in the slow one if they may lie there."""
        states = [State(frozenset(), frozenset(), frozenset(), frozenset())]
        for root, one in self.storages.items():
            if not one.brought or (not one.ops and one.slow):
                continue  # what nothing reads lies in the slow pool
            states = [after for state in states for after in self._brought(root, one, state)]
        yield from states

    def _brought(self, root: str, one: _Storage, state: State) -> Iterator[State]:
        if one.slow:
            yield state._replace(slow=state.slow | {root})
        if one.fast and not one.streams:
            # An input that is kept must end where it began, so it is pinned.
            pinned = state.pinned | ({root} if one.kept else set())
            for fast in self._put(state.fast, root):
                yield state._replace(fast=fast, pinned=pinned)

    def _put(self, fast: Fast, root: str) -> Iterator[Fast]:
        """The fast pool with one more storage, at each offset if offsets count."""
        size = self.storages[root].size
        if not self.offsets:
            if sum(self.storages[name].size for name, _ in fast) + size <= self.capacity:
                yield fast | {(root, 0)}
            return
        spans = [(at, at + self.storages[name].size) for name, at in fast]
        for at in range(0, self.capacity - size + 1, self.unit):
            if all(at + size <= low or at >= high for low, high in spans):
                yield fast | {(root, at)}

    def ended(self, state: State) -> bool:
        there = {name for name, _ in state.fast} | state.slow
        kept = {root for root, one in self.storages.items() if one.kept and one.ops}
        return len(state.done) == len(self.graph.ops) and kept <= there

    def dead(self, root: str, state: State) -> bool:
        one = self.storages[root]
        return not one.kept and one.ops <= state.done and bool(state.done)

    def steps(self, state: State, *, any_order: bool) -> Iterator[tuple[int, State]]:
        done, fast, slow, pinned = state
        near = {name for name, _ in fast}
        for item in fast:
            root, one = item[0], self.storages[item[0]]
            if root not in slow and root not in pinned and one.slow:
                yield self.cost("spill", one.size), state._replace(slow=slow | {root})
            if root in slow and root not in pinned:
                yield 0, state._replace(fast=fast - {item})
        for root in slow - near:
            one = self.storages[root]
            if one.fast:
                for there in self._put(fast, root):
                    yield self.cost("reload", one.size), state._replace(fast=there)
        for op in self.graph.ops:
            if op.name in done:
                continue
            if self.before[op.name] <= done:
                yield from self._run(op, state)
            if not any_order:
                return

    def _run(self, op: Op, state: State) -> Iterator[tuple[int, State]]:
        """The states after an op: each of its new storages in either pool, at any offset."""
        direct, near, paid = self.pools[1].direct, {name for name, _ in state.fast}, 0
        begun: list[str] = []
        for root, crossing in self.crossing[op.name].items():
            if root in near:
                continue
            if root in state.slow:
                if crossing and not direct:
                    return
                paid += self.cost("read", crossing)
            else:
                begun.append(root)
        after = state._replace(done=state.done | {op.name})
        options = [(paid, after)]
        for root in begun:
            options = [
                (paid + more, written)
                for paid, state in options
                for more, written in self._written(op, root, state)
            ]
        for cost, then in options:
            fast = frozenset(item for item in then.fast if not self.dead(item[0], then))
            slow = frozenset(root for root in then.slow if not self.dead(root, then))
            yield cost, then._replace(fast=fast, slow=slow)

    def _written(self, op: Op, root: str, state: State) -> Iterator[tuple[int, State]]:
        """A result in the slow pool, in the fast one, or over an input that leaves it."""
        one = self.storages[root]
        if one.slow and self.pools[1].direct:
            yield self.cost("write", one.size), state._replace(slow=state.slow | {root})
        if not one.fast:
            return
        for fast in self._put(state.fast, root):
            yield 0, state._replace(fast=fast)
        for result, source in op.in_place if self.in_place else ():
            below = self.root[source]
            at = dict(state.fast).get(below)
            lost = at is not None and (below in state.slow or self.dead(below, state))
            shared = lost and one.shared and self.storages[below].shared
            # The op may read and write the bytes under the names of its pairs alone.
            pairs = {name for pair in op.in_place for name in pair}
            names = {name for name in op.tensors if self.root[name] in (root, below)}
            shared = shared and names <= pairs
            if self.root[result] == root and shared and below not in state.pinned:
                # Both lie in the same bytes during the op, after which the input is gone.
                yield 0, state._replace(fast=state.fast - {(below, at)} | {(root, at)})
