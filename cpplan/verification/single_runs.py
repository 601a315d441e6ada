"""Buffers of a program in one arena, found in bulk if its ops run once each, without bodies.

Every storage then has one retention, so its lifespan follows from the steps at which it is
accessed; the access trace (:mod:`cpplan.verification.access_trace`) would give the same. Like the
trace, the buffers follow from the graph and the order alone.
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
    """
    columns = program.graph.columns
    last = max(1, len(program.order)) - 1
    order = np.array(program.order, np.int64)
    reading, writing = columns.read.taken(order), columns.written.taken(order)
    # Buffers in the order of first access: constants, tensors that the caller brings, results.
    made = np.zeros(len(columns.names), np.bool_)
    made[writing.item] = True
    constant = columns.are({"constant"})
    constants = np.flatnonzero(columns.storage & ~made & constant)
    brought = np.flatnonzero(columns.storage & ~made & ~constant)
    listed = np.concatenate([constants, brought, columns.root[writing.item]])
    _, first = np.unique(listed, return_index=True)
    storages = listed[np.sort(first)]
    begun, count = len(constants) + len(brought), len(storages)
    row_of_root = np.zeros(len(columns.names), np.int64)
    row_of_root[storages] = np.arange(count)
    row = row_of_root[columns.root]
    lower, upper = np.full(count, last, np.int64), np.zeros(count, np.int64)
    for accessed in (reading, writing):
        np.minimum.at(lower, row[accessed.item], accessed.owner)
        np.maximum.at(upper, row[accessed.item], accessed.owner + 1)
    lower[:begun], upper[:begun] = 0, np.maximum(upper[:begun], 1)
    upper[: len(constants)] = last + 1
    outside = np.zeros(count, np.bool_)
    wanted = {"input": residency.inputs, "output": residency.outputs}
    for kind, where in wanted.items():
        of_kind = row[columns.are({kind})]
        outside[of_kind] |= where == "outside"
        if where == "keep":
            upper[of_kind] = last + 1
    outside[row[constant]] |= residency.constants != "keep"
    alignment = [1] * count
    for k in np.flatnonzero(columns.alignment != 1).tolist():
        alignment[row[k]] = math.lcm(alignment[row[k]], int(columns.alignment[k]))
    # An op that reads and writes the same storage passes it on.
    read, write = row[reading.item], row[writing.item]
    # ``isin`` would import masked arrays, which takes longer than checking a small plan.
    known, asked = np.sort(reading.owner * count + read), writing.owner * count + write
    passed = np.searchsorted(known, asked) < np.searchsorted(known, asked, "right")
    placed = np.flatnonzero(~outside)
    rows, size = placed.tolist(), columns.size[storages[placed]]
    # Each size is below 2**62: a sum of floats tells if the total may be above that.
    many = sum(size.tolist()) if size.sum(dtype=np.float64) > LIMIT / 2 else 0
    if max(many, *(alignment[k] for k in rows), 0) >= LIMIT:
        raise VerificationError("the sizes or an alignment of the model exceed 2**62 bytes")
    return Problem(
        names=tuple([columns.names[k] for k in storages[placed].tolist()]),
        lower=lower[placed],
        upper=upper[placed],
        size=size,
        alignment=np.array([alignment[k] for k in rows], np.int64),
        reads=np.bincount(read, minlength=count)[placed],
        writes=np.bincount(write[~passed], minlength=count)[placed],
    )
