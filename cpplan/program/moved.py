"""Programs in which moves between pools are ops, made from a plan's order and its moves.

A storage that moves has a copy of its own for each stay: ``x``, ``x~1``, … in the fast pool, one
``x@POOL`` in the slow one. A spill is an op that reads the copy in the fast pool and writes the
copy in the slow pool; a reload begins the next copy in the fast pool. Every op uses the newest copy
in the fast pool, unless the moves say that it reads or writes in the slow one. A wait reads both
copies of a spill or a reload, so that the bytes of both stay reserved while ops run beside the
move.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Placement, Tensor
from cpplan.model.moves import Move
from cpplan.model.residency import Residency
from cpplan.model.tensor import Storage
from cpplan.program.anf import Program, to_anf
from cpplan.program.copy_names import CopyNames
from cpplan.program.storages import accessed_storages, find_storages


@dataclass(frozen=True, slots=True)
class MovedProgram:
    """A program with its moves as ops, and the copies that stand for the model's tensors.

    Attributes
    ----------
    program
        Ops and moves in the plan's order, each once.
    begins, ends
        Tensor of the model -> its copy before the first step and after the last.
    origin
        Copy -> tensor of the model.
    """

    program: Program
    begins: Mapping[str, str]
    ends: Mapping[str, str]
    origin: Mapping[str, str]

    def places(self, graph: Graph) -> dict[str, tuple[str, int]]:
        """Tensor -> buffer and byte offset: an input's first copy, any other tensor's last copy."""
        root = self.program.graph.root
        return {
            t.name: root[(self.begins if t.kind == "input" else self.ends)[t.name]]
            for t in graph.tensors
        }


def program_with_moves(
    graph: Graph,
    residency: Residency,
    order: Sequence[str],
    moves: Sequence[Move],
    pools: tuple[str, str],
    *,
    storages: Mapping[str, Storage] | None = None,
) -> MovedProgram:
    """The program that runs the ops and moves of an order."""
    storages = find_storages(graph, residency) if storages is None else storages
    return _Maker(graph, storages, pools).make(order, moves)


class _Maker:
    """Copies of storages and ops of a program under construction."""

    def __init__(self, graph: Graph, storages: Mapping[str, Storage], pools: tuple[str, str]):
        self.graph, self.storages = graph, storages
        self.fast, self.slow = pools
        self.names = CopyNames(t.name for t in graph.tensors)
        self.taken = {t.name for t in graph.tensors}
        self.slow_names: dict[str, str] = {}
        # Storage -> number of its copies in the fast pool; the next two sets: storages in the slow
        # one.
        self.copies: dict[str, int] = {}
        self.in_slow: set[str] = set()
        self.begin_slow: set[str] = set()

    def make(self, order: Sequence[str], moves: Sequence[Move]) -> MovedProgram:
        copies, direct = self._by_name(moves)
        ops: list[Op] = []
        self._begin(order, copies, direct)
        for name in order:
            if name in copies:
                ops.append(self._move(copies[name]))
            elif name in self.graph.op:
                ops.append(self._op(self.graph.op[name], direct.get(name, {})))
            else:
                raise InputError(f"order names unknown op {name!r}")
        begins = self._boundary_copies(self.begin_slow, set())
        again = {root for root, copies in self.copies.items() if copies > 1}
        ends = self._boundary_copies(self.in_slow, again)
        origin: dict[str, str] = {}
        tensors = tuple(self._tensors(begins, ends, origin))
        made = Graph(self.graph.name, tensors, tuple(ops))
        return MovedProgram(to_anf(made, order), begins, ends, origin)

    def _by_name(self, moves: Sequence[Move]) -> tuple[dict[str, Move], dict[str, dict[str, Move]]]:
        """Copying moves by name, and direct accesses by op and storage."""
        copies: dict[str, Move] = {}
        direct: dict[str, dict[str, Move]] = {}
        for move in moves:
            storage = self.storages.get(move.tensor)
            if storage is None or not storage.movable:
                raise InputError(f"{move.kind} of {move.tensor!r}: no storage that may move")
            if move.is_step:
                if move.name in copies or move.name in self.graph.op:
                    raise InputError(f"two steps of the order are named {move.name!r}")
                copies[move.name] = move
            else:
                there = direct.setdefault(move.name, {})
                if move.tensor in there or move.name not in self.graph.op:
                    raise InputError(f"{move.kind} of {move.tensor!r} by {move.name!r}: no such op")
                there[move.tensor] = move
        return copies, direct

    def _begin(
        self,
        order: Sequence[str],
        copies: Mapping[str, Move],
        direct: Mapping[str, Mapping[str, Move]],
    ) -> None:
        """Put each storage that the caller brings into the pool of its first access, else slow."""
        first: dict[str, bool] = {}
        brought = {root for root, storage in self.storages.items() if storage.brought}
        for name in order:
            if len(first) == len(brought):
                break
            if name in copies and copies[name].tensor in brought:
                first.setdefault(copies[name].tensor, copies[name].kind != "spill")
            elif name in self.graph.op:
                slow = direct.get(name, {})
                for root in self._accessed(self.graph.op[name]):
                    if root in brought:
                        first.setdefault(root, root in slow)
        for root, storage in self.storages.items():
            if not storage.brought:
                continue
            if storage.movable and may_lie(storage, self.slow) and first.get(root, True):
                self.begin_slow.add(root)
                self.in_slow.add(root)
            else:
                self.copies[root] = 1

    def _accessed(self, op: Op) -> tuple[str, ...]:
        return accessed_storages(self.graph, op, self.storages)

    def _move(self, move: Move) -> Op:
        root = move.tensor
        if move.kind == "wait":
            if root not in self.in_slow or root not in self.copies:
                raise InputError(f"wait for {root!r}, which is not copied before")
            both = self._fast_name(root, root), self._slow_name(root)
            return Op(move.name, "Wait", both, (), cost=0)
        if move.kind == "spill":
            if root not in self.copies or root in self.in_slow:
                state = "already" if root in self.in_slow else "not in the fast pool"
                raise InputError(f"spill of {root!r}, which is {state} there")
            source = self._fast_name(root, root)
            self.in_slow.add(root)
            target = self._slow_name(root)
        else:
            if root not in self.in_slow:
                raise InputError(f"reload of {root!r}, which has no copy in the slow pool")
            source = self._slow_name(root)
            self.copies[root] = self.copies.get(root, 0) + 1
            target = self._fast_name(root, root)
        placed = (Placement(target, source, 0),)
        return Op(
            move.name, move.kind.capitalize(), (source,), (target,), cost=0, placements=placed
        )

    def _op(self, op: Op, direct: Mapping[str, Move]) -> Op:
        there: dict[str, bool] = {}
        for root in self._accessed(op):
            storage, slow = self.storages[root], root in direct
            if storage.writer == op.name or not (storage.writer or storage.brought):
                if slow:
                    self.in_slow.add(root)
                else:
                    self.copies.setdefault(root, 1)
            elif root not in (self.in_slow if slow else self.copies):
                where = "slow" if slow else "fast"
                raise InputError(f"op {op.name!r} uses {root!r}, which is not in the {where} pool")
            there[root] = slow
        first = {root for root, slow in there.items() if not slow and self.copies[root] == 1}
        if len(first) == len(there) and not op.axes:
            return op  # it accesses first copies, which have the tensors' own names
        copies = {}
        for name in op.tensors:
            root = self.graph.root[name][0]
            if root not in there:
                copies[name] = name
            else:
                copies[name] = self._slow_name(name) if there[root] else self._fast_name(root, name)
        return Op(
            name=op.name,
            kind=op.kind,
            inputs=tuple([copies[name] for name in op.inputs]),
            outputs=tuple([copies[name] for name in op.outputs]),
            workspaces=tuple([copies[name] for name in op.workspaces]),
            cost=op.cost,
            recomputable=op.recomputable,
            in_place=tuple([(copies[one], copies[other]) for one, other in op.in_place]),
            placements=tuple(
                [Placement(copies[p.part], copies[p.whole], p.offset) for p in op.placements]
            ),
            bodies=op.bodies,
            after=op.after,
            sequence=op.sequence,
        )

    def _fast_name(self, root: str, name: str) -> str:
        return self.names.copy(name, self.copies[root] - 1)

    def _slow_name(self, name: str) -> str:
        found = self.slow_names.get(name)
        if found is None:
            found = f"{name}@{self.slow}"
            while found in self.taken:
                found += "@"
            self.taken.add(found)
            self.slow_names[name] = found
        return found

    def _boundary_copies(self, slow: Container[str], again: Container[str]) -> dict[str, str]:
        """Tensor -> name of its copy before the first step, or after the last.

        Storages in ``slow`` lie in the slow pool; of those in ``again``, only the newest copy in
        the fast pool counts.
        """
        found = {tensor.name: tensor.name for tensor in self.graph.tensors}
        for root, storage in self.storages.items():
            if root in slow:
                found |= {t.name: self._slow_name(t.name) for t in storage.tensors}
            elif root in again:
                found |= {t.name: self._fast_name(root, t.name) for t in storage.tensors}
        return found

    def _tensors(
        self, begins: Mapping[str, str], ends: Mapping[str, str], origin: dict[str, str]
    ) -> list[Tensor]:
        """Tensors of all copies; a first copy is the model's input, a last copy its output."""
        made: list[Tensor] = []
        pools = (self.fast,), (self.slow,)
        for tensor in self.graph.tensors:
            root = self.graph.root[tensor.name][0]
            storage = self.storages.get(root)
            empty = tensor.name in self.graph.empty
            if empty and tensor.view_of is not None:  # it lies in no bytes: any copy will do
                lies_in, offset = tensor.view_of
                tensor = replace(tensor, view_of=(self._first_copy(lies_in), offset))
            if storage is None:
                origin[tensor.name] = tensor.name
                made.append(tensor)
                continue
            copies: list[int | None] = [*self._fast_copies(root)]
            if root in self.in_slow:
                copies.append(None)
            for number in copies:
                name, base = self._copy(tensor.name, number), tensor.view_of
                if base is not None and not empty:
                    base = self._copy(base[0], number), base[1]
                kind = tensor.kind
                begins_elsewhere = kind in ("input", "constant") and name != begins[tensor.name]
                if begins_elsewhere or (kind == "output" and name != ends[tensor.name]):
                    kind = "intermediate"
                origin[name] = tensor.name
                made.append(
                    Tensor(
                        name=name,
                        size=tensor.size,
                        shape=tensor.shape,
                        dtype=tensor.dtype,
                        kind=kind,
                        alignment=tensor.alignment,
                        view_of=base,
                        pools=pools[number is None],
                    )
                )
        return made

    def _first_copy(self, name: str) -> str:
        """Name of the first copy that there is of a tensor."""
        root = self.graph.root[name][0]
        if root not in self.storages:
            return name
        return self._copy(name, next(iter(self._fast_copies(root)), None))

    def _fast_copies(self, root: str) -> range:
        unused = root not in self.copies and root not in self.in_slow
        return range(1 if unused else self.copies.get(root, 0))

    def _copy(self, name: str, number: int | None) -> str:
        """Name of a copy in the fast pool by its number, or of the copy in the slow pool."""
        return self._slow_name(name) if number is None else self.names.copy(name, number)


def may_lie(storage: Storage, pool: str) -> bool:
    """True if all tensors of a storage may lie in a pool."""
    return all(t.pools is None or pool in t.pools for t in storage.tensors)
