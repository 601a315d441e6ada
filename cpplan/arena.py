"""``simulate``: run a plan in one arena of real bytes and see whether anything is destroyed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cpplan.anf import Program
from cpplan.checks.demands import trace
from cpplan.checks.filled_bytes import copies, run_in_bytes
from cpplan.checks.planned import (
    check_types,
    planned_offsets,
    planned_program,
    pool_starts,
)
from cpplan.checks.script import Script, from_problem, from_touches
from cpplan.checks.sharing import pairs_in_place
from cpplan.checks.written_runs import run_in_runs
from cpplan.errors import VerificationError
from cpplan.graph import Graph, Op
from cpplan.plan import Plan
from cpplan.problem import Ints, Problem

# Where more is written and checked, no bytes are filled, and runs of them are kept instead.
_MOVED_AT_MOST = 1 << 33


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a simulation did.

    Attributes
    ----------
    ops
        Ops run, those of bodies included; 0 for a bare problem.
    bytes_written, bytes_checked
        Bytes that were written and that were found intact, each time counted.
    arena_bytes
        Size of the arena: the plan's peak.
    rounds
        How many times everything was run.
    """

    ops: int
    bytes_written: int
    bytes_checked: int
    arena_bytes: int
    rounds: int


def simulate(
    source: Graph | Program | Problem, plan: Plan, *, dims: Mapping[str, int] | None = None
) -> Simulation:
    """Run the plan in an arena of exactly ``peak`` bytes; nothing may destroy what is still needed.

    Of a program, every op checks that its inputs are as they were last written, fills its outputs
    and workspaces with a pattern of its own, and checks all of them once more before it ends: an
    output must not reach into an input or a workspace, unless the graph says that they share bytes.
    An op writes nothing where its output is a view of what it reads. Bodies run within their op,
    branches one after another. The caller checks the outputs, and the inputs that are kept, at the
    end. Of a bare problem, each buffer is written when its lifespan begins and after every gap, and
    must be intact whenever its bytes are held: of a gap, its window only.

    A pattern is the serial number of the write. One round of the simulation fills bytes with one
    byte of it; there are as many rounds as the highest serial number has bytes. Two writes differ
    in at least one round, so nothing goes unseen. What the graph says is only copied keeps the
    number it has; where that happens, further rounds number the bytes of every write, so that a
    copy that lies a little beside its original is seen too.

    Arenas over 1 GiB are simulated in cells: the stretches between two neighbouring addresses at
    which any access begins or ends. No access begins or ends within a cell, so this is exact.
    Where nothing is copied and over 8 GiB would be moved, one round keeps which write each byte
    goes back to, in runs, and fills none.

    Lifespans, costs, status and bounds claimed in the plan play no part: see ``verify``. With
    ``dims``, a plan of symbolic sizes is run at these values, else at its bounds, or at the size
    with the largest arena of those that it was made for.

    Raises
    ------
    VerificationError
        If bytes were destroyed (names op, tensor, bytes, step, and who destroyed them), an access
        is misaligned or out of range, a buffer is missing, or the arena is larger than its buffers.

    Examples
    --------
    >>> problem = Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8])
    >>> columns = dict(size=problem.size, lower=problem.lower, upper=problem.upper)
    >>> plan = Plan("p", "feasible", ("a", "b"), offset=np.array([0, 4]), peak=12, **columns)
    >>> simulate(problem, plan)
    Simulation(ops=0, bytes_written=12, bytes_checked=12, arena_bytes=12, rounds=1)
    >>> plan = Plan("p", "feasible", ("a", "b"), offset=np.array([0, 2]), peak=10, **columns)
    >>> simulate(problem, plan)
    Traceback (most recent call last):
    ...
    cpplan.errors.VerificationError: at step 1 bytes 2..4 of the arena are no longer those of \
buffer 'a', written at step 0: buffer 'b' overwrote them at step 1
    """
    check_types(source, plan)
    if dims:
        from cpplan.symbolic.binding import bind_both

        source, plan = bind_both(source, plan, dims)
    elif plan.symbols is not None and plan.symbols.sizes and plan.offset is not None:
        from cpplan.symbolic.binding import bind_largest

        source, plan = bind_largest(source, plan)
    if isinstance(source, Problem):
        script, ops = from_problem(source), 0
    else:
        program = planned_program(source, plan)
        script = from_touches(trace(program, plan.residency, pairs_in_place(program.graph, plan)))
        ops = sum(_ops_run(op) for op in program.ops)
    peak, offset = _placed(script, plan)
    begin, end = (offset[script.buffer] + column for column in (script.begin, script.end))
    length = script.end - script.begin
    if int(length.sum()) > _MOVED_AT_MOST and not copies(script):
        rounds, found = 1, run_in_runs(script, begin, end)
    else:
        rounds, found = run_in_bytes(script, offset, begin, end, peak)
    if found is not None:
        check, wrong = found
        raise _corruption(script, offset, check, (begin <= wrong) & (wrong < end))
    return Simulation(
        ops=ops,
        bytes_written=int(length[script.writes].sum()),
        bytes_checked=int(length[~script.writes].sum()),
        arena_bytes=peak,
        rounds=rounds,
    )


def _placed(script: Script, plan: Plan) -> tuple[int, Ints]:
    """The arena's size, and the planned address there of every buffer the script accesses.

    Several pools lie one above the other.
    """
    peak, offset_of = (
        plan.peak,
        dict(zip(plan.buffers, planned_offsets(plan).tolist(), strict=True)),
    )
    if not isinstance(peak, int) or isinstance(peak, bool) or peak < 0:
        raise VerificationError(f"the plan's peak must be a byte count, not {peak!r}")
    start_of = dict(zip(plan.buffers, pool_starts(plan).tolist(), strict=True))
    top, offsets = 0, []
    for name, size, alignment, step in zip(
        script.names, script.size, script.alignment, script.first_step, strict=True
    ):
        if name not in offset_of:
            raise VerificationError(f"buffer {name!r}, used at step {step}, is not in the plan")
        offset = offset_of[name]
        here = f"buffer {name!r}, used at step {step}"
        start = start_of[name]
        if offset % alignment:
            raise VerificationError(
                f"{here}: address {offset} is not a multiple of its alignment {alignment}"
            )
        if offset < 0 or start + offset + size > peak:
            raise VerificationError(
                f"{here}: bytes {offset}..{offset + size} lie outside the arena of {peak} B"
            )
        top = max(top, start + offset + size)
        offsets.append(start + offset)
    if top < peak:
        raise VerificationError(
            f"the plan claims a peak of {peak} B, but nothing touches its bytes from {top} on"
        )
    return peak, np.array(offsets, np.int64)


def _corruption(
    script: Script, offset: Ints, check: int, over: NDArray[np.bool_]
) -> VerificationError:
    """Who destroyed what access number ``check`` looks for.

    ``over`` tells which accesses are to the byte that was found wrong: the last to write it did it.
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
