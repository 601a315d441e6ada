"""Defects that users of Relax's memory planner reported, as programs: absent here.

The programs are those of apache/tvm #20190 and #20220 (a cast that is an alias), #20134 (a reshape
behind a packed call) and #20191 (storage of the branches of an ``if``), as
``cases/tvm.json`` names them.
"""

from __future__ import annotations

import pytest

import cpplan
from cpplan import Graph, Op, Plan, Tensor


def bytes_of(plan: Plan, name: str) -> range:
    """The addresses of a buffer."""
    row = plan.row[name]
    start = int(plan.offset[row])
    return range(start, start + int(plan.size[row]))


def meet(plan: Plan, one: str, other: str) -> bool:
    """True if two buffers share addresses."""
    a, b = bytes_of(plan, one), bytes_of(plan, other)
    return max(a.start, b.start) < min(a.stop, b.stop)


@pytest.mark.parametrize("in_place", [False, True])
def test_base_of_a_cast_is_kept_while_the_cast_is_read(in_place: bool):
    # left is src under another name, so that right, written while left is needed, lies elsewhere.
    # Without sharing x, src and right are live at once: 24 B. Otherwise right lies over x: 16 B.
    graph = Graph(
        "match_cast",
        (
            Tensor("x", 8, kind="input"),
            Tensor("src", 8),
            Tensor("left", 8, view_of=("src", 0)),
            Tensor("right", 8),
            Tensor("out", 8, kind="output"),
        ),
        (
            Op("add_a", "add", ("x",), ("src",), in_place=(("src", "x"),)),
            Op("cast", "match_cast", ("src",), ("left",)),
            Op("add_b", "add", ("x",), ("right",), in_place=(("right", "x"),)),
            Op(
                "add",
                "add",
                ("left", "right"),
                ("out",),
                in_place=(("out", "left"), ("out", "right")),
            ),
        ),
    )
    plan = cpplan.solve(graph, in_place=in_place)
    cpplan.simulate(graph, plan)
    assert (plan.status, plan.peak) == ("optimal", 16 if in_place else 24)
    assert not meet(plan, "src", "right")


def test_base_of_a_reshape_lives_until_its_last_reader():
    # t is needed by use, under the name v: u lies beside it, 16 B, and use's result makes it 20.
    graph = Graph(
        "reshape",
        (
            Tensor("t", 8, kind="input"),
            Tensor("v", 8, view_of=("t", 0)),
            Tensor("u", 8),
            Tensor("y", 4, kind="output"),
        ),
        (
            Op("reshape", "vm.builtin.reshape", ("t",), ("v",)),
            Op("fill", "fill", (), ("u",)),
            Op("use", "use", ("v", "u"), ("y",)),
        ),
    )
    plan = cpplan.solve(graph, in_place=True)
    cpplan.simulate(graph, plan)
    assert (plan.status, plan.peak) == ("optimal", 20)
    assert plan.upper[plan.row["t"]] == 3
    assert not meet(plan, "t", "u")


def test_the_storage_of_branches_is_there_in_both():
    # Either branch needs 8 B of its own beside c and y: 1 + 4 + 8, in the same place.
    def branch(name: str) -> Graph:
        tensors = (Tensor(f"{name}1", 8), Tensor("y", 4, kind="output"))
        ops = (Op("alloc", outputs=(f"{name}1",)), Op("use", "use", (f"{name}1",), ("y",)))
        return Graph(name, tensors, ops)

    graph = Graph(
        "if",
        (Tensor("c", 1, kind="input"), Tensor("y", 4, kind="output")),
        (Op("if", "if", ("c",), ("y",), bodies=(branch("a"), branch("b"))),),
    )
    plan = cpplan.solve(graph, in_place=True)
    cpplan.simulate(graph, plan)
    assert (plan.status, plan.peak) == ("optimal", 13)
    assert bytes_of(plan, "if/0/a1") == bytes_of(plan, "if/1/b1")
