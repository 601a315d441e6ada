"""The result of packing into several pools."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.model.plan import Status
from cpplan.model.problem import Ints


@dataclass(frozen=True, slots=True, eq=False)
class PooledPacking:
    """A layout over several pools, and the bounds proved.

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
        Name of the method that found the layout, and of the proof of each level's bound, or of the
        proof that nothing fits.
    message
        The reason for having no layout, if there is none.
    """

    status: Status
    pool: Ints | None
    offset: Ints | None
    objective_value: tuple[int | float, ...]
    objective_bound: tuple[int | float, ...]
    found_by: str | None
    bound_by: tuple[str, ...]
    message: str | None = None
