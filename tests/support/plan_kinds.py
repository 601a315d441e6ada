"""Plans of every kind, small ones, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from support.instances import side_by_side
from support.remat_oracle import random_remat_problem, remat_chain
from support.sized_graphs import graph_of, growing

import cpplan
from cpplan import Gap, Graph, Op, Plan, Pool, Problem, Tensor
from cpplan.model.axes import Axis, Window
from cpplan.model.small_graphs import kept_meanwhile, relu_in_place, two_chains
from cpplan.model.symbols import Symbols

Source = Graph | Problem


def bands(middle: int = 1) -> Graph:
    """Ops over four rows of 2 B, with as many tensors between the input and the output."""
    rows = {"shape": (4, 2), "dtype": "int8"}
    between = [f"t{k}" for k in range(middle)]

    def over_rows(name: str, reads: list[str], result: str) -> Op:
        windows = tuple(Window(tensor, 0) for tensor in (*reads, result))
        axes = (Axis("rows", 4, windows),)
        return Op(name, inputs=tuple(reads), outputs=(result,), axes=axes, cost=4)

    tensors = (
        Tensor("x", kind="input", **rows),
        *(Tensor(name, **rows) for name in between),
        Tensor("y", kind="output", **rows),
    )
    ops = [over_rows(f"f{k}", ["x"], name) for k, name in enumerate(between)]
    return Graph("bands", tensors, (*ops, over_rows("g", between, "y")))


def joined() -> Graph:
    """Two parts that are joined: the second lies where the first ends, which depends on ``n``."""
    tensors = (
        Tensor("x", shape=("n",), dtype="int8", kind="input"),
        Tensor("a", shape=("n", 4), dtype="int8"),
        Tensor("b", shape=("n", 4), dtype="int8"),
        Tensor("y", shape=("2*n", 4), dtype="int8", kind="output"),
    )
    ops = (
        Op("f", inputs=("x",), outputs=("a",)),
        Op("g", inputs=("x",), outputs=("b",)),
        Op(
            "join", inputs=("a", "b"), outputs=("y",), placements=(("a", "y", 0), ("b", "y", "4*n"))
        ),
    )
    return Graph("joined", tensors, ops, Symbols({"n": (2, 8)}))


def repeated() -> Graph:
    """A chain whose first result may be computed again for the last op."""
    chain = remat_chain(4)
    tensors = tuple(
        replace(t, shape=(f"{t.size}*n",), size=None, dtype="int8") for t in chain.tensors
    )
    return replace(chain, tensors=tensors, symbols=Symbols({"n": (1, 4)}))


FAST, SLOW = Pool("fast", 16), Pool("slow")
TWO = [Pool("p", 8), Pool("q")]


def _solved(make: Callable[[], Source], **options: Any) -> Callable[[], tuple[Source, Plan]]:
    def planned() -> tuple[Source, Plan]:
        source = make()
        return source, cpplan.solve(source, time_limit=3, deterministic=True, **options)

    return planned


KINDS: Mapping[str, Callable[[], tuple[Source, Plan]]] = {
    "problem": _solved(lambda: Problem(("a", "b", "c"), [0, 1, 2], [2, 3, 4], [4, 8, 3])),
    "gaps": _solved(
        lambda: Problem(("a", "b"), [0, 0], [2, 1], [8, 4], gaps={0: [Gap(0, 1, 0, 4)]})
    ),
    "given order": _solved(two_chains),
    "not best": _solved(two_chains, algorithm="bump"),
    "searched order": _solved(two_chains, order="search"),
    "first and last": _solved(two_chains, order="search", first=["a"], last=["d"]),
    "minimum cut": _solved(side_by_side, order="search"),
    "in place": _solved(relu_in_place, in_place=True),
    "in place, searched order": _solved(relu_in_place, in_place=True, order="search"),
    "remat within a limit": _solved(lambda: remat_chain(4), remat=True, memory_limit=4),
    "remat, by a search": _solved(
        lambda: random_remat_problem(3, 5).graph, remat=True, memory_limit=24
    ),
    "remat, by duals": _solved(
        lambda: random_remat_problem(10, 5).graph, remat=True, memory_limit=15
    ),
    "remat at a cost": _solved(lambda: remat_chain(4), remat=True, cost_limit=1.5),
    "pieces": _solved(bands, split=True),
    "pieces in place": _solved(bands, split=True, in_place=True),
    "pieces that move": _solved(
        lambda: bands(2), split=True, spill=True, pools=[Pool("fast", 18), SLOW]
    ),
    "moves": _solved(kept_meanwhile, spill=True, pools=[FAST, SLOW]),
    "moves, searched order": _solved(
        kept_meanwhile, spill=True, order="search", pools=[FAST, SLOW]
    ),
    "direct moves": _solved(
        kept_meanwhile, spill=True, pools=[Pool("fast", 8), Pool("slow", direct=True)]
    ),
    "least time": _solved(
        kept_meanwhile, spill=True, objective="time",
        pools=[FAST, Pool("slow", write_bandwidth=1, read_bandwidth=1)],
    ),
    "pools by preference": _solved(two_chains, pools=TWO),
    "pools by bytes": _solved(two_chains, pools=TWO, objective="total"),
    "pools by cost": _solved(
        two_chains, objective="cost", pools=[Pool("p", 8, cost_per_byte=2), Pool("q")]
    ),
    "variables": _solved(lambda: graph_of("100*n", "n + 9", n=(1, 8))),
    "variables without bounds": _solved(growing),
    "variables, repeated": _solved(repeated, remat=True, cost_limit=2),
    "variables, placed": _solved(joined, in_place=True),
}  # fmt: skip
UNFITTING: Mapping[str, Callable[[], tuple[Source, Plan]]] = {
    "given order": _solved(two_chains, memory_limit=1),
    "remat": _solved(lambda: remat_chain(4), remat=True, memory_limit=2),
}


@cache
def planned(kind: str) -> tuple[Source, Plan]:
    """A source of a kind, and its plan."""
    return KINDS[kind]()
