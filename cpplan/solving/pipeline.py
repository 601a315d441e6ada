"""``solve``: the stages and their one deadline.

The stages search for the order of least peak, if asked; pack; and verify the plan returned. Each
stage ends early with a proof. The deadline and Ctrl-C end the run with the best plan so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.names import tuple_of
from cpplan.model.plan import Plan, Progress
from cpplan.model.pool import Objective, Pool, check_pools
from cpplan.model.problem import Problem
from cpplan.packing.problem import as_program
from cpplan.packing.search.outcome import OrderOutcome
from cpplan.program.anf import Program
from cpplan.runtime.budget import using
from cpplan.runtime.collection import without_collection
from cpplan.runtime.compiled import telling
from cpplan.runtime.deadline import Deadline
from cpplan.runtime.interrupts import holding_interrupts
from cpplan.solving.best_order import search_orders
from cpplan.solving.best_pieces import cannot_split, split_ops, uncut
from cpplan.solving.best_schedule import rematerialize
from cpplan.solving.early_ends import with_reason
from cpplan.solving.plan_maker import make_plan, make_remat_plan, make_split_plan
from cpplan.solving.request import Request
from cpplan.solving.run import make_run
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
        from cpplan.solving.best_moves import plan_moves

        return plan_moves(source, request, budget)
    if request.split and cannot_split(source):
        return uncut(solve_request(source, request.without_pieces()))
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
        plan = with_reason(plan, run)
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
