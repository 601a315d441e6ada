"""Oracles for tests: an exhaustive packer, a naive one, and random problems and programs.

Everything here is slow, short and written from the definitions, one step at a time; it shares no
code with the package beyond its types.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable

import numpy as np
from hypothesis import strategies as st

from cpplan import Graph, Op, Plan, Problem, Program, Tensor
from cpplan.model.problem import Gap, Ints
from cpplan.model.residency import Residency
from cpplan.program.liveness import last_places, to_problem

# A source of randomness: an integer between two others, both included.
Integer = Callable[[int, int], int]


def held(problem: Problem, row: int, step: int) -> list[tuple[int, int]]:
    """The bytes, relative to its offset, that a buffer holds at a step: none, all, or windows."""
    if not problem.lower[row] <= step < problem.upper[row]:
        return []
    here = [gap for gap in problem.gaps.get(row, ()) if gap.lower <= step < gap.upper]
    pieces = [(gap.begin, gap.end) for gap in here] if here else [(0, int(problem.size[row]))]
    return [(begin, end) for begin, end in pieces if begin < end]


def clashes(problem: Problem, one: int, other: int) -> set[tuple[int, int]]:
    """Open intervals that ``offset[other] - offset[one]`` must keep out of."""
    forbidden = set()
    first, last = max(problem.lower[[one, other]]), min(problem.upper[[one, other]])
    for step in range(int(first), int(last)):
        for a in held(problem, one, step):
            forbidden |= {(a[0] - b[1], a[1] - b[0]) for b in held(problem, other, step)}
    return forbidden


def brute_force_peak(problem: Problem) -> int:
    """The smallest peak, for up to about seven small buffers.

    For one height after the other, every offset of every buffer is tried; an offset is dropped
    early only where it clashes with a buffer already placed. No canonical form is assumed, so
    alignments, gaps with windows and fixed offsets need no argument of their own.
    """
    rows = range(len(problem))
    forbidden = {(i, j): clashes(problem, i, j) for i in rows for j in rows if i != j}

    def without(offsets: int, row: int, offset: int, other: int) -> int:
        for low, high in forbidden[row, other]:
            first, last = max(0, offset + low + 1), offset + high
            if first < last:
                offsets &= ~(((1 << (last - first)) - 1) << first)
        return offsets

    def search(offsets: dict[int, int]) -> bool:
        if not offsets:
            return True
        row = min(offsets, key=lambda r: offsets[r].bit_count())
        for offset in (k for k in range(offsets[row].bit_length()) if offsets[row] >> k & 1):
            rest = {o: without(m, row, offset, o) for o, m in offsets.items() if o != row}
            if all(rest.values()) and search(rest):
                return True
        return False

    def offsets_below(height: int, row: int) -> int:
        last = height - int(problem.size[row])
        wanted = problem.fixed.get(row)
        if wanted is not None:
            return 1 << wanted if wanted <= last else 0
        return sum(1 << k for k in range(0, last + 1, int(problem.alignment[row])))

    height = int(problem.size.max(initial=0))
    while True:
        offsets = {row: offsets_below(height, row) for row in rows}
        if all(offsets.values()) and search(offsets):
            return height
        height += 1


def first_fit(problem: Problem, order: Iterable[int] | None = None) -> Ints:
    """Fixed buffers first; then, in order, each buffer at its lowest free aligned offset."""
    placed = dict(problem.fixed)
    for row in order if order is not None else range(len(problem)):
        if row in placed:
            continue
        blocked = [
            (offset + low, offset + high)
            for other, offset in placed.items()
            for low, high in clashes(problem, other, row)
        ]
        offset, unit = 0, int(problem.alignment[row])
        for low, high in sorted(blocked):
            if low < offset < high:
                offset = -(-high // unit) * unit
        placed[row] = offset
    return np.array([placed[row] for row in range(len(problem))], np.int64)


def plan_for(source: Program | Problem, residency: Residency | None = None) -> Plan:
    """A correct plan by first fit, with the live bytes as its bound."""
    program = source if isinstance(source, Program) else None
    problem = to_problem(source, residency) if isinstance(source, Program) else source
    offset = first_fit(problem)
    peak = int(max(offset + problem.size, default=0))
    steps = range(int(max(problem.upper, default=0)))
    rows = range(len(problem))
    live = [[piece for row in rows for piece in held(problem, row, step)] for step in steps]
    bound = max((sum(end - begin for begin, end in pieces) for pieces in live), default=0)
    placed = set(problem.names)
    places = {
        name: place
        for name, place in (last_places(program) if program else {}).items()
        if place[0] in placed
    }
    return Plan(
        name="by first fit",
        status="optimal" if bound == peak else "feasible",
        buffers=tuple(problem.names),
        size=problem.size,
        lower=problem.lower,
        upper=problem.upper,
        gaps=problem.gaps,
        offset=offset,
        pools=tuple(problem.pools),
        peak=peak,
        lower_bound=bound,
        found_by="first fit",
        bound_by="live bytes",
        order=program.names if program else (),
        cost=program.cost if program else None,
        base_cost=sum(op.cost for op in program.graph.ops) if program else None,
        inputs=_boundary(program, places, "input") if program else (),
        outputs=_boundary(program, places, "output") if program else (),
        residency=residency or Residency(),
        views={name: place for name, place in places.items() if place != (name, 0)},
    )


def make_problem(integer: Integer, count: int) -> Problem:
    """Buffers with gaps, windows, alignments, zero sizes, and fixed offsets that can be kept."""
    steps = integer(2, 8)
    lower = [integer(0, steps - 1) for _ in range(count)]
    upper = [integer(low + 1, steps) for low in lower]
    size = [integer(0, 9) for _ in range(count)]
    alignment = [(1, 1, 1, 2, 3, 4)[integer(0, 5)] for _ in range(count)]
    gaps = {}
    for row in range(count):
        if integer(0, 2) == 0:
            cuts = sorted({integer(lower[row], upper[row]) for _ in range(2 * integer(1, 2))})
            pairs = zip(cuts[::2], cuts[1::2], strict=False)
            gaps[row] = [
                Gap(a, b, *window) for a, b in pairs for window in _windows(integer, size[row])
            ]
    names = tuple(f"b{row}" for row in range(count))
    free = Problem(names, lower, upper, size, alignment, gaps)
    layout = first_fit(free, sorted(range(count), key=lambda row: (integer(0, 9), row)))
    fixed = {row: int(layout[row]) for row in range(count) if integer(0, 5) == 0}
    return Problem(names, lower, upper, size, alignment, gaps, fixed)


def _windows(integer: Integer, size: int) -> list[tuple[int, int]]:
    """Windows that a buffer holds during a gap: one that may be empty, or two that lie apart."""
    kind = integer(0, 3)
    if kind < 2:
        return [(0, 0)]
    if kind == 2 or size < 3:
        begin = integer(0, size)
        return [(begin, integer(begin, size))]
    first = integer(1, size - 2)
    begin = integer(first + 1, size - 1)
    return [(integer(0, first - 1), first), (begin, integer(begin + 1, size))]


def random_problem(rng: random.Random, count: int) -> Problem:
    """A problem of ``count`` buffers, the same for the same generator state."""
    return make_problem(rng.randint, count)


@st.composite
def problems(draw: st.DrawFn, most: int = 7) -> Problem:
    """Problems of up to ``most`` buffers."""
    integer = _drawn(draw)
    return make_problem(integer, integer(0, most))


def make_program(integer: Integer) -> Program:
    """A few ops with views, workspaces, several outputs, zero sizes, branches and recomputation."""
    return _Maker(integer).program()


def random_program(rng: random.Random) -> Program:
    """A program, the same for the same generator state."""
    return make_program(rng.randint)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Programs of up to a dozen ops, some of them run twice."""
    return make_program(_drawn(draw))


def graphs() -> st.SearchStrategy[Graph]:
    """The graphs of :func:`programs`."""
    return programs().map(lambda program: program.graph)


def _drawn(draw: st.DrawFn) -> Integer:
    return lambda low, high: draw(st.integers(low, high))


class _Maker:
    """Builds a program bit by bit; the names say what a tensor is there for."""

    def __init__(self, integer: Integer):
        self.integer = integer
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.readable: list[str] = []

    def program(self) -> Program:
        for _ in range(self.integer(1, 2)):
            self.readable.append(self.tensor("x", kind="input"))
        for kind in ("constant", "output"):
            if self.integer(0, 3) == 0:
                self.readable.append(self.tensor(kind, kind=kind))
        for _ in range(self.integer(1, 5)):
            (self.plain, self.plain, self.view, self.join, self.branch)[self.integer(0, 4)]()
        for name in {*self.ops[-1].outputs, self.pick()}:
            tensor = self.tensors[name]
            if tensor.kind == "intermediate":
                self.tensors[name] = Tensor(
                    name,
                    tensor.size,
                    kind="output",
                    alignment=tensor.alignment,
                    view_of=tensor.view_of,
                )
        order = list(range(len(self.ops)))
        for _ in range(self.integer(0, 3)):
            again = self.integer(0, len(self.ops) - 1)
            order.insert(self.integer(order.index(again) + 1, len(order)), again)
        graph = Graph("random", tuple(self.tensors.values()), tuple(self.ops))
        return Program(graph, tuple(order))

    def tensor(self, prefix: str, size: int | None = None, **more: object) -> str:
        name = f"{prefix}{len(self.tensors)}"
        size = self.integer(0, 8) if size is None else size
        alignment = 1 if "view_of" in more else (1, 1, 2, 4)[self.integer(0, 3)]
        self.tensors[name] = Tensor(name, size, alignment=alignment, **more)  # type: ignore[arg-type]
        return name

    def pick(self) -> str:
        return self.readable[self.integer(0, len(self.readable) - 1)]

    def op(self, kind: str, inputs: Iterable[str], outputs: Iterable[str], **more: object) -> None:
        cost = self.integer(0, 3)
        name = f"{kind}_{len(self.ops)}"
        self.ops.append(Op(name, kind, tuple(inputs), tuple(outputs), cost=cost, **more))  # type: ignore[arg-type]
        self.readable += outputs

    def plain(self) -> None:
        outputs = [self.tensor("t") for _ in range(self.integer(1, 2))]
        scratch = [self.tensor("s", kind="workspace") for _ in range(self.integer(0, 1))]
        inputs = [self.pick() for _ in range(self.integer(0, 3))]
        self.op("plain", inputs, outputs, workspaces=tuple(scratch))
        if self.integer(0, 2) == 0:
            self.readable.append(self.part("bare", outputs[0]))

    def view(self) -> None:
        base = self.pick()
        self.op("view", [base], [self.part("v", base)])

    def part(self, prefix: str, base: str) -> str:
        begin = self.integer(0, self.tensors[base].nbytes)
        size = self.integer(0, self.tensors[base].nbytes - begin)
        return self.tensor(prefix, size, view_of=(base, begin))

    def join(self) -> None:
        """Concatenation without copies: the parts are written where they have to end up."""
        sizes = [self.integer(0, 4) for _ in range(2)]
        pad = self.integer(0, 2)
        whole = self.tensor("whole", sum(sizes) + pad)
        parts = [
            self.tensor("part", size, view_of=(whole, begin))
            for size, begin in zip(sizes, (0, sizes[0]), strict=True)
        ]
        for part in parts:
            self.op("fill", [self.pick()], [part])
        self.op("join", parts, [whole])

    def branch(self) -> None:
        chosen, result = self.pick(), self.tensor("y")
        given = Tensor(chosen, self.tensors[chosen].size, kind="input")
        wanted = Tensor(result, self.tensors[result].size, kind="output", alignment=2)
        inner = Tensor("inner", self.integer(0, 8))
        short = Graph("short", (given, wanted), (Op("f", "f", (chosen,), (result,)),))
        own = Tensor("own", self.integer(0, 4), kind=("input", "constant")[self.integer(0, 1)])
        scratch = Tensor("scratch", self.integer(0, 4), kind="workspace")
        left = Tensor("left", self.integer(0, 4), kind="output")
        tensors = [given, own, inner, scratch, wanted, left]
        first = Op("g", "g", (chosen, "own"), ("inner", "left"), ("scratch",))
        last = Op("h", "h", ("inner",), (result,))
        bodies = (short, Graph("long", tuple(tensors), (first, last)))
        self.op("if", [chosen], [result], bodies=bodies[: self.integer(1, 2)])


def _boundary(program: Program, places: Collection[str], kind: str) -> tuple[str, ...]:
    """The graph's tensors of a kind that are in a buffer."""
    return tuple(t.name for t in program.graph.tensors if t.kind == kind and t.name in places)
