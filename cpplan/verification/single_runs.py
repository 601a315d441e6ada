"""Buffers of a program in one arena, found in bulk if its ops run once each, without bodies.

Every storage then has one retention, so that the steps at which it is accessed say all that the
access trace (:mod:`cpplan.verification.access_trace`) would. Like the trace, it follows from the
graph and the order alone.
"""

from __future__ import annotations

import math

import numpy as np

from cpplan.model.errors import VerificationError
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.model.tensor import LIMIT
from cpplan.program.anf import Program


def buffers_of_single_runs(program: Program, residency: Residency) -> Problem:
    """The buffers that a program needs in one arena, if ops run once each, without bodies.

    O(ops + tensors).

    Raises
    ------
    VerificationError
        If the sizes or an alignment exceed 2**62 bytes.

    Examples
    --------
    >>> from cpplan.model.graph import Graph, Op, Tensor
    >>> from cpplan.program.anf import to_anf
    >>> tensors = Tensor("x", 8, kind="input"), Tensor("y", 4, kind="output")
    >>> program = to_anf(Graph("g", tensors, (Op("a", "relu", ("x",), ("y",)),)))
    >>> buffers_of_single_runs(program, Residency()).names
    ('x', 'y')
    """
    graph, ops = program.graph, program.ops
    last = max(1, len(ops)) - 1
    written = [(k, name) for k, op in enumerate(ops) for name in op.outputs + op.workspaces]
    made = {name for _, name in written}
    # In the order in which they are first accessed: constants, what the caller brings, results.
    brought = [t for t in graph.tensors if graph.is_storage(t.name) and t.name not in made]
    root = graph.root
    names = [t.name for t in brought if t.kind == "constant"]
    constants = len(names)
    names += [t.name for t in brought if t.kind != "constant"]
    begun = len(names)
    names = list(dict.fromkeys([*names, *(root[name][0] for _, name in written)]))
    row_of_root = {name: row for row, name in enumerate(names)}
    row = {name: row_of_root[base] for name, (base, _) in root.items()}
    read = [(k, row[name]) for k, op in enumerate(ops) for name in dict.fromkeys(op.inputs)]
    reading = np.array(read, np.int64).reshape(-1, 2)
    writing = np.array([(k, row[name]) for k, name in written], np.int64).reshape(-1, 2)
    accessed = np.concatenate((reading, writing))
    lower, upper = np.full(len(names), last, np.int64), np.zeros(len(names), np.int64)
    np.minimum.at(lower, accessed[:, 1], accessed[:, 0])
    np.maximum.at(upper, accessed[:, 1], accessed[:, 0] + 1)
    lower[:begun], upper[:begun] = 0, np.maximum(upper[:begun], 1)
    upper[:constants] = last + 1
    alignment, outside = [1] * len(names), np.zeros(len(names), np.bool_)
    where = {"input": residency.inputs, "output": residency.outputs}
    for tensor in graph.tensors:
        if tensor.alignment != 1:
            known = alignment[row[tensor.name]]
            alignment[row[tensor.name]] = math.lcm(known, tensor.alignment)
        if tensor.kind == "constant":
            outside[row[tensor.name]] |= residency.constants != "keep"
        elif tensor.kind in where:
            wanted = where[tensor.kind]
            outside[row[tensor.name]] |= wanted == "outside"
            if wanted == "keep":
                upper[row[tensor.name]] = last + 1
    # An op that reads and writes the same storage passes it on.
    count = len(names)
    passed = np.isin(writing @ [count, 1], reading @ [count, 1])
    reads = np.bincount(reading[:, 1], minlength=count)
    writes = np.bincount(writing[~passed, 1], minlength=count)
    size = [graph.tensor[name].nbytes for name in names]
    placed = np.flatnonzero(~outside)
    rows = placed.tolist()
    if max(sum(size[k] for k in rows), *(alignment[k] for k in rows), 0) >= LIMIT:
        raise VerificationError("the sizes or an alignment of the model exceed 2**62 bytes")
    return Problem(
        names=tuple(names[k] for k in rows),
        lower=lower[placed],
        upper=upper[placed],
        size=np.array([size[k] for k in rows], np.int64),
        alignment=np.array([alignment[k] for k in rows], np.int64),
        reads=reads[placed],
        writes=writes[placed],
    )
