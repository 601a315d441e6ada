"""Beam search over downsets: the best ``width`` partial orders are extended at each step.

The bytes live after a set of ops do not depend on the order within the set; of two partial orders
with the same ops, the one with the smaller peak dominates (Ahn et al., "Ordering Chaos:
Memory-Aware Scheduling of Irregularly Wired Neural Networks for Edge Devices" (SERENITY, MLSys
2020), whose dynamic program keeps all undominated sets; HMCOS, DAC 2022, bounds their number). The
beam keeps the ``width`` of them with the least peak so far, ties by live bytes. An op that frees at
least what it allocates and does not raise the peak is run at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints
from cpplan.ordering.heuristics.by_net_change import completed
from cpplan.ordering.heuristics.registered import register
from cpplan.ordering.heuristics.reversal import reverse_time
from cpplan.ordering.loops import BEAM
from cpplan.runtime.compiled import prepare
from cpplan.runtime.deadline import Deadline, TimeUpError

# Product of states and ops that sets the beam's default width: 1,000 ops take a second or two.
_BEAM_STATE_OPS = 1_000_000
# Largest default width of the beam, states.
_BEAM_STATES = 2048

# Approximate number of states extended by one op in a second; used where time is deterministic.
_RATE = 1.2e7
# Most steps between two looks at the deadline, and most extensions, unless one step takes more.
_STEPS, _EXTENSIONS = 16, 1_000_000


@register("beam")
def beam(
    problem: OrderProblem, deadline: Deadline, width: int | None = None, *, level: int = 0
) -> Ints:
    """The best order found by a beam of ``width`` states.

    Once the deadline has passed, list scheduling completes the best state. O(ops × width × (ops +
    storages)) time, O(ops × width) memory.
    """
    return _run_beam(problem, deadline, width, level)


@register("beam_backward")
def beam_backward(
    problem: OrderProblem, deadline: Deadline, width: int | None = None, *, level: int = 0
) -> Ints:
    """:func:`beam` in reversed time: the last op is chosen first."""
    backward = _run_beam(reverse_time(problem), deadline, width, level)
    return np.ascontiguousarray(backward[::-1])


def _run_beam(problem: OrderProblem, deadline: Deadline, width: int | None, level: int) -> Ints:
    if width is None:
        width = max(1, min(_BEAM_STATES, _BEAM_STATE_OPS // max(1, len(problem))))
    if width < 1:
        raise InputError(f"width must be at least 1, not {width!r}")
    return _Beam(problem, width, level).run(deadline)


class _Beam:
    """The flat arrays of the compiled loop; ``beam_kernel.extend_beam`` describes them.

    Rows that no state uses are never written, so that they take no memory.
    """

    def __init__(self, problem: OrderProblem, width: int, level: int):
        ops, storages = len(problem), len(problem.size)
        self.ops, self.width, self.given = ops, width, problem
        users = np.array(list(map(len, problem.accessed_by)), np.int32)
        codes = np.random.default_rng(0).integers(0, 2**64, ops, np.uint64)
        self.problem = (
            *_flat(problem.predecessors),
            # An op that lists a predecessor twice must not become ready twice.
            *_flat([tuple(dict.fromkeys(after)) for after in problem.successors]),
            *_flat(problem.accesses),
            problem.size.astype(np.int64),
            users,
            problem.present,
            problem.kept,
            problem.extra.astype(np.int64),
            codes,
        )
        self.beams = tuple(
            (
                np.zeros((width, ops), bool),
                np.zeros((width, storages), np.int32),
                np.zeros((width, ops), np.int32),
                np.zeros(width, np.int32),
                np.zeros(width, np.int64),
                np.zeros(width, np.int64),
                np.zeros(width, np.uint64),
            )
            for _ in range(2)
        )
        _, left, ready, ready_count, live, peak, _ = self.beams[0]
        left[0], peak[0] = users, level
        first = [op for op, before in enumerate(problem.predecessors) if not before]
        ready[0, : len(first)], ready_count[0] = first, len(first)
        live[0] = problem.base + int(problem.size[problem.present].sum())
        self.trace = (np.zeros((ops, width), np.int32), np.zeros((ops, width), np.int32))
        most = width * ops
        types = (np.int64, np.int64, np.uint64, np.int32, np.int32)
        self.candidates = (*(np.zeros(most, t) for t in types), np.zeros(width, np.int64))
        self.table = np.zeros(max(1, 4 * most), np.int32)
        self.cursor = np.array([0, 1, 0], np.int64)

    def run(self, deadline: Deadline) -> Ints:
        if not prepare(BEAM, deadline):
            raise TimeUpError
        from cpplan.ordering.heuristics.beam_kernel import extend_beam

        while (step := int(self.cursor[0])) < self.ops and not deadline.expired():
            beams = self.beams if step % 2 == 0 else self.beams[::-1]
            arrays = (self.problem, *beams, self.trace, self.candidates, self.table, self.cursor)
            widest = int(beams[0][3][: self.cursor[1]].max())
            steps = min(_STEPS, _EXTENSIONS // (self.width * widest) + 1)
            extend_beam(steps, self.width, *arrays)
            deadline.spend(int(self.cursor[2]) / _RATE)
        begun = self._traced()
        return begun if len(begun) == self.ops else completed(self.given, begun.tolist())

    def _traced(self) -> Ints:
        """Ops that the best state has run, in order."""
        steps, states = self.cursor[:2].tolist()
        peak, live = self.beams[steps % 2][5][:states], self.beams[steps % 2][4][:states]
        parent, ran = self.trace
        row, order = int(np.lexsort((live, peak))[0]), []
        for step in reversed(range(steps)):
            order.append(int(ran[step, row]))
            row = int(parent[step, row])
        return np.array(order[::-1], np.int64)


def _flat(groups: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Start of every group (and the end of the last), and all groups one after another."""
    starts = np.cumsum([0, *map(len, groups)]).astype(np.int64)
    return starts, np.array(list(itertools.chain.from_iterable(groups)), np.int64)
