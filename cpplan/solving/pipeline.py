"""``solve``: the stages and their one deadline.

The stages search for the order of least peak, if asked; pack; and verify the plan returned. Each
stage ends early with a proof. The deadline and Ctrl-C end the run with the best plan so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.names import tuple_of
from cpplan.model.plan import Plan, Progress
from cpplan.model.pool import Objective, Pool, check_pools
from cpplan.model.problem import Problem
from cpplan.model.residency import choose_residency
from cpplan.packing.problem import as_program
from cpplan.packing.search.outcome import OrderOutcome
from cpplan.program.anf import Program
from cpplan.program.liveness import to_problem
from cpplan.runtime.budget import Budget, using
from cpplan.runtime.collection import without_collection
from cpplan.runtime.compiled import telling
from cpplan.runtime.deadline import Deadline
from cpplan.runtime.interrupts import holding_interrupts
from cpplan.solving.plan_maker import make_plan, make_remat_plan, make_split_plan
from cpplan.solving.request import Request
from cpplan.solving.run import Run
from cpplan.solving.shares import bytes_of
from cpplan.solving.tuning import SolvingTuning
from cpplan.verification.verifier import copied_with_moves, verify

if TYPE_CHECKING:
    from cpplan.spilling.outcome import Spilled
    from cpplan.spilling.recomputing import Start
    from cpplan.splitting.solve import Split

# How the message of a plan begins whose run left a gap and time, and its reason if no other is.
ENDED_EARLY = "ended before the time limit"
ALL_ENDED = "every search that applies has ended without a proof"
BY_THE_CLOCK = "the time limit has ended the search: another run may end with another plan"
POOLS_SHARED = (
    "the choices of what to share that are tried over several pools have been packed, and the "
    "bound holds whatever is shared"
)


def solve(
    source: Graph | Program | Problem,
    *,
    time_limit: float = 60.0,
    order: str | None = None,
    first: Sequence[str] = (),
    last: Sequence[str] = (),
    in_place: bool = False,
    placement: bool | None = None,
    remat: bool = False,
    split: bool = False,
    cost_limit: float | None = None,
    piece_bytes: int = 0,
    pools: Sequence[Pool] | None = None,
    spill: bool = False,
    objective: Objective = "preference",
    algorithm: str | None = None,
    capacity: int | str | None = None,
    memory_limit: int | str | None = None,
    inputs: str = "reuse",
    outputs: str = "keep",
    constants: str | None = None,
    workers: int | None = None,
    seed: int = 0,
    deterministic: bool = False,
    tuning: Mapping[str, Any] | None = None,
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
        ``"given"``, the default but with ``remat``: ops run in the order in which the graph lists
        them, or the program has them.
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
    remat
        Let ops run again, where they may, so that their results need not be kept: the least extra
        cost (sum of ``Op.cost``) within ``memory_limit``, or within the pools if all have a
        capacity. Orders are searched too, unless ``order="given"``: then first runs keep the given
        one. Copies may share bytes (``in_place``, ``placement``) and lie in several pools. With
        ``spill`` and the objective ``"time"``: ops run again where that takes less time than to
        move their results out and back, in the given order or in those that ``remat`` alone
        finds within the fast pool and more.
    split
        Let ops run in pieces, where the model says along which axes they may (``Op.axes``): the
        fewest bytes at no more than ``cost_limit``, or the least extra cost within
        ``memory_limit``; without either, the fewest bytes at no extra cost. Ops then first run in
        the order asked for, but in pieces, and the plan is one of
        the graph of pieces (:attr:`Plan.pieces`). With ``spill``, ops are cut for the fewest bytes
        in one pool, and then the bands move between two; or no op is cut, if fewer bytes move then.
    cost_limit
        With ``remat`` or ``split``, instead of ``memory_limit``: the fewest bytes at this multiple
        of the cost of running every op once (1.2 is a fifth more).
    piece_bytes
        With ``split``: bytes that the runtime keeps for each run beyond one per op, besides the
        arena. The fewest bytes are then those of both, while the peak, the limit and the bound stay
        those of the arena: so with more than 0, ``status`` is ``"optimal"`` only if no op is cut
        and the peak equals the bound.
    pools
        The memory regions, in order of preference, for a graph or a program; one arena if left out.
        With ``remat`` and several of them, the cost comes first, and ``objective`` is for packing.
        Which of them a tensor may go to follows from ``Tensor.pools`` and its kind.
    spill
        Let tensors move between two pools, the first fast and of a capacity, the second slow, with
        the fewest bytes moved. Every op finds its operands in the fast pool, unless the slow one is
        ``direct``. Inputs begin in either pool and outputs end in either, as the plan says and
        without cost (``Tensor.pools`` restricts that); constants, if kept, begin in the slow one.
        With ``order="search"``, the order is searched too.
    objective
        With several pools: ``"preference"`` fills the first pool first (the peak of the last is
        minimised, then that of the one before it, … down to the second, then the bytes that lie
        elsewhere than in the pool they prefer), ``"total"`` minimises the sum of the peaks,
        ``"cost"`` what bytes and accesses cost. With ``spill``, ``"time"`` minimises the cycles of
        ops (``Op.cost``) and of moves (the slow pool's bandwidth and latency); moves run beside ops
        if that pool has an ``engine``.
    algorithm
        Let this heuristic alone pack; see ``cpplan.heuristics``.
    capacity
        Stop at the first plan that fits into so many bytes (``262144`` or ``"256 KiB"``), or into
        a share of the bytes that the given order keeps live at once, with nothing shared
        (``"60%"``).
    memory_limit
        Like ``capacity`` a limit the plan must keep, but go on to the smallest peak.
    inputs, outputs, constants
        What the arena holds of the model's boundary: see
        :class:`~cpplan.model.residency.Residency`.
        Constants are kept if there is a pool for them, and else outside.
    workers
        Threads; as many as there are cores if left out. With one, the same input and seed give the
        same plan if no search is ended by the clock: what is reached in a time, or in a share of
        it, depends on the machine and on its load.
    seed
        For random choices.
    deterministic
        Count work instead of time, with one worker, so that the same input and seed always give
        the same plan; ``time_limit`` then is in units of about a second.
    tuning
        Thresholds and shares of the budget, for tests and ablations: fields of a room by its name
        (``{"solving": {"order_share": 0.25}}``). See ``cpplan.solving.tuning`` for the rooms.
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
    return solve_request(
        source,
        Request(
            time_limit=time_limit,
            order=order,
            first=tuple_of(str, "first", first),
            last=tuple_of(str, "last", last),
            in_place=in_place,
            placement=placement,
            remat=remat,
            split=split,
            cost_limit=cost_limit,
            piece_bytes=piece_bytes,
            pools=None if pools is None else check_pools(pools),
            spill=spill,
            objective=objective,
            algorithm=algorithm,
            capacity=capacity,
            memory_limit=memory_limit,
            inputs=inputs,
            outputs=outputs,
            constants=constants,
            workers=workers,
            seed=seed,
            deterministic=deterministic,
            tuning=tuning,
            progress=progress,
        ),
    )


def solve_request(source: Graph | Program | Problem, request: Request) -> Plan:
    """Plan the memory of a model as a request asks: :func:`solve` in one piece.

    Examples
    --------
    >>> problem = Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8])
    >>> solve_request(problem, Request(time_limit=5)).peak
    12
    """
    budget = request.budget()
    source = as_program(source)
    if isinstance(source, Program) and source.graph.symbols is not None and not request.split:
        if request.spill:
            raise InputError("spill=True needs fixed sizes: give extents of all dimensions")
        return _solve_symbolic(source, request, budget.deadline)
    request.check_source(source)
    if request.spill:
        return _solve_spilling(source, request, budget)
    run = _make_run(source, request, budget)
    searched: OrderOutcome | None = None
    with using(budget.tuning), telling(lambda text: run.record(None, None, text)):
        if request.split:
            pieces = run.split(source)
        elif request.remat:
            rematerialized = run.rematerialize(source)
        elif request.order == "given":
            packed = run.pack(source, budget.deadline)
        else:
            packed, searched = run.search(source)
    with holding_interrupts() as hold, without_collection():
        hold()  # what was found is checked and handed out, however impatient the user
        runtime, history = budget.deadline.elapsed(), run.history
        if request.split:
            plan = make_split_plan(pieces, run.residency, runtime=runtime, history=history)
        elif request.remat:
            plan = make_remat_plan(rematerialized, run.residency, runtime=runtime, history=history)
        else:
            plan = make_plan(
                packed,
                run.residency,
                searched=searched,
                ends=(request.first, request.last),
                limit=run.limit,
                runtime=runtime,
                history=history,
            )
        plan = _with_reason(plan, run)
        if plan.offset is not None:
            verify(source, plan)
    return plan


def _solve_spilling(source: Program | Problem, request: Request, budget: Budget) -> Plan:
    """A plan in which tensors move between two pools."""
    from cpplan.solving.spilled_plan import make_spilled_plan
    from cpplan.spilling.recomputing import spill_or_recompute
    from cpplan.spilling.solve import spill

    if not isinstance(source, Program):
        raise InputError("spill=True needs a graph: a bare problem has no ops that access tensors")
    assert request.pools is not None
    fast, slow = request.pools
    residency = choose_residency(request.inputs, request.outputs, request.constants)
    history: list[Progress] = []

    time = request.objective == "time"
    split: Split | None = None
    unit = "cycles of moves" if time else "B moved"

    def report(paid: int | None, bound: int, source: str) -> None:
        said = "no plan yet" if paid is None else f"{paid} {unit}"
        event = Progress(
            budget.deadline.elapsed(), None, None, f"{said}, at least {bound}: {source}"
        )
        history.append(event)
        if request.progress is not None:
            request.progress(event)

    common: dict[str, Any] = {"share": request.in_place, "report": report}
    with using(budget.tuning), telling(lambda text: None):
        if request.remat:
            schedules = _schedules(source, request, budget)
            found = spill_or_recompute(
                source, residency, (fast, slow), budget, schedules=schedules, **common
            )
        else:
            common |= {"order": request.order == "search", "time": time}
            split = _split_alone(source, request, budget) if request.split else None
            first = budget.share(budget.tuned(SolvingTuning).spill_unsplit_share)
            found = spill(source, residency, (fast, slow), first if split else budget, **common)
            if split is not None:
                assert isinstance(split.packed.source, Program)
                cut = spill(split.packed.source, residency, (fast, slow), budget, **common)
                found, split = (cut, split) if _moves_less(cut, found) else (found, None)
    with holding_interrupts() as hold, without_collection():
        hold()
        plan = make_spilled_plan(
            found,
            source.graph,
            (fast, slow),
            residency,
            share=request.in_place,
            time=time,
            runtime=budget.deadline.elapsed(),
            history=history,
        )
        if request.split and plan.offset is not None and split is not None:
            plan = replace(plan, pieces=split.pieces)
            plan = replace(plan, copied_bytes=copied_with_moves(source.graph, plan))
        if plan.status == "feasible" and not budget.deadline.expired():
            plan = replace(plan, message=f"{ENDED_EARLY}: {ALL_ENDED}")
        if plan.offset is not None:
            verify(source, plan)
    return plan


def _split_alone(program: Program, request: Request, budget: Budget) -> Split | None:
    """The pieces of fewest bytes in one pool within the limit on the cost, if any op is cut."""
    share = budget.share(budget.tuned(SolvingTuning).spill_split_share)
    alone = replace(request, spill=False, pools=None, objective="preference")
    found = _make_run(program, alone, share).split(program)
    return found if found.pieces else None


def _moves_less(one: Spilled, other: Spilled) -> bool:
    """True if the moves of one plan cost less than those of another, or only it fits."""
    if one.choice is None or other.choice is None:
        return one.choice is not None
    return one.choice.paid < other.choice.paid


def _schedules(program: Program, request: Request, budget: Budget) -> Iterator[Start]:
    """Schedules that run ops again to fit into the fast pool, or into more bytes than that."""
    from cpplan.spilling.recomputing import Start

    tuning = budget.tuned(SolvingTuning)
    residency = choose_residency(request.inputs, request.outputs, request.constants)
    assert request.pools is not None
    capacity = request.pools[0].capacity
    assert capacity is not None
    peak = int(to_problem(program, residency).live_bytes().max(initial=0))
    levels = tuning.spill_schedules
    for level in range(levels):
        if budget.deadline.expired() or peak <= capacity:
            return
        limit = capacity + (peak - capacity) * level // levels
        alone = replace(
            request,
            spill=False,
            pools=None,
            objective="preference",
            memory_limit=limit,
            order="search",
        )
        part = tuning.spill_schedule_share if level else tuning.spill_first_share
        share = budget.share(part)
        packed = _make_run(program, alone, share).rematerialize(program).packed
        if isinstance(packed.source, Program):
            places: dict[str, int] = {}
            if packed.peak <= capacity:
                places = dict(zip(packed.problem.names, packed.offsets.tolist(), strict=True))
            yield Start(packed.source.names, places)


def start_run(source: Program | Problem, request: Request) -> Run:
    """The run of a request, whose time starts now.

    Raises
    ------
    InputError
        If the request does not fit the source.
    """
    request.check_source(source)
    return _make_run(source, request, request.budget())


def finish_split(source: Program, run: Run, found: Split) -> Plan:
    """The plan of a split that a run has found, verified."""
    history = run.history
    plan = make_split_plan(found, run.residency, runtime=run.deadline.elapsed(), history=history)
    if plan.offset is not None:
        verify(source, plan)
    return plan


def _solve_symbolic(program: Program, request: Request, deadline: Deadline) -> Plan:
    """A plan at the bounds of the variables, in parts that share the deadline."""
    from cpplan.symbolic.planning import plan_at_bounds

    def solve_part(part: Program, share: float) -> Plan:
        return solve_request(part, request.within(share * deadline.remaining()))

    moves = "placement" in request.sharing and not request.remat and request.pools is None
    plan = plan_at_bounds(program, solve_part, moves=moves)
    if plan.offset is not None:
        verify(program, plan)
    return plan


def _make_run(source: Program | Problem, request: Request, budget: Budget) -> Run:
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
        from cpplan.aliasing.alias_candidates import find_candidates

        if not find_candidates(source.graph, residency, run.sharing):
            # Nothing can be shared: the search that knows nothing of it finds more.
            return replace(run, sharing=frozenset())
    return run


def _with_reason(plan: Plan, run: Run) -> Plan:
    """The plan, with the reason why the run ended if both a gap and time are left."""
    fits = run.target is not None and plan.peak is not None and plan.peak <= run.target
    if plan.status in ("optimal", "infeasible") or fits:
        return plan
    if run.deadline.expired():
        if not (run.deadline.deterministic or run.deadline.cancelled):
            run.record(None, None, BY_THE_CLOCK)
        return replace(plan, history=tuple(run.history))
    if run.request.algorithm is not None:
        why = f"algorithm {run.request.algorithm!r} alone packed, as asked"
    else:
        shared = run.sharing and len(plan.pools) > 1
        why = "; ".join(run.reasons) or (POOLS_SHARED if shared else ALL_ENDED)
    why = f"{ENDED_EARLY}: {why}"
    run.record(None, None, why)
    message = why if plan.message is None else f"{plan.message}; {why}"
    return replace(plan, message=message, history=tuple(run.history))
