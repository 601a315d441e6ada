"""Retention intervals of storages, found by one sweep over a program's bindings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.residency import Residency
from cpplan.program.anf import Program, to_anf
from cpplan.program.copy_names import CopyNames, op_copies, tensor_copies


@dataclass(slots=True, eq=False)
class Life:
    """One retention interval of a storage, which grows during the sweep.

    Attributes
    ----------
    tensor
        The tensor that has the whole storage.
    alignment
        Alignment of the storage, bytes.
    tensors
        All tensors that lie in the storage.
    lower, upper
        Lifespan ``[lower, upper)`` in steps.
    reads, writes
        Numbers of reads and of writes of the storage's tensors by ops.
    """

    tensor: Tensor
    alignment: int
    tensors: list[Tensor]
    lower: int
    upper: int
    reads: int = 0
    writes: int = 0


class Sweep:
    """A sweep over the bindings of one graph that tracks where each tensor was last written.

    Every body has its own sweep, which fills the same table.

    Parameters
    ----------
    graph
        The graph whose ops run.
    table
        Receives the retention intervals, by the name of their buffer.
    residency
        The boundary tensors that the arena holds.
    prefix
        Prefix of the names of a body's buffers.
    scope
        Intervals of the op's tensors that a body shares, by the name of the storage.
    """

    def __init__(
        self,
        graph: Graph,
        table: dict[str, Life],
        residency: Residency,
        prefix: str = "",
        scope: Mapping[str, Life] | None = None,
    ):
        self.graph, self.table, self.residency, self.prefix = graph, table, residency, prefix
        self.home: dict[str, Life] = dict(scope or {})
        self.newest: dict[str, Life] = dict(self.home)
        self.outer = frozenset(self.home)
        self.copies: dict[str, int] = {}
        self.alignment: dict[str, int] = {}
        self.tensors: dict[str, list[Tensor]] = {}
        for tensor in graph.tensors:
            root = graph.root[tensor.name][0]
            lying = self.tensors.get(root)
            if lying is None:
                self.alignment[root], self.tensors[root] = tensor.alignment, [tensor]
            else:
                self.alignment[root] = math.lcm(self.alignment[root], tensor.alignment)
                lying.append(tensor)
        for root, life in self.home.items():
            life.alignment = math.lcm(life.alignment, self.alignment[root])
            life.tensors += self.tensors[root]

    @cached_property
    def _names(self) -> CopyNames:
        return tensor_copies(self.graph)

    @cached_property
    def _op_names(self) -> CopyNames:
        return op_copies(self.graph)

    def life(self, name: str, step: int) -> Life:
        """The interval that holds tensor ``name``; an unwritten storage begins at ``step``."""
        graph = self.graph
        name = graph.holder[name]
        while name not in self.home and not graph.is_storage(name):
            view_of = graph.tensor[name].view_of
            assert view_of is not None
            name = graph.holder[view_of[0]]
        if name not in self.home:
            self.home[name] = self.newest.get(name) or self._begin(name, step)
        return self.home[name]

    def copies_of(self, root: str) -> list[Life]:
        """All intervals of a storage of this graph."""
        copies = range(self.copies.get(root, 0))
        return [self.table[self._name_of(root, copy)] for copy in copies]

    def run(self, program: Program, start: int) -> None:
        """Sweep over a program of the graph, from step ``start`` on."""
        times: Counter[str] = Counter()
        for op, lower, upper in zip(program.ops, program.starts, program.starts[1:], strict=False):
            copy = times.get(op.name, 0)
            self._bind(op, start + lower, start + upper, copy)
            times[op.name] = copy + 1

    def _bind(self, op: Op, lower: int, upper: int, copy: int) -> None:
        read: dict[str, Life] = {}
        roots = self.graph.root
        for name in dict.fromkeys(op.inputs):
            life, root = self.life(name, lower), roots[name][0]
            life.reads += 1
            if life.upper < upper:
                life.upper = upper
            newest = read.get(root)
            if newest is None or life.lower >= newest.lower:
                read[root] = life
        for name in op.outputs + op.workspaces:
            root = roots[name][0]
            self.home[name] = life = read.get(root) or self._retention_to_write(name, root, lower)
            life.writes += root not in read
            if life.upper < upper:
                life.upper = upper
        if not op.bodies:
            return
        step = lower
        for number, body in enumerate(op.bodies):
            call = self._op_names.copy(op.name, copy) if copy else op.name
            step = self._run_body(body, op, step, f"{self.prefix}{call}/{number}/")

    def _retention_to_write(self, name: str, root: str, step: int) -> Life:
        """The storage's newest interval, or a new one if the newest holds ``name`` already."""
        newest = self.newest.get(root)
        again = newest is not None and self.home.get(name) is newest
        if newest is None or (again and root not in self.outer):
            return self._begin(root, step)
        return newest

    def _run_body(self, body: Graph, op: Op, start: int, prefix: str) -> int:
        program = to_anf(body)
        stop = start + max(1, program.starts[-1])
        outputs = [t.name for t in body.tensors if t.kind == "output"]
        boundary = [t.name for t in body.tensors if t.kind in ("input", "output")]
        # A boundary tensor that is a view in the body lies in its base.
        shared = {
            name: self.life(name, start)
            for name in boundary
            if name in op.tensors and body.is_storage(name)
        }
        inner = Sweep(body, self.table, self.residency, prefix, shared)
        for name in boundary:
            # A body's input is live from the body's start; its output, from the step that writes
            # it.
            root = body.root[name][0]
            if body.tensor[name].kind == "input" or root not in body.producer:
                life = inner.newest.get(root) or inner._begin(root, start)
                life.upper = max(life.upper, stop)
        inner.run(program, start)
        for name in outputs:
            life = inner.life(name, start)
            life.upper = max(life.upper, stop)
        return stop

    def _name_of(self, root: str, copy: int) -> str:
        return self.prefix + (self._names.copy(root, copy) if copy else root)

    def _begin(self, root: str, step: int) -> Life:
        copy, tensor = self.copies.get(root, 0), self.graph.tensor[root]
        self.copies[root] = copy + 1
        life = Life(tensor, self.alignment[root], list(self.tensors[root]), step, step + 1)
        self.newest[root] = life
        read_only = tensor.kind == "constant" and self.residency.constants == "outside"
        if not (read_only and self.prefix):
            name = self._name_of(root, copy)
            if name in self.table:
                raise InputError(f"tensor {name!r} bears the name of another buffer: rename it")
            self.table[name] = life
        return life
