"""Columns of a graph: its tensors and the accesses of its ops as arrays of numbers.

A graph may have a hundred thousand ops. What asks the same of all of them asks the columns, which
are made once, each on first use; tensors and ops are numbered as the graph lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cpplan.model.graph import Graph
    from cpplan.model.problem import Ints


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """A list of numbers for every op, one after another.

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
        """Number of the list in which each item stands.

        Examples
        --------
        >>> Lists(np.array([4, 5, 6]), np.array([2, 0, 1])).owner.tolist()
        [0, 0, 2]
        """
        return np.repeat(np.arange(len(self.count)), self.count)

    def taken(self, order: Ints) -> Lists:
        """These lists in another order, or some of them.

        Examples
        --------
        >>> Lists(np.array([4, 5, 6]), np.array([2, 0, 1])).taken(np.array([2, 0])).item.tolist()
        [6, 4, 5]
        """
        begin = (np.cumsum(self.count) - self.count)[order]
        count = self.count[order]
        first = np.cumsum(count) - count
        return Lists(self.item[np.repeat(begin - first, count) + np.arange(count.sum())], count)


class GraphColumns:
    """The columns of a graph.

    Examples
    --------
    >>> from cpplan.model.graph import Graph, Op, Tensor
    >>> tensors = Tensor("x", 8, kind="input"), Tensor("y", 4, kind="output")
    >>> columns = Graph("g", tensors, (Op("a", "relu", ("x",), ("y",)),)).columns
    >>> columns.read.item.tolist(), columns.written.item.tolist(), columns.maker.tolist()
    ([0], [1], [-1, 0])
    """

    def __init__(self, graph: Graph):
        self._graph = graph

    @cached_property
    def names(self) -> list[str]:
        """Names of the tensors."""
        return [tensor.name for tensor in self._graph.tensors]

    @cached_property
    def number(self) -> dict[str, int]:
        """Tensor -> its number."""
        return dict(zip(self.names, range(len(self.names)), strict=True))

    @cached_property
    def size(self) -> Ints:
        """Size of every tensor, bytes."""
        return np.array([tensor.nbytes for tensor in self._graph.tensors], np.int64)

    @cached_property
    def alignment(self) -> Ints:
        """Alignment of every tensor, bytes."""
        return np.array([tensor.alignment for tensor in self._graph.tensors], np.int64)

    def are(self, kinds: Collection[str]) -> NDArray[np.bool_]:
        """Mask of the tensors of these kinds."""
        said = [tensor.kind in kinds for tensor in self._graph.tensors]
        return np.array(said, np.bool_)

    @cached_property
    def views(self) -> list[int]:
        """Tensors that are views."""
        return [k for k, tensor in enumerate(self._graph.tensors) if tensor.view_of is not None]

    @cached_property
    def storage(self) -> NDArray[np.bool_]:
        """Mask of the tensors that lie in no other (:meth:`Graph.is_storage`)."""
        mask: NDArray[np.bool_] = self.root == np.arange(len(self.names))
        return mask

    @cached_property
    def root(self) -> Ints:
        """The tensor in whose storage each lies."""
        roots, number = np.arange(len(self.names)), self.number
        for k in self.views:
            roots[k] = number[self._graph.root[self.names[k]][0]]
        return roots

    @cached_property
    def read(self) -> Lists:
        """Tensors that every op reads, each once; raises ``KeyError`` at an unknown one."""
        inputs = [op.inputs for op in self._graph.ops]
        return self._lists([tuple(dict.fromkeys(one)) if len(one) > 1 else one for one in inputs])

    @cached_property
    def outputs(self) -> Lists:
        """Outputs of every op; raises ``KeyError`` at an unknown tensor."""
        return self._lists([op.outputs for op in self._graph.ops])

    @cached_property
    def workspaces(self) -> Lists:
        """Workspaces of every op; raises ``KeyError`` at an unknown tensor."""
        return self._lists([op.workspaces for op in self._graph.ops])

    @cached_property
    def written(self) -> Lists:
        """Outputs of every op, then its workspaces."""
        if not len(self.workspaces.item):
            return self.outputs
        return self._lists([op.outputs + op.workspaces for op in self._graph.ops])

    @cached_property
    def in_place(self) -> tuple[Ints, Ints, Ints]:
        """Op, output and input of every pair that may be in place, as three columns."""
        ops = [k for k, op in enumerate(self._graph.ops) if op.in_place]
        pairs = [self._graph.ops[k].in_place for k in ops]
        flat = self._numbers(chain.from_iterable(chain.from_iterable(pairs)))
        return np.repeat(np.array(ops, np.int64), [*map(len, pairs)]), flat[::2], flat[1::2]

    @cached_property
    def maker(self) -> Ints:
        """The op after which each tensor's bytes are valid (:meth:`Graph.source`), or -1."""
        makers = np.full(len(self.names), -1, np.int64)
        makers[self.outputs.item] = self.outputs.owner
        tensors, number = self._graph.tensors, self.number
        known = set(np.flatnonzero(makers >= 0).tolist()) if self.views else set[int]()
        for k in self.views:
            walked, at = [], k
            while at not in known and (view_of := tensors[at].view_of) is not None:
                walked.append(at)
                at = number[view_of[0]]
            makers[walked] = makers[at]
            known.update(walked)
        return makers

    @cached_property
    def ordered(self) -> bool:
        """True if data alone decide which ops wait for one another."""
        return not any(op.after or op.sequence is not None for op in self._graph.ops)

    def runs_in(self, order: Sequence[int]) -> bool:
        """True if this is an order of all ops, each once, in which each runs after those it reads.

        False also where more than data decides (:attr:`ordered`).
        """
        count = len(self._graph.ops)
        if len(order) != count or not self.ordered:
            return False
        ops = np.array(order, np.int64)
        if count and not 0 <= ops.min() <= ops.max() < count:
            return False
        position = np.full(count + 1, -1, np.int64)
        position[ops] = np.arange(count)
        # The last one is that of tensors that no op makes.
        before = position[self.maker[self.read.item]]
        before[self.maker[self.read.item] < 0] = -1
        here = position[:count]
        return bool((here >= 0).all() and (before < here[self.read.owner]).all())

    def _numbers(self, names: Iterable[str]) -> Ints:
        find: Callable[[str], int] = self.number.__getitem__
        return np.array([*map(find, names)], np.int64)

    def _lists(self, names: Sequence[tuple[str, ...]]) -> Lists:
        count = np.array([*map(len, names)], np.int64)
        return Lists(self._numbers(chain.from_iterable(names)), count)
