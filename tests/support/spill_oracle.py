"""Spilling of small graphs: the fewest bytes moved, from the definitions.

The oracle walks over the ops done and over what lies in the fast and the slow pool, as sets of
tensors; it knows no gaps, no order of moves and no offsets. Only the choice of a capacity for a
random case asks ``spilling/``.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import combinations, count

import cpplan
from cpplan import Graph, Op, Plan, Pool, Tensor
from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.spilling.problem import SpillProblem, spill_problem

State = tuple[frozenset[str], frozenset[str], frozenset[str]]


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
    """A graph, its residency and pools, and True for ``in_place`` if ops may overwrite inputs."""

    graph: Graph
    residency: Residency
    pools: tuple[Pool, Pool]
    in_place: bool

    def problem(self) -> SpillProblem:
        """The spilling problem at the listed order."""
        return spill_problem(to_anf(self.graph), self.residency, self.pools, share=self.in_place)

    def least(self, *, any_order: bool) -> int | None:
        """The fewest bytes moved, by brute force."""
        return least_moved(
            self.graph, self.residency, self.pools, in_place=self.in_place, any_order=any_order
        )

    def solve(self, order: str = "given", **options) -> Plan:
        """The plan of one worker whose time is counted by work."""
        return cpplan.solve(
            self.graph,
            pools=self.pools,
            spill=True,
            in_place=self.in_place,
            order=order,
            inputs=self.residency.inputs,
            outputs=self.residency.outputs,
            constants=self.residency.constants,
            **{"time_limit": 20, "deterministic": True, **options},
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


def least_moved(
    graph: Graph,
    residency: Residency,
    pools: tuple[Pool, Pool],
    *,
    in_place: bool,
    any_order: bool,
) -> int | None:
    """The fewest bytes moved, with offsets left out; ``None`` if an op does not fit."""
    walk = _Walk(graph, residency, pools, in_place)
    best: dict[State, int] = {}
    number = count()
    queue = []
    for start in walk.starts():
        heappush(queue, (0, next(number), start))
    while queue:
        moved, _, state = heappop(queue)
        if best.get(state, moved + 1) <= moved:
            continue
        best[state] = moved
        if walk.ended(state):
            return moved
        for more, following in walk.steps(state, any_order=any_order):
            if best.get(following, moved + more + 1) > moved + more:
                heappush(queue, (moved + more, next(number), following))
    return None


class _Walk:
    def __init__(
        self, graph: Graph, residency: Residency, pools: tuple[Pool, Pool], in_place: bool
    ):
        self.graph, self.pools, self.in_place = graph, pools, in_place
        self.size = {t.name: t.nbytes for t in graph.tensors}
        self.away = {
            t.name for t in graph.tensors if getattr(residency, f"{t.kind}s", "in") == "outside"
        }
        self.brought = [
            t for t in graph.tensors if t.kind in ("input", "constant") and t.name not in self.away
        ]
        self.retention = {
            t.name for t in self.brought if residency.inputs == "keep" and t.kind == "input"
        }
        self.kept = {t.name for t in graph.tensors if t.kind == "output"} - self.away
        self.readers = {
            t.name: [op.name for op in graph.ops if t.name in op.inputs] for t in graph.tensors
        }

    def starts(self) -> Iterator[State]:
        """Inputs begin in either pool, constants in the slow one."""
        free = [t.name for t in self.brought if t.kind == "input" and self.readers[t.name]]
        for many in range(len(free) + 1):
            for fast in combinations(free, many):
                slow = {t.name for t in self.brought} - set(fast)
                if self.room(fast) <= (self.pools[0].capacity or 0):
                    # An input that is kept must end where it began, so it is pinned.
                    pins = {f"!{name}" for name in fast if name in self.retention}
                    yield frozenset(pins), frozenset(fast), frozenset(slow)

    def room(self, names: Iterable[str]) -> int:
        return sum(self.size[name] for name in names)

    def ended(self, state: State) -> bool:
        done, fast, slow = state
        return len(self.ran(done)) == len(self.graph.ops) and all(
            name in fast or name in slow for name in self.kept
        )

    def ran(self, done: frozenset[str]) -> set[str]:
        return {name for name in done if not name.startswith("!")}

    def pinned(self, done: frozenset[str]) -> set[str]:
        return {name[1:] for name in done if name.startswith("!")}

    def dead(self, name: str, done: frozenset[str]) -> bool:
        if name in self.kept or name in self.pinned(done):
            return False
        return all(reader in done for reader in self.readers[name])

    def steps(self, state: State, *, any_order: bool) -> Iterator[tuple[int, State]]:
        done, fast, slow = state
        capacity = self.pools[0].capacity or 0
        for name in fast:
            if name not in slow and name not in self.pinned(done):
                yield self.size[name], (done, fast, slow | {name})
            if (name in slow or self.dead(name, done)) and name not in self.pinned(done):
                yield 0, (done, fast - {name}, slow)
        for name in slow - fast:
            if self.room(fast) + self.size[name] <= capacity:
                yield self.size[name], (done, fast | {name}, slow)
        for op in self.graph.ops:
            if op.name in done:
                continue
            made = [other.name for other in self.graph.ops if set(other.outputs) & set(op.inputs)]
            if all(name in done for name in made):
                yield from self.run(op, state)
            if not any_order:
                return

    def run(self, op: Op, state: State) -> Iterator[tuple[int, State]]:
        done, fast, slow = state
        capacity = self.pools[0].capacity or 0
        direct = self.pools[1].direct
        paid = 0
        for name in dict.fromkeys(op.inputs):
            if name in self.away or name in fast:
                continue
            if not direct or name not in slow:
                return
            paid += self.size[name]
        after = done | {op.name}
        output = op.outputs[0]
        if output in self.away:
            yield paid, (after, fast, slow)
            return
        alone = not self.readers[output] and output not in self.kept
        if direct and not alone:
            yield paid + self.size[output], (after, fast, slow | {output})
        if self.room(fast) + self.size[output] <= capacity:
            yield paid, (after, fast | {output}, slow)
        if not self.in_place:
            return
        for one, over in op.in_place:
            lost = over in slow or self.dead(over, after)
            lost = lost and one == output and over in fast and over not in self.pinned(done)
            if lost and self.room(fast - {over}) + self.size[output] <= capacity:
                yield paid, (after, (fast - {over}) | {output}, slow)
