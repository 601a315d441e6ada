"""Hypothesis strategies for graphs and programs that use every field there is."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from cpplan.model.dtypes import BITS
from cpplan.model.graph import Graph, Op, Placement, Tensor
from cpplan.program.anf import Program

WORDS = st.text(alphabet='ab.:-é "\\#%,(\n', max_size=4)


@st.composite
def tensors(draw: st.DrawFn, name: str, kind: str = "intermediate") -> Tensor:
    """A tensor that says its size in one of the ways there are."""
    shape = draw(st.none() | st.lists(st.integers(0, 4), max_size=3))
    dtype = draw(st.none() | st.sampled_from(sorted(BITS)))
    least = 0
    if shape is not None and dtype is not None:
        least = Tensor("t", shape=tuple(shape), dtype=dtype).nbytes
    elif dtype is None and draw(st.booleans()):
        dtype = draw(st.none() | WORDS) if shape is None else None
    size = least + draw(st.sampled_from([0, 0, 1, 64]))
    return Tensor(
        name,
        size,
        None if shape is None else tuple(shape),
        dtype,
        kind,
        alignment=draw(st.sampled_from([1, 1, 1, 4])),
        pools=draw(st.sampled_from([None, None, ("sram",), ("a b", "dram")])),
    )


@st.composite
def graphs(draw: st.DrawFn, depth: int = 1, tag: str = "") -> Graph:
    """A graph with views, workspaces, in-place pairs and bodies, its lists in any order."""
    made: list[Tensor] = []
    ops: list[Op] = []

    def name() -> str:
        return f"{draw(WORDS)}{tag}{len(made)}"

    def add(kind: str) -> str:
        tensor = draw(tensors(name(), kind))
        readable = [t for t in made if t.kind != "workspace"]
        if kind in ("intermediate", "output") and readable and draw(st.integers(0, 4)) == 0:
            base = draw(st.sampled_from(readable))
            offset = draw(st.integers(0, base.nbytes))
            size = draw(st.integers(0, base.nbytes - offset))
            tensor = Tensor(tensor.name, size, kind=kind, view_of=(base.name, offset))
        made.append(tensor)
        return tensor.name

    for _ in range(draw(st.integers(0, 3))):
        add(draw(st.sampled_from(["input", "constant"])))
    for k in range(draw(st.integers(0, 5))):
        readable = [t.name for t in made if t.kind != "workspace"]
        inputs = draw(st.lists(st.sampled_from(readable), max_size=3)) if readable else []
        outputs = [
            add(draw(st.sampled_from(["intermediate", "output"])))
            for _ in range(draw(st.integers(0, 2)))
        ]
        workspaces = [add("workspace") for _ in range(draw(st.integers(0, 1)))]
        by_name = {tensor.name: tensor for tensor in made}
        pairs, placements = [], []
        if inputs and outputs and draw(st.booleans()):
            one, other = by_name[outputs[0]], by_name[inputs[0]]
            part, whole = sorted((one, other), key=lambda tensor: tensor.nbytes)
            room = whole.nbytes - part.nbytes
            placements = [Placement(part.name, whole.name, draw(st.integers(0, room)))]
            pairs = [(one.name, other.name)] if room == 0 else []
        count = draw(st.integers(0, 2)) if depth else 0
        bodies = [draw(graphs(depth - 1, f"{tag}{k}.{b}.")) for b in range(count)]
        kind = draw(WORDS.filter(bool))
        own = f"{draw(WORDS)}{k}"
        ops.append(
            Op(
                own if draw(st.booleans()) else f"op{k}",
                kind,
                tuple(inputs),
                tuple(outputs),
                tuple(workspaces),
                draw(st.sampled_from([1, 0, 7, 0.5, 1e-9, 2.5e20])),
                draw(st.booleans()),
                tuple(pairs),
                tuple(placements),
                tuple(bodies),
            )
        )
    if draw(st.booleans()):
        ops = [
            _constrained(draw, op, [other.name for other in ops[:k]]) for k, op in enumerate(ops)
        ]
    if made and draw(st.booleans()):
        base = draw(st.sampled_from([t for t in made if t.kind != "workspace"] or [None]))
        if base is not None:
            made.append(Tensor(f"bare{tag}", base.nbytes, view_of=(base.name, 0)))
    if draw(st.booleans()):
        made = draw(st.permutations(made))
        if all(op.sequence is None for op in ops):  # else a sequence could contradict the data
            ops = draw(st.permutations(ops))
    return Graph(draw(WORDS), tuple(made), tuple(ops))


def _constrained(draw: st.DrawFn, op: Op, earlier: list[str]) -> Op:
    """The op, with control edges and a sequence that agree with the order of listing."""
    after = draw(st.lists(st.sampled_from(earlier), max_size=2)) if earlier else []
    return replace(op, after=tuple(after), sequence=draw(st.none() | WORDS.filter(bool)))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A program in any order the graph allows, with some ops run again."""
    graph = draw(graphs())
    waiting, order = set(range(len(graph.ops))), list[int]()
    while waiting:
        ready = sorted(k for k in waiting if not waiting & set(graph.predecessors[k]))
        order.append(draw(st.sampled_from(ready)))
        waiting.discard(order[-1])
        again = [k for k in order if graph.ops[k].sequence is None and graph.ops[k].recomputable]
        if again and draw(st.integers(0, 2)) == 0:
            order.append(draw(st.sampled_from(again)))
    return Program(graph, tuple(order))
