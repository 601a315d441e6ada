"""A lower bound on the peak of every splitting: bytes that one piece or the boundary needs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

from cpplan.model.axes import Axis
from cpplan.model.dtypes import BITS
from cpplan.model.graph import Op
from cpplan.model.printable import printable
from cpplan.splitting.problem import SplitProblem

NAME = "least piece"


class LeastPiece(NamedTuple):
    """Bytes that every splitting needs, and the op that needs them.

    ``op`` is ``None`` if the model's inputs or outputs need them; ``whole`` is true if the op
    cannot be split.
    """

    bytes: int
    op: str | None
    whole: bool = False


def describe(least: LeastPiece) -> str:
    """The part of a model that needs the bytes, as text.

    Examples
    --------
    >>> describe(LeastPiece(8, "softmax", whole=True))
    'op softmax, which cannot be split,'
    """
    if least.op is None:
        return "the boundary of the model, its inputs or its outputs,"
    how = "which cannot be split" if least.whole else "in pieces"
    return f"op {printable(least.op)}, {how},"


def least_piece(problem: SplitProblem) -> LeastPiece:
    """Bytes that one op or the boundary needs, however ops are split.

    A piece needs all bytes that it accesses. Along a tensor's axis that is a window of an op's
    axis, a piece accesses at least the shortest interval; along any other axis it accesses
    everything. An op without axes accesses its tensors whole. The inputs are live at the first
    step, together with the outputs of the first run, and the model's outputs are live at the end.
    If tensors may share bytes, outputs that may be written in place do not count, and among
    storages that may be placed in one another only the largest counts; as in
    :func:`cpplan.remat.footprint.shared_footprint`.
    """
    size = problem.size
    shared = problem.sharing

    def storage(name: str) -> int:
        # Here a view never counts as a storage of its own.
        return problem.storage(problem.graph.root[name][0])

    copied = {
        storage(name)
        for op in problem.ops
        for part, whole, _ in (op.placements if "placement" in shared else ())
        for name in (part, whole)
    }
    given = {m: size[m] for m in range(len(size)) if problem.given[m]}
    stays = _staying(problem)
    throughout = stays.keys() & given.keys()
    best = max(
        LeastPiece(_sum(given, copied), None),
        LeastPiece(_sum(stays, copied), None),
        key=lambda found: found.bytes,
    )
    least_start: int | None = None
    for op in problem.ops:
        accessed = _accessed(problem, op)
        over = {storage(o) for o, _ in op.in_place} if "in place" in shared else set()
        own = {m: least for m, least in accessed.items() if m not in over and m not in throughout}
        need = sum(least for m, least in own.items() if m not in copied)
        need += max((least for m, least in own.items() if m in copied), default=0)
        need += sum(stays[m] for m in throughout)
        if need > best.bytes:
            best = LeastPiece(need, op.name, not _axes(problem, op))
        written = {storage(name) for name in op.outputs + op.workspaces}
        new = sum(own.get(m, 0) for m in written if not problem.given[m] and m not in copied)
        if all(problem.given[storage(name)] for name in op.inputs):
            least_start = new if least_start is None else min(least_start, new)
    start = _sum(given, copied) + (least_start or 0)
    return max(best, LeastPiece(start, None), key=lambda found: found.bytes)


def _sum(sizes: Mapping[int, int], copied: Collection[int]) -> int:
    """Bytes of storages that are live together; the ones in ``copied`` count as their largest."""
    apart = sum(size for m, size in sizes.items() if m not in copied)
    return apart + max((size for m, size in sizes.items() if m in copied), default=0)


def _staying(problem: SplitProblem) -> dict[int, int]:
    """Storage that stays in the arena to the end -> bytes that must stay.

    If a storage may be cut, only the elements of its outputs must stay.
    """
    residency, root = problem.residency, problem.graph.root
    kinds = {"output"}
    kinds |= {"input"} if residency.inputs == "keep" else set()
    kinds |= {"constant"} if residency.constants == "keep" else set()
    found: dict[int, int] = {}
    for tensor in problem.graph.tensors:
        if tensor.kind in kinds:
            m = problem.storage(root[tensor.name][0])
            need = problem.size[m]
            if tensor.name in problem.lines and tensor.shape is not None:
                need = min(need, math.prod(tensor.shape) * BITS[str(tensor.dtype)] // 8)
            found[m] = max(found.get(m, 0), need)
    return found


def _axes(problem: SplitProblem, op: Op) -> list[Axis]:
    """Axes along which an op may be cut."""
    return [axis for axis in op.axes if problem.lines.steps(op, axis) is not None]


def _accessed(problem: SplitProblem, op: Op) -> dict[int, int]:
    """Least bytes of each storage that a piece of an op accesses."""
    graph, lines, axes = problem.graph, problem.lines, _axes(problem, op)
    found: dict[int, int] = {}
    for name in op.tensors:
        m = problem.storage(graph.root[name][0])
        tensor, least = graph.tensor[name], problem.size[m]
        if name in lines and least and tensor.shape is not None:
            shape = list(tensor.shape)
            for axis in axes:
                window = axis.window.get(name)
                if window is not None and lines.has(window):
                    low, high = problem.intervals(window, axis)
                    shortest = max(0, int((high - low).min())) * lines.grain[name][window.axis]
                    shape[window.axis] = min(shape[window.axis], shortest)
            least = math.prod(shape) * BITS[str(tensor.dtype)] // 8
        elif graph.root[name] != (name, 0):
            least = min(least, tensor.nbytes)
        found[m] = max(found.get(m, 0), least)
    return found
