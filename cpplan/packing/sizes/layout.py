"""One layout for several sizes, and its price compared with a separate plan for each size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.byte_sizes import format_bytes
from cpplan.model.plan_data import Status

if TYPE_CHECKING:
    import pandas

    from cpplan.model.problem import Ints


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

    Examples
    --------
    >>> from cpplan.model.problem import Problem
    >>> from cpplan.packing.sizes.solve import layout_for_sizes
    >>> problem = Problem(("a", "b"), lower=[0, 0], upper=[1, 1], size=[0, 0])
    >>> plan = layout_for_sizes(problem, np.array([[1, 2], [100, 50]]), prefix_stable=True)
    >>> plan.status, plan.offset.tolist(), plan.arena.tolist(), plan.price.tolist()
    ('optimal', [50, 0], [51, 150], [17.0, 1.0])
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

        Examples
        --------
        >>> from cpplan.model.problem import Problem
        >>> from cpplan.packing.sizes.solve import layout_for_sizes
        >>> problem = Problem(("a",), lower=[0], upper=[1], size=[0])
        >>> print(layout_for_sizes(problem, np.array([[4], [8]])).to_frame().to_string(index=False))
        size  arena  lower_bound  alone  alone_bound  price
           0      4            4      4            4    1.0
           1      8            8      8            8    1.0
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
