"""One run of ``solve``: its options, its deadline and history, and the packing of one order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cpplan.aliasing.packed import Packed
from cpplan.aliasing.solve import SharingSearch
from cpplan.model.graph import Graph
from cpplan.model.plan_data import Progress, RelationKind
from cpplan.model.pool import Pool
from cpplan.model.problem import Ints, Problem
from cpplan.model.residency import Residency, choose_residency
from cpplan.packing.incumbent import Incumbent
from cpplan.packing.pools.objective import is_peak
from cpplan.packing.problem import as_problem
from cpplan.packing.solve import pack, pack_by
from cpplan.packing.tuning import PackingTuning
from cpplan.program.anf import Program
from cpplan.runtime.budget import Budget, tuned
from cpplan.runtime.collection import without_collection
from cpplan.runtime.deadline import Deadline
from cpplan.solving.request import Request
from cpplan.solving.shares import bytes_of
from cpplan.solving.tuning import SolvingTuning

# Share of the time left for finding alias candidates.
_SHARING_READING_SHARE = 0.6

# Time for making, checking and writing the plan, as a multiple of the time for building the
# packing problem, without aliases and with aliases.
_CHECKED = 5.0
_SHARING_CHECKED = 8.0

NO_TIME_TO_SHARE = "too little time is left to find out which tensors may share bytes"


@dataclass(frozen=True, slots=True)
class Run:
    """A run: its options, its deadline, and the history that all stages write.

    Attributes
    ----------
    request
        The request of the caller.
    budget
        Deadline, workers and seed for all stages together.
    residency
        Residency of the model's boundary.
    sharing
        Kinds of aliases that may be used.
    target, limit
        Peak that ends the run; peak that must not be exceeded.
    history
        Every improvement.
    reasons
        Reasons of stages that ended early without a proof.
    """

    request: Request
    budget: Budget
    residency: Residency
    sharing: frozenset[RelationKind]
    target: int | None
    limit: int | None
    history: list[Progress] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def deadline(self) -> Deadline:
        """Deadline of all stages together."""
        return self.budget.deadline

    @property
    def tuning(self) -> SolvingTuning:
        """Thresholds and shares of this room."""
        return self.budget.tuned(SolvingTuning)

    def pack(
        self,
        source: Program | Problem,
        deadline: Deadline,
        best: Packed | None = None,
        *,
        quick: bool = False,
    ) -> Packed:
        """Packing of one order; ``best`` is the best packing of other orders so far.

        With ``quick``, only heuristics run.
        """
        start, built = deadline.elapsed(), 0.0
        with without_collection():
            problem = as_problem(source, self.residency, self.request.pools)
        if len(problem) >= tuned(PackingTuning).many_buffers:
            # The final check of many buffers takes a multiple of the time to build the problem.
            built = deadline.elapsed() - start
            deadline.reserve((_SHARING_CHECKED if self.sharing else _CHECKED) * built)
        if not is_peak(problem, self.request.objective):
            return self._pack_pools(source, problem, deadline)

        def record(peak: int, bound: int, name: str) -> None:
            known = peak if best is None else min(peak, best.peak)
            self.record(known, bound if self.request.order == "given" else None, name)

        if self.sharing and isinstance(source, Program):
            return self._pack_sharing(source, problem, deadline, record, built, quick=quick)
        incumbent = Incumbent(problem, target=self.target, limit=self.limit, report=record)
        if self.request.algorithm is not None:
            pack_by(self.request.algorithm, incumbent, deadline)
        else:
            pack(incumbent, self.budget.until(deadline), most_effort=0 if quick else None)
        return Packed(source, problem, incumbent=incumbent)

    def pack_more(self, packed: Packed, deadline: Deadline) -> None:
        """Improve a packing by search, from where heuristics ended."""
        budget = self.budget.until(deadline)
        if self.request.algorithm is not None:
            return
        if packed.sharing is not None:
            packed.sharing.run(budget)
        elif packed.incumbent is not None:
            pack(packed.incumbent, budget, by_heuristics=False)

    def place(self, program: Program, offsets: Ints, name: str) -> Packed:
        """Packing from given offsets of the buffers of a program's problem."""
        problem = as_problem(program, self.residency)
        incumbent = Incumbent(problem, target=self.target, limit=self.limit)
        incumbent.replace(offsets[incumbent.reduction.rows], name)
        return Packed(program, problem, incumbent=incumbent)

    def _pack_sharing(
        self,
        program: Program,
        problem: Problem,
        deadline: Deadline,
        record: Callable[[int, int, str], None],
        built: float,
        *,
        quick: bool,
    ) -> Packed:
        reading = None
        if built and self.request.algorithm is None:
            reading = deadline.share(_SHARING_READING_SHARE)
            if is_short(reading, self.tuning.sharing_reading * built):
                reading = deadline.share(0)
        search = SharingSearch(
            program,
            problem,
            self.residency,
            kinds=self.sharing,
            target=self.target,
            limit=self.limit,
            seed=self.budget.seed,
            report=record,
            reading=reading,
        )
        if search.late:
            self.stop_early(NO_TIME_TO_SHARE)
        if self.request.algorithm is not None:
            search.pack_by(self.request.algorithm, deadline)
        elif quick:
            search.pack_quickly(deadline)
        else:
            search.run(self.budget.until(deadline))
        return Packed(program, problem, sharing=search)

    def _pack_pools(
        self, source: Program | Problem, problem: Problem, deadline: Deadline
    ) -> Packed:
        from cpplan.aliasing.pools import pack_in_pools

        def record(value: object, bound: object, name: str) -> None:
            if value is not None:
                self.record(
                    None, None, f"{self.request.objective} {value}, at least {bound}: {name}"
                )

        return pack_in_pools(
            source,
            problem,
            self.residency,
            self.request.objective,
            self.budget.until(deadline),
            sharing=self.sharing,
            algorithm=self.request.algorithm,
            report=record,
        )

    def stop_early(self, reason: str) -> None:
        """Record the reason of a stage that ends without a proof, if time is left."""
        if not self.deadline.expired() and reason not in self.reasons:
            self.reasons.append(reason)

    def record(self, peak: int | None, bound: int | None, source: str) -> None:
        """Record an improvement, and report it to the caller's listener.

        ``bound`` holds for all orders of the request, but not if ops run again or in pieces. An
        event with a peak repeats the best bound known.
        """
        if self.request.remat or self.request.split:
            bound = None
        elif peak is not None or bound is not None:
            known = (e.lower_bound for e in reversed(self.history) if e.lower_bound is not None)
            bound = max((b for b in (bound, next(known, None)) if b is not None), default=None)
        event = Progress(self.deadline.elapsed(), peak, bound, source)
        self.history.append(event)
        self.request.tell(event, self.deadline)


def is_short(deadline: Deadline, seconds: float) -> bool:
    """True if fewer than these seconds are left by the clock."""
    return not deadline.deterministic and deadline.remaining() < seconds


def start_run(source: Program | Problem, request: Request) -> Run:
    """The run of a request; its time starts now."""
    request.check_source(source)
    return make_run(source, request, request.budget())


def make_run(source: Program | Problem, request: Request, budget: Budget) -> Run:
    """The run of a request, with limits in bytes and the residency of the boundary."""
    regions = source.pools if isinstance(source, Problem) else request.pools or (Pool(),)
    residency = choose_residency(request.inputs, request.outputs, request.constants, regions)
    given = [limit for limit in (request.capacity, request.memory_limit) if limit is not None]
    limits = [bytes_of(limit, source, residency, request.pools) for limit in given]
    if len(regions) == 1 and regions[0].capacity is not None:
        limits.append(regions[0].capacity)
    limit = min(limits, default=None)
    run = Run(
        request=request,
        budget=budget,
        residency=residency,
        sharing=request.sharing,
        target=limit if request.capacity is not None else None,
        limit=limit,
    )
    if not isinstance(source, Program):
        return run
    if request.split:
        # Pieces have the relations of their ops; without any, searches without aliases find more.
        return replace(run, sharing=run.sharing & declared_kinds(source.graph))
    searches = request.order == "search" and not request.remat and len(regions) == 1
    if run.sharing and searches:
        from cpplan.aliasing.alias_candidates import has_candidates

        if not has_candidates(source.graph, residency, run.sharing):
            # Without candidates, the search for orders without aliases finds more.
            return replace(run, sharing=frozenset())
    return run


def declared_kinds(graph: Graph) -> frozenset[RelationKind]:
    """Kinds of aliases that ops of a graph allow."""
    kinds: dict[RelationKind, bool] = {
        "in place": any(op.in_place for op in graph.ops),
        "placement": any(op.placements for op in graph.ops),
    }
    return frozenset(kind for kind, found in kinds.items() if found)
