"""``unroll``: the same buffers, from a graph in which every op runs once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracles
from support.cases import examples
from support.random_graphs import programs

from cpplan import Graph, Op, Program, Tensor, to_anf
from cpplan.model.graph import Placement
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.program.liveness import to_problem
from cpplan.program.unrolled import unroll

RESIDENCIES = [
    Residency(),
    Residency(inputs="keep", constants="keep"),
    Residency(inputs="outside", outputs="outside"),
]


def rows(problem: Problem, *more: str) -> dict[str, tuple[int, ...]]:
    names = ("lower", "upper", "size", "alignment", "reads", *more)
    columns = (getattr(problem, name).tolist() for name in names)
    return dict(zip(problem.names, zip(*columns, strict=True), strict=True))


@pytest.fixture
def diamond() -> Graph:
    """x -> a -> r, and both are read by the last op."""
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("a", 8),
        Tensor("v", 4, view_of=("a", 4)),
        Tensor("r", 8),
        Tensor("s", 2, kind="workspace"),
        Tensor("y", 8, kind="output"),
    )
    ops = (
        Op("f", "", ("x",), ("a",), ("s",)),
        Op("g", "", ("a",), ("r",), in_place=(("r", "a"),), after=("f",)),
        Op("h", "", ("v", "r"), ("y",), placements=(Placement("v", "y", 4),)),
    )
    return Graph("diamond", tensors, ops)


def test_nothing_repeats_nothing_changes(diamond):
    program = to_anf(diamond)
    assert unroll(program) is program


def test_every_run_and_every_copy(diamond):
    unrolled = unroll(Program(diamond, (0, 1, 0, 2, 2)))
    assert [(op.name, op.inputs, op.outputs, op.workspaces) for op in unrolled.ops] == [
        ("f", ("x",), ("a",), ("s",)),
        ("g", ("a",), ("r",), ()),
        ("f~1", ("x",), ("a~1",), ("s~1",)),
        ("h", ("v~1", "r"), ("y",), ()),
        ("h~1", ("v~1", "r"), ("y~1",), ()),
    ]
    graph = unrolled.graph
    assert graph.tensor["v~1"].view_of == ("a~1", 4)
    assert graph.op["g"].in_place == (("r", "a"),)
    assert graph.op["g"].after == ("f",)
    assert graph.op["h~1"].placements == (Placement("v~1", "y~1", 4),)
    kinds = {name: graph.tensor[name].kind for name in ("x", "y", "y~1", "s~1")}
    assert kinds == {"x": "input", "y": "intermediate", "y~1": "output", "s~1": "workspace"}


def test_a_view_that_is_passed_on_again_lies_where_it_lay():
    """cut runs twice on one x: its second result has no readers, and there is one buffer."""
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("v", 2, view_of=("x", 1)),
        Tensor("y", 2, kind="output"),
    )
    cut, f = Op("cut", "", ("x",), ("v",)), Op("f", "", ("v",), ("y",), in_place=(("y", "v"),))
    program = Program(Graph("view", tensors, (cut, f)), (0, 0, 1))
    unrolled = unroll(program)
    assert unrolled.ops[2].inputs == ("v",)
    assert to_problem(unrolled).names == ("x", "y")


def test_parts_that_are_written_anew_first():
    """left and right write halves of w; left runs again: its half begins another copy of w."""
    tensors = (
        Tensor("w", 8),
        *(Tensor(name, 4, view_of=("w", at)) for name, at in (("l", 0), ("r", 4))),
        Tensor("y", 1, kind="output"),
    )
    ops = (
        Op("fill", "", (), ("w",)),
        Op("left", "", (), ("l",)),
        Op("right", "", (), ("r",)),
        Op("end", "", ("l", "r"), ("y",)),
    )
    program = Program(Graph("parts", tensors, ops), (0, 1, 2, 1, 3))
    unrolled = unroll(program)
    assert (unrolled.ops[3].outputs, unrolled.ops[3].workspaces) == (("l~1",), ("w~1",))
    assert unrolled.ops[4].inputs == ("l~1", "r")
    assert rows(to_problem(unrolled)) == rows(to_problem(program))


def test_bodies_know_the_copies_that_their_op_accesses():
    """The body's x is the op's, its t its own; so it is in the body of an op of the body."""
    pair = Tensor("x", 4), Tensor("y", 4, kind="output")
    given = Tensor("x", 4, kind="input")
    inner = Graph("inner", (given, pair[1]), (Op("k", "", ("x",), ("y",)),))
    outer = Graph(
        "outer",
        (given, Tensor("t", 2), pair[1]),
        (
            Op("j", "", ("x",), ("t",)),
            Op("call", "", ("x", "t"), ("y",), bodies=(inner,)),
        ),
    )
    ops = (Op("f", "", (), ("x",)), Op("loop", "", ("x",), ("y",), bodies=(outer,)))
    program = Program(Graph("g", pair, ops), (0, 1, 0, 1))
    unrolled = unroll(program)
    problem = to_problem(unrolled)
    assert set(problem.names) == {"x", "y", "loop/0/t", "x~1", "y~1", "loop~1/0/t"}
    assert rows(problem, "writes") == rows(to_problem(program), "writes")
    body = unrolled.ops[3].bodies[0]
    assert body.ops[1].bodies[0].ops[0].inputs == ("x~1",)


@pytest.mark.parametrize(
    ("other", "ops", "tensors"),
    [
        (Tensor("a~1", 1, kind="input"), ["f", "f~1"], ["a~2", "v~1", "s~1"]),
        (Tensor("v~1", 1, kind="input"), ["f", "f~1"], ["a~1", "v~2", "s~1"]),
        (Op("f~1"), ["f", "f~2"], ["a~1", "v~1", "s~1"]),
    ],
)
def test_copies_pass_over_names_that_there_are(diamond, other, ops, tensors):
    graph = Graph(
        "taken",
        (*diamond.tensors, other) if isinstance(other, Tensor) else diamond.tensors,
        (*diamond.ops, other) if isinstance(other, Op) else diamond.ops,
    )
    program = Program(graph, (0, 0, *range(1, len(graph.ops))))
    unrolled = unroll(program)
    assert [op.name for op in unrolled.ops[:2]] == ops
    assert [t.name for t in unrolled.graph.tensors if t.name not in graph.tensor] == tensors
    assert unrolled.graph.tensor[tensors[1]].view_of == (tensors[0], 4)
    assert rows(to_problem(unrolled), "writes") == rows(to_problem(program), "writes")


def test_a_body_that_has_the_name_of_a_copy_keeps_it():
    """The body's own t~1 has nothing to do with the second copy of the t that it reads."""
    body = Graph(
        "body",
        (Tensor("t", 4, kind="input"), Tensor("t~1", 2), Tensor("y", 4, kind="output")),
        (Op("k", "", ("t",), ("t~1",)), Op("l", "", ("t", "t~1"), ("y",))),
    )
    ops = (Op("f", "", (), ("t",)), Op("call", "", ("t",), ("y",), bodies=(body,)))
    graph = Graph("g", (Tensor("t", 4), Tensor("y", 4, kind="output")), ops)
    program = Program(graph, (0, 0, 1))
    unrolled = unroll(program)
    assert to_problem(unrolled).names == ("t", "t~2", "y", "call/0/t~1")
    assert unrolled.ops[2].bodies[0].ops[1].inputs == ("t~2", "t~1")
    assert rows(to_problem(unrolled), "writes") == rows(to_problem(program), "writes")


@pytest.mark.parametrize(("empty", "order"), [(0, (0, 1, 1, 2)), (1, (0, 0, 1, 2))])
def test_a_part_of_an_output_outside_is_written_again_beside_an_empty_one(empty, order):
    parts = [Tensor(f"p{k}", 0 if k == empty else 1, view_of=("y", 0)) for k in range(2)]
    fills = [Op(f"fill{k}", "", (), (f"p{k}",)) for k in range(2)]
    join = Op("join", "", ("p0", "p1"), ("y",))
    graph = Graph("g", (Tensor("y", 1, kind="output"), *parts), (*fills, join))
    program, outside = Program(graph, order), Residency(outputs="outside")
    found = to_problem(unroll(program, outside), outside)
    assert rows(found) == rows(to_problem(program, outside))


def test_a_part_that_is_an_output_outside_is_written_again_in_an_inner_whole():
    """The whole is none of the caller's tensors; its copies lie where the part does.

    The other part is empty, so that no op writes the first copy of the whole.
    """
    tensors = (
        Tensor("whole", 1),
        Tensor("p", 0, view_of=("whole", 0)),
        Tensor("q", view_of=("whole", 0), size=1, kind="output"),
    )
    fills = (Op("fill_p", "", (), ("p",)), Op("fill_q", "", (), ("q",)))
    graph = Graph("g", tensors, (*fills, Op("join", "", ("p", "q"), ("whole",))))
    program, outside = Program(graph, (0, 1, 1, 2)), Residency(outputs="outside")
    unrolled = unroll(program, outside)
    assert rows(to_problem(unrolled, outside)) == rows(to_problem(program, outside))


@given(programs() | oracles.programs(), st.sampled_from(RESIDENCIES))
@settings(max_examples=examples(50), deadline=None)
def test_the_buffers_are_those_of_the_program(program, residency):
    """All columns; but where a part begins a copy, the whole copy is written besides."""
    unrolled = unroll(program, residency)
    graph, wanted = program.graph, to_problem(program, residency)
    found = to_problem(unrolled, residency)
    assert rows(found) == rows(wanted)
    assert unrolled.starts == program.starts
    assert len({op.name for op in unrolled.graph.ops}) == len(program.order)
    written = [name for op in graph.ops for name in op.outputs + op.workspaces]
    if all(graph.root[name][0] == name for name in written):
        assert rows(found, "writes") == rows(wanted, "writes")
