"""Buffers with a set of sizes, and one packing problem whose layouts are valid at all of them.

Offsets are the same at every size. Two buffers live together must not overlap at any size at which
both hold bytes: the lower buffer needs room for the most bytes that it has at any of these sizes.

If all buffers hold bytes at every size, the layouts are those of *one* problem with every buffer at
its largest size; its peak is the largest arena. Otherwise, a buffer that is empty at some size
makes room for others at that size only. The merged problem then repeats the lifespans once for each
pattern of empty buffers, one after another. The bytes of a buffer differ between these repetitions;
they are expressed as windows of gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.byte_sizes import format_bytes
from cpplan.model.errors import InputError
from cpplan.model.names import check_names
from cpplan.model.plan_data import Status
from cpplan.model.problem import Gap, Ints, Problem

if TYPE_CHECKING:
    import pandas

    from cpplan.model.problem import Ints

_HIGHEST = 2**62


@dataclass(frozen=True, eq=False)
class SizeSet:
    """Buffers, and the bytes of each at every size.

    Attributes
    ----------
    problem
        The buffers in one pool; their sizes are not read. Gaps have no windows.
    bytes
        Bytes of each buffer at every size, shape ``(sizes, n)``.
    labels
        Unique names of the sizes; their numbers by default.

    Raises
    ------
    InputError
        If there is no size, ``bytes`` has another shape or is negative, or gaps have windows.
    """

    problem: Problem
    bytes: Ints
    labels: Sequence[str] = ()

    def __post_init__(self) -> None:
        given, count = np.asarray(self.bytes), len(self.problem)
        if given.ndim != 2 or given.shape[1] != count or len(given) == 0:
            raise InputError(f"bytes has shape {given.shape}: expected (sizes, {count})")
        if given.size and (given.dtype.kind not in "iu" or given.max() >= _HIGHEST):
            raise InputError(f"bytes must hold integers below 2**62, not {given.dtype}")
        table = given.astype(np.int64)
        table.flags.writeable = False
        object.__setattr__(self, "bytes", table)
        labels = tuple(self.labels) or tuple(str(k) for k in range(len(table)))
        object.__setattr__(self, "labels", labels)
        if len(labels) != len(table):
            raise InputError(f"there are {len(labels)} labels for {len(table)} sizes")
        check_names("a size's label", labels)
        if len(set(labels)) < len(labels):
            twice = next(label for k, label in enumerate(labels) if label in labels[:k])
            raise InputError(f"two sizes have the label {twice!r}")
        if (table < 0).any():
            k, row = (int(x[0]) for x in np.nonzero(table < 0))
            raise InputError(
                f"buffer {self.problem.names[row]!r}: size must not be negative at size "
                f"{labels[k]!r} (size = {table[k, row]})"
            )
        if len(self.problem.pools) != 1:
            raise InputError("a layout for several sizes needs a problem of one pool")
        for row, gaps in self.problem.gaps.items():
            if any(gap.begin < gap.end for gap in gaps):
                raise InputError(
                    f"buffer {self.problem.names[row]!r}: its gaps have windows, and their bytes "
                    "at other sizes are not known"
                )
        alignment = self.problem.pools[0].alignment
        object.__setattr__(self, "problem", self.problem.aligned_to(alignment))

    def __len__(self) -> int:
        return len(self.bytes)

    def at(self, size: int) -> Problem:
        """The problem at one size alone."""
        return replace(self.problem, size=self.bytes[size])

    def arenas(self, offset: Ints) -> Ints:
        """Bytes that a layout needs at every size, shape ``(sizes,)``."""
        ends: Ints = (offset + self.bytes).max(axis=1, initial=0)
        return ends

    @cached_property
    def merged(self) -> Problem:
        """Problem whose layouts are valid at every size; its peak is the largest arena."""
        layers = self._layers()
        if len(layers) == 1:
            return replace(self.problem, size=layers[0])
        problem, most = self.problem, self.bytes.max(axis=0)
        period = int(problem.upper.max())
        gaps = {}
        for row in range(len(problem)):
            found = list(self._gaps(row, [int(layer[row]) for layer in layers], period))
            if found:
                gaps[row] = found
        upper = problem.upper + (len(layers) - 1) * period
        return replace(problem, size=most, upper=upper, gaps=gaps)

    def _layers(self) -> list[Ints]:
        """Most bytes of each buffer for every pattern of empty buffers.

        A pattern is left out if another has at least as many bytes in every buffer.
        """
        empty = np.unique(self.bytes > 0, axis=0)
        most = [self.bytes[((self.bytes > 0) == which).all(axis=1)].max(axis=0) for which in empty]
        return [
            layer
            for k, layer in enumerate(most)
            if not any((layer <= other).all() for j, other in enumerate(most) if j != k)
        ]

    def _gaps(self, row: int, held: Sequence[int], period: int) -> Sequence[Gap]:
        """Gaps of a buffer that holds ``held[k]`` bytes during the ``k``-th repetition."""
        problem = self.problem
        lower, upper, most = int(problem.lower[row]), int(problem.upper[row]), max(held)
        found = []
        for number, size in enumerate(held):
            start = number * period
            if number and lower + start > upper + start - period:
                found.append(Gap(upper + start - period, lower + start))
            step = lower
            for gap in [*sorted(problem.gaps.get(row, ())), Gap(upper, upper)]:
                if step < gap.lower and size < most:
                    found.append(Gap(step + start, gap.lower + start, 0, size))
                if gap.lower < gap.upper:
                    found.append(Gap(gap.lower + start, gap.upper + start))
                step = gap.upper
        return found


@dataclass(frozen=True, eq=False, slots=True)
class SizesLayout:
    """Offsets that are the same at every size, and the arena needed at each size.

    No buffer moves if the arena grows from one size to another. The layout is also valid for other
    sizes if every buffer is at most as large as at one of the planned sizes.

    Attributes
    ----------
    name
        Name of the planned model or file.
    status
        ``optimal``: every level is proved smallest, given the earlier levels. ``feasible``: a
        layout, not proved best. ``infeasible``: proved not to fit the capacities. ``unknown``: no
        layout within the capacities was found, and none is excluded.
    buffers
        Names of the buffers.
    labels
        Names of the sizes.
    bytes
        Bytes of every buffer at every size, shape ``(sizes, n)``.
    offset
        Byte addresses, the same at every size, shape ``(n,)``, or ``None`` if there is no plan.
    arena
        Bytes needed at every size, ``max(offset + bytes)``, shape ``(sizes,)``, or ``None``.
    lower_bound
        Lower bound on the arena at every size for common offsets, shape ``(sizes,)``.
    alone_offset
        Offsets planned for each size alone, shape ``(sizes, n)``; a runtime may prefer them.
    alone, alone_bound
        Bytes needed if a size is planned alone, and a bound on them, shape ``(sizes,)``.
    levels, value, bound
        Names of the levels that were minimised in turn, their values, and bounds. Each bound holds
        for layouts that are best on the earlier levels. A price is in thousandths.
    capacities
        Limit of each size, or none.
    found_by
        Name of the method that found the offsets.
    runtime
        Seconds.
    """

    name: str
    status: Status
    buffers: tuple[str, ...]
    labels: tuple[str, ...]
    bytes: Ints
    offset: Ints | None
    arena: Ints | None
    lower_bound: Ints
    alone_offset: Ints
    alone: Ints
    alone_bound: Ints
    levels: tuple[str, ...]
    value: tuple[int, ...]
    bound: tuple[int, ...]
    capacities: tuple[int | None, ...] = ()
    found_by: str | None = None
    runtime: float | None = None

    @property
    def price(self) -> np.ndarray | None:
        """Arena / arena of that size planned alone, shape ``(sizes,)``; 1 where both are 0."""
        if self.arena is None:
            return None
        return np.where(self.alone == 0, 1.0, self.arena / np.maximum(self.alone, 1))

    def to_frame(self) -> pandas.DataFrame:
        """One row a size: ``arena``, ``lower_bound``, ``alone``, ``alone_bound``, ``price``.

        ``arena`` and ``price`` are missing if there is no plan.
        """
        import pandas

        columns = {
            "size": self.labels,
            "arena": self.arena,
            "lower_bound": self.lower_bound,
            "alone": self.alone,
            "alone_bound": self.alone_bound,
            "price": self.price,
        }
        frame: pandas.DataFrame = pandas.DataFrame(columns)
        return frame

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.status}, {len(self.buffers)} buffers"]
        for k, label in enumerate(self.labels):
            alone = f"{format_bytes(int(self.alone[k]))} alone"
            if self.arena is None or self.price is None:
                lines.append(f"  {label}: {alone}")
            else:
                arena = format_bytes(int(self.arena[k]))
                lines.append(f"  {label}: {arena}, {self.price[k]:.3f} x {alone}")
        return "\n".join(lines)
