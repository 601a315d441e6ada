"""Best schedule of a graph: ops may run again, so that tensors need not be kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cpplan.model.problem import Problem
from cpplan.program.anf import Program
from cpplan.solving.best_order import search_within
from cpplan.solving.run import Run

if TYPE_CHECKING:
    from cpplan.remat.solve import Rematerialized


def rematerialize(run: Run, source: Program | Problem) -> Rematerialized:
    """The cheapest program within the limit, or the smallest within a limit on the cost."""
    from cpplan.aliasing.alias_candidates import find_candidates
    from cpplan.remat.solve import RematSearch

    assert isinstance(source, Program)
    joint, cost_limit = run.request.order == "search", run.request.cost_limit
    candidates = find_candidates(source.graph, run.residency, run.sharing)
    # Without alias candidates, bounds on live bytes hold.
    run = run if candidates else replace(run, sharing=frozenset())
    search = RematSearch(
        source,
        run.residency,
        joint=joint,
        order=search_within(run, source) if joint else None,
        pack=run.pack,
        place=run.place if run.request.pools is None and not run.sharing else None,
        candidates=candidates,
        report=lambda text: run.record(None, None, text),
        stop_early=run.stop_early,
    )
    if cost_limit is not None:
        found = search.smallest(cost_limit * search.base, run.budget)
        pooled, limit = found.packed.pooled, run.limit
        if pooled is None and limit is not None and found.packed.peak > limit:
            return replace(found, limit=limit)  # the one pool does not hold it
        return found
    limit = run.limit
    if limit is None:
        limit = sum(pool.capacity or 0 for pool in run.request.pools or ())
    return search.cheapest(limit, run.budget)
