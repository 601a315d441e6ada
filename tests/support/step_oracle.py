"""Fewest live bytes over all orders of single steps of ops, and networks to try it on.

Nothing but the windows of the axes counts: a step of an op is one position of each of its axes,
terms of sums included. A piece of many steps needs no less than its steps one after another do.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import product

from cpplan.model.axes import Axis, Window
from cpplan.model.graph import Graph, Op, Placement
from tests.support.split_networks import Network

Place = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class Step:
    """Masks of the elements that a step reads and writes, and pairs that may share bytes."""

    reads: int
    writes: int
    over: tuple[tuple[int, int], ...]


def least_peak_of_steps(graph: Graph, sharing: Collection[str] = ()) -> int:
    """Fewest live bytes; a result is live from the first of its terms.

    Bytes of a whole view are those of its storage. If ``sharing`` has "placement", those of a part
    are those of its whole, which needs no more than a copy; if it has "in place", the last reader
    of an element may write over it.
    """
    element: dict[Place, int] = {}
    slots: dict[tuple[str, int], list[int]] = {}
    size: list[int] = []
    inside = {p.part: p for op in graph.ops for p in op.placements if "placement" in sharing}
    for tensor in graph.tensors:
        places = list(product(*map(range, tensor.shape or ())))
        bytes_each = tensor.nbytes // len(places)
        storage, begin = graph.root[tensor.name]
        while storage in inside:
            found = inside[storage]
            storage, begin = found.whole, begin + found.offset
        for k, place in enumerate(places):
            slots.setdefault((storage, begin + k * bytes_each), []).append(len(size))
            element[tensor.name, place] = len(size)
            size.append(bytes_each)
    steps = list(_steps(graph, element, "in place" in sharing))
    readers, writers = ([0] * len(size) for _ in range(2))
    for k, step in enumerate(steps):
        for e in range(len(size)):
            readers[e] |= (step.reads >> e & 1) << k
            writers[e] |= (step.writes >> e & 1) << k
    kinds = {e: graph.tensor[name].kind for (name, _), e in element.items()}
    given = sum(1 << e for e, kind in kinds.items() if kind == "input")
    slot = {e: sum(1 << x for x in there) for there in slots.values() for e in there}

    def live(done: int) -> int:
        begun = (e for e in range(len(size)) if given >> e & 1 or writers[e] & done)
        return sum(
            1 << e for e in begun if kinds[e] == "output" or (readers[e] | writers[e]) & ~done
        )

    def total(mask: int) -> int:
        return sum(size[there[0]] for there in slots.values() if slot[there[0]] & mask)

    def overwritten(step: Step, now: int, after: int) -> int:
        """Bytes that a step writes over what it reads last."""
        ending = {slot[x] for _, x in step.over if not slot[x] & after}
        found = 0
        for e, x in step.over:
            if slot[x] in ending and not slot[e] & now:
                ending.remove(slot[x])
                now |= 1 << e
                found += size[e]
        return found

    every, best = (1 << len(steps)) - 1, {0: total(given)}
    queue = [(best[0], 0)]
    while queue:
        peak, done = heapq.heappop(queue)
        if done == every:
            return peak
        if peak > best[done]:
            continue
        now = live(done)
        for k, step in enumerate(steps):
            if done >> k & 1 or any(writers[e] & ~done for e in _bits(step.reads)):
                continue
            after = done | 1 << k
            saved = overwritten(step, now, live(after)) if step.over else 0
            most = max(peak, total(now | step.writes) - saved)
            if most < best.get(after, most + 1):
                best[after] = most
                heapq.heappush(queue, (most, after))
    raise AssertionError("the steps run in some order")


def _steps(graph: Graph, element: dict[Place, int], in_place: bool) -> Iterator[Step]:
    for op in graph.ops:
        for at in product(*(range(axis.extent) for axis in op.axes)):
            places = {name: list(_accessed(graph, op, name, at)) for name in op.inputs + op.outputs}
            reads, writes = (
                sum({1 << element[name, place] for name in names for place in places[name]})
                for names in (op.inputs, op.outputs)
            )
            over = (
                (element[output, place], element[source, place])
                for output, source in (op.in_place if in_place else ())
                for place in places[output]
            )
            yield Step(reads, writes, tuple(over))


def _accessed(graph: Graph, op: Op, name: str, at: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Elements of a tensor that a step of an op accesses: all where an axis cannot be cut."""
    shape = graph.tensor[name].shape or ()
    spans = [(0, extent) for extent in shape]
    for axis, step in zip(op.axes, at, strict=True):
        window = axis.window.get(name)
        if window is not None and axis.extent > 1:
            spans[window.axis] = window.interval(step, step + 1, shape[window.axis])
    return product(*(range(*span) for span in spans))


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def random_steps(rng: random.Random, most: int) -> Graph:
    """Two to six ops of at most ``most`` steps: slices, parts of wholes, pools, several outputs."""
    while True:
        net = _Network(rng.choice(["int8", "float32"]), rng=rng)
        net.image(rng.randint(1, 4), rng.choice([1, 1, 2, 3]), rng.randint(1, 3))
        for _ in range(rng.randint(2, 6)):
            net.more()
        steps = sum(math.prod(axis.extent for axis in op.axes) for op in net.ops)
        made = [name for name, tensor in net.tensors.items() if tensor.kind != "input"]
        if 5 < steps <= most and made:
            outputs = [name for name in made if rng.random() < 0.1]
            return net.graph("steps", *outputs)


@dataclass
class _Network(Network):
    """A network that grows at random."""

    rng: random.Random = field(default_factory=random.Random)

    def more(self) -> None:
        """Add an op that reads one of the last tensors."""
        rng, names = self.rng, list(self.tensors)
        x = rng.choice(names[-3:])
        shape, kind = self._shape(x), rng.choice(_KINDS)
        along = rng.randrange(3)
        alike = [y for y in names if y != x and self._shape(y) == shape]
        beside = [y for y in names if y != x and _but(self._shape(y), along) == _but(shape, along)]
        if kind in ("conv", "depthwise"):
            taps, stride = rng.choice([1, 3, 3]), rng.choice([1, 1, 2])
            self.conv(x, rng.randint(1, 3), taps=taps, stride=stride, depthwise=kind == "depthwise")
        elif kind == "relu":
            self.relu(x)
        elif kind == "add" and alike:
            self.add(x, rng.choice(alike))
        elif kind == "join" and beside:
            self.join(x, rng.choice(beside), along)
        elif kind == "slice" and shape[along] > 1:
            start = rng.randrange(shape[along])
            self.slice(x, along, start, rng.randint(start + 1, shape[along]))
        elif kind == "pool":
            y = self._tensor(None, (1, 1, shape[2]))
            channels = Axis("channels", shape[2], (Window(x, 2), Window(y, 2)))
            self._op("Pool", (x,), y, [channels], math.prod(shape))

    def slice(self, x: str, along: int, start: int, stop: int) -> str:
        """A copy of some positions along one axis."""
        shape = list(self._shape(x))
        shape[along] = stop - start
        y = self._tensor(None, tuple(shape))
        return self._op(
            "Slice", (x,), y, self._moved((x, along, start), (y, along, 0)), self._cost(y)
        )

    def join(self, a: str, b: str, along: int) -> str:
        """Two tensors one after the other, which may lie in the whole if they are its halves."""
        shape = list(self._shape(a))
        first = shape[along]
        shape[along] += self._shape(b)[along]
        y = self._tensor(None, tuple(shape))
        axes = self._moved((a, along, 0), (b, along, -first), (y, along, 0))
        made = {a, b} <= {op.outputs[0] for op in self.ops}
        free = not {a, b} & {p.part for op in self.ops for p in op.placements}
        halves = (Placement(a, y, 0), Placement(b, y, self.tensors[a].nbytes))
        lies = made and free and math.prod(shape[:along]) == 1
        if lies and self.rng.random() < 0.3:
            del axes[along]  # cannot be cut where it is joined
        return self._op("Concat", (a, b), y, axes, self._cost(y), placements=halves if lies else ())

    def _moved(self, *tensors: tuple[str, int, int]) -> list[Axis]:
        """Axes along which some tensors begin elsewhere; the last one is the output."""
        last, along, _ = tensors[-1]
        return [
            Axis(
                name,
                extent,
                tuple(Window(t, k, offset=begin if k == along else 0) for t, _, begin in tensors),
            )
            for k, (name, extent) in enumerate(
                zip(("rows", "columns", "channels"), self._shape(last), strict=True)
            )
        ]

    def _cost(self, name: str) -> int:
        """Nothing, or one for each position."""
        return self.rng.choice([0, 1]) * math.prod(self._shape(name))


def _but(shape: tuple[int, ...], along: int) -> tuple[int, ...]:
    """A shape without one axis."""
    return shape[:along] + shape[along + 1 :]


_KINDS = ["conv"] * 4 + ["join"] * 3 + ["slice"] * 2 + ["depthwise", "relu", "add", "pool"]
