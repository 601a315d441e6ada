"""A program that runs ops again, as a program of a graph in which every op runs once.

Every run is an op of its own, and every retention interval of a storage is a storage of its own. So
algorithms for graphs also serve programs with repetitions: they find the readers of each copy of a
value, the copy that an op may overwrite, and the source of copied bytes. Copies have the names that
:func:`~cpplan.program.liveness.to_problem` gives to buffers (see ``cpplan.program.copy_names``):
the first copy has the tensor's own name, the others ``name~1``, ``name~2``, …; views in a copy and
runs of an op are named likewise.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace

from cpplan.model.graph import Graph, Op, Placement, Tensor
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.program.copy_names import op_copies, tensor_copies
from cpplan.program.liveness import written_outside_again


def unroll(program: Program, residency: Residency | None = None) -> Program:
    """A program in which every run is an op of its own; the same program if no op runs twice.

    The result needs the same buffers: ``to_problem(unroll(program, residency), residency)`` has the
    rows of ``to_problem(program, residency)``. O(accesses + tensors × copies).

    If several ops write parts of a storage, and a run begins a new copy by writing only a part, the
    whole new copy is a workspace of that run: no op reads it by its name. If an op writes a view
    again in a copy that already holds the view, it writes a new tensor over the same bytes, which
    no other op names. This tensor has no in-place pairs and placements; the first run keeps its
    own.
    """
    if len(program.order) == len(program.graph.ops):
        return program
    outside = written_outside_again(program.graph, residency or Residency())
    unrolling = _Unrolling(program.graph, outside)
    for op in program.ops:
        unrolling.run(op)
    graph = unrolling.graph()
    return Program(graph, tuple(range(len(graph.ops))))


class _Unrolling:
    """The state of an unrolling: the runs so far, and the copy that holds each latest value.

    All copies of a storage in ``outside`` are outputs, since none is in the arena.
    """

    def __init__(self, source: Graph, outside: set[str]):
        self.source, self.outside = source, outside
        self.tensor_names, self.op_names = tensor_copies(source), op_copies(source)
        self.retention: dict[str, int] = {}
        self.newest: dict[str, int] = {}
        # Storage and copy -> the run that begins it; tensors that the caller brings have none.
        self.begun: dict[tuple[str, int], int] = {}
        self.written: set[tuple[str, int]] = set()
        self.passed_on: list[Tensor] = []
        # Copies of storages that a run begins by writing only a part, with their kinds.
        self.in_parts: dict[str, str] = {}
        self.times: Counter[str] = Counter()
        self.ops: list[Op] = []
        for tensor in source.tensors:
            made = tensor.name in source.producer or tensor.kind == "workspace"
            if source.is_storage(tensor.name) and not made:
                self.retention[tensor.name] = self.newest[tensor.name] = 0

    def run(self, op: Op) -> None:
        """Add one run of an op."""
        root = self.source.root
        names: dict[str, str] = {}
        read: dict[str, int] = {}
        for name in op.inputs:
            number = self._retention_of(name)
            names[name] = self.tensor_names.copy(name, number)
            read[root[name][0]] = max(number, read.get(root[name][0], 0))
        again = set()
        for name in op.outputs + op.workspaces:
            number = read.get(root[name][0], -1)
            if number < 0:
                number = self._retention_to_write(name, root[name][0])
            self.retention[name] = number
            names[name] = self.tensor_names.copy(name, number)
            if (name, number) in self.written:
                again.add(name)
                names[name] += f" at run {len(self.ops)}"
                self.passed_on.append(self._same_bytes(name, number, names[name]))
            self.written.add((name, number))
        name = self.op_names.copy(op.name, self.times[op.name])
        self.times[op.name] += 1
        same = name == op.name and all(old == new for old, new in names.items())
        if same and not (op.bodies or op.axes):
            self.ops.append(op)
            return
        allowed = replace(
            op,
            in_place=tuple(pair for pair in op.in_place if pair[0] not in again),
            placements=tuple(p for p in op.placements if not again & {p.part, p.whole}),
        )
        self.ops.append(replace(_rename(allowed, names), name=name))

    def graph(self) -> Graph:
        """The graph of all runs, with all copies of all tensors."""
        source = self.source
        for (root, number), run in self.begun.items():
            if source.tensor[root].kind == "constant" or (root, number) in self.written:
                continue
            op, whole = self.ops[run], self.tensor_names.copy(root, number)
            if root in self.outside:
                self.in_parts[whole] = "output"
            else:
                self.ops[run] = replace(op, workspaces=(*op.workspaces, whole))
                self.in_parts[whole] = "workspace"
        storage: dict[str, list[str]] = defaultdict(list)
        for tensor in source.tensors:
            storage[source.root[tensor.name][0]].append(tensor.name)
        tensors = [self._copy(tensor.name, 0) for tensor in source.tensors]
        for root, names in storage.items():
            for number in range(1, self.newest.get(root, 0) + 1):
                tensors += [self._copy(name, number) for name in names]
        kinds = self.in_parts
        tensors = [replace(t, kind=kinds[t.name]) if t.name in kinds else t for t in tensors]
        return Graph(source.name, (*tensors, *self.passed_on), tuple(self.ops))

    def _retention_of(self, name: str) -> int:
        """Number of the copy with a tensor's latest value; an unwritten view has its base's."""
        holder = self.source.holder
        name = holder[name]
        while name not in self.retention:
            view_of = self.source.tensor[name].view_of
            assert view_of is not None  # the program runs a tensor's op before its readers
            name = holder[view_of[0]]
        return self.retention[name]

    def _retention_to_write(self, name: str, root: str) -> int:
        """Number of the storage's newest copy, or of a new one if that holds ``name`` already."""
        newest = self.newest.get(root)
        if newest is None or self.retention.get(name) == newest:
            newest = 0 if newest is None else newest + 1
            self.newest[root] = newest
            self.begun[root, newest] = len(self.ops)
        return newest

    def _copy(self, name: str, number: int) -> Tensor:
        """A tensor in one of the copies of its storage.

        The caller's input is the first copy; the output is the copy with the latest value.
        """
        tensor = self.source.tensor[name]
        elsewhere = tensor.kind in ("input", "output") and number != self._retention_of(name)
        elsewhere &= self.source.root[name][0] not in self.outside
        view_of = tensor.view_of
        if view_of is not None:
            # An empty view is a storage of its own: its base may have fewer copies.
            base = 0 if self.source.is_storage(name) else number
            view_of = self.tensor_names.copy(view_of[0], base), view_of[1]
        new = self.tensor_names.copy(name, number)
        if new == name and not elsewhere and view_of == tensor.view_of:
            return tensor
        kind = "intermediate" if elsewhere else tensor.kind
        return replace(tensor, name=new, kind=kind, view_of=view_of)

    def _same_bytes(self, name: str, number: int, new: str) -> Tensor:
        """A tensor with a new name over the bytes that ``name`` has in a copy."""
        tensor, (root, offset) = self.source.tensor[name], self.source.root[name]
        kind = "workspace" if tensor.kind == "workspace" else "intermediate"
        storage = self.tensor_names.copy(root, number)
        return replace(tensor, name=new, kind=kind, view_of=(storage, offset))


def _rename(op: Op, names: Mapping[str, str]) -> Op:
    """The op with new names for its tensors, also in the bodies that share them.

    It has no axes: ops are split before their runs are counted.
    """

    def new(name: str) -> str:
        return names.get(name, name)

    return replace(
        op,
        inputs=tuple(map(new, op.inputs)),
        outputs=tuple(map(new, op.outputs)),
        workspaces=tuple(map(new, op.workspaces)),
        in_place=tuple((new(output), new(source)) for output, source in op.in_place),
        placements=tuple(Placement(new(p.part), new(p.whole), p.offset) for p in op.placements),
        bodies=tuple(_rename_body(body, op, names) for body in op.bodies),
        axes=(),
    )


def _rename_body(body: Graph, op: Op, names: Mapping[str, str]) -> Graph:
    changed = {name: names[name] for name in op.tensors if names.get(name, name) != name}
    shared = {
        tensor.name: changed[tensor.name]
        for tensor in body.tensors
        if tensor.kind in ("input", "output")
        and body.is_storage(tensor.name)
        and tensor.name in changed
    }
    if not shared:
        return body
    tensors = []
    for tensor in body.tensors:
        view_of = tensor.view_of
        if view_of is not None:
            view_of = shared.get(view_of[0], view_of[0]), view_of[1]
        tensors.append(replace(tensor, name=shared.get(tensor.name, tensor.name), view_of=view_of))
    ops = tuple(_rename(inner, shared) for inner in body.ops)
    return Graph(body.name, tuple(tensors), ops)
