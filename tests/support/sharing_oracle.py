"""The smallest peak over all in-place and placement choices, byte by byte from the definitions.

Two storages are laid at every distance from each other, and the program is run on just these two:
every byte has a value, an op changes the bytes of what it writes, and a byte that somebody still
needs must keep the value it should have. Offsets are then searched exhaustively. What shares bytes
must be joined by pairs that an op names, at the distances that they have: that two tensors happen
to hold copies of one value, which no op has copied from one to the other, is no choice of a plan.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

from cpplan.model.graph import Graph, Op, Placement, Tensor
from cpplan.program.anf import Program

Value = tuple[str, int]


def values_of(graph: Graph, order: Iterable[int]) -> dict[str, list[Value]]:
    """Value of every byte of every storage once written; a copy has its original's value."""
    held = {
        t.name: [(t.name, byte) for byte in range(t.nbytes)]
        for t in graph.tensors
        if t.view_of is None
    }
    for k in order:
        op = graph.ops[k]
        for part, whole, offset in op.placements:
            (inner, within), (outer, start) = graph.root[part], graph.root[whole]
            for byte in range(graph.tensor[part].nbytes):
                here, there = within + byte, start + offset + byte
                if whole in op.outputs:
                    held[outer][there] = held[inner][here]
                else:
                    held[inner][here] = held[outer][there]
    return held


def may_lie(
    graph: Graph,
    order: tuple[int, ...],
    one: str,
    other: str,
    shift: int,
    held: dict[str, list[Value]] | None = None,
) -> bool:
    """True if ``other`` may lie ``shift`` bytes above ``one`` (inputs reusable, outputs kept).

    ``held`` is :func:`values_of` the graph in this order.
    """
    if shift >= graph.tensor[one].nbytes or -shift >= graph.tensor[other].nbytes:
        return True  # no byte in common
    if _copied_onto_itself(graph, one, other, shift):
        return False
    if held is None:
        held = values_of(graph, order)
    return not any(
        _destroys(graph, order, held, writer, victim, distance)
        for writer, victim, distance in ((one, other, shift), (other, one, -shift))
    )


def _copied_onto_itself(graph: Graph, one: str, other: str, shift: int) -> bool:
    """True if an op would copy between bytes that overlap without being the same."""
    at = {one: 0, other: shift}
    for op in graph.ops:
        for part, whole, offset in op.placements:
            (inner, within), (outer, start) = graph.root[part], graph.root[whole]
            if {inner, outer} == {one, other}:
                source, target = at[inner] + within, at[outer] + start + offset
                if 0 < abs(source - target) < graph.tensor[part].nbytes:
                    return True
    return False


def _destroys(
    graph: Graph,
    order: tuple[int, ...],
    held: dict[str, list[Value]],
    writer: str,
    victim: str,
    shift: int,
) -> bool:
    """True if writing ``writer`` destroys bytes of ``victim``, ``shift`` bytes above it."""
    accessed = [s for s, k in enumerate(order) if _accesses(graph, graph.ops[k], victim)]
    brought = _brought(graph, victim)
    first = 0 if brought else accessed[0]
    last = max(accessed, default=0)
    kept = any(t.kind == "output" and graph.root[t.name][0] == victim for t in graph.tensors)
    steps = [-1] if _brought(graph, writer) else []
    steps += [s for s, k in enumerate(order) if writer in _written(graph, graph.ops[k])]
    for step in steps:
        if step == -1:
            if brought and _overlap(held, writer, victim, shift):
                return True
            continue
        op = graph.ops[order[step]]
        if not (first <= step and (kept or step <= last)):
            continue
        for byte, value in enumerate(held[writer]):
            there = byte - shift
            if not 0 <= there < len(held[victim]):
                continue
            if held[victim][there] == value:
                continue
            ends_here = step == last and not kept
            if not (ends_here and _written_over(graph, op, writer, byte, victim, there)):
                return True
    return False


def _overlap(held: dict[str, list[Value]], one: str, other: str, shift: int) -> bool:
    return any(
        0 <= byte - shift < len(held[other]) and held[other][byte - shift] != value
        for byte, value in enumerate(held[one])
    )


def _written_over(graph: Graph, op: Op, writer: str, byte: int, victim: str, there: int) -> bool:
    """True if the op may write the byte over the other under every name it reads that by."""
    if victim in _written(graph, op) or any(graph.root[w][0] == victim for w in op.workspaces):
        return False
    readers = [name for name in op.inputs if _covers(graph, name, victim, there)]
    return bool(readers) and all(
        any(
            (output, name) in op.in_place
            and _covers(graph, output, writer, byte)
            and byte - graph.root[output][1] == there - graph.root[name][1]
            for output in op.outputs
        )
        for name in readers
    )


def _covers(graph: Graph, name: str, root: str, byte: int) -> bool:
    base, offset = graph.root[name]
    return base == root and offset <= byte < offset + graph.tensor[name].nbytes


def _accesses(graph: Graph, op: Op, root: str) -> bool:
    return any(graph.root[name][0] == root for name in op.tensors)


def _written(graph: Graph, op: Op) -> set[str]:
    read = {graph.root[name][0] for name in op.inputs}
    return {graph.root[name][0] for name in op.outputs + op.workspaces} - read


def _brought(graph: Graph, root: str) -> bool:
    return not any(root in _written(graph, op) for op in graph.ops)


def least_peak(graph: Graph, order: tuple[int, ...]) -> int:
    """Exhaustively, for up to about seven storages of a few bytes."""
    storages = [t for t in graph.tensors if t.view_of is None and t.kind != "constant"]
    storages.sort(key=lambda t: -t.nbytes)
    top = sum(t.nbytes + t.alignment - 1 for t in storages)
    held = values_of(graph, order)
    allowed = {
        (i, j): {
            shift
            for shift in range(-top, top + 1)
            if may_lie(graph, order, one.name, other.name, shift, held)
        }
        for i, one in enumerate(storages)
        for j, other in enumerate(storages)
        if i < j
    }

    needed = {t.name: _steps_needed(graph, order, t.name) for t in storages}

    def fits(height: int, offsets: list[int]) -> bool:
        j = len(offsets)
        if j == len(storages):
            return _is_joined(graph, storages, offsets, needed)
        tensor = storages[j]
        for offset in range(height - tensor.nbytes + 1):
            if offset % tensor.alignment:
                continue
            meets = all(offset - at in allowed[i, j] for i, at in enumerate(offsets))
            if meets and fits(height, [*offsets, offset]):
                return True
        return False

    return next(height for height in range(top + 1) if fits(height, []))


def each_run_alone(program: Program) -> Graph:
    """The program's runs as ops of a graph that runs each once, in the order of its listing.

    For graphs whose ops write whole storages, or views of what they read. A storage written again
    is ``name~1``, ``name~2``, …; what it was before is no output.
    """
    graph, latest = program.graph, {t.name: t.name for t in program.graph.tensors}
    tensors = [t for t in graph.tensors if t.name not in graph.producer and t.kind != "workspace"]
    times = dict.fromkeys((t.name for t in graph.tensors), 0)
    ops = []
    for number, op in enumerate(program.ops):
        names = {name: latest[name] for name in op.inputs}
        for name in op.outputs + op.workspaces:
            latest[name] = names[name] = f"{name}~{times[name]}" if times[name] else name
            times[name] += 1
            tensor = graph.tensor[name]
            base = tensor.view_of and (names[tensor.view_of[0]], tensor.view_of[1])
            kind = "intermediate" if tensor.kind == "output" else tensor.kind
            tensors.append(Tensor(names[name], tensor.size, kind=kind, view_of=base))
        ops.append(
            Op(
                f"run {number}",
                op.kind,
                tuple(names[n] for n in op.inputs),
                tuple(names[n] for n in op.outputs),
                tuple(names[n] for n in op.workspaces),
                in_place=tuple((names[o], names[i]) for o, i in op.in_place),
                placements=tuple(
                    Placement(names[p.part], names[p.whole], p.offset) for p in op.placements
                ),
            )
        )
    outputs = {latest[t.name] for t in graph.tensors if t.kind == "output"}
    shown = (replace(t, kind="output") if t.name in outputs else t for t in tensors)
    return Graph(graph.name, tuple(shown), tuple(ops))


def random_repeats(graph: Graph, seed: int, most: int) -> Program:
    """The graph's ops in some order, up to ``most`` of them run again wherever they may."""
    rng = random.Random(seed)
    waiting, order = set(range(len(graph.ops))), list[int]()
    while waiting:
        ready = sorted(k for k in waiting if not waiting & set(graph.predecessors[k]))
        order.append(rng.choice(ready))
        waiting.discard(order[-1])
    for _ in range(rng.randint(1, most)):
        at = rng.randint(1, len(order))
        order.insert(at, rng.choice(order[:at]))
    return Program(graph, tuple(order))


def _steps_needed(graph: Graph, order: tuple[int, ...], root: str) -> set[int]:
    accessed = [s for s, k in enumerate(order) if _accesses(graph, graph.ops[k], root)]
    kept = any(t.kind == "output" and graph.root[t.name][0] == root for t in graph.tensors)
    first = 0 if _brought(graph, root) else min(accessed)
    last = len(order) if kept else max(accessed, default=0)
    return set(range(first, last + 1))


def _is_joined(
    graph: Graph, storages: list[Tensor], offsets: list[int], needed: dict[str, set[int]]
) -> bool:
    """True if all storages that share bytes are joined by pairs that ops declare."""
    at = {t.name: offset for t, offset in zip(storages, offsets, strict=True)}
    joined = {name: {name} for name in at}
    pairs = [(o, i, 0) for op in graph.ops for o, i in op.in_place]
    pairs += [tuple(placement) for op in graph.ops for placement in op.placements]
    for tensor, other, offset in pairs:
        (one, within), (two, start) = graph.root[tensor], graph.root[other]
        if not {one, two} <= at.keys():
            continue  # an empty view shares no byte with anything
        if at[one] + within == at[two] + start + offset:
            together = joined[one] | joined[two]
            joined.update(dict.fromkeys(together, together))
    return all(
        two.name in joined[one.name]
        for one in storages
        for two in storages
        if needed[one.name] & needed[two.name]
        and at[one.name] < at[two.name] + two.nbytes
        and at[two.name] < at[one.name] + one.nbytes
    )


def random_sharing_graph(seed: int, ops: int) -> Graph:
    """Element-wise ops, sums, concatenations, splits, views, plain ops, in any mixture."""
    rng = random.Random(seed)
    tensors = [Tensor(f"x{k}", rng.randint(1, 3), kind="input") for k in range(rng.randint(1, 2))]
    made: list[Op] = []

    def add(size: int, **fields: object) -> str:
        tensors.append(Tensor(f"t{len(tensors)}", size, **fields))  # type: ignore[arg-type]
        return tensors[-1].name

    for k in range(ops):
        readable = [t for t in tensors if t.kind != "workspace"]
        x = rng.choice(readable)
        kind = rng.choice(["unary", "unary", "binary", "concat", "split", "plain", "view"])
        equal = [t for t in readable if t.nbytes == x.nbytes]
        if kind == "unary":
            y = add(x.nbytes)
            made.append(Op(f"o{k}", kind, (x.name,), (y,), in_place=((y, x.name),)))
        elif kind == "binary":
            z = rng.choice(equal)
            y = add(x.nbytes)
            pairs = tuple((y, name) for name in dict.fromkeys((x.name, z.name)))
            pairs = pairs if rng.random() < 0.8 else pairs[:1]
            made.append(Op(f"o{k}", kind, (x.name, z.name), (y,), in_place=pairs))
        elif kind == "concat":
            parts = [rng.choice(readable) for _ in range(rng.randint(2, 3))]
            if sum(p.nbytes for p in parts) > 6:
                parts = parts[:1]
            y = add(sum(p.nbytes for p in parts))
            starts = [sum(p.nbytes for p in parts[:n]) for n in range(len(parts))]
            placements = tuple(
                Placement(p.name, y, at) for p, at in zip(parts, starts, strict=True)
            )
            names = tuple(p.name for p in parts)
            made.append(Op(f"o{k}", kind, names, (y,), placements=placements))
        elif kind == "split" and x.nbytes > 1:
            cut = rng.randint(1, x.nbytes - 1)
            y, z = add(cut), add(x.nbytes - cut)
            placements = (Placement(y, x.name, 0), Placement(z, x.name, cut))
            made.append(Op(f"o{k}", kind, (x.name,), (y, z), placements=placements))
        elif kind == "view" and x.nbytes:
            size = rng.randint(1, x.nbytes)
            y = add(size, view_of=(x.name, rng.randint(0, x.nbytes - size)))
            made.append(Op(f"o{k}", kind, (x.name,), (y,)))
        else:
            y = add(rng.randint(1, 3))
            scratch = (add(rng.randint(1, 2), kind="workspace"),) if rng.random() < 0.2 else ()
            made.append(Op(f"o{k}", "plain", (x.name,), (y,), scratch))
    read = {name for op in made for name in op.inputs}
    produced = {name for op in made for name in op.outputs}
    tensors = [
        Tensor(t.name, t.size, kind="output", view_of=t.view_of)
        if t.name in produced and (t.name not in read or rng.random() < 0.1)
        else t
        for t in tensors
    ]
    return Graph(f"sharing {seed}", tuple(tensors), tuple(made))
