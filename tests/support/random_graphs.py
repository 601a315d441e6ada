"""Hypothesis strategies for graphs and programs that use every field there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from hypothesis import strategies as st

from cpplan.model.dtypes import BITS
from cpplan.model.graph import Graph, Op, Placement, Tensor
from cpplan.program.anf import Program

T = TypeVar("T")
WORDS = st.text(alphabet='ab.:-é "\\#%,(\n', max_size=4)
# Strategies are made once: making and validating them again at each draw takes longer than drawing.
_SOME_WORDS = WORDS.filter(bool)
_MAYBE_WORDS = st.none() | _SOME_WORDS
_SHAPES = st.none() | st.lists(st.integers(0, 4), max_size=3)
_DTYPES = st.none() | st.sampled_from(sorted(BITS))
_UNKNOWN_DTYPES = st.none() | WORDS
_MORE_BYTES = st.sampled_from([0, 0, 1, 64])
_ALIGNMENTS = st.sampled_from([1, 1, 1, 4])
_POOLS = st.sampled_from([None, None, ("sram",), ("a b", "dram")])
_KEPT = st.sampled_from(["input", "constant"])
_MADE = st.sampled_from(["intermediate", "output"])
_COSTS = st.sampled_from([1, 0, 7, 0.5, 1e-9, 2.5e20])
_BOOLEANS = st.booleans()
_COUNTS = [st.integers(0, most) for most in range(6)]


def one_of(draw: st.DrawFn, things: Sequence[T]) -> T:
    """One of the things, by its number: no strategy is made for them."""
    return things[draw(st.integers(0, len(things) - 1))]


def some_of(draw: st.DrawFn, things: Sequence[T], most: int) -> list[T]:
    """Some of the things, at most ``most``, any of them more than once."""
    return [one_of(draw, things) for _ in range(draw(_COUNTS[most]))]


@st.composite
def tensors(draw: st.DrawFn, name: str, kind: str = "intermediate") -> Tensor:
    """A tensor that says its size in one of the ways there are."""
    shape, dtype = draw(_SHAPES), draw(_DTYPES)
    least = 0
    if shape is not None and dtype is not None:
        least = Tensor("t", shape=tuple(shape), dtype=dtype).nbytes
    elif dtype is None and draw(_BOOLEANS):
        dtype = draw(_UNKNOWN_DTYPES) if shape is None else None
    size = least + draw(_MORE_BYTES)
    return Tensor(
        name,
        size,
        None if shape is None else tuple(shape),
        dtype,
        kind,
        alignment=draw(_ALIGNMENTS),
        pools=draw(_POOLS),
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
        if kind in ("intermediate", "output") and readable and draw(_COUNTS[4]) == 0:
            base = one_of(draw, readable)
            offset = draw(st.integers(0, base.nbytes))
            size = draw(st.integers(0, base.nbytes - offset))
            tensor = Tensor(tensor.name, size, kind=kind, view_of=(base.name, offset))
        made.append(tensor)
        return tensor.name

    for _ in range(draw(_COUNTS[3])):
        add(draw(_KEPT))
    for k in range(draw(_COUNTS[5])):
        readable = [t.name for t in made if t.kind != "workspace"]
        inputs = some_of(draw, readable, 3) if readable else []
        outputs = [add(draw(_MADE)) for _ in range(draw(_COUNTS[2]))]
        workspaces = [add("workspace") for _ in range(draw(_COUNTS[1]))]
        by_name = {tensor.name: tensor for tensor in made}
        pairs, placements = [], []
        if inputs and outputs and draw(_BOOLEANS):
            one, other = by_name[outputs[0]], by_name[inputs[0]]
            part, whole = sorted((one, other), key=lambda tensor: tensor.nbytes)
            room = whole.nbytes - part.nbytes
            placements = [Placement(part.name, whole.name, draw(st.integers(0, room)))]
            pairs = [(one.name, other.name)] if room == 0 else []
        count = draw(_COUNTS[2]) if depth else 0
        bodies = [draw(graphs(depth - 1, f"{tag}{k}.{b}.")) for b in range(count)]
        kind = draw(_SOME_WORDS)
        own = f"{draw(WORDS)}{k}"
        ops.append(
            Op(
                own if draw(_BOOLEANS) else f"op{k}",
                kind,
                tuple(inputs),
                tuple(outputs),
                tuple(workspaces),
                draw(_COSTS),
                draw(_BOOLEANS),
                tuple(pairs),
                tuple(placements),
                tuple(bodies),
            )
        )
    if draw(_BOOLEANS):
        ops = [
            _constrained(draw, op, [other.name for other in ops[:k]]) for k, op in enumerate(ops)
        ]
    if made and draw(_BOOLEANS):
        base = one_of(draw, [t for t in made if t.kind != "workspace"] or [None])
        if base is not None:
            made.append(Tensor(f"bare{tag}", base.nbytes, view_of=(base.name, 0)))
    if draw(_BOOLEANS):
        made = draw(st.permutations(made))
        if all(op.sequence is None for op in ops):  # else a sequence could contradict the data
            ops = draw(st.permutations(ops))
    return Graph(draw(WORDS), tuple(made), tuple(ops))


def _constrained(draw: st.DrawFn, op: Op, earlier: list[str]) -> Op:
    """The op, with control edges and a sequence that agree with the order of listing."""
    after = some_of(draw, earlier, 2) if earlier else []
    return replace(op, after=tuple(after), sequence=draw(_MAYBE_WORDS))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A program in any order the graph allows, with some ops run again."""
    graph = draw(graphs())
    waiting, order = set(range(len(graph.ops))), list[int]()
    while waiting:
        ready = sorted(k for k in waiting if not waiting & set(graph.predecessors[k]))
        order.append(one_of(draw, ready))
        waiting.discard(order[-1])
        again = [k for k in order if graph.ops[k].sequence is None and graph.ops[k].recomputable]
        if again and draw(_COUNTS[2]) == 0:
            order.append(one_of(draw, again))
    return Program(graph, tuple(order))
