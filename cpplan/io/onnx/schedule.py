"""Order of an ONNX model's nodes, given the order of its ops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from cpplan.io.onnx.names import reads_of, unique_names

if TYPE_CHECKING:
    import onnx


class Schedule:
    """A scheduler of nodes: ops in the given order, folded nodes as early as possible.

    A node has two forms: as in the model, and as the reader left it. They differ if the reader knew
    a shape: the second form then reads fewer tensors, and is used if the first cannot run yet. Both
    forms get the name of the node in the graph.
    """

    def __init__(
        self,
        nodes: Iterable[onnx.NodeProto],
        read: Iterable[onnx.NodeProto],
        ops: Iterable[str],
    ):
        self.forms = [[node] for node in nodes]
        self.writer = {
            name: k for k, [node] in enumerate(self.forms) for name in node.output if name
        }
        self.needs = [self._writers(form) for form in self.forms]
        self.read_forms: list[list[onnx.NodeProto]] = [[] for _ in self.forms]
        self.number: dict[str, int] = {}
        known = set(ops)
        # Reading folds nodes that write, and keeps the order of the others.
        silent = (k for k, [node] in enumerate(self.forms) if not any(node.output))
        listed = list(read)
        for node, name in zip(listed, unique_names(listed), strict=True):
            written = next(filter(None, node.output), None)
            k = next(silent) if written is None else self.writer[written]
            node.name = name
            if not self.read_forms[k]:
                self.forms[k][0].name = name
            self.read_forms[k].append(node)
            if name in known:
                self.number[name] = k
        self.ops = set(self.number.values())
        self.waiting = [len(needs) for needs in self.needs]
        self.folded_readers: list[list[int]] = [[] for _ in self.forms]
        for k, needs in enumerate(self.needs):
            for before in needs:
                if k not in self.ops:
                    self.folded_readers[before].append(k)
        self.done: set[int] = set()
        self.placed: list[onnx.NodeProto] = []

    def run(self, order: Iterable[str]) -> list[onnx.NodeProto]:
        """The nodes in order; ``order`` must name every op after the ops whose results it reads.

        If an op is named again, its node is listed again; folded nodes are listed once.
        """
        self._place_folded(
            k for k, count in enumerate(self.waiting) if count == 0 and k not in self.ops
        )
        for name in order:
            stack = [self.number[name]]
            while stack:
                k = stack[-1]
                form, needs = self.forms[k], self.needs[k]
                if any(p in self.ops and p not in self.done for p in needs):
                    form = self.read_forms[k]
                    needs = self._writers(form)
                waiting = [p for p in needs if p not in self.done]
                assert self.ops.isdisjoint(waiting)
                stack += reversed(waiting)
                if not waiting:
                    stack.pop()
                    if k in self.ops or k not in self.done:
                        self._place(k, form)
        return self.placed

    def _place(self, k: int, form: Iterable[onnx.NodeProto]) -> None:
        self.placed += form
        if k not in self.done:
            self.done.add(k)
            self._place_folded(self._released(k))

    def _place_folded(self, numbers: Iterable[int]) -> None:
        ready = list(numbers)
        heapify(ready)
        while ready:
            k = heappop(ready)
            if k not in self.done:
                self.placed += self.forms[k]
                self.done.add(k)
                for released in self._released(k):
                    heappush(ready, released)

    def _released(self, k: int) -> Iterator[int]:
        """Folded nodes whose last missing input comes from this node."""
        for reader in self.folded_readers[k]:
            self.waiting[reader] -= 1
            if self.waiting[reader] == 0:
                yield reader

    def _writers(self, form: Iterable[onnx.NodeProto]) -> list[int]:
        """The nodes whose results these nodes or their bodies read."""
        names = (name for node in form for name in reads_of(node) if name in self.writer)
        return list(dict.fromkeys(self.writer[name] for name in names))
