"""One run of ``solve``: its options, its deadline and history, and the packing of one order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cpplan.aliasing.packed import Packed
from cpplan.aliasing.solve import SharingSearch
from cpplan.model.plan import Progress, RelationKind
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

NO_TIME_TO_SHARE = "too little time is left to learn which tensors may share bytes"


@dataclass(frozen=True, slots=True)
class Run:
    """A run: its options, the one deadline, and the history that all stages write.

    Attributes
    ----------
    request
        Of whoever called ``solve``.
    budget
        For all stages together.
    residency
        What the arena holds of the boundary.
    sharing
        The kinds of relations that may be chosen.
    target, limit
        A peak that ends the run; one that must not be exceeded.
    history
        Every improvement.
    reasons
        Reasons why stages ended without a proof although there was time left.
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
        """For all stages together."""
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
        """Packing of one order; ``best`` is the packing of another order so far.

        If it is to be quick, by heuristics alone.
        """
        start, built = deadline.elapsed(), 0.0
        with without_collection():
            problem = as_problem(source, self.residency, self.request.pools)
        if len(problem) >= tuned(PackingTuning).many_buffers:
            # To read, sort and reduce so much takes about as long as to verify it in the end.
            built = deadline.elapsed() - start
            tuning = self.tuning
            deadline.reserve((tuning.sharing_checked if self.sharing else tuning.checked) * built)
        if not is_peak(problem, self.request.objective):
            return self._pack_pools(source, problem, deadline)

        def record(peak: int, bound: int, name: str) -> None:
            known = peak if best is None else min(peak, best.peak)
            self.record(known, bound if best is None else None, name)

        if self.sharing and isinstance(source, Program):
            return self._pack_sharing(source, problem, deadline, record, built, quick=quick)
        incumbent = Incumbent(problem, target=self.target, limit=self.limit, report=record)
        try:
            if self.request.algorithm is not None:
                pack_by(self.request.algorithm, incumbent, deadline)
            else:
                pack(incumbent, self.budget.until(deadline), most_effort=0 if quick else None)
        except KeyboardInterrupt:
            self.deadline.cancel()
        return Packed(source, problem, incumbent=incumbent)

    def pack_more(self, packed: Packed, deadline: Deadline) -> None:
        """Improve a packing by search, from where heuristics ended."""
        budget = self.budget.until(deadline)
        if self.request.algorithm is not None:
            return
        try:
            if packed.sharing is not None:
                packed.sharing.run(budget)
            elif packed.incumbent is not None:
                pack(packed.incumbent, budget, by_heuristics=False)
        except KeyboardInterrupt:
            self.deadline.cancel()

    def place(self, program: Program, offsets: Ints, name: str) -> Packed:
        """Packing from offsets found together with the program, one a buffer of its problem."""
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
            reading = deadline.share(self.tuning.sharing_reading_share)
            if is_short(reading, self.tuning.sharing_reading * built):
                reading.cancel()
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
        try:
            if self.request.algorithm is not None:
                search.pack_by(self.request.algorithm, deadline)
            elif quick:
                search.pack_quickly(deadline)
            else:
                search.run(self.budget.until(deadline))
        except KeyboardInterrupt:
            self.deadline.cancel()
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
        """Record why a stage ends without a proof, if it has time left."""
        if not self.deadline.expired() and reason not in self.reasons:
            self.reasons.append(reason)

    def record(self, peak: int | None, bound: int | None, source: str) -> None:
        """Record an improvement, and report it to the caller's listener."""
        event = Progress(self.deadline.elapsed(), peak, bound, source)
        self.history.append(event)
        if self.request.progress is not None:
            self.request.progress(event)


def is_short(deadline: Deadline, seconds: float) -> bool:
    """True if less than this time is left by the clock, seconds."""
    return not deadline.deterministic and deadline.remaining() < seconds


def start_run(source: Program | Problem, request: Request) -> Run:
    """The run of a request, whose time starts now.

    Raises
    ------
    InputError
        If the request does not fit the source.
    """
    request.check_source(source)
    return make_run(source, request, request.budget())


def make_run(source: Program | Problem, request: Request, budget: Budget) -> Run:
    """The run of a request: limits in bytes, and what the arena holds."""
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
    searches = request.order == "search" and not request.remat and len(regions) == 1
    if run.sharing and searches and isinstance(source, Program):
        from cpplan.aliasing.alias_candidates import has_candidates

        if not has_candidates(source.graph, residency, run.sharing):
            # Nothing can be shared: the search that knows nothing of it finds more.
            return replace(run, sharing=frozenset())
    return run
