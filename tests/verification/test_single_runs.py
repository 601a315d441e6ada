"""Buffers in bulk, where ops run once: as the access trace says, one op after another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import examples, seeds
from support.empty_tensors import with_empty
from support.oracles import graphs
from support.plan_verdicts import RESIDENCIES
from support.sharing_oracle import random_sharing_graph

import cpplan
from cpplan import Graph, Op, Tensor, to_anf
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.program.anf import Program, runs_once
from cpplan.verification import lowering
from cpplan.verification.access_trace import trace
from cpplan.verification.needed_buffers import needed_buffers
from cpplan.verification.program_plans import buffers_of_single_runs


def assert_as_traced(program: Program, residency: Residency) -> None:
    expected, found = (
        needed_buffers(trace(program, residency)),
        buffers_of_single_runs(program, residency),
    )
    assert found.names == expected.names
    for column in ("lower", "upper", "size", "alignment", "reads", "writes"):
        assert getattr(found, column).tolist() == getattr(expected, column).tolist(), column


def flat(graph: Graph) -> Graph | None:
    try:
        return replace(graph, ops=tuple(replace(op, bodies=()) for op in graph.ops))
    except InputError:
        return None


@given(graphs(), st.sampled_from(RESIDENCIES))
@settings(max_examples=examples(60), deadline=None)
def test_buffers_in_bulk_are_those_of_the_trace(graph: Graph, residency: Residency) -> None:
    alone = flat(graph)
    if alone is not None:
        assert runs_once(to_anf(alone))
        assert_as_traced(to_anf(alone), residency)


@pytest.mark.parametrize("seed", seeds(30))
def test_buffers_in_bulk_of_views_and_empty_tensors(seed: int) -> None:
    graph = random_sharing_graph(seed, 5)
    for residency in RESIDENCIES:
        assert_as_traced(to_anf(graph), residency)
        assert_as_traced(to_anf(with_empty(graph, seed)), residency)


def test_an_op_that_reads_and_writes_a_storage_passes_it_on() -> None:
    tensors = (
        *(Tensor("b", 8, kind="output"), Tensor("v", 4, view_of=("b", 0))),
        *(Tensor("w", 4, view_of=("b", 4), alignment=4), Tensor("e", 0, view_of=("b", 8))),
    )
    ops = Op("f", outputs=("v",)), Op("g", inputs=("v", "v", "e"), outputs=("w",))
    for residency in RESIDENCIES:
        assert_as_traced(to_anf(Graph("g", tensors, ops)), residency)


def test_sizes_beyond_an_address_are_refused_in_bulk() -> None:
    most = 2**62 - 1
    graph = Graph("g", tuple(Tensor(f"x{k}", most, kind="input") for k in range(3)), ())
    with pytest.raises(VerificationError, match=r"exceed 2\*\*62 bytes"):
        buffers_of_single_runs(to_anf(graph), Residency())


def test_a_program_of_single_runs_is_verified_without_a_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = Graph(
        "g",
        (Tensor("x", 8, kind="input"), Tensor("y", 8), Tensor("z", 8, kind="output")),
        (Op("a", inputs=("x",), outputs=("y",)), Op("b", inputs=("y",), outputs=("z",))),
    )

    def refuse(*_: object) -> Problem:
        raise AssertionError("traced op by op")

    plan = cpplan.solve(graph)
    monkeypatch.setattr(lowering, "replay", refuse)
    cpplan.verify(graph, plan)
    with pytest.raises(VerificationError, match="'y' has upper 1 in the plan, but needs 2"):
        cpplan.verify(graph, replace(plan, upper=plan.upper.clip(max=1)))
