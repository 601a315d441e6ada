"""Script of a simulation: its writes and checks of bytes, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cpplan.model.errors import VerificationError
from cpplan.model.problem import Ints, Problem
from cpplan.model.tensor import LIMIT
from cpplan.verification.access_trace import Access
from cpplan.verification.rectangles import cut_gaps
from cpplan.verification.runs import Place, Retention

# Bytes [begin, end) come from write number ``serial``, from its byte ``start`` on.
Content = list[tuple[int, int, int, int]]


@dataclass(frozen=True, slots=True)
class Script:
    """Writes and checks in the order in which they happen.

    Attributes
    ----------
    names, size, alignment, first_step
        For each buffer: name, size and alignment in bytes, and the step of its first access.
    writes
        True for a write, False for a check; shape ``(n,)``, like all columns below.
    serial
        Number of the write, from 1; for a check, of the write whose bytes must be found; for a
        copy, of the write that its bytes come from.
    start
        Position, in that write, of the first byte.
    buffer, begin, end
        Row of the buffer, and the bytes relative to its offset.
    step
        Step of the access.
    tensors, op_names
        Tensor accessed, and op that does so; empty for a bare problem and for the caller.
    """

    names: Sequence[str]
    size: Ints
    alignment: Ints
    first_step: Ints
    writes: NDArray[np.bool_]
    serial: Ints
    start: Ints
    buffer: Ints
    begin: Ints
    end: Ints
    step: Ints
    tensors: Sequence[str | None]
    op_names: Sequence[str | None]

    def subject(self, row: int) -> str:
        """Subject of an access, for messages: a buffer, or a tensor in it and the op that wrote."""
        name, tensor, op = self.names[self.buffer[row]], self.tensors[row], self.op_names[row]
        if tensor is None:
            return f"buffer {name!r}"
        where = f"tensor {tensor!r}" + (f" in buffer {name!r}" if name != tensor else "")
        return f"{where} (op {op!r})" if op is not None and self.writes[row] else where


def from_accesses(accesses: Iterable[Access]) -> Script:
    """Script of a program.

    A check looks for the last write to each of its bytes in a memory where every retention has
    bytes of its own; it skips bytes that nobody wrote.

    Raises
    ------
    VerificationError
        If an alignment exceeds 2**62 bytes.
    """
    rows: dict[Retention, int] = {}
    first_step: list[int] = []
    content: dict[Retention, Content] = {}
    table_rows: list[tuple[bool, int, int, int, int, int, int]] = []
    tensors: list[str | None] = []
    op_names: list[str | None] = []
    serial = 0
    for step, op, (tensor, retention, begin, end), writes, source, _ in accesses:
        if retention not in rows:
            rows[retention] = len(rows)
            first_step.append(step)
            content[retention] = []
        if writes and begin < end:
            new = [(begin, end, serial + 1, 0)]
            if source is not None:
                new = copied_content(content[source.retention], source, begin, serial + 1)
            serial += 1
            content[retention] = [
                *clip(content[retention], 0, begin),
                *clip(content[retention], end, retention.size),
            ]
            content[retention] += new
        for low, high, written, start in clip(content[retention], begin, end):
            table_rows.append((writes, written, start, rows[retention], low, high, step))
            tensors.append(tensor)
            op_names.append(op)
    if max((retention.alignment for retention in rows), default=0) >= LIMIT:
        raise VerificationError("an alignment of the model exceeds 2**62 bytes")
    table = np.array(table_rows, np.int64).reshape(-1, 7)
    is_write, serials, starts, buffer, begins, ends, steps = table.T
    return Script(
        [retention.name for retention in rows],
        np.array([retention.size for retention in rows], np.int64),
        np.array([retention.alignment for retention in rows], np.int64),
        np.array(first_step, np.int64),
        is_write.astype(bool),
        serials,
        starts,
        buffer,
        begins,
        ends,
        steps,
        tensors,
        op_names,
    )


def from_problem(problem: Problem) -> Script:
    """Script of a bare problem: a write and a check for each rectangle of steps × bytes.

    Destroyed bytes stay destroyed: one check at the last step of each rectangle finds as much as
    checks at all its steps. A window directly after a full rectangle keeps the bytes written there.
    """
    shapes = cut_gaps(problem)
    # A buffer's rectangles come in the order of their steps.
    by_buffer = np.argsort(shapes.buffer, kind="stable")
    buffer, lower, upper, begin, end = (column[by_buffer] for column in shapes)
    height = end - begin
    kept = np.zeros(len(buffer), bool)
    kept[1:] = (
        (buffer[1:] == buffer[:-1])
        & (lower[1:] == upper[:-1])
        & (height[:-1] == problem.size[buffer[:-1]])
        & (height[1:] < problem.size[buffer[1:]])
    )
    count, written = len(buffer), np.flatnonzero(~kept)
    # Serial numbers by step; a kept window has the number of the rectangle before it.
    written = written[np.argsort(lower[written], kind="stable")]
    serial = np.zeros(count, np.int64)
    serial[written] = np.arange(1, len(written) + 1)
    serial = serial[np.maximum.accumulate(np.where(kept, 0, np.arange(count)))]
    held = np.argsort(serial, kind="stable")
    step = np.concatenate([lower[written], upper[held] - 1])
    # Within a step, writes come before checks, and both in the order of their numbers.
    order = np.argsort(step, kind="stable")
    shape, none = np.concatenate([written, held])[order], [None] * len(order)
    number, begins = serial[shape], begin[shape]
    return Script(
        problem.names,
        problem.size,
        problem.alignment,
        problem.lower,
        order < len(written),
        number,
        begins - begin[written][number - 1],
        buffer[shape],
        begins,
        end[shape],
        step[order],
        none,
        none,
    )


def copies(script: Script) -> bool:
    """True if two writes have the same number, because one only copies bytes."""
    return bool(np.bincount(script.serial[script.writes]).max(initial=0) > 1)


def copied_content(content: Content, source: Place, begin: int, unknown: int) -> Content:
    """Content from byte ``begin`` on after ``source`` is copied there.

    Bytes that nobody wrote are copied too, with the number ``unknown``.
    """
    move, at = begin - source.begin, source.begin
    pieces = []
    for low, high, written, start in sorted(clip(content, source.begin, source.end)):
        if at < low:
            pieces.append((at + move, low + move, unknown, at - source.begin))
        pieces.append((low + move, high + move, written, start))
        at = high
    if at < source.end:
        pieces.append((at + move, source.end + move, unknown, at - source.begin))
    return pieces


def clip(content: Content, begin: int, end: int) -> Content:
    """The part of a content that lies in bytes ``[begin, end)``."""
    return [
        (max(low, begin), min(high, end), serial, start + max(0, begin - low))
        for low, high, serial, start in content
        if max(low, begin) < min(high, end)
    ]
