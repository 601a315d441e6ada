"""Check of moves: each tensor's bytes are where each op and each move finds them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cpplan.model.errors import InputError, VerificationError
from cpplan.model.graph import Graph, Op
from cpplan.model.moves import Move
from cpplan.model.plan import Plan
from cpplan.model.residency import Residency
from cpplan.program.anf import Program, to_anf
from cpplan.program.timeline import begun_copies
from cpplan.verification.access_trace import Access, replay
from cpplan.verification.runs import Run
from cpplan.verification.storages import storages_held


@dataclass(frozen=True)
class BareProgram:
    """The model's program in a plan's order, without moves, its accesses and its runs."""

    program: Program
    residency: Residency

    @property
    def accesses(self) -> Sequence[Access]:
        """All accesses, listed on first use."""
        return self._demands[0]

    @property
    def runs(self) -> Sequence[Run]:
        """The run of each op, made on first use."""
        return self._demands[1]

    @cached_property
    def _demands(self) -> tuple[Sequence[Access], Sequence[Run]]:
        return replay(self.program, self.residency)


def check_moves(graph: Graph, plan: Plan) -> BareProgram:
    """The model's program in the plan's order, after a check of all moves.

    The check reads the model itself, not the program with moves as ops. It checks that every op and
    every move finds the tensor's bytes in the pool where it looks for them, that only tensors
    written at once move, and that each move carries as many bytes as it states.

    Raises
    ------
    VerificationError
        Names the move or the op, and the tensor.
    """
    if len(plan.pools) != 2:
        raise VerificationError(
            f"moves need two pools, a fast and a slow one, but the plan has {len(plan.pools)}"
        )
    copies = {move.name: move for move in plan.moves if move.is_step}
    if len(copies) < sum(move.is_step for move in plan.moves):
        raise VerificationError("two moves of the plan have the same name")
    ops = tuple(name for name in plan.order if name not in copies)
    steps = set(plan.order)
    missing = next((name for name in copies if name not in steps), None)
    if missing is not None:
        raise VerificationError(f"move {missing!r} is not in the plan's order")
    if len(steps) < len(plan.order):
        raise VerificationError("a plan with moves runs every op and every move once")
    try:
        program = to_anf(graph, ops)
    except InputError as error:
        raise VerificationError(str(error)) from error
    _Walk(graph, plan, copies).walk()
    return BareProgram(program, plan.residency)


class _Walk:
    """A walk through the order with the pools that hold each storage's bytes.

    Since every op runs once, each storage has a single retention without its moves.
    """

    def __init__(self, graph: Graph, plan: Plan, copies: dict[str, Move]):
        self.graph, self.plan, self.copies = graph, plan, copies
        self.fast, self.slow = (pool.name for pool in plan.pools)
        held, _, _ = storages_held(graph, plan.residency)
        self.held = {graph.columns.names[k] for k in np.flatnonzero(held).tolist()}
        self.direct: dict[str, dict[str, Move]] = defaultdict(dict)
        for move in plan.moves:
            if not move.is_step:
                if move.name not in graph.op or move.tensor in self.direct[move.name]:
                    raise VerificationError(
                        f"{_described(move)}: expected one such move of an op {move.name!r}"
                    )
                self.direct[move.name][move.tensor] = move
        # Storage -> pools that hold its bytes; None while the caller's choice is not known.
        self.holds: dict[str, set[str] | None] = {}
        # Storage -> the copy that has begun and is waited for later.
        self.begun = begun_copies(plan.order, copies)
        self.under_way: dict[str, Move] = {}
        self.writers: dict[str, set[str]] = defaultdict(set)
        self.kinds: dict[str, set[str]] = defaultdict(set)
        # Storage -> pools that its tensors may lie in.
        self.allowed = {root: {self.fast, self.slow} for root, _ in graph.root.values()}
        for tensor in graph.tensors:
            root = graph.root[tensor.name][0]
            self.kinds[root].add(tensor.kind)
            if tensor.pools is not None and graph.tensor[root].nbytes:
                self.allowed[root] &= set(tensor.pools)
        # Op -> tensors of which it writes bytes that it does not pass on from an input.
        self.written: dict[str, list[str]] = {}
        for op in graph.ops:
            made = op.outputs + op.workspaces
            self.written[op.name] = own = [name for name in made if self._writes(op, name)]
            for name in own:
                self.writers[graph.root[name][0]].add(name)

    def _writes(self, op: Op, name: str) -> bool:
        root, covered = self.graph.root[name]
        sources = [other for other in op.inputs if self.graph.root[other][0] == root]
        end = covered + self.graph.tensor[name].nbytes
        for begin, stop in sorted(map(self._span, sources)):
            covered = max(covered, stop) if begin <= covered else covered
        return covered < end or not sources

    def _span(self, name: str) -> tuple[int, int]:
        """Bytes of a tensor in its storage."""
        begin = self.graph.root[name][1]
        return begin, begin + self.graph.tensor[name].nbytes

    def _is_brought(self, root: str) -> bool:
        """True if the caller writes a storage before the first step; ops may write in it later."""
        return not self.writers[root] or not self.kinds[root].isdisjoint({"input", "constant"})

    def walk(self) -> None:
        for name in self.plan.order:
            if name in self.copies:
                move = self.copies[name]
                (self._wait if move.kind == "wait" else self._copy)(move)
            else:
                self._op(self.graph.op[name])
        for op, moves in self.direct.items():
            accessed = self._storages(self.graph.op[op])
            for move in moves.values():
                if move.tensor not in accessed:
                    raise VerificationError(
                        f"{_described(move)}: the op does not access the tensor"
                    )

    def _storages(self, op: Op) -> dict[str, bool]:
        """Storages of an op in the pools -> True if the op is the first to write them."""
        roots = self.graph.root
        read = {roots[name][0] for name in op.inputs}
        accessed = [roots[name][0] for name in op.tensors]
        return {root: root not in read for root in accessed if root in self.held}

    def _check_movable(self, move: Move) -> None:
        root = move.tensor
        if root not in self.graph.tensor or self.graph.root[root] != (root, 0):
            raise VerificationError(
                f"{_described(move)}: expected a tensor of the model that is no view"
            )
        writers, kinds = self.writers[root], self.kinds[root]
        brought = not writers
        whole = brought or writers == {root}
        if not whole or "workspace" in kinds or (brought and "output" in kinds):
            raise VerificationError(
                f"{_described(move)}: expected an input, a constant or a tensor that one op writes "
                "at once, and no workspace"
            )
        away = {"spill": (self.fast, self.slow), "write": (self.fast, self.slow)}
        ends = away.get(move.kind, (self.slow, self.fast))
        if (move.source, move.target) != ends:
            raise VerificationError(f"{_described(move)}: must be from {ends[0]!r} to {ends[1]!r}")

    def _check_pool(self, root: str, pool: str, here: str) -> None:
        """Check that all tensors of a storage may lie in a pool."""
        if pool not in self.allowed[root]:
            raise VerificationError(f"{here}: tensor {root!r} may not lie in pool {pool!r}")

    def _copy(self, move: Move) -> None:
        self._check_movable(move)
        size = self.graph.tensor[move.tensor].nbytes
        if move.size != size:
            raise VerificationError(f"{_described(move)}: moves {size} B, not {move.size} B")
        for pool in (move.source, move.target):
            self._check_pool(move.tensor, pool, _described(move))
        holds = self._found(move.tensor, move.source, _described(move))
        if move.kind == "spill" and self.slow in holds:
            raise VerificationError(
                f"{_described(move)}: the tensor lies in pool {self.slow!r} already"
            )
        if move.tensor in self.under_way:
            raise VerificationError(
                f"{_described(move)} begins before another copy of the tensor has ended"
            )
        if move.name not in self.begun:
            holds.add(move.target)
            return
        if not self.plan.pools[1].engine:
            raise VerificationError(
                f"{_described(move)} runs beside ops, but pool {self.slow!r} has no copy engine"
            )
        self.under_way[move.tensor] = move

    def _wait(self, move: Move) -> None:
        copy = self.under_way.pop(move.tensor, None)
        if copy is None:
            raise VerificationError(f"{_described(move)}: no copy of the tensor has begun")
        if move.size or (move.source, move.target) != (copy.source, copy.target):
            raise VerificationError(
                f"{_described(move)} must have the pools of {copy.name!r}, which it ends, and 0 B"
            )
        holds = self.holds[move.tensor]
        assert holds is not None
        holds.add(copy.target)

    def _op(self, op: Op) -> None:
        direct = self.direct.get(op.name, {})
        storages = self._storages(op)
        passes = bool(op.outputs) and not self.written[op.name]
        passed = {self.graph.root[name][0] for name in op.outputs} if passes else set()
        crossing = self._crossing(op) if direct else {}
        here = f"op {op.name!r}"
        for root, begins in storages.items():
            move = direct.get(root)
            if move is not None:
                self._check_movable(move)
                whole = self.graph.tensor[root].nbytes
                size = 0 if root in passed else min(crossing[root], whole)
                self._check_direct(op, move, begins, size)
            pool = self.fast if move is None else self.slow
            self._check_pool(root, pool, here)
            if begins and not (self.holds.get(root) or len(self.writers[root]) > 1):
                self.holds[root] = {pool}
            elif begins and len(self.writers[root]) > 1:
                self.holds.setdefault(root, {self.fast})
            else:
                self._found(root, pool, here)

    def _crossing(self, op: Op) -> dict[str, int]:
        """Sum of the bytes of an op's tensors in each storage."""
        found: dict[str, int] = defaultdict(int)
        for name in dict.fromkeys(op.tensors):
            found[self.graph.root[name][0]] += self.graph.tensor[name].nbytes
        return found

    def _check_direct(self, op: Op, move: Move, begins: bool, size: int) -> None:
        if (move.kind == "write") != begins:
            raise VerificationError(
                f"{_described(move)}: op {op.name!r} {'writes' if begins else 'reads'} the tensor"
            )
        if move.size != size:
            raise VerificationError(f"{_described(move)}: moves {size} B, not {move.size} B")
        if size and not self.plan.pools[1].direct:
            raise VerificationError(
                f"{_described(move)}: ops cannot access pool {self.slow!r} directly"
            )

    def _found(self, root: str, pool: str, here: str) -> set[str]:
        """The pools that hold a storage; raises unless this one does."""
        if root not in self.holds and self._is_brought(root):
            self.holds[root] = {pool}  # the caller put it into this pool
        holds = self.holds.get(root)
        copy = self.under_way.get(root)
        if copy is not None and copy.target == pool:
            raise VerificationError(f"{here} needs tensor {root!r} before {copy.name!r} has ended")
        if holds is None:
            raise VerificationError(f"{here} needs tensor {root!r} before it is written")
        if pool not in holds:
            raise VerificationError(
                f"{here} needs tensor {root!r} in pool {pool!r}, but it lies in "
                f"{', '.join(map(repr, sorted(holds)))}"
            )
        return holds


def _described(move: Move) -> str:
    return f"{move.kind} of {move.tensor!r} ({move.name!r})"
