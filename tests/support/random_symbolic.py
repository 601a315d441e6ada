"""Hypothesis strategies for graphs whose sizes depend on variables."""

from __future__ import annotations

from hypothesis import strategies as st

from cpplan.model.graph import Graph, Op, Placement, Tensor
from cpplan.model.shapes import Dim, parse_dim
from cpplan.model.symbols import Symbols, upper_bound

DIMS = {"n": (1, 6), "m": (0, 5)}
# None is negative within these bounds; some fall as a variable grows.
EXTENTS = (
    "1", "3", "n", "n", "m", "n + 1", "2*n", "n + m", "max(n, m)", "min(n, m)", "(n + 1)//2",
    "ceildiv(m, 3)", "6 - n", "max(n - m, 1)", "n % 4 + 1", "6//n",
)  # fmt: skip
WIDTH = {"float32": 4, "int8": 1, "float16": 2}


def values() -> st.SearchStrategy[dict[str, int]]:
    """Values within the bounds."""
    return st.fixed_dictionaries({name: st.integers(*ends) for name, ends in DIMS.items()})


def extents() -> st.SearchStrategy[int | Dim]:
    return st.sampled_from(EXTENTS).map(parse_dim)


@st.composite
def symbolic_graphs(draw: st.DrawFn, *, bodies: bool = True) -> Graph:
    """Element-wise ops, concatenations, slices, views, calls, and ops of any kind."""
    dtype = draw(st.sampled_from(sorted(WIDTH)))
    width = WIDTH[dtype]
    shapes: dict[str, tuple[int | Dim, ...]] = {}
    made: list[Tensor] = []
    ops: list[Op] = []

    def add(shape: tuple[int | Dim, ...], kind: str = "intermediate", **more: object) -> str:
        name = f"t{len(made)}"
        shapes[name] = shape
        made.append(Tensor(name, shape=shape, dtype=dtype, kind=kind, **more))  # type: ignore[arg-type]
        return name

    def shape() -> tuple[int | Dim, ...]:
        return tuple(draw(st.lists(extents(), min_size=1, max_size=2)))

    def some_kind() -> str:
        return draw(st.sampled_from(["intermediate", "intermediate", "output"]))

    for _ in range(draw(st.integers(1, 3))):
        add(shape(), draw(st.sampled_from(["input", "input", "constant"])))
    steps = ["map", "join", "join", "slice", "view", "any", "any", *["call"] * bodies]
    for k in range(draw(st.integers(1, 6))):
        readable = [t.name for t in made if t.kind != "workspace"]
        step = draw(st.sampled_from(steps))
        source = draw(st.sampled_from(readable))
        if step == "map":
            result = add(shapes[source], some_kind())
            ops.append(Op(f"map{k}", "map", (source,), (result,), in_place=((result, source),)))
        elif step == "join":
            tail = shapes[source][1:]
            parts = [name for name in readable if shapes[name][1:] == tail]
            chosen = draw(st.lists(st.sampled_from(parts), min_size=1, max_size=3, unique=True))
            whole: int | Dim = sum(shapes[name][0] for name in chosen)
            result = add((whole, *tail), some_kind())
            placements, offset = [], 0
            for name in chosen:
                placements.append(Placement(name, result, offset))
                offset = offset + _bytes(shapes[name], width)
            ops.append(
                Op(f"join{k}", "join", tuple(chosen), (result,), placements=tuple(placements))
            )
        elif step in ("slice", "view"):
            long, *tail = shapes[source]
            begin, extent = draw(
                st.sampled_from([(0, long), (0, (long + 1) // 2), (long // 2, (long + 1) // 2)])
            )
            offset = _bytes((begin, *tail), width)
            within, room = (_most((e, *tail), width) for e in (extent, long))
            if offset == 0 and within > room:
                continue  # it fits at every value, but not by what is known of the bounds
            if step == "slice":
                result = add((extent, *tail), some_kind())
                placements = [Placement(result, source, offset)]
                ops.append(
                    Op(f"slice{k}", "slice", (source,), (result,), placements=tuple(placements))
                )
            else:
                add((extent, *tail), view_of=(source, offset))
        elif step == "any":
            inputs = draw(st.lists(st.sampled_from(readable), max_size=3))
            outputs = [add(shape(), some_kind()) for _ in range(draw(st.integers(1, 2)))]
            scratch = [add(shape(), "workspace") for _ in range(draw(st.integers(0, 1)))]
            ops.append(Op(f"any{k}", "any", tuple(inputs), tuple(outputs), tuple(scratch)))
        else:
            result = add(shapes[source], some_kind())
            inner = (
                Tensor(source, shape=shapes[source], dtype=dtype, kind="input"),
                Tensor("inner", shape=shape(), dtype=dtype),
                Tensor(result, shape=shapes[result], dtype=dtype, kind="output"),
            )
            body = Graph(
                "body",
                inner,
                (
                    Op("f", inputs=(source,), outputs=("inner",)),
                    Op("g", inputs=("inner",), outputs=(result,)),
                ),
                Symbols(DIMS),
            )
            ops.append(Op(f"call{k}", "call", (source,), (result,), bodies=(body,)))
    return Graph("random", tuple(made), tuple(ops), Symbols(DIMS))


def _bytes(shape: tuple[int | Dim, ...], width: int) -> int | Dim:
    found: int | Dim = width
    for extent in shape:
        found = found * extent
    return found


def _most(shape: tuple[int | Dim, ...], width: int) -> int:
    found = upper_bound(_bytes(shape, width), Symbols(DIMS).dims)
    assert found is not None
    return found
