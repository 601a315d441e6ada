"""Nested expressions in A-normal form: order, sharing, scopes, names, and what is refused."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.published import published

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.program.anf import Program, to_anf
from cpplan.program.expression import Call, Constant, If, Let, TensorType, Tuple, TupleGet, Var
from cpplan.program.normal_form import normalise

X, Y, C = Var("x", size=4), Var("y", size=4), Var("c", size=1)


def call(kind: str, *args, **fields) -> Call:
    """A call that makes four bytes."""
    return Call(kind, args, size=4, **fields)


def kinds(graph: Graph) -> list:
    """Kinds of the ops in order; an op with bodies is followed by theirs."""
    return [(op.kind, *map(kinds, op.bodies)) if op.bodies else op.kind for op in graph.ops]


def test_arguments_come_first_from_left_to_right():
    # TVM's test_order: x + y * z.
    product = call("mul", X, Y)
    assert kinds(normalise(call("add", Constant(size=4), product))) == ["mul", "add"]
    assert kinds(normalise(call("h", call("f", X), call("g", Y)))) == ["f", "g", "h"]


def test_a_shared_expression_is_bound_once():
    shared = call("exp", X)
    graph = normalise(call("add", shared, call("neg", shared)))
    assert kinds(graph) == ["exp", "neg", "add"]
    assert graph.op["add_2"].inputs == ("0", "1")


def test_equal_expressions_that_are_two_objects_are_bound_twice():
    assert kinds(normalise(call("add", call("exp", X), call("exp", X)))) == ["exp", "exp", "add"]


def test_what_both_branches_use_is_bound_before_the_if():
    shared, only = call("exp", X), call("log", X)
    graph = normalise(If(C, call("add", shared, only), call("neg", shared)))
    assert kinds(graph) == ["exp", ("if", ["log", "add"], ["neg"])]


def test_what_the_condition_uses_is_bound_before_the_if():
    shared = call("exp", X)
    graph = normalise(If(Call("test", [shared], size=1), call("neg", shared), X))
    assert kinds(graph) == ["exp", "test", ("if", ["neg"], ["copy"])]


def test_what_two_nested_branches_use_is_bound_in_the_branch_around_both():
    shared = call("exp", X)
    inner = If(C, call("f", shared), call("g", shared))
    assert kinds(normalise(If(C, inner, Y))) == [("if", ["exp", ("if", ["f"], ["g"])], ["copy"])]


def test_a_shared_if_runs_once():
    choice = If(C, call("f", X), call("g", X))
    assert kinds(normalise(call("add", choice, choice))) == [("if", ["f"], ["g"]), "add"]


def test_a_branch_writes_its_result_where_the_if_has_it():
    graph = normalise(If(C, call("f", X), Y))
    (op,) = graph.ops
    assert op.inputs == ("c", "x", "y")
    assert op.outputs == ("0",)
    assert [body.ops[0].outputs for body in op.bodies] == [("0",), ("0",)]
    assert op.bodies[0].tensor["x"].kind == "input"
    assert op.bodies[1].ops[0].kind == "copy"
    # c + x + y + the result during both branches, which are two steps: 1 + 4 + 4 + 4.
    assert to_anf(graph).live_bytes().tolist() == [13, 13]


def test_a_result_that_a_branch_returns_twice_is_copied_once():
    shared = call("f", X)
    graph = normalise(If(C, Tuple([shared, shared]), Tuple([X, Y])))
    assert kinds(graph) == [("if", ["f", "copy"], ["copy", "copy"])]


def test_a_view_that_a_branch_returns_is_copied():
    # The view's bytes are its base's, not the result's.
    view = call("reshape", call("f", X), view_of_arg=0)
    assert kinds(normalise(If(C, view, Y))) == [("if", ["f", "reshape", "copy"], ["copy"])]


def test_an_if_of_nested_tuples():
    then = Tuple([X, Tuple([call("f", X), Y])])
    orelse = Tuple([call("g", Y), Tuple([X, Y])])
    graph = normalise(TupleGet(TupleGet(If(C, then, orelse), 1), 0))
    assert graph.ops[0].outputs == ("0.0", "0.1", "0.2")
    assert [t.name for t in graph.tensors if t.kind == "output"] == ["0.1"]


def test_let_binds_within_its_body_only():
    x = Var("x")
    graph = normalise(Let(x, call("f", X), call("g", x)))
    assert [(op.kind, op.inputs) for op in graph.ops] == [("f", ("x",)), ("g", ("x_1",))]


def test_an_inner_let_hides_the_outer_one():
    t = Var("t")
    use = call("use", t)
    graph = normalise(Let(t, call("f", X), call("add", Let(t, call("g", X), use), use)))
    # The same object ``use`` is two computations, for t is two things.
    assert [(op.kind, op.inputs) for op in graph.ops] == [
        ("f", ("x",)),
        ("g", ("x",)),
        ("use", ("t_1",)),
        ("use", ("t",)),
        ("add", ("2", "3")),
    ]


def test_what_does_not_depend_on_a_let_is_shared_across_it():
    shared, t = call("exp", X), Var("t")
    graph = normalise(call("add", shared, Let(t, call("f", shared), call("g", t, shared))))
    assert kinds(graph) == ["exp", "f", "g", "add"]


def test_a_let_is_computed_where_it_stands_even_if_nobody_uses_it():
    graph = normalise(Let(Var("t"), call("f", X), call("g", Y)))
    assert kinds(graph) == ["f", "g"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (X, {"x": "output"}),
        (Constant("w", size=4), {"w": "constant", "0": "output"}),
        (Tuple([]), {}),
        (Tuple([X, Tuple([Y, X])]), {"x": "output", "y": "output"}),
        (Let(Var("t"), X, Var("t")), {"x": "output"}),
    ],
)
def test_bare_expressions_get_tensors_of_the_right_kind(expression, expected):
    assert {t.name: t.kind for t in normalise(expression).tensors} == expected


def test_a_call_with_several_results_is_a_tuple():
    split = Call("split", [X], outputs=[TensorType(size=1), TensorType(size=3)])
    graph = normalise(Call("cat", [split, TupleGet(split, 0)], size=5))
    assert graph.op["cat_1"].inputs == ("0.0", "0.1", "0.0")


def test_the_fields_of_a_call_arrive_in_the_op():
    graph = normalise(call("f", X, cost=3, workspaces=[16], recomputable=False, in_place=[(0, 0)]))
    (op,) = graph.ops
    assert (op.cost, op.recomputable, op.in_place) == (3, False, (("0", "x"),))
    assert [graph.tensor[name].size for name in op.workspaces] == [16]
    view = normalise(Call("slice", [X], size=2, view_of_arg=(0, 2)))
    assert view.tensor["0"].view_of == ("x", 2)


def test_the_names_of_others_are_left_alone():
    graph = normalise(call("f", Var("0", size=1), Constant("0_1", size=1)))
    assert graph.ops[0].outputs == ("0_2",)


def test_depth_has_no_limit():
    expression, depth = X, 3_000
    for _ in range(depth):
        expression = call("f", expression)
    graph = normalise(expression)
    assert len(graph.ops) == depth
    body = Var(f"v{depth}")
    for k in range(depth, 0, -1):
        body = Let(Var(f"v{k}"), call("f", Var(f"v{k - 1}") if k > 1 else X), body)
    assert [op.inputs for op in normalise(body).ops[:2]] == [("x",), ("v1",)]
    nested = X
    for _ in range(depth):
        nested = TupleGet(Tuple([nested]), 0)
    assert normalise(nested).ops == ()


@given(st.integers(0, 10_000))
def test_the_order_of_construction_does_not_matter(seed):
    """The same directed acyclic graph, its nodes made in two orders, gives the same program."""
    rng = random.Random(seed)
    layers = [[[rng.random() < 0.5 for _ in range(4)] for _ in range(4)] for _ in range(3)]

    def build(order: random.Random) -> Graph:
        below = [X, Y, C, Constant("w", size=4)]
        for depth, layer in enumerate(layers):
            made: dict[int, Call | If] = {}
            for k in order.sample(range(4), 4):
                args = [node for node, used in zip(below, layer[k], strict=True) if used]
                made[k] = call(f"f{depth}.{k}", *args)
            below = [If(C, made[0], made[1]), made[1], made[2], made[3]]
        return normalise(Tuple(below))

    one, other = build(random.Random(1)), build(random.Random(seed))
    assert one == other
    assert Program.parse(str(to_anf(one))) == to_anf(other)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TupleGet(Tuple([X]), 1), "item 1 is out of range: the tuple has 1"),
        (lambda: TupleGet(Tuple([X]), -1), "item -1 is out of range"),
        (lambda: TupleGet(X, 0), "item 0 of a tensor: expected a tuple"),
        (lambda: If(Tuple([C]), X, Y), "the condition must be a tensor"),
        (lambda: If(C, X, Tuple([Y])), "tuples of different structure"),
        (lambda: If(C, Tuple([X]), Tuple([Y, Y])), "tuples of different structure"),
        (lambda: If(C, X, Var("z", size=8)), "one branch returns 4 B, the other 8 B"),
        (
            lambda: If(C, Var("a", (4,), "int8"), Var("b", (2, 2), "int8")),
            "one branch returns int8[4] of 4 B, the other int8[2,2] of 4 B",
        ),
        (lambda: call("f", X, Var("x", size=8)), "variable 'x' is 8 B here and 4 B elsewhere"),
        (lambda: call("f", Var("t")), "variable 't' is bound by no let here"),
        (lambda: Let(Var("t", size=8), X, Var("t")), "variable 't': size 8 is not that"),
        (lambda: Let(Var("t", size=8), Tuple([X]), Var("t")), "its value is a tuple"),
        (lambda: Call("f", [X]), "tensor 'f': give size, or shape and a known dtype"),
        (lambda: Call("f", [X], size=-1), "size must be a non-negative integer"),
        (lambda: call("f", Tuple([X]), view_of_arg=0), "view_of_arg 0 must be an argument"),
        (lambda: call("f", X, view_of_arg=1), "view_of_arg 1 must be an argument"),
        (lambda: Call("f", [X], size=8, view_of_arg=0), "lie beyond its base 'x'"),
        (lambda: call("f", X, in_place=[(0, 1)]), "in_place pair (0, 1) is out of range"),
        (lambda: Call("f", [X], size=1, outputs=[]), "the type of the result or outputs, not both"),
        (lambda: Call("f", X, size=1), "expected a list of expressions, not Var"),
        (lambda: Call("f", [3], size=1), "item 0 must be an expression, not int"),
        (lambda: Let("t", X, X), "expected a Var to bind, not str"),
        (lambda: 3, "expected a graph or an expression, not int"),
    ],
)
def test_ill_formed_expressions_are_refused(make, message):
    with pytest.raises(InputError, match=re.escape(message)):
        to_anf(make())


def test_tvm_live_bytes_per_binding():
    """TVM's AnnotateUsedMemory figures: bytes live at each call, in A-normal form order."""
    for case in published("tvm")["used_memory_in_anf_order"]["cases"]:
        if "error" in case:
            continue
        values = {name: Var(name, size=size) for name, size in case["inputs"].items()}
        for made in case["calls"]:
            args = [values[name] for name in made["args"]]
            values[made["out"]] = Call(made["f"], args, size=made["size"])
        program = to_anf(values[case["calls"][-1]["out"]])
        used = case["used_memory_per_call"]
        assert program.live_bytes().tolist()[: len(used)] == used, case["id"]
