"""``solve``: the stages and their one deadline.

The stages search for the order of least peak, if asked; pack; and verify the plan returned. Each
stage ends early with a proof. The deadline and Ctrl-C end the run with the best plan so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph
from cpplan.model.names import tuple_of
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Progress
from cpplan.model.pool import Objective, Pool, check_pools
from cpplan.model.problem import Problem
from cpplan.packing.problem import as_program
from cpplan.packing.search.outcome import OrderOutcome
from cpplan.program.anf import Program
from cpplan.runtime.budget import Budget, using
from cpplan.runtime.collection import without_collection
from cpplan.runtime.compiled import telling
from cpplan.runtime.deadline import Deadline
from cpplan.runtime.interrupts import first_interrupt_ending, holding_interrupts
from cpplan.solving.best_order import search_orders
from cpplan.solving.best_pieces import cannot_split, is_late_to_split, split_ops, uncut
from cpplan.solving.best_schedule import rematerialize
from cpplan.solving.freedoms import best_plan
from cpplan.solving.open_gaps import with_open_gap, with_reason
from cpplan.solving.plan_maker import make_plan, make_remat_plan, make_split_plan
from cpplan.solving.request import Request
from cpplan.solving.run import make_run
from cpplan.solving.suggestions import suggest_decisions, suggesting_time
from cpplan.solving.whole_arena import of_arena, on_tensors
from cpplan.verification.verifier import verify


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
    piece_bytes: int | Mapping[str, int] = 0,
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
    suggest: float = 0.0,
    progress: Callable[[Progress], None] | None = None,
) -> Plan:
    """Plan the memory of a model: an offset for every buffer, with the smallest peak found.

    Parameters
    ----------
    source
        A graph, a program, or a bare packing problem.
    time_limit
        Seconds for the whole run; then the best plan so far is returned.
    order
        ``"given"``, the default without ``remat``, keeps the order of the graph or the program.
        ``"search"`` takes the order that needs the fewest bytes. The given order is a candidate, so
        that the chosen order never has more live bytes, but less time is left for packing. Bounds
        then hold for every order.
    first, last
        Names of ops with which every searched order must start and end.
    in_place
        Let ops overwrite inputs that they read last, where the model allows it.
    placement
        Let a tensor lie within another if an op only copies it there or from there (the inputs of a
        concatenation within its output). By default like ``in_place``.
    remat
        Let ops run again, where the model allows it, so that their results need not be kept. The
        plan has the least extra cost (sum of ``Op.cost``) within ``memory_limit``, or within the
        pools if all have a capacity. Orders are searched too, unless ``order="given"``: then first
        runs keep the given order. Copies may share bytes (``in_place``, ``placement``) and lie in
        several pools. With ``spill`` and the objective ``"time"``, ops run again where that takes
        less time than moving their results out and back. Their order is the given one, or that of a
        schedule found by ``remat`` alone within the fast pool or somewhat more.
    split
        Let ops run in pieces along the axes that the model allows (``Op.axes``). The plan has the
        fewest bytes at a cost of at most ``cost_limit``, or the least extra cost within
        ``memory_limit``; without either, the fewest bytes at no extra cost. Ops keep the order
        asked for, except that ops in pieces take turns with those around them; the plan is for the
        graph of pieces (:attr:`Plan.pieces`). With ``spill``, ops are cut for the fewest bytes in
        one pool, and then the bands move between two pools; or no op is cut, if fewer bytes move
        then.
    cost_limit
        With ``remat`` or ``split``, instead of ``memory_limit``: the fewest bytes at this multiple
        of the cost of running every op once (1.2 is a fifth more).
    piece_bytes
        With ``split``: bytes that the runtime needs outside the arena for each run beyond one per
        op: of every op, or by its name (of ops left out 0). Plans are then ranked by the sum of
        both. The peak, the limit and the bound remain those of the arena, so that ``status`` is
        ``"optimal"`` only if no op is cut and the peak equals the bound.
    pools
        Memory regions in order of preference, for a graph or a program; by default one arena. With
        ``remat`` and several pools, the cost comes first, and ``objective`` is for packing. The
        candidate pools of a tensor follow from ``Tensor.pools`` and its kind.
    spill
        Let tensors move between two pools, the first fast with a capacity, the second slow, with
        the fewest bytes moved. Every op finds its operands in the fast pool, unless the slow one is
        ``direct``. Inputs begin in either pool and outputs end in either pool, as the plan says and
        without cost (``Tensor.pools`` restricts that); constants, if kept, begin in the slow pool.
        With ``order="search"``, the order is searched too.
    objective
        With several pools: ``"preference"`` fills the first pool first. It minimises the peaks from
        the last pool to the second, and then the bytes outside their preferred pool. ``"total"``
        minimises the sum of the peaks, ``"cost"`` the cost of bytes and accesses. With ``spill``,
        ``"time"`` minimises the cycles of ops (``Op.cost``) and of moves (the slow pool's bandwidth
        and latency); moves run beside ops if that pool has an ``engine``.
    algorithm
        Pack by this heuristic alone; see ``cpplan.heuristics``.
    capacity
        Stop at the first plan within this number of bytes (``262144`` or ``"256 KiB"``), or within
        this share of the most bytes that the given order keeps live at one step, without aliases
        (``"60%"``).
    memory_limit
        A limit like ``capacity``, but search on for the smallest peak. For a graph that says what
        its runtime keeps beside the tensors (:attr:`Graph.overhead`, as those of TFLite models do),
        both are on all of the arena, and the plan's ``capacity`` is what they leave for the peak;
        shares are of the tensors alone.
    inputs, outputs, constants
        Handling of the model's boundary: see :class:`~cpplan.model.residency.Residency`. Constants
        are kept if there is a pool for them, else they are outside.
    workers
        Threads; by default one a core. With one worker, the same input and seed give the same plan
        if no search is ended by the clock: the result of a search with a time limit depends on the
        machine and its load.
    seed
        Seed of random choices.
    deterministic
        Count work instead of time, with one worker, so that the same input and seed always give the
        same plan; ``time_limit`` then is in units of about a second.
    tuning
        Thresholds and shares of the budget, for tests and ablations: fields of a room by its name
        (``{"solving": {"order_share": 0.25}}``). See ``cpplan.solving.tuning`` for the rooms.
    suggest
        Seconds of ``time_limit``, at most a tenth of it, to try decisions that were not asked for
        and cost no work once the plan is made: ``order``, ``in_place`` and ``split``. What they
        would save is in :attr:`Plan.suggestions`.
    progress
        Called with each improvement of the peak or the bound.

    Returns
    -------
    Plan
        Verified. Its ``status`` says if it is proved smallest. It has no offsets if no plan within
        the limits exists or none was found.

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
    return solve_arena(
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
            suggest=suggest,
            progress=progress,
        ),
    )


def solve_arena(source: Graph | Program | Problem, request: Request) -> Plan:
    """Plan the memory of a model; limits include what its runtime keeps (``Graph.overhead``)."""
    seconds = suggesting_time(source, request)
    asked = request.within(request.time_limit - seconds)
    plan = of_arena(solve_request(source, on_tensors(source, asked)), source, asked)
    if not seconds:
        return plan
    return replace(plan, suggestions=suggest_decisions(source, plan, request, seconds, solve_arena))


def solve_request(source: Graph | Program | Problem, request: Request) -> Plan:
    """Plan the memory of a model for a request, whose limits are on the peak alone."""
    budget = request.budget()
    with first_interrupt_ending(budget.deadline):
        plan = best_plan(_search, as_program(source), request, budget)
    return with_open_gap(plan, request)


def _search(source: Program | Problem, request: Request, budget: Budget) -> Plan:
    """The verified plan of one search, with exactly the freedoms of a request."""
    request.check_source(source)
    if isinstance(source, Program) and source.graph.symbols is not None:
        return _solve_symbolic(source, request, budget.deadline)
    late = isinstance(source, Program) and is_late_to_split(source, budget)
    if request.split and not late and cannot_split(source):
        return uncut(_search(source, request.without("split"), budget))
    if request.spill:
        from cpplan.solving.best_moves import plan_moves

        return plan_moves(source, request, budget)
    run = make_run(source, request, budget)
    searched: OrderOutcome | None = None
    with using(budget.tuning), telling(lambda text: run.record(None, None, text)):
        if request.split:
            pieces = split_ops(run, source)
        elif request.remat:
            rematerialized = rematerialize(run, source)
        elif request.order == "given":
            packed = run.pack(source, budget.deadline)
        else:
            packed, searched = search_orders(run, source)
    with holding_interrupts() as hold, without_collection():
        hold()  # check and return the plan even if the user presses Ctrl-C again
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
        plan = with_reason(plan, run)
        if plan.offset is not None:
            verify(source, plan)
            if request.order == "given" and not plan.pieces:
                _check_order_kept(source, plan)
    return plan


def _check_order_kept(source: Program | Problem, plan: Plan) -> None:
    """Raise ``VerificationError`` unless ops first run in the source's order, which was to be kept.

    ``verify`` takes a plan of any order, since it does not know what was asked for.
    """
    if not isinstance(source, Program):
        return
    kept = zip(dict.fromkeys(source.names), dict.fromkeys(plan.order), strict=True)
    for given, planned in kept:
        if given != planned:
            raise VerificationError(
                f"the order was to be kept, but op {planned!r} first runs before op {given!r}"
            )


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
