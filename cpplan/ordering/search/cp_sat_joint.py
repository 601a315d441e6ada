"""Order and offsets together by CP-SAT, where packing the best order leaves a gap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.problem import Problem
from cpplan.ordering.problem import OrderProblem
from cpplan.packing.reduction import address_unit
from cpplan.runtime.build_in_time import build_in_time
from cpplan.runtime.cp_sat_proof import Proof, improve_peak
from cpplan.runtime.deadline import Deadline

if TYPE_CHECKING:
    from cpplan.model.problem import Ints
    from formulations.joint import Layout

NAME = "CP-SAT order and offsets"


def search_layouts(
    problem: OrderProblem,
    alignment: Sequence[int] | Ints,
    extra_alignment: Sequence[int] | Ints,
    start: Layout,
    deadline: Deadline,
    *,
    bound: int = 0,
    work: float | None = None,
    workers: int = 1,
    seed: int = 0,
    report: Callable[[Proof[Layout]], None] = lambda proof: None,
) -> Proof[Layout]:
    """Look for a lower peak than a layout's until there is provably none.

    An op's ``extra`` bytes are one block, and so are ``base`` and ``entry``: where these stand for
    several buffers, the bound holds for layouts that keep them together (``formulations.joint``).

    Parameters
    ----------
    problem
        Ops and storages; a few dozen at most.
    alignment
        Of every storage, bytes, shape ``(storages,)``.
    extra_alignment
        Of every op's ``extra``, bytes, shape ``(ops,)``.
    start
        A valid order with offsets that fit it.
    deadline
        When it passes, the best so far is returned.
    bound
        A proved bound on every layout's peak, bytes.
    work
        Units of CP-SAT's deterministic time to spend at most.
    workers
        Threads. With one, and enough time, the same input and seed give the same layout.
    seed
        For CP-SAT's random choices.
    report
        Called, in the calling thread, at every improvement of either side.

    Examples
    --------
    >>> from formulations.joint import Layout
    >>> problem = OrderProblem(
    ...     predecessors=((), (0,)), extra=np.zeros(2, np.int64),
    ...     size=np.array([4, 8]), touched_by=((0,), (1,)),
    ...     present=np.zeros(2, bool), kept=np.zeros(2, bool),
    ... )
    >>> start = Layout(np.array([0, 1]), offset=np.array([8, 0]), extra_offset=np.zeros(2, int))
    >>> proof = search_layouts(problem, [1, 4], [1, 1], start, Deadline(60))
    >>> proof.best.offset.tolist(), proof.peak, proof.bound
    ([0, 0], 8, 8)
    """
    peak = start.peak(problem)
    known = Proof(start, peak, min(bound, peak))
    if known.settled or deadline.expired():
        return known
    from formulations.joint import build

    unit = _unit(problem, alignment, extra_alignment)
    bounds = {"upper": peak, "lower": known.bound}
    model = build_in_time(
        lambda: build(problem, alignment, extra_alignment, unit=unit, **bounds), deadline
    )
    if model is None:
        return known
    model.hint(start)
    return improve_peak(
        model, known, deadline, peak_of=lambda layout: layout.peak(problem),
        work=work, workers=workers, seed=seed, report=report,
    )  # fmt: skip


def _unit(
    problem: OrderProblem, alignment: Sequence[int] | Ints, extra_alignment: Sequence[int] | Ints
) -> int:
    """Some best layout has all offsets at multiples of this, bytes: see ``address_unit``."""
    size = np.array([*problem.size, *problem.extra, problem.base, problem.entry], np.int64)
    align = np.array([*alignment, *extra_alignment, 1, 1], np.int64)
    some = size > 0
    names = tuple(map(str, np.flatnonzero(some)))
    lower = np.zeros(len(names), np.int64)
    return address_unit(Problem(names, lower, lower + 1, size[some], align[some]))
