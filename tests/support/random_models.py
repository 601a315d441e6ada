"""Random graphs that are models: parts of every kind joined to one another, with all that is odd.

Each part is a random graph of another kind: ops with views, workspaces and side effects; ops whose
results share bytes; layers of an image network that can be cut. Afterwards each oddity is added to
a graph with some chance: an operand read twice, a result that nothing reads, constants that several
ops read, ops without bytes, bodies, one tensor larger than all others together.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from support.soak.made import random_graph
from support.soak.sharing import random_sharing
from support.split_networks import random_network

from cpplan import Graph, Op, Placement, Tensor
from cpplan.model.axes import Axis

Change = Callable[[random.Random, Graph], Graph]


def random_model(rng: random.Random) -> Graph:
    """A graph of one to three parts with some oddities."""
    makers = rng.choices(
        (
            lambda: random_network(rng),
            lambda: random_graph(rng, rng.randint(2, 5), costs=rng.random() < 0.7),
            lambda: random_sharing(rng, rng.randint(2, 5)),
        ),
        k=rng.choice((1, 1, 2, 3)),
    )
    graph = joined(rng, [make() for make in makers])
    for change in ODDITIES:
        if rng.random() < 0.3:
            graph = change(rng, graph)
    return graph


def joined(rng: random.Random, parts: list[Graph]) -> Graph:
    """One graph of several; inputs of later parts are often computed from results of earlier."""
    tensors: list[Tensor] = []
    ops: list[Op] = []
    for number, part in enumerate(parts):
        part = renamed(part, f"{'abc'[number]}." if len(parts) > 1 else "")
        earlier = [t for t in tensors if t.kind != "workspace"]
        for tensor in part.tensors:
            if tensor.kind == "input" and earlier and rng.random() < 0.7:
                read = rng.choice(earlier).name
                ops.append(Op(f"{tensor.name}.join", "Join", (read,), (tensor.name,)))
                tensor = replace(tensor, kind="intermediate")
            tensors.append(tensor)
        ops += part.ops
    read = {name for op in ops for name in op.inputs}
    made = {name for op in ops for name in op.outputs}
    hidden = [
        replace(t, kind="intermediate")
        if t.kind == "output" and t.name in read & made and rng.random() < 0.5
        else t
        for t in tensors
    ]
    return Graph("model", tuple(hidden), tuple(ops))


def renamed(graph: Graph, prefix: str) -> Graph:
    """The graph with a prefix before every name."""

    def names(given: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(prefix + name for name in given)

    tensors = (
        replace(
            t,
            name=prefix + t.name,
            view_of=None if t.view_of is None else (prefix + t.view_of[0], t.view_of[1]),
        )
        for t in graph.tensors
    )
    ops = (
        replace(
            op,
            name=prefix + op.name,
            inputs=names(op.inputs),
            outputs=names(op.outputs),
            workspaces=names(op.workspaces),
            in_place=tuple((prefix + one, prefix + other) for one, other in op.in_place),
            placements=tuple(
                Placement(prefix + part, prefix + whole, at) for part, whole, at in op.placements
            ),
            after=names(op.after),
            axes=tuple(_axis_renamed(axis, prefix) for axis in op.axes),
        )
        for op in graph.ops
    )
    return Graph(graph.name, tuple(tensors), tuple(ops))


def _axis_renamed(axis: Axis, prefix: str) -> Axis:
    windows = tuple(replace(w, tensor=prefix + w.tensor) for w in axis.windows)
    return replace(axis, windows=windows)


def with_operand_twice(rng: random.Random, graph: Graph) -> Graph:
    """An op reads one tensor twice."""
    return _change_op(
        rng,
        graph,
        lambda op: bool(op.inputs),
        lambda op: replace(op, inputs=(*op.inputs, rng.choice(op.inputs))),
    )


def with_unread_result(rng: random.Random, graph: Graph) -> Graph:
    """An op writes one more result, which nothing reads; an output at times."""
    kind = rng.choice(("intermediate", "intermediate", "output"))
    return _change_op(
        rng,
        graph,
        lambda op: not op.axes,
        lambda op: replace(op, outputs=(*op.outputs, "unread")),
        Tensor("unread", rng.choice((0, 1, 7, 13, _largest(graph))), kind=kind),
    )


def with_constants(rng: random.Random, graph: Graph) -> Graph:
    """Two ops, or one, read a constant that they share; maybe another two another."""
    for number in range(rng.randint(1, 2)):
        name = f"w{number}"
        constant = Tensor(name, rng.randint(1, 9), kind="constant")
        for _ in range(2):
            graph = _change_op(
                rng,
                graph,
                lambda op: True,
                lambda op, name=name: replace(op, inputs=(*op.inputs, name)),  # type: ignore[misc]
                *([] if name in graph.tensor else [constant]),
            )
    return graph


def with_workspace(rng: random.Random, graph: Graph) -> Graph:
    """An op, also one that can be cut, uses scratch memory."""
    return _change_op(
        rng,
        graph,
        lambda op: True,
        lambda op: replace(op, workspaces=(*op.workspaces, "scratch")),
        Tensor("scratch", rng.randint(1, max(1, _largest(graph))), kind="workspace"),
    )


def with_ops_of_no_bytes(rng: random.Random, graph: Graph) -> Graph:
    """One op reads and writes nothing, another writes an empty tensor that a third reads."""
    at = rng.randint(0, len(graph.ops))
    ops = (Op("idle"), Op("none", outputs=("nothing",)), Op("takes", inputs=("nothing",)))
    return replace(
        graph,
        tensors=(*graph.tensors, Tensor("nothing", 0)),
        ops=(*graph.ops[:at], *ops, *graph.ops[at:]),
    )


def with_bodies(rng: random.Random, graph: Graph) -> Graph:
    """An op runs one body or two branches, with tensors of their own."""

    def body(op: Op, number: int) -> Graph:
        outer = [
            graph.tensor[n] for n in dict.fromkeys(op.inputs) if graph.tensor[n].kind != "constant"
        ]
        inputs = [Tensor(t.name, t.nbytes, kind="input") for t in outer[:1]]
        made = [Tensor(f"inner{k}", rng.randint(0, 9)) for k in range(2)]
        results = [replace(made[-1], kind="output")]
        ops = (
            Op("one", inputs=tuple(t.name for t in inputs), outputs=(made[0].name,)),
            Op("two", inputs=(made[0].name,), outputs=(made[1].name,)),
        )
        return Graph(f"branch{number}", (*inputs, made[0], *results), ops)

    return _change_op(
        rng,
        graph,
        lambda op: not op.axes and not op.in_place and not op.placements,
        lambda op: replace(op, bodies=tuple(body(op, k) for k in range(rng.randint(1, 2)))),
    )


def with_one_large_tensor(rng: random.Random, graph: Graph) -> Graph:
    """One result is larger than half of all bytes."""
    fixed = {name for op in graph.ops for pair in op.in_place for name in pair}
    fixed |= {name for op in graph.ops for place in op.placements for name in place[:2]}
    fixed |= {w.tensor for op in graph.ops for axis in op.axes for w in axis.windows}
    fixed |= {name for op in graph.ops if op.bodies for name in op.tensors}
    free = [
        t
        for t in graph.tensors
        if t.name not in fixed and t.view_of is None and t.kind in ("intermediate", "output")
    ]
    if not free:
        return graph
    chosen = rng.choice(free)
    total = sum(t.nbytes for t in graph.tensors)
    return replace(
        graph,
        tensors=tuple(
            Tensor(t.name, total | 1, kind=t.kind, alignment=t.alignment) if t is chosen else t
            for t in graph.tensors
        ),
    )


def with_more_outputs(rng: random.Random, graph: Graph) -> Graph:
    """Some results are outputs, though they are read on."""
    made = graph.producer.keys()
    return replace(
        graph,
        tensors=tuple(
            replace(t, kind="output") if t.name in made and rng.random() < 0.3 else t
            for t in graph.tensors
        ),
    )


def with_uneven_costs(rng: random.Random, graph: Graph) -> Graph:
    """Ops of any cost, none at times; some may not run again."""
    return replace(
        graph,
        ops=tuple(
            replace(
                op,
                cost=rng.choice((0, 1, 1, 2, 5, op.cost)),
                recomputable=op.recomputable and rng.random() < 0.8,
            )
            for op in graph.ops
        ),
    )


ODDITIES: tuple[Change, ...] = (
    with_operand_twice,
    with_unread_result,
    with_constants,
    with_workspace,
    with_ops_of_no_bytes,
    with_more_outputs,
    with_uneven_costs,
    with_one_large_tensor,
    with_bodies,
)


def _largest(graph: Graph) -> int:
    return max((t.nbytes for t in graph.tensors), default=1)


def _change_op(
    rng: random.Random,
    graph: Graph,
    allowed: Callable[[Op], bool],
    change: Callable[[Op], Op],
    *added: Tensor,
) -> Graph:
    """The graph with one op changed, if there is one that may be, and the tensors it then needs."""
    found = [k for k, op in enumerate(graph.ops) if allowed(op)]
    if not found:
        return graph
    k = rng.choice(found)
    ops = (*graph.ops[:k], change(graph.ops[k]), *graph.ops[k + 1 :])
    return replace(graph, tensors=(*graph.tensors, *added), ops=ops)
