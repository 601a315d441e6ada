""":func:`pack`: one packing problem from arrays to offsets, without names, graphs or plans."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cpplan.model.errors import InputError, error_without_plan
from cpplan.model.plan_data import Status
from cpplan.model.problem import Ints, Problem
from cpplan.solving.pipeline import solve


class Packing(NamedTuple):
    """Offsets of buffers in one arena, with a proof of how small it can be.

    Attributes
    ----------
    offsets
        Byte offset of each buffer, shape ``(n,)``.
    peak
        Bytes of the arena.
    bound
        Bytes that every packing needs; equal to ``peak`` if the packing is proved smallest.
    status
        ``"optimal"`` if it is proved smallest, else ``"feasible"``.
    """

    offsets: Ints
    peak: int
    bound: int
    status: Status


def pack(
    lower: ArrayLike,
    upper: ArrayLike,
    size: ArrayLike,
    *,
    alignment: ArrayLike = 1,
    capacity: int | str | None = None,
    time_limit: float = 10.0,
    workers: int | None = None,
    seed: int = 0,
    deterministic: bool = False,
) -> Packing:
    """Place buffers in one arena so that its peak is smallest; those live at once never overlap.

    The packing is checked before it is returned, like every plan of :func:`cpplan.solve`, which
    also orders ops, shares storage, and has several pools.

    Parameters
    ----------
    lower, upper
        Steps at which each buffer is live, ``lower <= step < upper``: integers of shape ``(n,)``.
    size
        Bytes of each buffer, shape ``(n,)``.
    alignment
        Number of bytes of which each offset is a multiple: one for all, or of shape ``(n,)``.
    capacity
        Bytes that the arena may have, a number or a text (``"256 KiB"``); a packing within it is
        good enough.
    time_limit, workers, seed, deterministic
        As in :func:`cpplan.solve`.

    Raises
    ------
    InputError
        Names the array and the row that are not as expected.
    InfeasibleError
        If it is proved that nothing fits into the capacity.
    NotFoundError
        If nothing was found that fits, before the time was up.

    Examples
    --------
    >>> import cpplan
    >>> found = cpplan.pack([0, 1, 2], [2, 3, 4], [4, 8, 4])
    >>> found.offsets.tolist(), found.peak, found.bound, found.status
    ([8, 0, 8], 12, 12, 'optimal')
    """
    count = np.shape(np.asarray(lower))
    if len(count) != 1:
        raise InputError(f"lower has shape {count}: expected (n,)")
    steps = np.asarray(alignment)
    problem = Problem(
        tuple(map(str, range(count[0]))),
        lower,  # type: ignore[arg-type]  # a problem makes arrays of its columns
        upper,  # type: ignore[arg-type]
        size,  # type: ignore[arg-type]
        alignment=np.full(count, steps) if steps.ndim == 0 else steps,
    )
    plan = solve(
        problem,
        capacity=capacity,
        time_limit=time_limit,
        workers=workers,
        seed=seed,
        deterministic=deterministic,
    )
    if plan.offset is None:
        raise error_without_plan(plan.status, str(plan.message))
    assert plan.peak is not None
    assert plan.lower_bound is not None
    return Packing(plan.offset, plan.peak, plan.lower_bound, plan.status)
