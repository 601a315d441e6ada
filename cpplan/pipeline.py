"""``solve``: the stages and their one deadline.

If asked, look for the order with the least pressure; pack; verify what is returned. Each stage ends
early with a proof. The deadline and Ctrl-C end the run with the best plan so far.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cpplan.anf import Program
from cpplan.byte_sizes import parse_bytes
from cpplan.constraints import with_first_last
from cpplan.deadline import Deadline
from cpplan.errors import InputError
from cpplan.graph import Graph
from cpplan.interrupts import holding_interrupts
from cpplan.ordering import OrderProblem, order_problem
from cpplan.plan import Plan, Progress, RelationKind
from cpplan.problem import Problem
from cpplan.residency import Residency
from cpplan.search.order_bounds import FORCED
from cpplan.search.outcome import OrderOutcome
from cpplan.stages.incumbent import Incumbent
from cpplan.stages.joint import improve_jointly
from cpplan.stages.joint_sharing import improve_sharing_jointly
from cpplan.stages.packing import pack
from cpplan.stages.plan_maker import Packed, make_plan
from cpplan.stages.sharing import SharingSearch
from cpplan.stages.sources import as_problem, as_program
from cpplan.verifier import verify

ORDERS = ("given", "search")
# Shares of the time left: for the order, and for packing it where another may pack better.
ORDER_SHARE, FIRST_PACKING_SHARE = 0.5, 0.7
# Packing loses a few percent at most: a given order with more live bytes than that is no rival.
RIVAL = 1.05
# After Ctrl-C an order is known but not yet packed: so many seconds for heuristics.
GRACE = 1.0


def solve(
    source: Graph | Program | Problem,
    *,
    time_limit: float = 60.0,
    order: str = "given",
    first: Sequence[str] = (),
    last: Sequence[str] = (),
    in_place: bool = False,
    placement: bool | None = None,
    capacity: int | str | None = None,
    memory_limit: int | str | None = None,
    inputs: str = "reuse",
    outputs: str = "keep",
    constants: str = "outside",
    workers: int | None = None,
    seed: int = 0,
    deterministic: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Plan:
    """Plan the memory of a model: an offset for every buffer, with the smallest peak found.

    Parameters
    ----------
    source
        A graph, a program, or a bare packing problem.
    time_limit
        Seconds for everything; the best plan so far is returned when they are over.
    order
        ``"given"``: ops run in the order in which the graph lists them, or the program has them.
        ``"search"``: in the order that needs the fewest bytes. The given one is a candidate: the
        order chosen never has more live bytes, though packing it has less time. The bound then
        holds for every order.
    first, last
        Names of ops with which every order must start and end, if it is searched.
    in_place
        Let ops write over what they are the last to read, where the model says that they may.
    placement
        Let tensors lie within others to or from which an op only copies them (the inputs of a
        concatenation within its output). As ``in_place`` if left out.
    capacity
        Stop at the first plan that fits into so many bytes (``262144`` or ``"256 KiB"``).
    memory_limit
        Like ``capacity`` a limit the plan must keep, but go on to the smallest peak.
    inputs, outputs, constants
        What the arena holds of the model's boundary: see :class:`~cpplan.residency.Residency`.
    workers
        Threads; as many as there are cores if left out. With one, the same input and seed give the
        same plan.
    seed
        For random choices.
    deterministic
        Count work instead of time, with one worker, so that the result does not depend on the
        machine's load; ``time_limit`` then is in units of about a second.
    progress
        Called with each improvement of the peak or the bound.

    Returns
    -------
    Plan
        Verified. Its ``status`` says whether it is proved smallest; without offsets if nothing
        fits, or nothing that fits was found.

    Raises
    ------
    InputError
        If an option is not understood, or the problem contradicts itself.

    Examples
    --------
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> plan = solve(problem)
    >>> plan.status, plan.peak, plan.offset.tolist()
    ('optimal', 12, [8, 0, 8])
    """
    if order not in ORDERS:
        raise InputError(f"order={order!r} is not understood: expected one of {', '.join(ORDERS)}")
    if not isinstance(time_limit, (int, float)) or not time_limit > 0:
        raise InputError(f"time_limit must be positive, not {time_limit!r}")
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise InputError(f"workers must be at least 1, not {workers!r}")
    if not isinstance(seed, int) or not 0 <= seed < 2**31:
        raise InputError(f"seed must be an integer from 0 to 2**31 - 1, not {seed!r}")
    if deterministic and workers not in (None, 1):
        raise InputError("deterministic=True needs workers=1: several finish in no fixed order")
    if (first or last) and order != "search":
        raise InputError("first and last constrain a searched order: they need order='search'")
    deadline = Deadline(time_limit, deterministic=deterministic)
    source = as_program(source)
    limits = [parse_bytes(limit) for limit in (capacity, memory_limit) if limit is not None]
    if isinstance(source, Problem) and source.pools[0].capacity is not None:
        limits.append(source.pools[0].capacity)
    ceiling = min(limits, default=None)
    run = _Run(
        sharing=_sharing(source, in_place, in_place if placement is None else placement),
        residency=Residency(inputs, outputs, constants),
        ceiling=ceiling,
        goal=ceiling if capacity is not None else None,
        workers=1 if deterministic else workers or _cores(),
        seed=seed,
        deadline=deadline,
        progress=progress,
        history=[],
    )
    if order == "given":
        packed, searched = run.pack(source, deadline), None
    else:
        packed, searched = run.search(source, first, last)
    with holding_interrupts() as hold:
        hold()  # what was found is checked and handed out, however impatient the user
        plan = make_plan(
            packed,
            run.residency,
            searched=searched,
            ceiling=ceiling,
            runtime=deadline.elapsed(),
            history=run.history,
        )
        if plan.offset is not None:
            verify(source, plan)
    return plan


@dataclass(frozen=True, slots=True)
class _Run:
    """What was asked for, the one deadline, and the history that all stages write."""

    sharing: frozenset[RelationKind]
    residency: Residency
    ceiling: int | None
    goal: int | None
    workers: int
    seed: int
    deadline: Deadline
    progress: Callable[[Progress], None] | None
    history: list[Progress]

    def pack(
        self, source: Program | Problem, deadline: Deadline, best: int | None = None
    ) -> Packed:
        """Offsets for one order; ``best`` is a peak that another order has already reached."""
        problem = as_problem(source, self.residency)

        def record(peak: int, bound: int, name: str) -> None:
            known = peak if best is None else min(peak, best)
            self.record(known, bound if best is None else None, name)

        if self.sharing and isinstance(source, Program):
            return self._pack_sharing(source, problem, deadline, record)
        incumbent = Incumbent(problem, goal=self.goal, ceiling=self.ceiling, report=record)
        try:
            pack(incumbent, deadline, workers=self.workers, seed=self.seed)
        except KeyboardInterrupt:
            self.deadline.cancel()
        return Packed(source, problem, incumbent)

    def _pack_sharing(
        self,
        program: Program,
        problem: Problem,
        deadline: Deadline,
        record: Callable[[int, int, str], None],
    ) -> Packed:
        search = SharingSearch(
            program,
            problem,
            self.residency,
            kinds=self.sharing,
            goal=self.goal,
            ceiling=self.ceiling,
            seed=self.seed,
            report=record,
        )
        try:
            search.run(deadline, workers=self.workers, seed=self.seed)
        except KeyboardInterrupt:
            self.deadline.cancel()
        return Packed(program, problem, sharing=search)

    def search(
        self, source: Program | Problem, first: Sequence[str], last: Sequence[str]
    ) -> tuple[Packed, OrderOutcome]:
        """The best order and its offsets; the given order where that packs better."""
        if not isinstance(source, Program):
            raise InputError("order='search' needs a graph: a bare problem has no ops to order")
        ordering, outcome = self._search_order(source, first, last)
        programs = [Program(source.graph, tuple(outcome.order.tolist()))]
        if source.order != programs[0].order and not (first or last):
            programs.append(source)
        floors = [self._floor(program) for program in programs]
        best: Packed | None = None
        for program, floor in zip(programs, floors, strict=True):
            if best is not None and (best.peak <= floor or best.good_enough):
                break
            rival = best is None and floors[-1] < RIVAL * floor and len(floors) > 1
            deadline = self.deadline.share(FIRST_PACKING_SHARE) if rival else self.deadline
            if self.deadline.cancelled:
                deadline = Deadline(GRACE)
            packed = self.pack(program, deadline, best.peak if best else None)
            if best is None or packed.peak < best.peak:
                if best is not None:
                    outcome = outcome._replace(found_by="given order")
                best = packed
        assert best is not None
        if (first or last) or best.good_enough:
            return best, outcome
        if best.sharing is not None:
            return improve_sharing_jointly(
                best,
                outcome,
                self.residency,
                self.deadline,
                workers=self.workers,
                seed=self.seed,
                report=self.record,
            )
        return improve_jointly(
            ordering,
            best,
            outcome,
            self.residency,
            self.deadline,
            workers=self.workers,
            seed=self.seed,
            report=self.record,
        )

    def _search_order(
        self, source: Program, first: Sequence[str], last: Sequence[str]
    ) -> tuple[OrderProblem, OrderOutcome]:
        from cpplan.stages.ordering import search_order

        graph = with_first_last(source.graph, first, last)
        if len(source.order) != len(graph.ops):
            raise InputError("order='search' needs a program that runs every op once")
        position = {op.name: k for k, op in enumerate(source.graph.ops)}
        given = source if not (first or last) else as_program(graph)
        assert isinstance(given, Program)
        ordering = order_problem(graph, self.residency)
        bound: int | None = None
        if self.sharing:
            ordering, bound = self._shared_ordering(graph, ordering)
        start = np.array(given.order, np.int64)
        # Until the search has said something, the given order is all there is.
        outcomes = [OrderOutcome(start, ordering.peak(start), bound or 0, "given order", FORCED)]

        def report(outcome: OrderOutcome) -> None:
            if bound is not None:
                outcome = outcome._replace(bound=bound, bound_by=FORCED)
            outcomes.append(outcome)
            self.record(None, outcome.bound, f"{outcome.found_by}: {outcome.peak} B live")

        try:
            search_order(
                ordering,
                start,
                self.deadline.share(ORDER_SHARE),
                goal=self.goal or 0,
                seed=self.seed,
                report=report,
            )
        except KeyboardInterrupt:
            self.deadline.cancel()
        # With first and last, the graph lists its ops anew: back to the source's numbers.
        names = [op.name for op in graph.ops]
        order = np.array([position[names[op]] for op in outcomes[-1].order], np.int64)
        return ordering, outcomes[-1]._replace(order=order)

    def _shared_ordering(
        self, graph: Graph, ordering: OrderProblem
    ) -> tuple[OrderProblem, int | None]:
        """The problem under the links that hold in any order; a bound where its own prove nothing.

        Its own bounds hold for every order and all links if no other links could save more.
        """
        from cpplan.sharing.links import find_links
        from cpplan.sharing.segments import forced_bytes, share_in_any_order

        links = find_links(graph, self.residency, self.sharing)
        shared, complete = share_in_any_order(graph, ordering, self.residency, links)
        return shared, None if complete else forced_bytes(graph, ordering, links)

    def _floor(self, program: Program) -> int:
        """Bytes that are live at once at this order, whatever is shared."""
        problem = as_problem(program, self.residency)
        if not self.sharing:
            return int(problem.live_bytes().max(initial=0))
        from cpplan.sharing.bound import shared_bound
        from cpplan.sharing.links import find_links
        from cpplan.sharing.lives import ProgramLives

        links = find_links(program.graph, self.residency, self.sharing)
        return shared_bound(problem, links, ProgramLives(program, problem, self.residency)).value

    def record(self, peak: int | None, bound: int | None, source: str) -> None:
        """Note an improvement, and tell who watches."""
        event = Progress(self.deadline.elapsed(), peak, bound, source)
        self.history.append(event)
        if self.progress is not None:
            self.progress(event)


def _sharing(source: object, in_place: bool, placement: bool) -> frozenset[RelationKind]:
    """What may be shared by choice."""
    for name, value in (("in_place", in_place), ("placement", placement)):
        if not isinstance(value, bool):
            raise InputError(f"{name} must be true or false, not {value!r}")
    kinds: dict[RelationKind, bool] = {"in place": in_place, "placement": placement}
    wanted = frozenset(kind for kind, use in kinds.items() if use)
    if wanted and isinstance(source, Problem):
        raise InputError("in_place and placement need a graph: a bare problem has no ops")
    return wanted


def _cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
