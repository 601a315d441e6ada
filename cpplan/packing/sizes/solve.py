"""``layout_for_sizes``: one layout for a set of sizes, and a plan for each size alone."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import get_args

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.names import not_understood
from cpplan.model.plan_data import Status
from cpplan.model.printable import quote
from cpplan.model.problem import Ints, Problem
from cpplan.model.tensor import LIMIT
from cpplan.packing.bounds import Bound
from cpplan.packing.incumbent import Incumbent
from cpplan.packing.reduction import address_unit
from cpplan.packing.sizes.arenas import (
    LARGEST,
    Arenas,
    BestLayout,
    Report,
    SizesObjective,
    objective_levels,
)
from cpplan.packing.sizes.bounds import arena_bounds
from cpplan.packing.sizes.order_climb import OrderClimb
from cpplan.packing.sizes.size_set import SizeSet, SizesLayout
from cpplan.packing.solve import pack
from cpplan.packing.tuning import active
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.runtime.interrupts import first_interrupt_ending, holding_interrupts
from cpplan.runtime.turns import Turn, Turns
from cpplan.verification.verifier import check_offsets

# Several sizes: share of the time for the largest arena of the layout.
_SIZES_LARGEST_SHARE = 0.3
# Share of the remaining time for each size packed alone.
_SIZES_ALONE_SHARE = 0.4
# CP-SAT's deterministic time in the first turn.
_SIZES_FIRST_WORK = 0.02
# Share of the time for all levels in turns; the rest is for the levels after the first that is
# not proved.
_SIZES_TURNS_SHARE = 0.8

_logger = logging.getLogger(__name__)
# CP-SAT adds up rows in 64 bits.
_LARGEST_TERM = 2**60


def layout_for_sizes(
    problem: Problem,
    bytes: Ints,
    budget: Budget | None = None,
    *,
    prefix_stable: bool = False,
    objective: SizesObjective = "largest",
    capacities: Sequence[int | None] = (),
    labels: Sequence[str] = (),
    report: Report = lambda values, bounds, source: None,
) -> SizesLayout:
    """Layout with one offset for every buffer, without overlaps at any of several sizes.

    Of two buffers live together, the lower one needs room for its largest size. So the smallest
    possible largest arena is the peak of packing all buffers at their largest size in the set (not
    in the ranges of the variables). The arenas at smaller sizes depend on the topmost buffers: only
    these count with their bytes at the given size.

    Parameters
    ----------
    problem
        Lifespans, alignments, gaps without windows, fixed offsets; one pool. Sizes are not read.
    bytes
        Bytes of every buffer at every size, shape ``(sizes, n)``.
    budget
        Deadline, workers and seed; 60 seconds and one worker by default. When the deadline passes,
        the best layout so far is returned.
    prefix_stable
        True to minimise also the arena at every size, from the largest to the smallest (by their
        bounds), each with the earlier ones at their minimum.
    objective
        First level: the ``"largest"`` arena, or the worst ``"ratio"`` of an arena to the lower
        bound of that size alone (``cpplan.packing.bounds``, without search), in thousandths.
    capacities
        Largest arena of each size, bytes, ``None`` for no limit. They come before all levels.
    labels
        Unique names of the sizes; their numbers by default.
    report
        Called at every improvement with the values and bounds of all levels, and the source.

    Returns
    -------
    SizesLayout
        Verified at every size.

    Raises
    ------
    InputError
        If an argument contradicts another, or the problem cannot be planned in this way.
    """
    if objective not in get_args(SizesObjective):
        raise not_understood(f"objective={objective!r}", objective, get_args(SizesObjective))
    sizes = SizeSet(problem, bytes, labels)
    limits = _check_capacities(capacities, sizes)
    budget = Budget(Deadline(60.0)) if budget is None else budget
    deadline = budget.deadline
    alone = [Incumbent(sizes.at(k)) for k in range(len(sizes))]
    alone_bounds = np.array([each.bound.value for each in alone], np.int64)
    merged = Incumbent(sizes.merged)
    bounds = arena_bounds(sizes)
    levels = objective_levels(
        bounds, alone_bounds, objective,
        prefix_stable=prefix_stable, capacities=limits, labels=sizes.labels,
    )  # fmt: skip
    arenas = Arenas(sizes, merged.reduction, levels)
    best = BestLayout(arenas, bounds, merged.offsets.copy(), "bump", report)
    # The largest of the sizes may be the largest in every buffer.
    same = next((k for k in range(len(sizes)) if _is_merged(sizes, k)), None)
    if same is not None:
        alone[same] = merged
    others = [each for each in alone if each is not merged]
    with first_interrupt_ending(deadline):
        pack(merged, budget.share(_SIZES_LARGEST_SHARE))
        best.offer(merged.offsets.copy(), merged.found_by or "no bytes")
        _take_largest_bound(best, merged.bound)
        shared = budget.share(_SIZES_ALONE_SHARE)
        for k, each in enumerate(others):
            pack(each, shared.share(1 / (len(others) - k)))
        improve_levels(best, budget)
    with holding_interrupts() as hold:
        hold()  # check and return the layout even if the user presses Ctrl-C again
        if same is not None:
            bounds[same] = max(int(bounds[same]), merged.bound.value)
        return _make_plan(best, alone, bounds, limits, deadline.elapsed())


def _check_capacities(capacities: Sequence[int | None], sizes: SizeSet) -> tuple[int | None, ...]:
    if capacities and len(capacities) != len(sizes):
        raise InputError(f"there are {len(capacities)} capacities for {len(sizes)} sizes")
    for label, limit in zip(sizes.labels, capacities, strict=False):
        known = isinstance(limit, (int, np.integer)) and not isinstance(limit, bool)
        if limit is not None and not (known and 0 <= limit < LIMIT):
            raise InputError(
                f"the capacity at size {label!r} must be bytes below 2**62, not {quote(limit)}"
            )
    return tuple(None if limit is None else int(limit) for limit in capacities)


def _is_merged(sizes: SizeSet, number: int) -> bool:
    """True if the problem at one size is the merged problem of all sizes."""
    merged = sizes.merged
    return merged.gaps == sizes.problem.gaps and bool((sizes.bytes[number] == merged.size).all())


def _take_largest_bound(best: BestLayout, bound: Bound) -> None:
    for number, level in enumerate(best.arenas.levels):
        if level.name == LARGEST:
            best.offer_bound(number, bound.value, bound.name, everywhere=True)


def _make_plan(
    best: BestLayout,
    alone: Sequence[Incumbent],
    bounds: Ints,
    capacities: tuple[int | None, ...],
    runtime: float,
) -> SizesLayout:
    """The layout, checked at every size; each size alone is never worse than in it."""
    sizes = best.arenas.sizes
    offset = best.arenas.reduction.restore(best.best, sizes.merged)
    found = [each.reduction.restore(each.offsets, sizes.at(k)) for k, each in enumerate(alone)]
    arenas = sizes.arenas(offset)
    assert (arenas == best.arenas.of(best.best)).all()
    for k, each in enumerate(alone):
        if arenas[k] < each.peak:
            found[k] = offset
        check_offsets(sizes.at(k), offset, best.found_by)
        check_offsets(sizes.at(k), found[k], each.found_by or "no bytes")
    alone_bound = np.array([each.bound.value for each in alone], np.int64)
    fits = best.fits and not best.hopeless
    status: Status = "infeasible" if best.hopeless else "unknown"
    if fits:
        status = "optimal" if best.done else "feasible"
    return SizesLayout(
        name=sizes.problem.name,
        status=status,
        buffers=tuple(sizes.problem.names),
        labels=tuple(sizes.labels),
        bytes=sizes.bytes,
        offset=offset if fits else None,
        arena=arenas if fits else None,
        lower_bound=np.maximum(bounds, alone_bound),
        alone_offset=np.array(found, np.int64),
        alone=np.array(
            [(at + own).max(initial=0) for at, own in zip(found, sizes.bytes, strict=True)]
        ),
        alone_bound=alone_bound,
        levels=tuple(level.name for level in best.arenas.levels),
        value=best.values,
        bound=best.least,
        capacities=capacities,
        found_by=best.found_by if fits else None,
        runtime=runtime,
    )


def improve_levels(
    best: BestLayout,
    budget: Budget,
    *,
    most_effort: int | None = None,
) -> None:
    """Improve a layout until every level is proved smallest or time is up."""
    climb, deadline = OrderClimb(best, budget.seed), budget.deadline
    try:
        if not best.done:
            climb.start(deadline)
            first = best.arenas.bound(0, ())
            best.offer_bound(0, first.value, first.name)
        share = _SIZES_TURNS_SHARE if len(best.values) > 1 else 1.0
        if not _in_turns(best, climb, budget.share(share), most_effort):
            _finish(best, climb, deadline)
    except TimeUpError:
        return


def _in_turns(
    best: BestLayout,
    climb: OrderClimb,
    budget: Budget,
    most_effort: int | None,
) -> bool:
    """Search all levels in turns; returns false if time ran out, true if the turns are over."""
    tuning, deadline = active(), budget.deadline

    def turn(effort: int) -> Turn:
        exhausted = True
        for number in range(len(best.values)):
            if best.settled(number) or best.hopeless:
                continue
            climb.run(number, tuning.sizes_moves_a_buffer * len(best.best) * effort, deadline)
            deadline.check()
            if not best.settled(number):
                work = _SIZES_FIRST_WORK * effort
                exhausted &= not _run_cp_sat(best, number, budget, work)
        return Turn.LAST if exhausted and effort >= tuning.most_effort else Turn.LONGER

    try:
        turns = Turns(tuning.most_effort, last=most_effort)
        turns.run(turn, lambda: best.done, deadline)
    except TimeUpError:
        return False
    return True


def _finish(best: BestLayout, climb: OrderClimb, deadline: Deadline) -> None:
    """Search the levels after the first open one with the remaining time.

    Improvements of an earlier level may have made the later levels worse.
    """
    unsettled = [number for number in range(len(best.values)) if not best.settled(number)]
    later = unsettled[1:] or unsettled
    for k, number in enumerate(later):
        share = deadline.share(1 / (len(later) - k))
        try:
            climb.run(
                number,
                active().sizes_moves_a_buffer * len(best.best) * active().most_effort,
                share,
            )
        except TimeUpError:
            deadline.check()


def _run_cp_sat(best: BestLayout, number: int, budget: Budget, work: float) -> bool:
    """Run CP-SAT for one level; return true if the model was small enough."""
    arenas = best.arenas
    problem, level = arenas.reduction.problem, arenas.levels[number]
    total = int(problem.size.sum() + problem.alignment.sum())
    total += max((at + int(problem.size[row]) for row, at in problem.fixed.items()), default=0)
    entries = int((problem.spans.upper - problem.spans.lower).sum())
    weight = max(int(level.base.max()) * best.values[number], level.scale * total)
    if entries > active().section_entries or weight > _LARGEST_TERM:
        _logger.info(
            "CP-SAT skipped: the model would have %d section entries and terms up to %d",
            entries, weight,
        )  # fmt: skip
        return False
    from cpplan.runtime.cp_sat_run import improve_by_model
    from formulations.packing_sizes import build

    # A bound holds for layouts with the values of earlier levels at the time of building.
    settled = best.settled_before(number)
    return improve_by_model(
        lambda: build(
            problem,
            arenas.bytes,
            unit=address_unit(problem),
            # A layout pushed down is no higher than the stack of all buffers.
            limits=np.minimum(
                arenas.limits(number, best.values), max(total, int(arenas.of(best.best).max()))
            ),
            level=level,
            lower=best.bounds[number].value,
            upper=best.values[number],
        ),
        best.best,
        budget,
        found=lambda offsets: best.offer(offsets, "CP-SAT"),
        proved=lambda bound: best.offer_bound(number, bound, "CP-SAT") if settled else None,
        work=work,
    )
