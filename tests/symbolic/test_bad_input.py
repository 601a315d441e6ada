"""Bad input: one line that names the variable, the bound, the position; exit code 2."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cpplan.cli.main import main
from cpplan.io.graph_json import graph_from_dict, graph_to_dict
from cpplan.io.plan_json import plan_from_dict, plan_text
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.plan import Plan
from cpplan.model.pool import Pool
from cpplan.model.symbols import Symbols
from cpplan.solving.pipeline import solve
from cpplan.verification.verifier import verify


def _values(extent: object, dims: object) -> dict[str, object]:
    return {
        "format": "cpplan.graph",
        "version": 1,
        "name": "g",
        "dims": dims,
        "tensors": [
            {"name": "x", "shape": [extent, 4], "dtype": "float32", "kind": "input"},
            {"name": "y", "shape": [extent, 4], "dtype": "float32", "kind": "output"},
        ],
        "ops": [{"name": "f", "inputs": ["x"], "outputs": ["y"]}],
    }


BAD = {
    "unbound": ("n + m", {"n": [1, 8]}, "tensor 'x': dimension 'm' of m + n is unbound"),
    "division by zero": ("8//n", {"n": [0, 8]}, "division by zero: the divisor n of 8 may be 0"),
    "negative": ("n - 3", {"n": [1, 8]}, "tensor 'x': n - 3 may be negative: it is -2 at least"),
    "no lower bound": ("n", {"n": [None, 8]}, "n may be negative: it is unbounded below"),
    "syntax": ("2*(n + ", {"n": [1, 8]}, "expected a value, not the end at position 8"),
    "import": ("__import__('os')", {"n": [1, 8]}, "at position"),
    "attribute": ("n.__class__", {"n": [1, 8]}, "'.' is not understood at position 2"),
    "call": ("exec(n)", {"n": [1, 8]}, "there is no function 'exec' at position 1"),
    "lambda": ("(lambda: n)", {"n": [1, 8]}, "at position"),
    "fraction": (1.5, {"n": [1, 8]}, "tensor 'x': shape must be a list of non-negative"),
    "bool": (True, {"n": [1, 8]}, "tensor 'x': shape must be a list of non-negative"),
    "swapped": ("n", {"n": [8, 1]}, "dimension 'n': lower bound 8 is above upper bound 1"),
    "range of text": ("n", {"n": "1:8"}, "dims must be an object of extents or [lower, upper]"),
    "bound of text": ("n", {"n": [1, "8"]}, "dims must be an object of extents or [lower, upper]"),
    "too large": ("n*m", {"n": [1, 2**40], "m": [1, 2**40]}, "'x': size must be below 2**62"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_graph_is_refused(name, tmp_path, capsys):
    extent, dims, message = BAD[name]
    with pytest.raises(InputError) as caught:
        graph_from_dict(_values(extent, dims))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(_values(extent, dims)))
    assert main(["plan", str(path), "-q"]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "bad.json" in err
    assert message in err


@pytest.mark.parametrize(
    "text",
    [
        "N=__import__('os')",
        "N=1:n.x",
        "N=8:",
        "N=1:2:3",
        "N=-1:4",
        "=3",
        "N=8..",
        "N=1...8",
        "N=..8",
    ],
)
def test_a_dim_of_the_command_line_is_refused(text, tmp_path, capsys):
    path = tmp_path / "g.json"
    path.write_text(json.dumps(_values("n", {"n": [1, 8]})))
    assert main(["plan", str(path), "-q", "--dim", text]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1


def _graph(**dims: object) -> Graph:
    """``y`` holds 16n bytes beside ``x`` of 16n + 16m."""
    tensors = (
        Tensor("x", shape=("n + m", 4), dtype="float32", kind="input"),
        Tensor("y", shape=("n", 4), dtype="float32", kind="output"),
    )
    op = Op("f", inputs=("x",), outputs=("y",))
    return Graph("g", tensors, (op,), Symbols({"n": (1, 8), "m": (0, 2), **dims}))


@pytest.fixture
def plan() -> Plan:
    return solve(_graph())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n": 3}, "dimension 'm' has no value"),
        ({}, "dimension 'n' has no value"),
        ({"n": 3, "m": 1, "k": 2}, "there is no dimension 'k': expected n, m"),
        ({"n": 0, "m": 1}, "dimension 'n' is 0, below its lower bound 1"),
        ({"n": True, "m": 1}, "dimension 'n' must be an integer, not True"),
        ({"n": 3.0, "m": 1}, "dimension 'n' must be an integer, not 3.0"),
        ({"n": "3", "m": 1}, "dimension 'n' must be an integer, not '3'"),
        # 16·(20 + 1) for x, 16·20 for y.
        (
            {"n": 20, "m": 1},
            "dimension 'n' is 20, above its bound 8: the plan holds 288 B, and at least 656 B "
            "(656 B) would be needed",
        ),
    ],
)
def test_values_are_refused(plan, values, message):
    plan.at(n=1, m=0), plan.at(n=3, m=1)  # remembered: True == 1 and 3.0 == 3
    with pytest.raises(InputError) as caught:
        plan.at(values)
    assert message in str(caught.value)
    with pytest.raises(InputError):
        verify(_graph(), plan, dims=values or {"k": 1})
    with pytest.raises(InputError):
        _graph().at(values)


def test_a_plan_grows_where_it_may(plan):
    at = plan.at(n=20, m=1, grow=True)
    assert (at.grown, at.peak) == (True, 16 * 21 + 16 * 20)
    verify(Graph("g", _wide().tensors, _wide().ops), at.plan_at)
    assert plan.at(n=20, m=1, grow=True) is at
    assert plan.at(n=3, m=1, grow=True).grown is False
    assert plan.at(n=3, m=1).offset("x") == plan.offset_of("x")


def _wide() -> Graph:
    return _graph(n=(1, 64)).at(n=20, m=1)


def test_several_pools_do_not_grow():
    plan = solve(_graph(), pools=(Pool("a", capacity=64), Pool("b")))
    with pytest.raises(InputError, match="a plan of several pools cannot grow"):
        plan.at(n=20, m=1, grow=True)


def test_a_negative_extent_beyond_a_bound_is_named():
    tensor = Tensor("x", shape=("8 - n",), dtype="int8", kind="input")
    plan = solve(Graph("g", (tensor,), (), Symbols({"n": (1, 8)})))
    with pytest.raises(InputError, match="tensor 'x': its extent 8 - n is -1 at n = 9"):
        plan.at(n=9, grow=True)


def test_a_view_that_leaves_its_base_is_named():
    """Within the bounds, n may be above m: 4 B of 2 B at the second value."""
    tensors = (
        Tensor("x", shape=("m",), dtype="int8", kind="input"),
        Tensor("v", shape=("n",), dtype="int8", view_of=("x", 0)),
    )
    plan = solve(Graph("g", tensors, (), Symbols({"n": (0, 4), "m": (0, 4)})))
    assert plan.at(n=2, m=2).nbytes("v") == 2
    with pytest.raises(InputError, match=r"tensor 'v': bytes 0\.\.4 lie beyond 'x' of 2 B"):
        plan.at(n=4, m=2)


def test_plans_and_graphs_without_variables_have_no_values():
    graph = _graph().at(n=2, m=1)
    with pytest.raises(InputError, match="no symbolic dimensions"):
        graph.at(n=2)
    with pytest.raises(InputError, match="no symbolic dimensions"):
        solve(graph).at(n=2)


@pytest.mark.parametrize(
    "text", ["__import__('os')", "n.__class__", "n +", "k + 1", "-1", 2.5, True]
)
def test_expressions_in_plans_are_refused(plan, text, tmp_path, capsys):
    values = json.loads("".join(plan_text(plan)))
    values["symbols"]["tensors"]["x"]["bytes"] = text
    with pytest.raises(InputError, match="symbols: tensor 'x'"):
        plan_from_dict(values)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(values))
    assert main(["show", str(path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_in_place_pairs_need_one_size():
    tensors = (
        Tensor("x", shape=("n",), dtype="int8", kind="input"),
        Tensor("y", shape=("m",), dtype="int8", kind="output"),
    )
    op = Op("f", inputs=("x",), outputs=("y",), in_place=(("y", "x"),))
    with pytest.raises(InputError, match="sizes that may differ: 'y' has m B, 'x' has n B"):
        Graph("g", tensors, (op,), Symbols({"n": (1, 4), "m": (1, 4)}))


def test_bodies_have_the_variables_of_the_graph():
    inner = Tensor("x", shape=("n",), dtype="int8", kind="input")
    outer = (Tensor("x", shape=("2*n",), dtype="int8", kind="input"),)
    for dims, message in (
        ({"k": (1, 4), "n": (1, 4)}, "dimension 'k' of its body is unbound outside"),
        ({"n": (1, 5)}, "dimension 'n' has other bounds in its body"),
        ({"n": (1, 4)}, "'x' has 2*n B outside its body and n B inside"),
    ):
        body = Graph("body", (inner,), (), Symbols(dims))
        with pytest.raises(InputError) as caught:
            Graph("g", outer, (Op("call", inputs=("x",), bodies=(body,)),), Symbols({"n": (1, 4)}))
        assert message in str(caught.value)


def test_views_into_an_arena_are_refused_where_they_cannot_be(plan):
    at = plan.at(n=2, m=1)
    with pytest.raises(InputError, match="flat NumPy array of uint8"):
        at.view(np.zeros(288, np.int8), "x")
    with pytest.raises(InputError, match="the arena has 16 bytes"):
        at.view(np.zeros(16, np.uint8), "x")
    with pytest.raises(InputError, match="places no tensor 'z'"):
        at.view(np.zeros(288, np.uint8), "z")


def test_extents_whose_intervals_are_too_wide_are_tried():
    """``ceildiv(n % 4, 2)`` is written with two quotients, which an interval takes as unrelated."""
    tensor = Tensor("x", shape=("(n % 4 + 1)//2",), dtype="int8", kind="input")
    graph = Graph("g", (tensor,), (), Symbols({"n": (0, 100)}))
    assert graph_from_dict(graph_to_dict(graph)) == graph
    with pytest.raises(InputError, match="may be negative"):
        Graph("g", (tensor,), (), Symbols({"n": (0, 10**6)}))


def test_a_variable_of_one_value_need_not_be_given():
    """n is 3 in any case: 3·m bytes of x are 6 at m = 2; another n than that is refused."""
    tensor = Tensor("x", shape=("n", "m"), dtype="int8", kind="input")
    graph = Graph("g", (tensor,), (), Symbols({"n": 3, "m": (1, 8)}))
    plan = solve(graph)
    assert plan.at(m=2).peak == 6
    verify(graph, plan, dims={"m": 2})
    with pytest.raises(InputError, match="dimension 'm' has no value"):
        plan.at()
    with pytest.raises(InputError, match="dimension 'n' is 2, below its lower bound 3"):
        plan.at(n=2, m=2)
