"""Liveness analysis: the packing Problem of a Program, a buffer with a lifespan per storage.

The analysis is one sweep over the bindings. Tensors that are views of one another share one buffer,
which lives from the first write to the last read of any of them. A tensor that is computed again
starts a new buffer, unless it lies within a tensor that the op reads. An op's inputs, outputs and
workspaces are all live during its step. Bodies run inside their op's steps, one after another. So
the branches of an ``if`` may use the same bytes, while all tensors that the op accesses stay live
through all of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from cpplan.model.columns import GraphColumns
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Tensor
from cpplan.model.pool import Pool
from cpplan.model.problem import Ints, Problem
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
    number/name``. Tensors that ``residency`` puts outside the arena have no buffer, and neither
    have the copies of a result there, which is written again in place, nor constants unless they
    are kept. Constants in the arena are live throughout, as are further copies of their storages.
    The candidate pools of a buffer follow from the tensors in it
    (``cpplan.program.pool_candidates``); without ``pools``, all buffers go to one arena.
    """
    residency = residency or Residency()
    if runs_once(program):
        return _in_bulk(program, residency, pools)
    graph, stop = program.graph, max(1, program.starts[-1])
    sweep = _sweep(program, residency)
    table = sweep.table
    for tensor in graph.tensors:
        # The caller reads outputs after the last step; a view keeps its whole storage.
        if tensor.kind == "output" or (tensor.kind == "input" and residency.inputs == "keep"):
            sweep.life(tensor.name, 0).upper = stop
    outside = {id(sweep.life(t.name, 0)) for t in graph.tensors if is_outside(t, residency)}
    for root in written_outside_again(graph, residency):
        outside |= {id(life) for life in sweep.copies_of(root)}
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


def live_bytes(program: Program) -> Ints:
    """Bytes live at every step, shape ``(steps,)``, boundary tensors included."""
    live: Ints = to_problem(program).live_bytes()
    return live[: program.starts[-1]]


def _in_bulk(program: Program, residency: Residency, pools: Sequence[Pool] | None) -> Problem:
    """The problem of a program whose storages have one interval each, from all accesses at once.

    Buffers come in the order of the sweep: tensors that the caller brings in the order listed, then
    results in the order first written.
    """
    graph = program.graph
    columns = graph.columns
    stop, root = max(1, len(program.order)), columns.root
    order = np.array(program.order, np.int64)
    reads, writes = columns.read.taken(order), columns.written.taken(order)
    brought = columns.storage & ~columns.are({"workspace"})
    brought[columns.written.item] = False
    storages = np.concatenate([np.flatnonzero(brought), root[writes.item]])
    storages = storages[_first_of_each(storages, len(root))]
    row = np.full(len(root), -1, np.int64)
    row[storages] = np.arange(len(storages))
    row = row[root]
    lower, upper = np.full(len(storages), stop, np.int64), np.zeros(len(storages), np.int64)
    for accesses in (reads, writes):
        np.minimum.at(lower, row[accesses.item], accesses.owner)
        np.maximum.at(upper, row[accesses.item], accesses.owner + 1)
    begun = int(np.count_nonzero(brought))
    lower[:begun] = 0
    upper[:begun] = np.maximum(upper[:begun], 1)
    # An op that reads and writes the same storage passes it on.
    read, write = row[reads.item], row[writes.item]
    count = len(storages)
    # ``isin`` would import masked arrays, which takes longer than planning a small model.
    known, asked = np.sort(reads.owner * count + read), writes.owner * count + write
    passed = np.searchsorted(known, asked) < np.searchsorted(known, asked, "right")
    constants = columns.are({"constant"})
    upper[row[columns.are({"output"})]] = stop
    if residency.inputs == "keep":
        upper[row[columns.are({"input"})]] = stop
    upper[row[constants & brought]] = stop
    outside = np.zeros(count, np.bool_)
    outside[row[columns.are(outside_kinds(residency))]] = True
    rows = np.flatnonzero(~outside)
    chosen = storages[rows]
    names = tuple([columns.names[k] for k in chosen.tolist()])
    candidates: dict[int, tuple[int, ...]] = {}
    if pools is not None:
        lying: list[list[Tensor]] = [[] for _ in storages]
        for k, tensor in zip(row.tolist(), graph.tensors, strict=True):
            if k >= 0:
                lying[k].append(tensor)
        together = (lying[k] for k in rows.tolist())
        candidates = assign_candidates(pools, list(zip(names, together, strict=True)))
    return Problem(
        names=names,
        lower=lower[rows],
        upper=upper[rows],
        size=columns.size[chosen],
        alignment=_alignments(columns, row, storages, rows),
        reads=np.bincount(read, minlength=count)[rows],
        writes=np.bincount(write[~passed], minlength=count)[rows],
        pools=(Pool(),) if pools is None else tuple(pools),
        candidates=candidates,
        name=graph.name,
    )


def _first_of_each(numbers: Ints, count: int) -> NDArray[np.bool_]:
    """Mask of the first occurrence of each number; all numbers are below ``count``."""
    place = np.arange(len(numbers))
    first = np.zeros(count, np.int64)
    first[numbers[::-1]] = place[::-1]
    mask: NDArray[np.bool_] = first[numbers] == place
    return mask


def _alignments(columns: GraphColumns, row: Ints, storages: Ints, rows: Ints) -> Ints:
    """Least common multiple of the alignments of the tensors in each of some storages."""
    given = columns.alignment
    odd = np.flatnonzero(given != 1).tolist()
    if not odd:
        return np.ones(len(rows), np.int64)
    common = [1] * len(storages)
    for k in odd:
        common[row[k]] = math.lcm(common[row[k]], int(given[k]))
    found = [common[k] for k in rows.tolist()]
    if max(found, default=1) >= LIMIT:
        k = next(k for k, alignment in enumerate(found) if alignment >= LIMIT)
        _refuse_alignment(columns.names[storages[rows[k]]])
    return np.array(found, np.int64)


def _refuse_alignment(name: str) -> NoReturn:
    raise InputError(
        f"buffer {name!r}: the alignments of the tensors in it have no common multiple below 2**62"
    )


def last_places(program: Program) -> dict[str, tuple[str, int]]:
    """Buffer and byte offset of every tensor's latest value after the last step, by tensor.

    If an op runs again, its last run's buffers count; a view that no op writes lies in its base.
    O(ops + tensors).
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
            # A tensor from the caller is live until the first op has run, even if no op reads it.
            sweep.life(tensor.name, 0).upper = program.starts[min(1, len(program.order))] or 1
    sweep.run(program, 0)
    return sweep


def outside_storages(graph: Graph, residency: Residency) -> set[str]:
    """Names of the graph's storages that are not in the arena.

    A storage is outside if any tensor in it must be: if an output outside the arena is a view of an
    intermediate, the intermediate is outside too.
    """
    columns = graph.columns
    outside = columns.root[columns.are(outside_kinds(residency))]
    return {columns.names[k] for k in outside.tolist()}


def written_outside_again(graph: Graph, residency: Residency) -> set[str]:
    """Names of the storages outside the arena that an op may write again, with the same bytes.

    One op begins the storage, and the caller brings nothing in it. Other ops only pass it on.
    """
    root, begun = graph.root, Counter[str]()
    for op in graph.ops:
        read = {root[name][0] for name in op.inputs}
        begun.update({root[name][0] for name in op.outputs + op.workspaces} - read)
    brought = {root[t.name][0] for t in graph.tensors if t.kind in ("input", "constant")}
    return {name for name in outside_storages(graph, residency) - brought if begun[name] == 1}


def is_outside(tensor: Tensor, residency: Residency) -> bool:
    """True if the residency puts a boundary tensor of the model outside the arena."""
    return tensor.kind in outside_kinds(residency)


def outside_kinds(residency: Residency) -> frozenset[str]:
    """Kinds of the boundary tensors that the residency puts outside the arena."""
    where = {
        "input": residency.inputs,
        "output": residency.outputs,
        "constant": residency.constants,
    }
    return frozenset(kind for kind, wanted in where.items() if wanted == "outside")
