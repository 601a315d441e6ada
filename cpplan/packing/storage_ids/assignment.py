"""Assignments of buffers to storages: storage ids, sizes of the storages, and bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cpplan.model.byte_sizes import format_bytes
from cpplan.model.errors import InputError
from cpplan.model.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpplan.model.problem import Ints, Problem
    from cpplan.model.shapes import Dim


@dataclass(frozen=True, slots=True, eq=False)
class StorageAssignment:
    """Buffers in whole storages.

    Attributes
    ----------
    name
        Name of the planned model or file.
    status
        ``optimal``: the total equals the bound. ``feasible``: not proved smallest.
    buffers
        Names of the buffers.
    storage
        Storage number of each buffer, shape ``(n,)``; storages are numbered by first use.
    bytes
        Bytes of each storage, shape ``(m,)``.
    lower_bound
        Proved lower bound on the total, bytes; ``None`` if there is none.
    groups
        Key of each storage (its dtype, scope or device), if buffers of different groups must not
        share.
    found_by, bound_by
        Name of the method that found the assignment; name of the bound's proof.
    runtime
        Seconds, or ``None`` if nothing ran.
    expressions
        Bytes of each storage without a size bound, as an expression; such storages count 0 in
        ``bytes``. Bounded variables have their bounds as values.

    Examples
    --------
    >>> from cpplan.model.problem import Problem
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 6])
    >>> shared = make_assignment(problem, np.array([0, 1, 0]), found_by="hand")
    >>> shared.total, shared.bytes.tolist(), shared.storage_of("c"), shared.members(0)
    (14, [6, 8], 0, ('a', 'c'))
    """

    name: str
    status: Literal["optimal", "feasible"]
    buffers: tuple[str, ...]
    storage: Ints
    bytes: Ints
    lower_bound: int | None = None
    groups: tuple[str, ...] | None = None
    found_by: str | None = None
    bound_by: str | None = None
    runtime: float | None = None
    expressions: Mapping[int, int | Dim] = field(default_factory=dict)

    def __len__(self) -> int:
        """Number of storages."""
        return len(self.bytes)

    @property
    def total(self) -> int:
        """Bytes of all storages together, without those that have no size bound."""
        return int(self.bytes.sum())

    @property
    def gap(self) -> float | None:
        """Share of the total that might still be saved: ``(total - lower_bound) / total``."""
        if self.lower_bound is None:
            return None
        return (self.total - self.lower_bound) / self.total if self.total else 0.0

    def storage_of(self, buffer: str) -> int:
        """Number of the storage that a buffer lies in.

        Raises
        ------
        InputError
            If the buffer is unknown.
        """
        if buffer not in self.buffers:
            raise InputError(f"no storage holds a buffer {buffer!r}")
        return int(self.storage[self.buffers.index(buffer)])

    def members(self, storage: int) -> tuple[str, ...]:
        """Names of the buffers in a storage."""
        return tuple(self.buffers[row] for row in np.flatnonzero(self.storage == storage).tolist())

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values, without clock readings."""
        return {
            "name": self.name,
            "status": self.status,
            "total": self.total,
            "lower_bound": self.lower_bound,
            "gap": self.gap,
            "found_by": self.found_by,
            "bound_by": self.bound_by,
            "storages": [
                {
                    "bytes": str(self.expressions[k]) if k in self.expressions else size,
                    **({} if self.groups is None else {"group": self.groups[k]}),
                }
                for k, size in enumerate(self.bytes.tolist())
            ],
            "buffers": [
                {"name": name, "storage": storage}
                for name, storage in zip(self.buffers, self.storage.tolist(), strict=True)
            ],
        }

    def __str__(self) -> str:
        exact = "" if self.total < 10240 else f" ({self.total} B)"
        method = " / ".join(part for part in (self.found_by, self.bound_by) if part is not None)
        rows = {
            "storages": printable(self.name),
            "status": self.status,
            "total": f"{format_bytes(self.total)}{exact}",
            "lower bound": format_bytes(self.lower_bound),
            "gap": "unknown" if self.gap is None else f"{self.gap:.2%}",
            "number": f"{len(self)}",
            "any size": self._describe_expressions(),
            "buffers": f"{len(self.buffers)}",
            "method": method or None,
            "runtime": f"{self.runtime:.3f} s" if self.runtime is not None else None,
        }
        return "\n".join(f"{key:<12} {value}" for key, value in rows.items() if value is not None)

    def _describe_expressions(self) -> str | None:
        if not self.expressions:
            return None
        return ", ".join(f"storage {k}: {size} B" for k, size in self.expressions.items())


def make_assignment(
    problem: Problem,
    storage: Ints,
    keys: Sequence[str] | None = None,
    *,
    lower_bound: int | None = None,
    found_by: str | None = None,
    bound_by: str | None = None,
    runtime: float | None = None,
) -> StorageAssignment:
    """The assignment with the storage number of each buffer, shape ``(n,)``.

    Storages are as large as their largest buffer, and renumbered by first use. ``keys`` are the
    groups of the buffers.
    """
    by_first_use = np.lexsort((np.arange(len(problem)), problem.lower))
    numbers = dict.fromkeys(storage[by_first_use].tolist())
    number = {old: new for new, old in enumerate(numbers)}
    renumbered = np.array([number[old] for old in storage.tolist()], np.int64)
    sizes = np.zeros(len(number), np.int64)
    np.maximum.at(sizes, renumbered, problem.size)
    groups = None
    if keys is not None:
        of = dict(zip(renumbered.tolist(), keys, strict=True))
        groups = tuple(of[number] for number in range(len(sizes)))
    return StorageAssignment(
        name=problem.name,
        status="optimal" if lower_bound == int(sizes.sum()) else "feasible",
        buffers=tuple(problem.names),
        storage=renumbered,
        bytes=sizes,
        lower_bound=lower_bound,
        groups=groups,
        found_by=found_by,
        bound_by=bound_by,
        runtime=runtime,
    )
