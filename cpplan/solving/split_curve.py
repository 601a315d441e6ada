"""The curve of peak against cost of ops in pieces: one search for regions, several plans."""

from __future__ import annotations

from collections.abc import Sequence

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.packing.problem import as_program
from cpplan.program.anf import Program
from cpplan.runtime.budget import using
from cpplan.runtime.collection import without_collection
from cpplan.runtime.compiled import telling
from cpplan.runtime.interrupts import noting_interrupts
from cpplan.solving.best_pieces import cannot_split, finish_split, split_search, uncut
from cpplan.solving.pipeline import solve_request
from cpplan.solving.request import Request
from cpplan.solving.run import start_run
from cpplan.splitting.outcome import Split

# Number of cost limits tried for each point of a curve; share of the time for them. In the rest
# of the time, the chosen plans are packed again.
_CURVE_LIMITS = 2
_CURVE_SHARE = 0.75


def split_curve(source: Graph | Program, request: Request, points: int) -> list[Plan]:
    """Plans in pieces with falling peaks and rising costs; the first plan has no pieces.

    The limits on the cost are those at which estimates of the peak fall, spread over their range. A
    plan is left out if an earlier plan needs no more bytes. If there are more plans than points,
    the plans whose neighbours differ least are left out. Ctrl-C ends the list early.

    Parameters
    ----------
    source
        A graph or a program.
    request
        A request with ``split``; its time limit is for all plans together.
    points
        Most plans to return.

    Raises
    ------
    InputError
        If the source is a bare problem, or its sizes depend on variables.
    """
    program = as_program(source)
    if not isinstance(program, Program):
        raise InputError("a trade-off needs a graph: a bare problem has no ops to split")
    if cannot_split(program):
        return [uncut(solve_request(program, request.without("split")))]
    run = start_run(program, request)
    found: list[Split] = []
    with (
        noting_interrupts() as interrupted,
        using(run.budget.tuning),
        telling(lambda text: run.record(None, None, text)),
    ):
        search = split_search(run, program)
        found.append(search.unsplit)
        limits = search.cost_limits(_CURVE_LIMITS * (points - 1), run.deadline)
        first = run.deadline.share(_CURVE_SHARE)
        for number, limit in enumerate(limits):
            if interrupted() or first.expired():
                break
            slot = first.share(1 / (len(limits) - number))
            split = search.smallest(limit, slot, found[-1], again=False)
            if split.packed.peak < found[-1].packed.peak:
                search.keep(split, run.deadline)
                found.append(split)
        found = _fewer(found, points)
        for number in range(1, len(found)):
            if not interrupted():
                slot = run.deadline.share(1 / (len(found) - number))
                search.pack_again(found[number], slot)
        found = [
            split
            for number, split in enumerate(found)
            if all(split.packed.peak < before.packed.peak for before in found[:number])
        ]
    with without_collection():
        return [finish_split(program, run, split) for split in found]


def _fewer(plans: Sequence[Split], most: int) -> list[Split]:
    """At most ``most`` plans: the first, the last, and those whose neighbours differ most."""
    kept = list(plans)
    while len(kept) > most:
        peaks = [split.packed.peak for split in kept]
        gaps = [before / max(after, 1) for before, after in zip(peaks, peaks[2:], strict=False)]
        del kept[1 + gaps.index(min(gaps))]
    return kept
