"""Best moves between two pools: of ops as they are, in pieces, or run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cpplan.model.pieces import Pieces
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Progress, RelationKind
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency, choose_residency
from cpplan.program.anf import Program
from cpplan.program.liveness import to_problem
from cpplan.runtime.budget import Budget, using
from cpplan.runtime.collection import without_collection
from cpplan.runtime.compiled import telling
from cpplan.runtime.interrupts import holding_interrupts
from cpplan.solving.best_pieces import NO_TIME_TO_SPLIT, split_ops
from cpplan.solving.best_schedule import rematerialize
from cpplan.solving.open_gaps import ALL_ENDED, ENDED_EARLY
from cpplan.solving.order_turns import has_many_ops
from cpplan.solving.request import Request
from cpplan.solving.run import is_short, make_run
from cpplan.solving.tuning import SolvingTuning
from cpplan.verification.verifier import verify_counting

if TYPE_CHECKING:
    from cpplan.spilling.outcome import Shortfall, Spilled
    from cpplan.spilling.recomputing import Start
    from cpplan.splitting.outcome import Split

# Recomputation with moves: number of limits, from the fast pool's capacity up, for schedules
# without moves.
_SPILL_SCHEDULES = 3
# Share of the time left for the first of these schedules, and for each other.
_SPILL_FIRST_SHARE = 0.6
_SPILL_SCHEDULE_SHARE = 0.1
# Share of the time left after the first such search for moves of the model without pieces.
_SPILL_UNSPLIT_SHARE = 0.2
# Share of the time left for each search for pieces, and for the moves of their bands.
_SPILL_SPLIT_SHARE = 0.4
_SPILL_PIECES_SHARE = 0.5
# Seconds for each op below which pieces are tried only if an op does not fit otherwise.
_SPILL_PIECES_AN_OP = 6e-4
# Time reserved to check bands that move, as a multiple of the time to derive the pieces.
_SPILL_PIECES_CHECKED = 9.0


def plan_moves(source: Program | Problem, request: Request, budget: Budget) -> Plan:
    """A verified plan in which tensors move between two pools."""
    assert isinstance(source, Program)
    history: list[Progress] = []
    common = {"share": request.in_place, "report": _reporter(request, budget, history)}
    split: Split | None = None
    cut = request.split
    with using(budget.tuning), telling(lambda text: None):
        if _is_late(source, budget):
            found = _no_moves(source, request)
        elif request.remat:
            found = _recompute_or_move(source, request, budget, common)
        else:
            cut = _tries_pieces(source, request, budget)
            found, split = _move_pieces(source, request, budget, common, cut=cut)
    with holding_interrupts() as hold, without_collection():
        hold()
        plan = _verified_plan(source, request, budget, found, split, history)
    if request.split and not cut and plan.status == "feasible":
        plan = replace(plan, message=NO_TIME_TO_SPLIT)
    return plan


def _is_late(program: Program, budget: Budget, plans: int = 1) -> bool:
    """True if the time left is too short to plan the moves of many ops, or even several times."""
    tuning = budget.tuned(SolvingTuning)
    seconds = plans * tuning.spill_seconds_an_op * len(program.order) - tuning.spill_grace
    return has_many_ops(program) and is_short(budget.deadline, seconds)


def _no_moves(program: Program, request: Request) -> Spilled:
    """The outcome if there is no time to plan moves."""
    from cpplan.spilling.bounds import MovedBound
    from cpplan.spilling.outcome import Spilled
    from cpplan.verification.bound_table import EVERY_OP_ONCE, NOTHING

    bound = MovedBound(0, EVERY_OP_ONCE if request.remat else NOTHING)
    every = request.remat or request.order == "search"
    return Spilled(program, None, None, None, bound, every_order=every)


def _reporter(
    request: Request, budget: Budget, history: list[Progress]
) -> Callable[[int | None, int, str], None]:
    """Function that records the cost of moves and its bound in the history."""
    unit = "cycles of moves" if request.objective == "time" else "B moved"
    where = " in these pieces" if request.split else ""

    def report(paid: int | None, bound: int, source: str) -> None:
        value = "no plan yet" if paid is None else f"{paid} {unit}"
        event = Progress(
            budget.deadline.elapsed(), None, None, f"{value}, at least {bound}{where}: {source}"
        )
        history.append(event)
        request.tell(event, budget.deadline)

    return report


def _recompute_or_move(
    program: Program, request: Request, budget: Budget, common: Mapping[str, Any]
) -> Spilled:
    """Moves and repetitions together, from schedules that fit by repetitions alone."""
    from cpplan.spilling.recomputing import spill_or_recompute

    schedules = _schedules(program, request, budget)
    pools = _two_pools(request)
    return spill_or_recompute(
        program,
        _residency(request),
        pools,
        budget,
        schedules=schedules,
        once=_is_late(program, budget, 4),
        **common,
    )


def _tries_pieces(program: Program, request: Request, budget: Budget) -> bool:
    """True if pieces are asked for, and time is left for them or an op does not fit without."""
    from cpplan.spilling.outcome import find_shortfall
    from cpplan.spilling.problem import spill_problem

    if not request.split or _is_late(program, budget, 4):
        return False
    if budget.deadline.remaining() >= _SPILL_PIECES_AN_OP * len(program.order):
        return True
    pools, residency = _two_pools(request), _residency(request)
    problem = spill_problem(program, residency, pools, share=request.in_place)
    return find_shortfall(problem) is not None


def _move_pieces(
    program: Program, request: Request, budget: Budget, common: Mapping[str, Any], *, cut: bool
) -> tuple[Spilled, Split | None]:
    """Moves of the program, or of its pieces and their split if these cost less.

    If there are pieces, other orders are searched only of what costs least at the given one.
    """
    from cpplan.spilling.solve import spill

    def moves(program: Program, budget: Budget, *, order: bool) -> Spilled:
        time = request.objective == "time"
        return spill(program, residency, pools, budget, order=order, time=time, **common)

    residency, pools, order = _residency(request), _two_pools(request), request.order == "search"
    split: Split | None = None
    splits = _splits(program, request, budget) if cut else iter(())
    other = next(splits, None)
    best, alone = program, other is None
    first = budget if alone else budget.share(_SPILL_UNSPLIT_SHARE)
    found = moves(program, first, order=order and alone)
    while other is not None:
        assert isinstance(other.packed.source, Program)
        # The pieces are derived anew for each check of the plan.
        budget.deadline.reserve(_SPILL_PIECES_CHECKED * other.derived)
        share = budget.share(_SPILL_PIECES_SHARE)
        pieces = other.packed.source
        # Moves keep what the split, in one pool, may have pieces compute again.
        once = Program(pieces.graph, tuple(dict.fromkeys(pieces.order)))
        moved = moves(once, share, order=False)
        if _moves_less(moved, found):
            best, found, split = once, moved, other
        other = next(splits, None)
    settled = found.choice is not None and found.choice.paid == 0
    if order and not alone and not settled and not budget.deadline.expired():
        moved = moves(best, budget, order=True)
        found = moved if _moves_less(moved, found) else found
    if request.split:
        # Every choice of moves for some pieces says nothing about other pieces.
        short = found.shortfall
        proved = None if short is None else _proved_or_tried(program, request, short)
        found = replace(found, exhausted=False, shortfall=proved)
    return found, split


def _proved_or_tried(program: Program, request: Request, short: Shortfall) -> Shortfall:
    """The op that does not fit in any pieces, if there is one; else the op that came nearest."""
    from cpplan.spilling.outcome import Shortfall
    from cpplan.splitting.bounds import least_piece
    from cpplan.splitting.problem import SplitProblem

    # The boundary of the model may lie in the slow pool.
    outside = Residency(inputs="outside", outputs="outside")
    sharing: frozenset[RelationKind] = frozenset({"in place"} if request.in_place else ())
    least = least_piece(SplitProblem(program, outside, sharing))
    fast, slow = _two_pools(request)
    capacity = fast.capacity
    assert capacity is not None
    # What ops access in the slow pool itself need not fit.
    if slow.direct or least.op is None or least.bytes <= capacity:
        return replace(short, tried=True)
    return Shortfall(least.op, least.bytes, least.bytes - capacity)


def _verified_plan(
    program: Program,
    request: Request,
    budget: Budget,
    found: Spilled,
    split: Split | None,
    history: Sequence[Progress],
) -> Plan:
    """The plan of the best moves found, verified.

    The bound on moves is of one graph of pieces, where other pieces may move fewer bytes.
    """
    from cpplan.solving.spilled_plan import make_spilled_plan
    from cpplan.spilling.bounds import MovedBound
    from cpplan.verification.bound_table import NOTHING

    if request.split:
        found = replace(found, bound=MovedBound(0, NOTHING))
    plan = make_spilled_plan(
        found,
        program.graph,
        _two_pools(request),
        _residency(request),
        share=request.in_place,
        time=request.objective == "time",
        scope="every splitting" if request.split else None,
        runtime=budget.deadline.elapsed(),
        history=history,
    )
    if split is not None:
        plan = replace(plan, pieces=split.pieces)
    if plan.status == "feasible" and not budget.deadline.expired():
        plan = replace(plan, message=f"{ENDED_EARLY}: {ALL_ENDED}")
    if plan.offset is not None:
        plan = verify_counting(program, plan)
    return plan


def _two_pools(request: Request) -> tuple[Pool, Pool]:
    """The fast and the slow pool."""
    assert request.pools is not None
    fast, slow = request.pools
    return fast, slow


def _residency(request: Request) -> Residency:
    return choose_residency(request.inputs, request.outputs, request.constants)


def _splits(program: Program, request: Request, budget: Budget) -> Iterator[Split]:
    """Splits of fewest bytes in one pool, without inputs and outputs and with them.

    Inputs and outputs may lie in the slow pool, where pieces read them, so that they need not fit.
    """
    alone = replace(request, spill=False, pools=None, objective="preference")
    without = replace(alone, inputs="outside", outputs="outside")
    tried: list[tuple[Pieces, ...]] = [()]
    for asked in [without] + [alone] * (alone != without):
        if budget.deadline.expired():
            return
        share = budget.share(_SPILL_SPLIT_SHARE)
        found = split_ops(make_run(program, asked, share), program)
        if found.pieces not in tried:
            tried.append(found.pieces)
            yield found


def _moves_less(one: Spilled, other: Spilled) -> bool:
    """True if one plan costs less than the other, only it fits, or fewer bytes are missing."""
    if one.choice is None and other.choice is None:
        missing = [0 if k.shortfall is None else k.shortfall.missing for k in (one, other)]
        return missing[0] < missing[1]
    if one.choice is None or other.choice is None:
        return one.choice is not None
    return one.choice.paid < other.choice.paid


def _schedules(program: Program, request: Request, budget: Budget) -> Iterator[Start]:
    """Schedules that run ops again to fit into the fast pool, or into somewhat more bytes."""
    from cpplan.spilling.recomputing import Start

    capacity = _two_pools(request)[0].capacity
    assert capacity is not None
    peak = int(to_problem(program, _residency(request)).live_bytes().max(initial=0))
    levels = _SPILL_SCHEDULES
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
        part = _SPILL_SCHEDULE_SHARE if level else _SPILL_FIRST_SHARE
        share = budget.share(part)
        packed = rematerialize(make_run(program, alone, share), program).packed
        if isinstance(packed.source, Program):
            places: dict[str, int] = {}
            if packed.peak <= capacity:
                places = dict(zip(packed.problem.names, packed.offsets.tolist(), strict=True))
            yield Start(packed.source.names, places)
