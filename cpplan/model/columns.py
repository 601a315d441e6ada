"""Columns of a graph: its tensors and the accesses of its ops as arrays of numbers.

A graph may have a hundred thousand ops: code that needs the same value of all of them reads it from
the columns. Each column is made once, on first use; tensors and ops are numbered in the order in
which the graph lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count, pairwise, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cpplan.model.tensor import KINDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cpplan.model.axes import Window
    from cpplan.model.graph import Graph
    from cpplan.model.problem import Ints


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """A list of numbers for every op, or other key, one after another.

    Attributes
    ----------
    item
        The numbers of all lists.
    count
        Length of each list.
    """

    item: Ints
    count: Ints

    @property
    def owner(self) -> Ints:
        """Number of the list in which each item stands."""
        return np.repeat(np.arange(len(self.count)), self.count)

    def tuples(self, value: Ints) -> Iterator[tuple[int, ...]]:
        """Yield the values of the numbers of each list."""
        items, end = value[self.item].tolist(), np.cumsum(self.count).tolist()
        return (tuple(items[a:b]) for a, b in pairwise([0, *end]))

    def taken(self, order: Ints) -> Lists:
        """These lists in another order, or some of them."""
        begin = (np.cumsum(self.count) - self.count)[order]
        count = self.count[order]
        first = np.cumsum(count) - count
        return Lists(self.item[np.repeat(begin - first, count) + np.arange(count.sum())], count)

    def where(self, kept: NDArray[np.bool_]) -> Lists:
        """These lists without the items that are not kept."""
        return Lists(self.item[kept], np.bincount(self.owner[kept], minlength=len(self.count)))


def lists_of(values: Collection[Collection[int]]) -> Lists:
    """Lists of numbers as columns."""
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return Lists(np.fromiter(chain.from_iterable(values), np.int64), lengths)


class AxisColumns(NamedTuple):
    """The axes of all ops, one after another, and their windows.

    Attributes
    ----------
    op, extent, adds
        For each axis: the op that has it, its number of steps, and true if it accumulates.
    axis, tensor, place
        For each window: its axis, the tensor, -1 if that is unknown, and the axis of the tensor.
    stride, offset, size
        For each window: these numbers of it.
    regular
        Mask of the windows without a table.
    """

    op: Ints
    extent: Ints
    adds: NDArray[np.bool_]
    axis: Ints
    tensor: Ints
    place: Ints
    stride: Ints
    offset: Ints
    size: Ints
    regular: NDArray[np.bool_]


class GraphColumns:
    """The columns of a graph."""

    def __init__(self, graph: Graph):
        self._graph = graph

    @cached_property
    def names(self) -> list[str]:
        """Names of the tensors."""
        return [*map(attrgetter("name"), self._graph.tensors)]

    @cached_property
    def number(self) -> dict[str, int]:
        """Tensor -> its number."""
        return dict(zip(self.names, range(len(self.names)), strict=True))

    @cached_property
    def op_number(self) -> dict[str, int]:
        """Op -> its number."""
        return dict(zip(map(attrgetter("name"), self._graph.ops), count(), strict=False))

    @cached_property
    def size(self) -> Ints:
        """Size of every tensor, bytes."""
        try:
            return self._integers(map(attrgetter("size"), self._graph.tensors))
        except TypeError:  # one has none, and says why
            return self._integers(map(attrgetter("nbytes"), self._graph.tensors))

    @cached_property
    def alignment(self) -> Ints:
        """Alignment of every tensor, bytes."""
        return self._integers(map(attrgetter("alignment"), self._graph.tensors))

    def are(self, kinds: Collection[str]) -> NDArray[np.bool_]:
        """Mask of the tensors of these kinds."""
        mask: NDArray[np.bool_] = np.array([kind in kinds for kind in KINDS], np.bool_)[self._kind]
        return mask

    @cached_property
    def _kind(self) -> NDArray[np.int8]:
        """Number in ``KINDS`` of every tensor's kind."""
        number = {kind: k for k, kind in enumerate(KINDS)}
        kinds = map(attrgetter("kind"), self._graph.tensors)
        return np.fromiter(map(number.__getitem__, kinds), np.int8, len(self._graph.tensors))

    @cached_property
    def views(self) -> Ints:
        """Tensors that are views."""
        return np.flatnonzero(self.base[0] >= 0)

    @cached_property
    def base(self) -> tuple[Ints, Ints]:
        """Base of every tensor, -1 if it is no view, and its byte offset in the base.

        Raises ``KeyError`` at an unknown base.
        """
        given = [*map(attrgetter("view_of"), self._graph.tensors)]
        bases, offsets = np.full(len(given), -1, np.int64), np.zeros(len(given), np.int64)
        views = [view_of for view_of in given if view_of is not None]
        if views:
            mask = np.fromiter(map(bool, given), np.bool_, len(given))
            names, offsets[mask] = zip(*views, strict=True)
            bases[mask] = self._numbers(names)
        return bases, offsets

    @cached_property
    def acyclic(self) -> bool:
        """True if no tensor is a view of itself, directly or by way of other bases."""
        bases, _ = self.base
        last, _ = follow(np.where(bases < 0, np.arange(len(bases)), bases))
        return bool((bases[last] < 0).all())

    @cached_property
    def storage(self) -> NDArray[np.bool_]:
        """Mask of the tensors that lie in no other tensor (:meth:`Graph.is_storage`)."""
        mask: NDArray[np.bool_] = self.root == np.arange(len(self.names))
        return mask

    @property
    def root(self) -> Ints:
        """For each tensor, the tensor whose storage it lies in."""
        return self.places[0]

    @cached_property
    def places(self) -> tuple[Ints, Ints]:
        """Storage of every tensor, and its byte offset there (:attr:`Graph.root`)."""
        bases, offsets = self.base
        alone = bases < 0
        if not alone.all():
            empty = [self.number[name] for name in self._graph.empty]
            alone[empty] = True
        here = np.arange(len(bases))
        return follow(np.where(alone, here, bases), np.where(alone, 0, offsets))

    @cached_property
    def read(self) -> Lists:
        """Tensors that every op reads, each once; raises ``KeyError`` at an unknown tensor."""
        inputs = [*map(attrgetter("inputs"), self._graph.ops)]
        every = self._lists(inputs)
        several = np.repeat(every.count > 1, every.count)
        pairs = np.sort(every.owner[several] * len(self.names) + every.item[several])
        if not (pairs[1:] == pairs[:-1]).any():
            return every
        return self._lists([tuple(dict.fromkeys(one)) for one in inputs])

    @cached_property
    def outputs(self) -> Lists:
        """Outputs of every op; raises ``KeyError`` at an unknown tensor."""
        return self._lists([*map(attrgetter("outputs"), self._graph.ops)])

    @cached_property
    def workspaces(self) -> Lists:
        """Workspaces of every op; raises ``KeyError`` at an unknown tensor."""
        return self._lists([*map(attrgetter("workspaces"), self._graph.ops)])

    @cached_property
    def written(self) -> Lists:
        """Outputs of every op, then its workspaces."""
        if not len(self.workspaces.item):
            return self.outputs
        return self._lists([op.outputs + op.workspaces for op in self._graph.ops])

    @cached_property
    def in_place(self) -> tuple[Ints, Ints, Ints]:
        """Op, output and input of every in-place pair, as three columns."""
        given = [*map(attrgetter("in_place"), self._graph.ops)]
        ops = [k for k, pairs in enumerate(given) if pairs]
        pairs = [given[k] for k in ops]
        flat = self._numbers(chain.from_iterable(chain.from_iterable(pairs)))
        return np.repeat(np.array(ops, np.int64), [*map(len, pairs)]), flat[::2], flat[1::2]

    @cached_property
    def placements(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Op, part, whole and byte offset of every placement, as four columns.

        Raises ``KeyError`` at an unknown tensor.
        """
        given = [*map(attrgetter("placements"), self._graph.ops)]
        ops = [k for k, placements in enumerate(given) if placements]
        owner = np.repeat(np.array(ops, np.int64), [len(given[k]) for k in ops])
        if not ops:
            return owner, owner, owner, owner
        parts, wholes, offsets = zip(*chain.from_iterable(given), strict=True)
        return owner, self._numbers(parts), self._numbers(wholes), np.array(offsets, np.int64)

    @cached_property
    def shape(self) -> Lists:
        """Extents of every tensor; none without a shape. Raises ``TypeError`` at a variable."""
        return lists_of([shape or () for shape in map(attrgetter("shape"), self._graph.tensors)])

    @cached_property
    def axes(self) -> AxisColumns:
        """The axes of all ops and their windows."""
        given = [*map(attrgetter("axes"), self._graph.ops)]
        axes = [*chain.from_iterable(given)]
        counts = [*map(len, map(attrgetter("windows"), axes))]
        windows = self.windows

        def column(items: Sequence[object], name: str, kind: type = np.int64) -> Any:
            return np.fromiter(map(attrgetter(name), items), kind, len(items))

        tensors = map(self.number.get, map(attrgetter("tensor"), windows), repeat(-1))
        tables = [*map(attrgetter("table"), windows)]
        return AxisColumns(
            np.repeat(np.arange(len(given)), [*map(len, given)]),
            column(axes, "extent"),
            column(axes, "accumulates", np.bool_),
            np.repeat(np.arange(len(axes)), np.array(counts, np.int64)),
            np.fromiter(tensors, np.int64, len(windows)),
            column(windows, "axis"),
            column(windows, "stride"),
            column(windows, "offset"),
            column(windows, "size"),
            np.fromiter((table is None for table in tables), np.bool_, len(tables)),
        )

    @cached_property
    def windows(self) -> list[Window]:
        """Windows of all axes of all ops, in the order of :attr:`axes`."""
        return [window for op in self._graph.ops for axis in op.axes for window in axis.windows]

    @cached_property
    def window_extents(self) -> Ints:
        """Extent of the tensor's axis that each window is a part of."""
        first = np.cumsum(self.shape.count) - self.shape.count
        extents: Ints = self.shape.item[first[self.axes.tensor] + self.axes.place]
        return extents

    @cached_property
    def shortest(self) -> Ints:
        """Fewest positions within the tensor that one step accesses, for each window."""
        axes, extent = self.axes, self.window_extents
        # Towards both ends ever more of a step lies outside: the first or the last is the shortest.
        shortest: Ints = extent.copy()
        for step in (np.zeros_like(extent), axes.extent[axes.axis] - 1):
            begin = axes.offset + axes.stride * step
            end = np.clip(begin + axes.size, 0, extent)
            shortest = np.minimum(shortest, np.maximum(end - np.clip(begin, 0, extent), 0))
        for k in np.flatnonzero(~axes.regular).tolist():
            table = np.minimum(np.array(self.windows[k].table, np.int64), extent[k])
            shortest[k] = (table[:, 1] - table[:, 0]).min()
        return shortest

    @cached_property
    def maker(self) -> Ints:
        """The op after which each tensor's bytes are valid (:meth:`Graph.source`), or -1."""
        makers = np.full(len(self.names), -1, np.int64)
        makers[self.outputs.item] = self.outputs.owner
        bases, _ = self.base
        bare = (bases >= 0) & (makers < 0)
        if bare.any():
            holder, _ = follow(np.where(bare, bases, np.arange(len(bases))))
            makers = makers[holder]
        return makers

    @cached_property
    def ordered(self) -> bool:
        """True if ops wait for one another only because of data."""
        ops = self._graph.ops
        sequences = [*map(attrgetter("sequence"), ops)]
        return sequences.count(None) == len(ops) and not any(map(attrgetter("after"), ops))

    def runs_in(self, order: Sequence[int]) -> bool:
        """True if this order has each op once, after the ops whose results it reads.

        False as well if ops also wait for other reasons than data (not :attr:`ordered`).
        """
        many = len(self._graph.ops)
        if len(order) != many or not self.ordered:
            return False
        ops = np.array(order, np.int64)
        if many and not 0 <= ops.min() <= ops.max() < many:
            return False
        position = np.full(many + 1, -1, np.int64)
        position[ops] = np.arange(many)
        # The last entry is for tensors that no op makes.
        before = position[self.maker[self.read.item]]
        before[self.maker[self.read.item] < 0] = -1
        here = position[:many]
        return bool((here >= 0).all() and (before < here[self.read.owner]).all())

    def _numbers(self, names: Iterable[str]) -> Ints:
        find: Callable[[str], int] = self.number.__getitem__
        return np.fromiter(map(find, names), np.int64)

    def _integers(self, values: Iterable[int]) -> Ints:
        return np.fromiter(values, np.int64, len(self._graph.tensors))

    def _lists(self, names: Sequence[tuple[str, ...]]) -> Lists:
        lengths = np.fromiter(map(len, names), np.int64, len(names))
        return Lists(self._numbers(chain.from_iterable(names)), lengths)


def follow(next_of: Ints, step: Ints | None = None) -> tuple[Ints, Ints]:
    """The end of each chain of links, and the sum of the steps to there; O(n log n).

    An end links to itself and has a step of 0. A cycle has no end: the result is some number of the
    cycle.
    """
    end, sums = next_of, np.zeros_like(next_of) if step is None else step
    # Each turn doubles the number of links followed.
    for _ in range(len(next_of).bit_length()):
        further = end[end]
        if (further == end).all():
            break
        end, sums = further, sums + sums[end]
    return end, sums
