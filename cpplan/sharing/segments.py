"""The ordering problem when storages share bytes: stretches of bytes in the place of storages.

In every order of the ops, links that hold in any of them can be used. A cluster is then cut where a
storage of it begins or ends; each stretch lives from the first op that touches a storage over it to
the last, just as a storage does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cpplan.graph import Graph
from cpplan.ordering import OrderProblem
from cpplan.residency import Residency
from cpplan.search.order_bounds import order_bounds
from cpplan.sharing.bound import placement_groups
from cpplan.sharing.clusters import Clusters, SharingRules, Storage, form_clusters
from cpplan.sharing.links import Link, find_links
from cpplan.sharing.lives import AnyOrderLives
from cpplan.sharing.origins import Origins


def share_in_any_order(
    graph: Graph, ordering: OrderProblem, residency: Residency, links: Sequence[Link] | None = None
) -> tuple[OrderProblem, bool]:
    """The ordering problem with all links that hold in every order, and whether none is better.

    If the second is true, no order needs fewer bytes under whatever links than the problem says:
    its bounds are bounds on everything. O(ops² / 64 + links × storages that they join).

    Parameters
    ----------
    graph
        What is computed.
    ordering
        Its ordering problem (``order_problem``), without sharing.
    residency
        What the arena holds of the boundary.
    links
        Those that may be used; all by default.

    Examples
    --------
    >>> from cpplan.graph import Op, Tensor
    >>> from cpplan.ordering import order_problem
    >>> graph = Graph(
    ...     "tiny",
    ...     (Tensor("x", 8, kind="input"), Tensor("y", 8, kind="output")),
    ...     (Op("relu", inputs=("x",), outputs=("y",), in_place=(("y", "x"),)),),
    ... )
    >>> shared, complete = share_in_any_order(graph, order_problem(graph), Residency())
    >>> order_problem(graph).peak([0]), shared.peak([0]), complete
    (16, 8, True)
    """
    links = find_links(graph, residency) if links is None else links
    size = dict(zip(ordering.storages, ordering.size.tolist(), strict=True))
    usable = [link for link in links if link.inner in size and link.outer in size]
    lives = AnyOrderLives(graph, residency)
    # Alignment is left to packing: here bytes are only counted.
    storages = {name: Storage(count) for name, count in size.items()}
    rules = SharingRules(storages, lives, Origins(graph, links), usable)
    clusters = form_clusters(usable, rules)
    joined = [members for members in clusters.members.values() if len(members) > 1]
    inside = {name for members in joined for name in members}
    row = {name: k for k, name in enumerate(ordering.storages)}
    alone = [k for name, k in row.items() if name not in inside]
    sizes = [int(ordering.size[k]) for k in alone]
    touched = [ordering.touched_by[k] for k in alone]
    present = [bool(ordering.present[k]) for k in alone]
    kept = [bool(ordering.kept[k]) for k in alone]
    names = [ordering.storages[k] for k in alone]
    whole = True
    for members in joined:
        for begin, end, over in _stretches(members, clusters, size):
            rows = [row[name] for name in over]
            sizes.append(end - begin)
            touched.append(tuple(sorted({op for k in rows for op in ordering.touched_by[k]})))
            present.append(any(ordering.present[k] for k in rows))
            kept.append(any(ordering.kept[k] for k in rows))
            names.append(f"{over[0]}[{begin}:{end}]")
            whole &= _connected([ordering.touched_by[k] for k in rows])
    problem = replace(
        ordering,
        size=np.array(sizes, np.int64),
        touched_by=tuple(touched),
        present=np.array(present, bool),
        kept=np.array(kept, bool),
        storages=tuple(names),
    )
    return problem, whole and len(usable) == len(links) and _none_better(usable, clusters)


def forced_bytes(graph: Graph, ordering: OrderProblem, links: Sequence[Link]) -> int:
    """A bound for every order and whichever links, where no choice of links is best in all.

    Of storages that placements join, the largest counts; of what an op may write in place, nothing
    at its own step. The rest is as in ``order_bounds``.
    """
    size = dict(zip(ordering.storages, ordering.size.tolist(), strict=True))
    hidden: set[str] = set()
    for group in placement_groups(link for link in links if not link.in_place):
        hidden.update(sorted(group, key=lambda name: -size.get(name, 0))[1:])
    extra = ordering.extra.copy()
    for name, (op, saved) in _savings(links).items():
        if name in size and name not in hidden:
            extra[op] -= saved
    reduced = [0 if name in hidden else count for name, count in size.items()]
    return order_bounds(replace(ordering, size=np.array(reduced, np.int64), extra=extra)).bound


def _savings(links: Iterable[Link]) -> dict[str, tuple[int, int]]:
    """Result -> the op that may write it in place, and how many bytes of it."""
    savings: dict[str, tuple[int, int]] = {}
    for link in links:
        if link.in_place:
            saved = max(link.end - link.begin, savings.get(link.inner, (0, 0))[1])
            savings[link.inner] = link.op, saved
    return savings


def _stretches(
    members: Iterable[str], clusters: Clusters, size: Mapping[str, int]
) -> Iterable[tuple[int, int, list[str]]]:
    """The stretches of a cluster, with the storages that lie over each."""
    extent = {name: (clusters.place[name], clusters.place[name] + size[name]) for name in members}
    cuts = sorted({edge for edges in extent.values() for edge in edges})
    over: dict[int, list[str]] = defaultdict(list)
    position = {cut: k for k, cut in enumerate(cuts)}
    for name, (begin, end) in extent.items():
        for k in range(position[begin], position[end]):
            over[k].append(name)
    for k, names in sorted(over.items()):
        yield cuts[k], cuts[k + 1], names


def _connected(touched: Sequence[Sequence[int]]) -> bool:
    """Whether lives that are linked by common ops leave no pause, whatever the order."""
    waiting, reached = [set(ops) for ops in touched[1:]], set(touched[0])
    while waiting:
        joined = [ops for ops in waiting if ops & reached]
        if not joined:
            return False
        waiting = [ops for ops in waiting if not ops & reached]
        reached.update(*joined)
    return True


def _none_better(links: Sequence[Link], clusters: Clusters) -> bool:
    """Whether all placements are in force, and whatever can be written in place is.

    Placements then make the picture of ``cpplan.sharing.bound``, and each result that could lie
    over an input lies over one, so that no choice saves more at any step of any order.
    """
    used = set(clusters.links)
    placed = all(link in used for link in links if not link.in_place)
    saved = {link.inner: link.end - link.begin for link in used if link.in_place}
    return placed and all(
        saved.get(link.inner, -1) >= link.end - link.begin for link in links if link.in_place
    )
