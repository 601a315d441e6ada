"""Relay's storage tokens: the cases of TVM's tests of GraphPlanMemory."""

from __future__ import annotations

import numpy as np
import pytest
from support.published import tvm_case

from cpplan import Graph, Op, Problem, Tensor
from cpplan.packing.storage_ids import share_storages
from cpplan.packing.storage_ids.tokens import storage_tokens
from cpplan.runtime.deadline import Deadline

RELAY = {"algorithm": "storage_tokens", "inputs": "keep", "constants": "keep"}


def tokens(problem: Problem, match_range: int = 16) -> list[int]:
    group = np.zeros(len(problem), np.int64)
    return storage_tokens(problem, group, Deadline(60), match_range=match_range).tolist()


def one_after_another(*size: int) -> Problem:
    steps = np.arange(len(size))
    return Problem([f"b{k}" for k in steps], lower=steps, upper=steps + 1, size=size)


def test_alternating_tensors_take_two_storages():
    """The parameters keep their storages; y2, z0, z1, … alternate between the other two."""
    case = tvm_case("relay_graph_plan_memory", "relay/plan_memory")
    calls, last = case["calls"], case["calls"][-1]["out"]
    graph = Graph(
        "plan_memory",
        (
            *(Tensor(name, size, kind="input") for name, size in case["params"].items()),
            *(
                Tensor(c["out"], c["size"], kind="output" if c["out"] == last else "intermediate")
                for c in calls
            ),
        ),
        tuple(Op(c["out"], c["op"], tuple(c["args"]), (c["out"],)) for c in calls),
    )
    plan = share_storages(graph, **RELAY)
    assert len(plan) == case["expect"]["storages"]
    # Relay reports of each storage the size of the tensor for which it was made.
    first = [graph.tensor[plan.members(k)[0]].size for k in range(len(plan))]
    assert first == [case["expect"]["sizes"][str(k)] for k in range(4)]
    assert plan.bytes.tolist() == [40, 4, 40, 40]
    alternating = [plan.storage_of(call["out"]) for call in calls]
    assert alternating == [2, 3, 2, 3, 2, 3, 2]


def test_reshape_shares_storage_also_as_an_output():
    case = tvm_case("relay_graph_plan_memory", "relay/reshape_nop")
    graph = Graph(
        "reshape_nop",
        (
            Tensor("x", 160, kind="input"),
            Tensor("y", 160),
            Tensor("z0", 160, kind="output", view_of=("y", 0)),
            Tensor("t1", 160),
            Tensor("z1", 160, kind="output"),
            Tensor("z2", 160, kind="output", view_of=("t1", 0)),
        ),
        (
            Op("abs", inputs=("x",), outputs=("y",)),
            Op("reshape0", inputs=("y",), outputs=("z0",)),
            Op("abs1", inputs=("y",), outputs=("t1",)),
            Op("sqrt", inputs=("t1",), outputs=("z1",)),
            Op("reshape2", inputs=("t1",), outputs=("z2",)),
        ),
    )
    plan = share_storages(graph, **RELAY)
    found = [plan.storage_of(graph.root[tensor.name][0]) for tensor in graph.tensors]
    assert found == case["expect"]["storage_ids"]


def test_scopes_are_kept_apart():
    """Two parameters, two buffers and three textures; the result takes a buffer that is free."""
    case = tvm_case("relay_graph_plan_memory", "relay/plan_2d_texture")
    graph = textures()
    scope = {t.name: "global" for t in graph.tensors}
    scope |= dict.fromkeys(("t6", "t8", "t10"), "global.texture")
    plan = share_storages(graph, group_by=scope, **RELAY)
    found = {str(k): key for k, key in enumerate(plan.groups or ())}
    assert found == case["expect"]["scopes"]
    # It counts the storage that is used twice as two.
    assert len(plan.buffers) == case["expect"]["storages"]
    assert sum(scope[name] == "global" for name in plan.buffers) == case["expect"]["buffers"]
    assert plan.storage_of("y") == plan.storage_of("t1")


def textures() -> Graph:
    """relay/plan_2d_texture: the graph of TVM's test_plan_2d_memory."""
    size = 32 * 40 * 40 * 4
    inner = ("t1", "t3", "t6", "t8", "t10")
    return Graph(
        "textures",
        (
            *(Tensor(name, size, kind="input") for name in ("data1", "data2")),
            *(Tensor(name, size) for name in inner),
            Tensor("y", size, kind="output"),
        ),
        (
            Op("1", "layout_transform", ("data1",), ("t1",)),
            Op("3", "layout_transform", ("data2",), ("t3",)),
            Op("6", "add", ("t1", "t3"), ("t6",)),
            Op("8", "add", ("t6", "t3"), ("t8",)),
            Op("10", "add", ("t8", "t6"), ("t10",)),
            Op("11", "layout_transform", ("t10",), ("y",)),
        ),
    )


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (1700, [0, 1]),  # 1700 / 16 = 106 > 100: new
        (1600, [0, 0]),  # grows
        (6, [0, 1]),  # 6 * 16 = 96 < 100: new
        (7, [0, 0]),  # 112 >= 100: has room
    ],
)
def test_sizes_match_within_sixteen_times(request_bytes, expected):
    assert tokens(one_after_another(100, request_bytes)) == expected


def test_the_smallest_that_is_large_enough_comes_before_the_largest_that_is_not():
    """Free are 90, 110 and 120: 100 takes 110, and the next 130 the largest, 120."""
    problem = Problem(
        ("a", "b", "c", "d", "e"),
        lower=[0, 0, 0, 1, 1],
        upper=[1, 1, 1, 2, 2],
        size=[90, 110, 120, 100, 130],
    )
    assert tokens(problem) == [0, 1, 2, 1, 2]


def test_a_match_range_of_one_wants_equal_sizes_and_zero_nothing():
    problem = one_after_another(8, 8, 9)
    assert tokens(problem, match_range=1) == [0, 0, 1]
    assert tokens(problem, match_range=0) == [0, 1, 2]
