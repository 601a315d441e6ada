"""``simulate``: runs a plan's accesses in one arena, and finds bytes destroyed too early."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph, Op
from cpplan.model.plan import Plan
from cpplan.model.problem import Ints, Problem
from cpplan.program.anf import Program
from cpplan.verification.lowering import lower, with_fixed_sizes
from cpplan.verification.moves import check_moves
from cpplan.verification.needed_buffers import check_types, planned_offsets, pool_starts
from cpplan.verification.script import Script, from_accesses, from_problem
from cpplan.verification.written_runs import run_in_runs

# Largest arena size that is compared; a plan may claim more.
_HIGHEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Simulation:
    """Counts of a simulation: ops run, bytes written and checked, and arena.

    Attributes
    ----------
    ops
        Ops run, including those of bodies; 0 for a bare problem.
    bytes_written, bytes_checked
        Bytes written, and bytes found intact, counted at every access.
    arena_bytes
        Size of the arena: the plan's peak.
    """

    ops: int
    bytes_written: int
    bytes_checked: int
    arena_bytes: int


def simulate(
    source: Graph | Program | Problem, plan: Plan, *, dims: Mapping[str, int] | None = None
) -> Simulation:
    """Run a plan in an arena of exactly ``peak`` bytes; raise if needed bytes are destroyed.

    For a program, every op checks that its inputs are as they were last written, writes its outputs
    and workspaces, and checks all of them once more before it ends: an
    output must not reach into an input or a workspace, unless the graph says that they share bytes.
    An op writes nothing to an output that is a view of a tensor that it reads. Bodies run within
    their op, branches one after another. The caller checks the outputs, and the inputs that are
    kept, at the end. For a bare problem, each buffer is written when its lifespan begins and after
    every gap, and must be intact at every step at which it holds bytes; in a gap, only the gap's
    window must be.

    The arena is kept as stretches of bytes, each with the write that its bytes come from, and every
    check asks for the write that it must find: no overwriting goes unseen, however large the arena.
    Bytes that the graph declares to be copies count as the bytes of their source, so that a copy
    that is shifted against its source is seen too. A simulation takes some 130 B of memory for
    every write and check of a bare problem, and 500 B for every one of a program.

    Lifespans, costs, status and bounds claimed in the plan play no part: see ``verify``. A plan of
    symbolic sizes is run at the values in ``dims``; without them, at its bounds, or at the size
    with the largest arena if it was made for several sizes.

    Raises
    ------
    VerificationError
        If bytes were destroyed (names op, tensor, bytes, step, and the write that destroyed them),
        if an access is misaligned or out of range, if a buffer is missing, or if the arena is
        larger than its buffers.

    Examples
    --------
    >>> problem = Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8])
    >>> columns = dict(size=problem.size, lower=problem.lower, upper=problem.upper)
    >>> plan = Plan("p", "feasible", ("a", "b"), offset=np.array([0, 4]), peak=12, **columns)
    >>> simulate(problem, plan)
    Simulation(ops=0, bytes_written=12, bytes_checked=12, arena_bytes=12)
    >>> plan = Plan("p", "feasible", ("a", "b"), offset=np.array([0, 2]), peak=10, **columns)
    >>> simulate(problem, plan)
    Traceback (most recent call last):
    ...
    cpplan.model.errors.VerificationError: at step 1 bytes 2..4 of the arena are no longer those \
of buffer 'a', written at step 0: buffer 'b' overwrote them at step 1
    """
    check_types(source, plan)
    source, plan = with_fixed_sizes(source, plan, dims)
    if isinstance(source, Problem):
        script, ops = from_problem(source), 0
    else:
        lowered = lower(source, plan)
        if plan.spills:
            check_moves(lowered.moving.graph, lowered.moving.plan)
        plan, script = lowered.plan, from_accesses(lowered.accesses)
        ops = sum(_ops_run(op) for op in lowered.program.ops)
    peak, offset = _placed(script, plan)
    begin, end = (offset[script.buffer] + column for column in (script.begin, script.end))
    length = script.end - script.begin
    found = run_in_runs(script, begin, end)
    if found is not None:
        check, wrong = found
        raise _corruption(script, offset, check, (begin <= wrong) & (wrong < end))
    return Simulation(
        ops=ops,
        bytes_written=int(length[script.writes].sum()),
        bytes_checked=int(length[~script.writes].sum()),
        arena_bytes=peak,
    )


def _placed(script: Script, plan: Plan) -> tuple[int, Ints]:
    """The arena's size, and the planned address of every buffer that the script accesses.

    Several pools lie one above the other.
    """
    peak, planned = plan.peak, planned_offsets(plan)
    if not isinstance(peak, int) or isinstance(peak, bool) or peak < 0:
        raise VerificationError(f"the plan's peak must be a byte count, not {peak!r}")
    row = _planned_rows(script, plan)
    # A buffer that the plan lacks gets the row after the last one, with offset -1: it is refused.
    offset, start = np.append(planned, -1)[row], np.append(pool_starts(plan), 0)[row]
    # If one of these sums exceeds 64 bits, an earlier condition is true already.
    room = min(peak, _HIGHEST) - start
    outside = (offset < 0) | (start < 0) | (room < script.size) | (offset > room - script.size)
    wrong = outside | (offset % script.alignment != 0)
    if wrong.any():
        raise _misplaced(script, plan, int(np.argmax(wrong)), row, offset)
    address = start + offset
    top = int((address + script.size).max(initial=0))
    if top < peak:
        raise VerificationError(
            f"the plan claims a peak of {peak} B, but nothing accesses its bytes from {top} on"
        )
    return peak, address


def _planned_rows(script: Script, plan: Plan) -> Ints:
    """Row of each buffer in the plan; the row after the last if the plan lacks the buffer."""
    if tuple(script.names) == tuple(plan.buffers):
        return np.arange(len(plan.buffers), dtype=np.int64)
    row, absent = {name: k for k, name in enumerate(plan.buffers)}, len(plan.buffers)
    return np.array([row.get(name, absent) for name in script.names], np.int64)


def _misplaced(script: Script, plan: Plan, k: int, row: Ints, offset: Ints) -> VerificationError:
    """Error for buffer number ``k`` of the script, which cannot lie at its planned offset."""
    here = f"buffer {script.names[k]!r}, used at step {script.first_step[k]}"
    if row[k] == len(plan.buffers):
        return VerificationError(f"{here}, is not in the plan")
    at, alignment = int(offset[k]), int(script.alignment[k])
    if at % alignment:
        return VerificationError(
            f"{here}: address {at} is not a multiple of its alignment {alignment}"
        )
    span, arena = f"{at}..{at + int(script.size[k])}", min(plan.peak or 0, _HIGHEST)
    return VerificationError(f"{here}: bytes {span} lie outside the arena of {arena} B")


def _corruption(
    script: Script, offset: Ints, check: int, over: NDArray[np.bool_]
) -> VerificationError:
    """Error that names the write which destroyed the bytes that access ``check`` looks for.

    ``over`` marks the accesses to the byte that was found wrong: the last of them to write before
    the check destroyed it.
    """
    begin, end = offset[script.buffer] + script.begin, offset[script.buffer] + script.end
    before = script.writes & over & (np.arange(len(over)) < check)
    culprit = int(np.flatnonzero(before)[-1])
    own = before & (script.buffer == script.buffer[check])
    written = int(np.flatnonzero(own)[-1])
    reader, step = script.op_names[check], script.step
    when = f"at step {step[check]}" + ("" if reader is None else f" op {reader!r} finds that")
    return VerificationError(
        f"{when} bytes {max(begin[culprit], begin[check])}..{min(end[culprit], end[check])} of the "
        f"arena are no longer those of {script.subject(check)}, written at step {step[written]}: "
        f"{script.subject(culprit)} overwrote them at step {step[culprit]}"
    )


def _ops_run(op: Op) -> int:
    return 1 + sum(_ops_run(inner) for body in op.bodies for inner in body.ops)
