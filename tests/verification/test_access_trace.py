"""Lifespans derived from every op's accesses: copies, views, bodies, constants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import examples
from support.oracles import (
    plan_for,
    programs,
)
from support.plan_verdicts import RESIDENCIES, rejected

import cpplan
from cpplan import Graph, Op, Plan, Program, Tensor, to_anf, verify
from cpplan.io.plan_json import plan_from_dict, plan_to_dict
from cpplan.model.residency import Residency
from cpplan.program.liveness import to_problem
from cpplan.verification.access_trace import lifespans, trace


def test_lifespans_by_hand() -> None:
    # Steps: a 0; the branches of c 1-2 and 3 (the second is empty); b 4.
    x, y, z = Tensor("x", 1, kind="input"), Tensor("y", 1), Tensor("z", 1, kind="output")
    tensors = (
        *(x, y, z, Tensor("unread", 1, kind="input"), Tensor("same", 1, kind="output")),
        *(Tensor("w", 1, kind="constant"), Tensor("s", 1, kind="workspace"), Tensor("t", 1)),
    )
    inner = (
        *(Tensor("t", 1, kind="input"), Tensor("y", 1, kind="output")),
        *(Tensor("i", 1, kind="input"), Tensor("u", 1), Tensor("k", 1, kind="constant")),
    )
    steps = (
        Op("f", inputs=("t", "k"), outputs=("u",)),
        Op("g", inputs=("u",), outputs=("y",)),
    )
    bodies = (Graph("then", inner, steps), Graph("else", (Tensor("t", 1, kind="input"),), ()))
    ops = (
        Op("a", inputs=("x", "w"), outputs=("t",)),
        Op("c", inputs=("t",), outputs=("y",), bodies=bodies),
        Op("b", inputs=("y",), outputs=("z",), workspaces=("s",)),
    )
    program = cpplan.to_anf(Graph("by hand", tensors, ops))
    expected = {
        "x": (0, 1),
        "unread": (0, 1),
        "same": (0, 5),
        "t": (0, 4),
        "y": (1, 5),
        "c/0/i": (1, 3),
        "c/0/u": (1, 3),
        "s": (4, 5),
        "z": (4, 5),
    }
    kept = {**expected, "x": (0, 5), "unread": (0, 5), "w": (0, 5), "c/0/k": (0, 5)}
    caller = {n: span for n, span in expected.items() if n not in ("x", "unread", "same", "z")}
    for residency, spans in (
        (Residency(), expected),
        (Residency("keep", "keep", "keep"), kept),
        (Residency("outside", "outside", "outside"), caller),
    ):
        traced = lifespans(trace(program, residency))
        assert {retention.name: span for retention, span in traced.items()} == spans
        problem = to_problem(program, residency)
        columns = (problem.names, problem.lower.tolist(), problem.upper.tolist())
        assert {n: (lo, up) for n, lo, up in zip(*columns, strict=True)} == spans


def test_recomputed_tensors_have_copies_and_readers_use_the_latest() -> None:
    # t is computed, read, dropped while the large u and v are there, and computed again for w.
    tensors = (
        Tensor("x", 1, kind="input"),
        *(Tensor(name, size) for name, size in (("t", 8), ("u", 8), ("v", 8))),
        Tensor("w", 1, kind="output"),
    )
    ops = (
        Op("f", inputs=("x",), outputs=("t",)),
        Op("g", inputs=("t",), outputs=("u",)),
        Op("h", inputs=("u",), outputs=("v",)),
        Op("k", inputs=("v", "t"), outputs=("w",)),
    )
    program = Program(Graph("again", tensors, ops), (0, 1, 2, 0, 3))
    plan = plan_for(program)
    assert [*zip(plan.buffers, plan.lower.tolist(), plan.upper.tolist(), strict=True)] == [
        ("x", 0, 4),
        ("t", 0, 2),
        ("u", 1, 3),
        ("v", 2, 5),
        ("t~1", 3, 5),
        ("w", 4, 5),
    ]
    assert (plan.cost, plan.base_cost) == (5, 4)
    verify(program, plan)
    once = tuple(name for k, name in enumerate(plan.order) if k != 3)
    gone = {"order": once, "cost": 4, "views": {}}
    rejected(program, replace(plan, **gone), "buffer 't~1' of the plan is not needed")


def test_copies_pass_over_a_name_that_a_tensor_bears() -> None:
    """t~1 and t~3 are tensors: the second and the third copy of t are t~2 and t~4."""
    tensors = (Tensor("t", 4), *(Tensor(f"t~{k}", 4, kind="output") for k in (1, 3)))
    ops = (Op("f", outputs=("t",)), Op("g", inputs=("t",), outputs=("t~1", "t~3")))
    program = Program(Graph("taken", tensors, ops), (0, 0, 1, 0))
    assert to_problem(program).names == ("t", "t~2", "t~1", "t~3", "t~4")
    plan = plan_for(program)
    verify(program, plan)
    buffers = tuple({"t~4": "t~5"}.get(name, name) for name in plan.buffers)
    wrong = replace(plan, buffers=buffers)
    rejected(program, wrong, r"'t' at \('t~4', 0\), but it lies in none of its buffers")
    rejected(program, replace(wrong, views={}), "buffer 't~4', needed from step 3")


def test_a_buffer_of_a_body_may_not_bear_the_name_of_a_tensor() -> None:
    body = Graph("body", (Tensor("t", 4, kind="output"),), (Op("f", outputs=("t",)),))
    tensors = (Tensor("call/0/t", 4, kind="output"),)
    ops = (Op("call", outputs=("call/0/t",), bodies=(body,)),)
    program = to_anf(Graph("clash", tensors, ops))
    match = "'call/0/t' bears the name of another buffer"
    with pytest.raises(cpplan.errors.InputError, match=match):
        to_problem(program)
    none = np.zeros(0, np.int64)
    plan = Plan("clash", "optimal", (), none, none, none, none, order=program.names)
    rejected(program, plan, "two buffers would bear the name 'call/0/t'")


def test_an_output_that_is_computed_again_lies_where_it_was_written_last() -> None:
    """f runs twice; y and its view v, outputs both, are in the second copy, u was never moved."""
    tensors = (
        Tensor("y", 8, kind="output"),
        Tensor("v", 4, kind="output", view_of=("y", 4)),
        Tensor("u", 4, kind="output", view_of=("y", 0)),
        Tensor("s", 2),
    )
    ops = (
        Op("f", outputs=("y",)),
        Op("cut", inputs=("y",), outputs=("u",)),
        Op("g", inputs=("y",), outputs=("s",)),
    )
    program = Program(Graph("again", tensors, ops), (0, 1, 2, 0))
    plan = plan_for(program)
    assert plan.buffers == ("y", "s", "y~1")
    assert plan.offset is not None
    first, _, last = plan.offset.tolist()
    assert first != last  # u keeps the first copy to the end
    assert plan.io_map == {"y": ("arena", last), "v": ("arena", last + 4), "u": ("arena", first)}
    assert (plan.offset_of("y"), plan.offset_of("s")) == (last, int(plan.offset[1]))
    verify(program, plan)
    assert plan_from_dict(plan_to_dict(plan)).io_map == plan.io_map
    for name, wrong, match in (
        ("y", ("y", 0), r"'y' at \('y', 0\), but it lies at \('y~1', 0\)"),
        ("v", ("y", 4), r"'v' at \('y', 4\), but it lies at \('y~1', 4\)"),
        ("u", ("y~1", 0), r"'u' at \('y~1', 0\), but it lies at \('y', 0\)"),
        ("s", ("y", 0), r"'s' at \('y', 0\), but it lies at \('s', 0\)"),
    ):
        rejected(program, replace(plan, views={**plan.views, name: wrong}), match)
    less = {name: place for name, place in plan.views.items() if name != "y"}
    rejected(program, replace(plan, views=less), "'y' at None")


def test_a_view_that_is_rerun_stays_in_what_it_reads() -> None:
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("v", 2, view_of=("x", 1)),
        Tensor("y", 2, kind="output"),
    )
    ops = (Op("cut", inputs=("x",), outputs=("v",)), Op("f", inputs=("v",), outputs=("y",)))
    plan = plan_for(Program(Graph("view", tensors, ops), (0, 0, 1)))
    assert plan.buffers == ("x", "y")
    assert plan.views == {"v": ("x", 1)}
    verify(Graph("view", tensors, ops), plan)
    rejected(Graph("view", tensors, ops), replace(plan, views={}), "tensor 'v' at None")


def test_rewritten_constant_stays_outside_the_arena() -> None:
    tensors = (Tensor("c", 4, kind="constant"), Tensor("v", 4, view_of=("c", 0)))
    program = Program(Graph("constant", tensors, (Op("a", outputs=("v",)),)), (0, 0))
    assert to_problem(program).names == ()
    verify(program, plan_for(program))


def test_a_constant_is_there_throughout_and_so_is_what_is_written_into_it_again() -> None:
    """The first v is written over c; the second into a copy of it."""
    tensors = (
        Tensor("c", 4, kind="constant"),
        Tensor("v", 4, view_of=("c", 0)),
        Tensor("y", 1, kind="output"),
    )
    ops = (Op("a", outputs=("v",)), Op("b", inputs=("v",), outputs=("y",)), Op("end"))
    program = Program(Graph("constant", tensors, ops), (0, 0, 1, 2))
    residency = Residency(constants="keep")
    problem = to_problem(program, residency)
    assert problem.names == ("c", "c~1", "y")
    assert (problem.lower.tolist(), problem.upper.tolist()) == ([0, 0, 2], [4, 4, 4])
    plan = plan_for(program, residency)
    assert plan.views == {"v": ("c~1", 0)}
    verify(program, plan)


@settings(max_examples=examples(60))
@given(programs(), st.sampled_from(RESIDENCIES))
def test_two_derivations_of_liveness_agree(program: Program, residency: Residency) -> None:
    problem = to_problem(program, residency)
    columns = (problem.lower, problem.upper, problem.size, problem.alignment)
    swept = dict(zip(problem.names, zip(*(c.tolist() for c in columns), strict=True), strict=True))
    traced = {
        retention.name: (lower, upper, retention.size, retention.alignment)
        for retention, (lower, upper) in lifespans(trace(program, residency)).items()
    }
    assert traced == swept
