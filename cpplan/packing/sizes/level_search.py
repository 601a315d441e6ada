"""Search on the levels in turns: local search, then CP-SAT; each turn is longer than the last."""

from __future__ import annotations

import logging

import numpy as np

from cpplan.packing.reduction import address_unit
from cpplan.packing.sizes.arenas import BestLayout
from cpplan.packing.sizes.order_climb import OrderClimb
from cpplan.packing.tuning import active
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.runtime.turns import Turn, Turns

_logger = logging.getLogger(__name__)

# CP-SAT adds up rows in 64 bits.
_LARGEST_TERM = 2**60


def improve_levels(
    best: BestLayout,
    budget: Budget,
    *,
    most_effort: int | None = None,
) -> None:
    """Improve a layout until every level is proved smallest or time is up.

    Parameters
    ----------
    best
        Every improvement is offered to it at once.
    budget
        Deadline, workers and seed of the run.
    most_effort
        Effort of the last turn; the first turn has effort 1, each later one four times as much.
    """
    climb, deadline = OrderClimb(best, budget.seed), budget.deadline
    try:
        if not best.done:
            climb.start(deadline)
            first = best.arenas.bound(0, ())
            best.offer_bound(0, first.value, first.name)
        share = active().sizes_turns_share if len(best.values) > 1 else 1.0
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
                work = tuning.sizes_first_work * effort
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
