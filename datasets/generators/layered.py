"""Random layered graphs, after Gagrani et al.

Gagrani et al., "Neural Topological Ordering for Computation Graphs" (NeurIPS 2022), appendix A;
MOCCASIN (ICML 2023) measures itself on graphs of this kind. Nodes lie in layers of varying width;
edges go to the next layer, near the node's own place in it, and a few skip layers.

This is a reconstruction: layers, degrees and shares of edges agree with the two instances that
MOCCASIN published, not edge by edge. Sizes come from a mixture of normal distributions; it, and the
costs, have those instances' range and quartiles (20 B to 7.3 kB, median 1.6 kB, in tens; costs up
to 1000, nearly uniform).
"""

from __future__ import annotations

import math
import random
from itertools import pairwise

from cpplan.model.graph import Graph, Op, Tensor

# Means, deviations (kB) and weights of the mixture.
_MEANS, _DEVIATIONS, _WEIGHTS = (0.5, 1.0, 3.0, 5.0), (0.5, 1.0, 1.0, 1.0), (3, 3, 3, 1)


def layered(
    name: str,
    nodes: int,
    seed: int,
    *,
    variability: float = 0.75,
    edge_density: float = 0.2,
    skip_density: float = 0.14,
) -> Graph:
    """A graph of ``nodes`` ops in layers, with one source, one sink and one output an op.

    Parameters
    ----------
    variability
        Layers are this much narrower or wider than the mean, at most.
    edge_density
        Between neighbouring layers: 0 for as few edges as every node needs, 1 for all.
    skip_density
        Share of all edges that skip a layer or more, about; doubles are not drawn again.
    """
    rng = random.Random(seed)
    layers = _layers(rng, nodes, variability)
    edges = {
        edge for pair in pairwise(layers) for edge in _neighbour_edges(rng, *pair, edge_density)
    }
    edges |= _missing_edges(layers, edges)
    inner = layers[1:-1]
    if len(inner) > 2:
        skips = math.ceil(len(edges) * skip_density / (1 - skip_density))
        edges |= {_skip_edge(rng, inner) for _ in range(skips)}
    sizes = [_size(rng) for _ in range(nodes)]
    costs = [0, *(rng.randint(1, 1000) for _ in range(nodes - 1))]
    inputs: list[list[int]] = [[] for _ in range(nodes)]
    for source, target in sorted(edges):
        inputs[target].append(source)
    tensors = tuple(Tensor(f"t{k}", size) for k, size in enumerate(sizes))
    ops = tuple(
        Op(f"n{k}", inputs=tuple(f"t{i}" for i in inputs[k]), outputs=(f"t{k}",), cost=costs[k])
        for k in range(nodes)
    )
    return Graph(name, tensors, ops)


def _layers(rng: random.Random, nodes: int, variability: float) -> list[range]:
    """Consecutive numbers, layer by layer; the first and the last layer have one node."""
    width_factor = rng.uniform(0.25, 0.5)
    mean = nodes / math.ceil(math.sqrt(nodes * (1 / width_factor - 1)))
    least, most = math.ceil(mean * (1 - variability)), math.floor(mean * (1 + variability))
    starts = [0, 1]
    while starts[-1] < nodes - 1:
        starts.append(min(starts[-1] + rng.randint(max(1, least), most), nodes - 1))
    return [range(*bounds) for bounds in pairwise([*starts, nodes])]


def _neighbour_edges(
    rng: random.Random, one: range, two: range, density: float
) -> set[tuple[int, int]]:
    """Every node of the wider layer is joined to a run of nodes around its place in the other."""
    wide, narrow = (one, two) if len(one) >= len(two) else (two, one)
    total = int(density * len(one) * len(two) + (1 - density) * len(wide))
    each, rest = divmod(total, len(wide))
    more = set(rng.sample(range(len(wide)), rest))
    edges = set()
    for k, node in enumerate(wide):
        count = each + (k in more)
        start = _place(wide, k, narrow) - (count - 1) // 2
        for other in range(max(0, start), min(len(narrow), start + count)):
            pair = (node, narrow[other])
            edges.add(pair if wide is one else pair[::-1])
    return edges


def _missing_edges(layers: list[range], edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """One edge for every node that no run reached, to the neighbouring layer it lacks."""
    sources, targets = {source for source, _ in edges}, {target for _, target in edges}
    missing = set()
    for one, two in pairwise(layers):
        missing |= {(n, two[_place(one, k, two)]) for k, n in enumerate(one) if n not in sources}
        missing |= {(one[_place(two, k, one)], n) for k, n in enumerate(two) if n not in targets}
    return missing


def _skip_edge(rng: random.Random, layers: list[range]) -> tuple[int, int]:
    first = rng.randrange(len(layers) - 2)
    one, two = layers[first], layers[rng.randrange(first + 2, len(layers))]
    place = rng.random()
    further = min(place + 0.2 * rng.random(), 0.999)
    return one[int(place * len(one))], two[int(further * len(two))]


def _place(layer: range, k: int, other: range) -> int:
    """The position in ``other`` that corresponds to position ``k`` in ``layer``."""
    return round(k * (len(other) - 1) / (len(layer) - 1)) if len(layer) > 1 else 0


def _size(rng: random.Random) -> int:
    """Bytes, in tens."""
    while True:
        (part,) = rng.choices(range(len(_WEIGHTS)), _WEIGHTS)
        size = round(100 * rng.gauss(_MEANS[part], _DEVIATIONS[part])) * 10
        if size > 0:
            return size
