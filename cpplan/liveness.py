"""From a Program to the packing Problem: which bytes live from which step to which.

One sweep over the bindings. Tensors that are views of one another share one buffer, which lives
from the first write to the last read of any of them; a tensor that is computed again starts a
buffer of its own, unless it lies within what the op reads. An op's inputs, outputs and workspaces
are all live during its step. Bodies run inside their op's steps, one after another, so that the
branches of an ``if`` may use the same bytes while everything the op touches stays live through all
of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cpplan.anf import Program, to_anf
from cpplan.errors import InputError
from cpplan.graph import Graph, Op, Tensor
from cpplan.pool import Pool
from cpplan.pool_candidates import assign_candidates
from cpplan.problem import Problem
from cpplan.residency import Residency
from cpplan.tensor import LIMIT


def to_problem(
    program: Program, residency: Residency | None = None, pools: Sequence[Pool] | None = None
) -> Problem:
    """The packing problem of a program at its given order. O(ops + tensors).

    Buffers bear the names of the tensors whose storage they are; a recomputed copy is ``name~1``,
    ``name~2``, …; a buffer inside a body is ``op/body number/name``. Constants, and what
    ``residency`` puts outside the arena, have no buffer. Which pools a buffer may go to follows
    from the tensors in it (``cpplan.pool_candidates``); without ``pools``, all go to one arena.

    Examples
    --------
    >>> from cpplan.graph import Graph, Op, Tensor
    >>> graph = Graph(
    ...     "tiny",
    ...     (Tensor("x", 8, kind="input"), Tensor("t", 16), Tensor("y", 4, kind="output")),
    ...     (Op("a", "conv", ("x",), ("t",)), Op("b", "pool", ("t",), ("y",))),
    ... )
    >>> problem = to_problem(to_anf(graph))
    >>> list(zip(problem.names, problem.lower.tolist(), problem.upper.tolist()))
    [('x', 0, 1), ('t', 0, 2), ('y', 1, 2)]
    """
    residency = residency or Residency()
    graph, stop = program.graph, max(1, program.starts[-1])
    table: dict[str, _Life] = {}
    sweep = _Sweep(graph, table, residency)
    for tensor in graph.tensors:
        written = tensor.name in graph.producer or tensor.kind == "workspace"
        if tensor.view_of is None and not written:
            # What the caller hands in is there until the first op has run, used or not.
            sweep.life(tensor.name, 0).upper = program.starts[min(1, len(program.order))] or 1
    sweep.run(program, 0)
    for tensor in graph.tensors:
        # The caller reads outputs after the last step; a view keeps its whole storage.
        if tensor.kind == "output" or (tensor.kind == "input" and residency.inputs == "keep"):
            sweep.life(tensor.name, 0).upper = stop
    outside = {id(sweep.life(t.name, 0)) for t in graph.tensors if is_outside(t, residency)}
    if residency.constants == "outside":
        outside |= {id(life) for life in table.values() if life.tensor.kind == "constant"}
    placed = {name: life for name, life in table.items() if id(life) not in outside}
    for life in placed.values():
        if life.tensor.kind == "constant":
            life.lower, life.upper = 0, stop
    for name, life in placed.items():
        if life.alignment >= LIMIT:
            raise InputError(
                f"buffer {name!r}: the alignments of the tensors in it have no common multiple "
                "below 2**62"
            )
    lives = placed.values()
    buffers = [(name, life.tensors) for name, life in placed.items()]
    return Problem(
        names=tuple(placed),
        lower=np.array([life.lower for life in lives], np.int64),
        upper=np.array([life.upper for life in lives], np.int64),
        size=np.array([life.tensor.nbytes for life in lives], np.int64),
        alignment=np.array([life.alignment for life in lives], np.int64),
        reads=np.array([life.reads for life in lives], np.int64),
        writes=np.array([life.writes for life in lives], np.int64),
        pools=(Pool(),) if pools is None else tuple(pools),
        candidates={} if pools is None else assign_candidates(pools, buffers),
        name=graph.name,
    )


def outside_storages(graph: Graph, residency: Residency) -> set[str]:
    """Names of the graph's storages that are not in the arena.

    A storage is outside if any tensor that lies in it must be: an output that is a view of an
    intermediate takes the intermediate with it.

    Examples
    --------
    >>> graph = Graph("g", (Tensor("w", 4, kind="constant"), Tensor("x", 4, kind="input")), ())
    >>> outside_storages(graph, Residency())
    {'w'}
    """
    return {graph.root[t.name][0] for t in graph.tensors if is_outside(t, residency)}


def is_outside(tensor: Tensor, residency: Residency) -> bool:
    """Whether a tensor of the model's boundary is not in the arena.

    Examples
    --------
    >>> is_outside(Tensor("x", 4, kind="input"), Residency())
    False
    """
    where = {
        "input": residency.inputs,
        "output": residency.outputs,
        "constant": residency.constants,
    }
    return where.get(tensor.kind) == "outside"


@dataclass(slots=True, eq=False)
class _Life:
    """One stay of a storage in memory, still growing during the sweep."""

    tensor: Tensor
    alignment: int
    tensors: list[Tensor]
    lower: int
    upper: int
    reads: int = 0
    writes: int = 0


class _Sweep:
    """Walks the bindings of one graph and keeps the stay in which every tensor was last written.

    Bodies are swept by sweeps of their own into the same table.
    """

    def __init__(
        self,
        graph: Graph,
        table: dict[str, _Life],
        residency: Residency,
        prefix: str = "",
        scope: Mapping[str, _Life] | None = None,
    ):
        self.graph, self.table, self.residency, self.prefix = graph, table, residency, prefix
        self.home: dict[str, _Life] = dict(scope or {})
        self.newest: dict[str, _Life] = dict(self.home)
        self.outer = frozenset(self.home)
        self.copies: Counter[str] = Counter()
        self.alignment: dict[str, int] = {}
        self.tensors: dict[str, list[Tensor]] = {}
        for tensor in graph.tensors:
            root = graph.root[tensor.name][0]
            self.alignment[root] = math.lcm(self.alignment.get(root, 1), tensor.alignment)
            self.tensors.setdefault(root, []).append(tensor)
        for root, life in self.home.items():
            life.alignment = math.lcm(life.alignment, self.alignment[root])
            life.tensors += self.tensors[root]

    def life(self, name: str, step: int) -> _Life:
        """The stay that holds tensor ``name``; a storage that nobody wrote starts at ``step``."""
        while name not in self.home and (view_of := self.graph.tensor[name].view_of) is not None:
            name = view_of[0]
        if name not in self.home:
            self.home[name] = self.newest.get(name) or self._begin(name, step)
        return self.home[name]

    def run(self, program: Program, start: int) -> None:
        times: Counter[str] = Counter()
        for op, lower, upper in zip(program.ops, program.starts, program.starts[1:], strict=False):
            self._bind(op, start + lower, start + upper, times[op.name])
            times[op.name] += 1

    def _bind(self, op: Op, lower: int, upper: int, copy: int) -> None:
        read: dict[str, _Life] = {}
        for name in op.inputs:
            life, root = self.life(name, lower), self.graph.root[name][0]
            life.upper = max(life.upper, upper)
            read[root] = max(life, read.get(root, life), key=lambda life: life.lower)
        for name in dict.fromkeys(op.inputs):
            self.life(name, lower).reads += 1
        for name in op.outputs + op.workspaces:
            root = self.graph.root[name][0]
            self.home[name] = life = read.get(root) or self._stay_to_write(name, root, lower)
            life.upper = max(life.upper, upper)
            life.writes += root not in read
        step = lower
        for number, body in enumerate(op.bodies):
            call = f"{op.name}~{copy}" if copy else op.name
            step = self._run_body(body, op, step, f"{self.prefix}{call}/{number}/")

    def _stay_to_write(self, name: str, root: str, step: int) -> _Life:
        """The storage's newest stay, or another one if ``name`` was already written in that."""
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
        # A boundary tensor that is a view within the body lies where its base does.
        shared = {
            name: self.life(name, start)
            for name in boundary
            if name in op.tensors and body.tensor[name].view_of is None
        }
        inner = _Sweep(body, self.table, self.residency, prefix, shared)
        for name in boundary:
            # What a body is given is there from its start; what it gives back, once it is written.
            root = body.root[name][0]
            if body.tensor[name].kind == "input" or root not in body.producer:
                life = inner.newest.get(root) or inner._begin(root, start)
                life.upper = max(life.upper, stop)
        inner.run(program, start)
        for name in outputs:
            life = inner.life(name, start)
            life.upper = max(life.upper, stop)
        return stop

    def _begin(self, root: str, step: int) -> _Life:
        copy, tensor = self.copies[root], self.graph.tensor[root]
        self.copies[root] += 1
        life = _Life(tensor, self.alignment[root], list(self.tensors[root]), step, step + 1)
        self.newest[root] = life
        read_only = tensor.kind == "constant" and self.residency.constants == "outside"
        if not (read_only and self.prefix):
            name = f"{self.prefix}{root}" + (f"~{copy}" if copy else "")
            if name in self.table:
                raise InputError(f"tensor {name!r} bears the name of another buffer: rename it")
            self.table[name] = life
        return life
