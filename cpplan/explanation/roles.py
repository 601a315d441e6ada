"""Roles of the buffers live at a step: their use by the op that runs, or by a later op."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from cpplan.aliasing.lives import kept_storages
from cpplan.model.explained import Role
from cpplan.model.graph import Op
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.program.unrolled import unroll


class Step(NamedTuple):
    """A step: the op that runs, and its use of the live buffers.

    Attributes
    ----------
    op, kind
        Name and kind of the op.
    roles
        Buffer -> its use: read, written, workspace, or in a body of the op; else it waits for a
        later op or for the caller. A buffer that is both read and written is ``written``.
    until
        Buffer -> the last op to access it, or ``None`` if it is kept to the end for the caller.
    """

    op: str
    kind: str
    roles: dict[str, Role]
    until: dict[str, str | None]


def step_of(program: Program, step: int, buffers: Mapping[str, int], residency: Residency) -> Step:
    """The op that runs at a step, and its use of some buffers. O(tensors + accesses).

    Parameters
    ----------
    buffers
        Names of live buffers, with the ends of their lifespans.

    Examples
    --------
    >>> from cpplan.program.anf import to_anf
    >>> from cpplan.model.graph import Graph, Op, Tensor
    >>> tensors = Tensor("x", 8, kind="input"), Tensor("t", 8), Tensor("y", 8, kind="output")
    >>> f, g = Op("f", inputs=("x",), outputs=("t",)), Op("g", inputs=("x", "t"), outputs=("y",))
    >>> program = to_anf(Graph("tiny", tensors, (f, g)))
    >>> at = step_of(program, 0, {"x": 2, "t": 2}, Residency())
    >>> at.op, at.roles, at.until
    ('f', {'x': 'read', 't': 'written'}, {'x': 'g', 't': 'g'})
    """
    unrolled = unroll(program, residency)
    op = unrolled.graph.ops[unrolled.order[_place(program, step)]]
    root = unrolled.graph.root
    known: dict[str, Role] = {}
    for names, role in ((op.inputs, "read"), (op.outputs, "written"), (op.workspaces, "workspace")):
        known |= dict.fromkeys((root[name][0] for name in names), role)  # type: ignore[arg-type]
    for name in buffers:
        if name not in known:
            known[name] = "waits" if name in root else "body"
    kept = kept_storages(unrolled.graph, residency)
    named = _op_at(program, step)
    return Step(
        named.name,
        named.kind,
        {name: known[name] for name in buffers},
        {
            name: None if name in kept else _op_at(program, upper - 1).name
            for name, upper in buffers.items()
        },
    )


def _place(program: Program, step: int) -> int:
    """Position of the op that runs at a step."""
    return bisect_right(program.starts, step, hi=len(program.order)) - 1


def _op_at(program: Program, step: int) -> Op:
    return program.graph.ops[program.order[_place(program, step)]]
