"""Liveness analysis: the packing Problem of a Program, a buffer with a lifespan per storage.

One sweep over the bindings. Tensors that are views of one another share one buffer, which lives
from the first write to the last read of any of them. A tensor that is computed again starts a new
buffer, unless it lies within a tensor that the op reads. An op's inputs, outputs and workspaces are
all live during its step. Bodies run inside their op's steps, one after another. So the branches of
an ``if`` may use the same bytes, while all tensors that the op accesses stay live through all of
them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import NoReturn

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Tensor
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.model.tensor import LIMIT
from cpplan.program.anf import Program, runs_once
from cpplan.program.live_ranges import Life, Sweep
from cpplan.program.pool_candidates import assign_candidates


def to_problem(
    program: Program, residency: Residency | None = None, pools: Sequence[Pool] | None = None
) -> Problem:
    """The packing problem of a program at its given order. O(ops + tensors).

    A buffer has the name of the tensor whose storage it is; a recomputed copy is ``name~1``,
    ``name~2``, … (``cpplan.program.copy_names``); a buffer inside a body is ``op/body
    number/name``. Tensors that ``residency`` puts outside the arena, constants unless they are
    kept, have no buffer. Constants in the arena are live throughout, as are further copies of their
    storages. The candidate pools of a buffer follow from the tensors in it
    (``cpplan.program.pool_candidates``); without ``pools``, all buffers go to one arena.

    Examples
    --------
    >>> from cpplan.program.anf import to_anf
    >>> from cpplan.model.graph import Op
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
    if pools is None and runs_once(program):
        return _in_bulk(program, residency)
    graph, stop = program.graph, max(1, program.starts[-1])
    sweep = _sweep(program, residency)
    table = sweep.table
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
            _refuse_alignment(name)
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


def _in_bulk(program: Program, residency: Residency) -> Problem:
    """The problem of a program in which every storage has one interval, from all accesses at once.

    Buffers come in the order of the sweep: what the caller brings as listed, then results as first
    written.
    """
    graph, ops, root = program.graph, program.ops, program.graph.root
    stop = max(1, len(ops))
    written = list(chain.from_iterable([op.outputs + op.workspaces for op in ops]))
    made = set(written)
    brought = [
        t.name
        for t in graph.tensors
        if t.name not in made and t.kind != "workspace" and graph.is_storage(t.name)
    ]
    names = list(dict.fromkeys([*brought, *[root[name][0] for name in written]]))
    number = {name: k for k, name in enumerate(names)}
    row = {name: number[base] for name, (base, _) in root.items()}
    inputs = [tuple(dict.fromkeys(op.inputs)) if len(op.inputs) > 1 else op.inputs for op in ops]
    read = np.array([row[name] for name in chain.from_iterable(inputs)], np.int64)
    write = np.array([row[name] for name in written], np.int64)
    steps = np.arange(len(ops))
    read_at = np.repeat(steps, [len(names) for names in inputs])
    write_at = np.repeat(steps, [len(op.outputs) + len(op.workspaces) for op in ops])
    lower, upper = np.full(len(names), stop, np.int64), np.zeros(len(names), np.int64)
    for rows, at in ((read, read_at), (write, write_at)):
        np.minimum.at(lower, rows, at)
        np.maximum.at(upper, rows, at + 1)
    lower[: len(brought)] = 0
    upper[: len(brought)] = np.maximum(upper[: len(brought)], 1)
    # An op that reads and writes the same storage passes it on.
    passed = np.isin(write_at * len(names) + write, read_at * len(names) + read)
    reads = np.bincount(read, minlength=len(names))
    writes = np.bincount(write[~passed], minlength=len(names))
    alignment, outside = [1] * len(names), set[int]()
    for tensor in graph.tensors:
        k = row[tensor.name]
        if tensor.alignment != 1:
            alignment[k] = math.lcm(alignment[k], tensor.alignment)
        if tensor.kind == "intermediate":
            continue
        if tensor.kind == "output" or (tensor.kind == "input" and residency.inputs == "keep"):
            upper[k] = stop
        if is_outside(tensor, residency):
            outside.add(k)
    tensors = [graph.tensor[name] for name in names]
    for k, tensor in enumerate(tensors[: len(brought)]):
        if tensor.kind == "constant":
            upper[k] = stop
            outside |= {k} if residency.constants == "outside" else set()
    for k, name in enumerate(names):
        if alignment[k] >= LIMIT and k not in outside:
            _refuse_alignment(name)
    rows = np.array([k for k in range(len(names)) if k not in outside], np.int64)
    return Problem(
        names=tuple([names[k] for k in rows.tolist()]),
        lower=lower[rows],
        upper=upper[rows],
        size=np.array([tensors[k].nbytes for k in rows.tolist()], np.int64),
        alignment=np.array([alignment[k] for k in rows.tolist()], np.int64),
        reads=reads[rows],
        writes=writes[rows],
        name=graph.name,
    )


def _refuse_alignment(name: str) -> NoReturn:
    raise InputError(
        f"buffer {name!r}: the alignments of the tensors in it have no common multiple below 2**62"
    )


def last_places(program: Program) -> dict[str, tuple[str, int]]:
    """Buffer and byte offset of every tensor's latest value after the last step, by tensor.

    If ops run again, that is the buffer that the last run wrote; a view that no op writes lies in
    its base. O(ops + tensors).

    Examples
    --------
    >>> from cpplan.model.graph import Op
    >>> tensors = Tensor("y", 8, kind="output"), Tensor("v", 4, view_of=("y", 4))
    >>> program = Program(Graph("g", tensors, (Op("f", outputs=("y",)),)), (0, 0))
    >>> last_places(program)
    {'y': ('y~1', 0), 'v': ('y~1', 4)}
    """
    graph = program.graph
    if len(program.order) == len(graph.ops):
        return graph.root
    sweep = _sweep(program, Residency())
    name_of = {id(life): name for name, life in sweep.table.items()}
    return {
        tensor.name: (name_of[id(sweep.life(tensor.name, 0))], graph.root[tensor.name][1])
        for tensor in graph.tensors
    }


def _sweep(program: Program, residency: Residency) -> Sweep:
    """A sweep over the whole program."""
    table: dict[str, Life] = {}
    sweep, graph = Sweep(program.graph, table, residency), program.graph
    for tensor in graph.tensors:
        written = tensor.name in graph.producer or tensor.kind == "workspace"
        if graph.is_storage(tensor.name) and not written:
            # A tensor from the caller is live until the first op has run, used or not.
            sweep.life(tensor.name, 0).upper = program.starts[min(1, len(program.order))] or 1
    sweep.run(program, 0)
    return sweep


def outside_storages(graph: Graph, residency: Residency) -> set[str]:
    """Names of the graph's storages that are not in the arena.

    A storage is outside if any tensor in it must be: if an output outside the arena is a view of an
    intermediate, the intermediate is outside too.

    Examples
    --------
    >>> graph = Graph("g", (Tensor("w", 4, kind="constant"), Tensor("x", 4, kind="input")), ())
    >>> outside_storages(graph, Residency())
    {'w'}
    """
    return {graph.root[t.name][0] for t in graph.tensors if is_outside(t, residency)}


def is_outside(tensor: Tensor, residency: Residency) -> bool:
    """True if the residency puts a boundary tensor of the model outside the arena.

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
