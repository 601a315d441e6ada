"""What comes of packing into several pools."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.model.plan import Status
from cpplan.model.problem import Ints


@dataclass(frozen=True, slots=True, eq=False)
class PooledPacking:
    """A layout over several pools, and what was proved.

    Attributes
    ----------
    status
        As a plan's.
    pool, offset
        Position in ``problem.pools`` and byte offset of every buffer, shape ``(n,)``; ``None`` if
        nothing was found that fits.
    objective_value, objective_bound
        As a plan's; no value without a layout.
    found_by, bound_by
        What found the layout; what proves each level's bound, or that nothing fits.
    message
        Why there is no layout, where there is none.
    """

    status: Status
    pool: Ints | None
    offset: Ints | None
    objective_value: tuple[int | float, ...]
    objective_bound: tuple[int | float, ...]
    found_by: str | None
    bound_by: tuple[str, ...]
    message: str | None = None
