"""The result of ``plan_sizes``: one plan, and the arena it needs at every size.

A plan for several sizes as text, for ``str(plan)`` and ``cpplan sizes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

from cpplan.model.byte_sizes import format_bytes
from cpplan.model.methods import method
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Status
from cpplan.model.printable import MESSAGE, printable
from cpplan.model.text_table import format_table

if TYPE_CHECKING:
    import pandas


class PlannedSize(NamedTuple):
    """One of the sizes.

    Attributes
    ----------
    values
        Values of the variables.
    arena
        Bytes needed of the arena, ``None`` if there is no plan.
    lower_bound
        Lower bound on the arena at this size, for layouts with the same offsets at all sizes.
    alone, alone_bound
        Bytes needed if this size is planned alone, and a bound on them.
    capacity
        Limit on the arena, or ``None``.
    """

    values: Mapping[str, int]
    arena: int | None
    lower_bound: int
    alone: int
    alone_bound: int
    capacity: int | None = None

    @property
    def label(self) -> str:
        """Text for the values of this size."""
        return size_label(self.values)

    @property
    def price(self) -> float | None:
        """Price of the same offsets at all sizes: ``arena / alone``, 1 if both are 0."""
        if self.arena is None:
            return None
        return self.arena / self.alone if self.alone else 1.0

    @property
    def status(self) -> str:
        """``optimal`` if the arena meets its bound, else ``feasible``; ``none`` without a plan."""
        if self.arena is None:
            return "none"
        return "optimal" if self.arena == self.lower_bound else "feasible"


class PlannedLevel(NamedTuple):
    """A level that was minimised, with the earlier levels at their best values."""

    name: str
    value: int
    bound: int


@dataclass(frozen=True, eq=False, slots=True)
class SizesPlan:
    """One plan for several sizes: the offsets are the same, the arena depends on the size.

    No buffer moves if the arena grows from one size to another.

    Attributes
    ----------
    status
        ``optimal``: every level is proved smallest, given the earlier levels. ``feasible``: a
        layout, not proved best. ``infeasible``: proved not to fit the capacities. ``unknown``: no
        layout within the capacities was found, and none is excluded. All statuses refer to the
        order of ops and the aliases in place of ``plan``.
    sizes
        The sizes, in the given order.
    levels
        Levels that were minimised, one after another. Prices are in thousandths.
    plan
        Offsets, order and shapes. ``plan.at(N=8)`` gives those of one size, and views into an
        arena. It holds for every size of the list, and for other sizes if all buffers are at most
        as large as at a size of the list. The columns of ``plan`` are those of the size with the
        largest arena, ``plan.peak``.
    runtime
        Seconds, or ``None`` if it came from a file.
    """

    status: Status
    sizes: tuple[PlannedSize, ...]
    levels: tuple[PlannedLevel, ...]
    plan: Plan
    runtime: float | None = None

    def __eq__(self, other: object) -> bool:
        """True if everything but the runtime is equal."""
        if not isinstance(other, SizesPlan):
            return NotImplemented
        mine, others = ((each.status, each.sizes, each.levels, each.plan) for each in (self, other))
        return mine == others

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return format_sizes(self)

    def to_frame(self) -> pandas.DataFrame:
        """One row a size: a column for each variable, then as in :class:`PlannedSize`.

        Columns ``arena``, ``lower_bound``, ``alone``, ``alone_bound``, ``capacity``, ``price``,
        ``status``; ``arena`` and ``price`` are missing if there is no plan.
        """
        import pandas

        rows = [{**size.values, **_numbers(size)} for size in self.sizes]
        frame: pandas.DataFrame = pandas.DataFrame(rows)
        return frame

    def save(self, path: str | PathLike[str], *, clock: bool = False) -> None:
        """Write the plan as JSON, whole or not at all; ``clock=True`` adds the runtime."""
        method("SizesPlan.save")(self, path, clock=clock)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> SizesPlan:
        """Read what :meth:`save` wrote.

        Raises
        ------
        InputError
            If the file cannot be read or holds something else; the message names the file.
        """
        found: SizesPlan = method("SizesPlan.load")(path)
        return found


def size_label(values: Mapping[str, int]) -> str:
    """Text for the values of variables."""
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _numbers(size: PlannedSize) -> dict[str, Any]:
    columns = ("arena", "lower_bound", "alone", "alone_bound", "capacity", "price", "status")
    return {key: getattr(size, key) for key in columns}


def format_sizes(found: SizesPlan) -> str:
    """Text of a plan for several sizes: the levels minimised, and a table of the sizes."""
    levels = ", ".join(
        f"{printable(name)} {value}" + ("" if value == bound else f" (at least {bound})")
        for name, value, bound in found.levels
    )
    rows = {
        "sizes": printable(found.plan.name),
        "status": found.status,
        "minimised": levels,
        "buffers": str(len(found.plan.buffers)),
        "method": found.plan.found_by and printable(found.plan.found_by),
        "runtime": None if found.runtime is None else f"{found.runtime:.3f} s",
        "reason": found.plan.message and printable(found.plan.message, MESSAGE),
    }
    head = "".join(f"{key:<12} {value}\n" for key, value in rows.items() if value is not None)
    cells = [
        (
            printable(size.label),
            "" if size.arena is None else str(size.arena),
            "" if size.arena is None else format_bytes(size.arena),
            str(size.lower_bound),
            str(size.alone),
            "" if size.price is None else f"{size.price:.3f}",
            "" if size.capacity is None else str(size.capacity),
            size.status,
        )
        for size in found.sizes
    ]
    header = ("size", "arena", "", "bound", "alone", "price", "capacity", "status")
    return f"{head}\n{format_table(header, cells, left=(0, 2, 7))}"
