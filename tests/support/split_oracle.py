"""Fewest live bytes of a small network over all splittings, by search over single elements.

A piece of many elements needs no less than its elements one after another do. So the least over all
cuts, along all axes at once, and over all orders of the pieces, is that of an order of single
elements: a path through the sets of elements computed so far, whose largest number of live bytes
is least. Elements that are computed again make it a path through the sets of elements that are
live. What each element needs comes from the definitions of convolution, sum and rectifier.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from cpplan.model.graph import Graph
from tests.support.split_networks import Network

Shape = tuple[int, int, int]


@dataclass
class Elements:
    """A network of at most 64 elements of a byte each; masks have a bit an element.

    Attributes
    ----------
    needs
        Elements that each is computed from; empty for the image's.
    over
        Elements that it may be written over.
    cost
        Multiplications of each, with the one for all that have none.
    given, outputs
        Elements of the image, and of the network's outputs.
    """

    needs: list[int] = field(default_factory=list)
    over: list[int] = field(default_factory=list)
    cost: list[int] = field(default_factory=list)
    given: int = 0
    outputs: int = 0

    def least_peak(self, *, in_place: bool = False) -> int:
        """Fewest live bytes with every element computed once."""
        readers = self._readers()
        every = (1 << len(self.needs)) - 1
        best = {self.given: self.given.bit_count()}
        queue = [(best[self.given], self.given)]
        while queue:
            peak, done = heapq.heappop(queue)
            if done == every:
                return peak
            if peak > best[done]:
                continue
            # The image is there whole when the first op runs.
            live = done if done == self.given else self._live(done, readers)
            for e in _bits(every & ~done):
                if self.needs[e] & ~done:
                    continue
                saved = in_place and any(readers[x] & ~done == 1 << e for x in _bits(self.over[e]))
                most = max(peak, live.bit_count() + 1 - saved)
                after = done | 1 << e
                if most < best.get(after, every):
                    best[after] = most
                    heapq.heappush(queue, (most, after))
        raise AssertionError("the last set is always reached")

    def least_cost(self, limit: int) -> int | None:
        """Least cost within ``limit`` live bytes, with elements computed again where that pays."""
        readers = self._readers()
        start = self.given
        if start.bit_count() > limit:
            return None
        best = {start: 0}
        queue = [(0, start)]
        while queue:
            cost, live = heapq.heappop(queue)
            if cost > best[live]:
                continue
            if live & self.outputs == self.outputs:
                return cost
            steps = [(cost, live & ~(1 << e)) for e in _bits(live)]
            if live.bit_count() < limit:
                steps += [
                    (cost + self.cost[e], live | 1 << e)
                    for e in range(len(self.needs))
                    if not (live | self.given) >> e & 1
                    and not self.needs[e] & ~live
                    and (readers[e] or self.outputs >> e & 1)
                ]
            for spent, after in steps:
                if spent < best.get(after, spent + 1):
                    best[after] = spent
                    heapq.heappush(queue, (spent, after))
        return None

    def _readers(self) -> list[int]:
        found = [0] * len(self.needs)
        for e, needed in enumerate(self.needs):
            for x in _bits(needed):
                found[x] |= 1 << e
        return found

    def _live(self, done: int, readers: list[int]) -> int:
        live = done & self.outputs
        for e in _bits(done):
            if readers[e] & ~done:
                live |= 1 << e
        return live


@dataclass
class Twins:
    """A network in the making, as a graph and as elements."""

    network: Network = field(default_factory=Network)
    elements: Elements = field(default_factory=Elements)
    at: dict[str, dict[Shape, int]] = field(default_factory=dict)
    shape: dict[str, Shape] = field(default_factory=dict)
    last: str = ""

    def image(self, *shape: int) -> str:
        name = self.network.image(*shape)
        found = self._tensor(name, (shape[0], shape[1], shape[2]))
        for place in found:
            self._element(name, place, [], [], 0)
        self.elements.given = (1 << len(found)) - 1
        return name

    def conv(self, x: str, channels: int, taps: int, stride: int, *, depthwise: bool) -> str:
        name = self.network.conv(x, channels, taps=taps, stride=stride, depthwise=depthwise)
        rows, columns, wide = self.shape[x]
        pad = taps // 2
        size = [(n + 2 * pad - taps) // stride + 1 for n in (rows, columns)]
        out = (size[0], size[1], wide if depthwise else channels)
        for r, c, k in self._tensor(name, out):
            # What has one step along an axis cannot be cut there, and reads all there is.
            across = range(wide) if not depthwise or wide == 1 else [k]
            reach = [
                range(n) if count == 1 else range(max(at, 0), min(at + taps, n))
                for n, count, at in (
                    (rows, size[0], r * stride - pad),
                    (columns, size[1], c * stride - pad),
                )
            ]
            needs = list(product(*reach, across))
            cost = taps * taps * (1 if depthwise else wide)
            self._element(name, (r, c, k), [(x, place) for place in needs], [], cost)
        return name

    def relu(self, x: str) -> str:
        name = self.network.relu(x)
        for place in self._tensor(name, self.shape[x]):
            self._element(name, place, [(x, place)], [x], 0)
        return name

    def add(self, a: str, b: str) -> str:
        name = self.network.add(a, b)
        for place in self._tensor(name, self.shape[a]):
            self._element(name, place, [(a, place), (b, place)], [a, b], 0)
        return name

    def concat(self, a: str, b: str) -> str:
        name, (_, _, wide) = self.network.concat(a, b), self.shape[a]
        rows, columns, other = self.shape[b]
        for r, c, k in self._tensor(name, (rows, columns, wide + other)):
            source = (a, (r, c, k)) if k < wide else (b, (r, c, k - wide))
            self._element(name, (r, c, k), [source], [], 0)
        return name

    def graph(self) -> Graph:
        """The graph; the elements of its outputs are then known, too."""
        graph = self.network.graph()
        for tensor in graph.tensors:
            if tensor.kind == "output":
                for e in self.at[tensor.name].values():
                    self.elements.outputs |= 1 << e
        return graph

    def _tensor(self, name: str, shape: Shape) -> list[Shape]:
        self.shape[name], self.at[name], self.last = shape, {}, name
        return list(product(*map(range, shape)))

    def _element(
        self, name: str, place: Shape, needs: list[tuple[str, Shape]], over: list[str], cost: int
    ) -> None:
        self.at[name][place] = len(self.elements.needs)
        self.elements.needs.append(sum(1 << self.at[t][p] for t, p in needs))
        self.elements.over.append(sum(1 << self.at[t][place] for t in over))
        self.elements.cost.append(cost)


def random_twins(rng: random.Random, most: int) -> Twins:
    """Two to four ops on at most ``most`` elements, with a branch at times."""
    while True:
        twins = Twins()
        columns = rng.choice([1, 1, 1, 2])
        x = twins.image(rng.randint(2, 5), columns, rng.randint(1, 2))
        tensors = [x]
        for _ in range(rng.randint(2, 4)):
            x = tensors[-1]
            kind = rng.choice(["conv", "conv", "conv", "depthwise", "relu", "add"])
            alike = [t for t in tensors[:-1] if twins.shape[t] == twins.shape[x]]
            if kind == "relu":
                tensors.append(twins.relu(x))
            elif kind == "add" and alike:
                tensors.append(twins.add(x, rng.choice(alike)))
            else:
                tensors.append(
                    twins.conv(
                        x,
                        rng.randint(1, 3),
                        rng.choice([1, 3]),
                        rng.choice([1, 1, 2]),
                        depthwise=kind == "depthwise",
                    )
                )
        if len(twins.elements.needs) <= most:
            return twins


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
