"""Plans in which tensors move between two pools: checks of their moves and bounds.

Checks of the claims of a plan in which tensors move: its time, and the bound on its moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from cpplan.model.certificates import ForcedMoves, RoomPrices
from cpplan.model.costs import sum_costs
from cpplan.model.errors import VerificationError
from cpplan.model.plan import Plan
from cpplan.program.anf import Program
from cpplan.program.timeline import least_time, run_time
from cpplan.verification.bound_table import EVERY_OP_ONCE, MOVED_BOUNDS, applying
from cpplan.verification.claims import Proofs, check_status, is_integer, is_number
from cpplan.verification.forced_moves import forced_moves_floor
from cpplan.verification.lowering import Lowered
from cpplan.verification.moved_bound import moved_bytes_floor
from cpplan.verification.moves import BareProgram, check_moves
from cpplan.verification.needed_buffers import (
    check_costs,
    planned_offsets,
)
from cpplan.verification.piece_copies import copied_bytes


def check_moving(lowered: Lowered) -> BareProgram:
    """The ops of a plan in its order, without its moves, after a check of all moves."""
    plan = lowered.planned
    planned_offsets(plan)
    base = sum_costs(op.cost for op in lowered.model.ops)
    if plan.base_cost is None or not math.isclose(plan.base_cost, base, rel_tol=1e-9):
        raise VerificationError(
            f"the plan claims a base_cost of {plan.base_cost!r}, but it is {base}"
        )
    graph, moving, _ = lowered.moving
    bare = check_moves(graph, moving)
    check_costs(bare.program, replace(moving, base_cost=moving.cost))
    return bare


def check_moved_bounds(lowered: Lowered, bare: BareProgram) -> Proofs:
    """Check the time and the bound on the moves of a plan, and say how.

    Raises
    ------
    VerificationError
        Names the claim and what can be proved.
    """
    (graph, moving, origin), plan = lowered.moving, lowered.planned
    check_time(bare.program, moving)

    def floor(name: str) -> int | float:
        """Bytes moved, or cycles, that a bound of this name proves."""
        least, proof = 0, plan.moved_certificate
        if isinstance(proof, RoomPrices):
            least = moved_bytes_floor(graph, bare, moving, proof)
        elif isinstance(proof, ForcedMoves):
            least = forced_moves_floor(graph, bare, moving, proof)
        if plan.time_bound is None:
            return least
        once = sum_costs(op.cost for op in lowered.model.ops)
        return least_time(
            once if name == EVERY_OP_ONCE else bare.program.cost, least, plan.pools[1]
        )

    return check_moved_claims(moving, floor, again=len(origin) > 0)


def copied_with_moves(lowered: Lowered) -> int | None:
    """Bytes that a plan in pieces with moves copies to gather and to paste bands.

    ``None`` without pieces.
    """
    described, program = lowered.described, lowered.program
    if described is None:
        return None
    parts = {
        copy: described.parts[band]
        for copy, band in lowered.moved.origin.items()
        if band in described.parts
    }
    described = replace(described, graph=program.graph, parts=parts)
    return copied_bytes(described, program, lowered.plan, lowered.accesses)


def check_time(program: Program, plan: Plan) -> None:
    """Check the time that a plan with moves claims, if it claims any."""
    if plan.time is None and plan.time_bound is None and plan.time_bound_by is None:
        return
    if len(plan.pools) != 2:
        raise VerificationError("the plan claims a time, but does not have two pools")
    time = run_time(program.graph, plan.order, plan.moves, plan.pools[1])
    if not is_number(plan.time) or not math.isclose(plan.time, time, rel_tol=1e-9):  # type: ignore[arg-type]
        raise VerificationError(f"the plan claims a time of {plan.time!r} cycles, not {time}")


def check_moved_claims(
    plan: Plan, floor: Callable[[str], int | float], *, again: bool = False
) -> Proofs:
    """Check the status and the bound on the bytes moved or the time; return the kinds of proof.

    Parameters
    ----------
    floor
        Function from the name of a bound that can be proved again to the bytes that it proves, or
        to the cycles if the plan has a time bound.
    again
        True if ops of the plan run again.

    Raises
    ------
    VerificationError
        Names the claim and what can be proved.
    """
    timed = plan.time is not None
    bound, value = (
        (plan.time_bound, plan.time) if timed else (plan.moved_bytes_bound, plan.moved_bytes)
    )
    name = plan.time_bound_by if timed else plan.moved_bytes_bound_by
    right = is_number(bound) if timed else is_integer(bound)
    if not right or not 0 <= bound <= value:  # type: ignore[operator]
        what = "time must be a number" if timed else "bytes moved must be a byte count"
        raise VerificationError(f"the bound on the {what} of at most {value}, not {bound!r}")
    if timed and (plan.moved_bytes_bound, plan.moved_bytes_bound_by) != (None, None):
        raise VerificationError(
            "the plan has a bound on the time and one on the bytes moved: expected the first alone"
        )
    others = (
        plan.lower_bound, plan.bound_by, plan.cost_bound, plan.cost_bound_by, plan.certificate,
        plan.cost_certificate,
    )  # fmt: skip
    if any(other is not None for other in others) or plan.objective_value or plan.objective_bound:
        raise VerificationError(
            "a plan with moves may bound only its bytes moved or its time: it has another bound"
        )
    found = applying(MOVED_BOUNDS, name, plan, plan.moved_certificate)
    if again and (found.reach != "every schedule" or plan.scope != "every order"):
        raise VerificationError(
            f"bound {found.name!r} is of ops that run once, but in the plan ops run again"
        )
    if found.proof != "searched":
        proved = floor(found.name)
        if bound > proved:  # type: ignore[operator]
            unit = "cycles" if timed else "B"
            raise VerificationError(
                f"{found.name!r} proves a lower bound of {proved} {unit}, but the plan claims "
                f"{bound} {unit}"
            )
    check_status(plan, (value,), (bound,))
    return Proofs(moved_bound=found.proof)
