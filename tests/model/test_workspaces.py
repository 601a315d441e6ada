"""Scratch memory that the caller states, for graphs of any source."""

from __future__ import annotations

import pytest

import cpplan
from cpplan import Graph, Op, Tensor
from cpplan.batches.model_entry import Model
from cpplan.model.errors import InputError


@pytest.fixture
def call() -> Graph:
    """``y = call(x)``, whose body is one convolution with a workspace of its own."""
    inner = Graph(
        "inner",
        (
            Tensor("a", 64, kind="input", alignment=32),
            Tensor("patches", 16, kind="workspace"),
            Tensor("b", 64, kind="output", alignment=32),
        ),
        (Op("conv", "Conv", ("a",), ("b",), ("patches",)),),
    )
    tensors = Tensor("x", 64, kind="input"), Tensor("y", 64, kind="output")
    return Graph("outer", tensors, (Op("call", "Call", ("x",), ("y",), bodies=(inner,)),))


def test_ops_in_bodies_get_scratch_memory_too(call):
    (body,) = cpplan.load(call, workspaces={"Conv": "1 KiB"}).op["call"].bodies
    assert body.op["conv"].workspaces == ("patches", "conv/scratch")
    scratch = body.tensor["conv/scratch"]
    assert (scratch.nbytes, scratch.alignment, scratch.kind) == (1024, 32, "workspace")


def test_a_name_goes_before_its_kind_and_stating_again_replaces(call):
    graph = cpplan.load(call, workspaces={"Conv": 8, "conv": 24})
    (body,) = graph.op["call"].bodies
    assert body.tensor["conv/scratch"].nbytes == 24
    (body,) = cpplan.load(graph, workspaces={"Conv": 0}).op["call"].bodies
    assert body.op["conv"].workspaces == ("patches",)
    assert "conv/scratch" not in body.tensor


def test_stated_bytes_are_planned_beside_the_tensors(call):
    assert cpplan.solve(call).peak == 64 * 4 + 16
    assert cpplan.solve(cpplan.load(call, workspaces={"conv": 32})).peak == 64 * 4 + 16 + 32


def test_a_tensor_of_that_name_is_not_taken_over():
    tensors = Tensor("x", 8, kind="input"), Tensor("op/scratch", 8, kind="output")
    graph = Graph("tiny", tensors, (Op("op", "Copy", ("x",), ("op/scratch",)),))
    with pytest.raises(InputError, match="a tensor is called 'op/scratch' already"):
        cpplan.load(graph, workspaces={"Copy": 8})


def test_a_problem_has_no_ops():
    problem = cpplan.Problem(("a",), lower=[0], upper=[1], size=[4])
    with pytest.raises(InputError, match="workspaces is for graphs only: a problem has no ops"):
        cpplan.load(problem, workspaces={"Conv": 8})


def test_a_batch_knows_models_apart_by_what_is_stated(call):
    plain, stated = Model("m", call), Model("m", call, workspaces={"Conv": 8})
    assert stated.load().op["call"].bodies[0].tensor["conv/scratch"].nbytes == 8
    assert plain.digest() != stated.digest()
