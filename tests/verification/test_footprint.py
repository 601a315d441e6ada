"""The bound "least footprint", proved again by the checker, against the planner's and the truth."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracles
from support.cases import examples, seeds
from support.random_graphs import programs
from support.remat_oracle import least_cost, random_remat_problem, remat_chain
from support.sharing_instances import calling
from support.sharing_oracle import random_sharing_graph

import cpplan
from cpplan import Graph, Op, Plan, Program, Tensor, to_anf, verify
from cpplan.aliasing.alias_candidates import find_candidates
from cpplan.model.errors import VerificationError
from cpplan.model.residency import Residency
from cpplan.remat.footprint import least_footprint as planners_footprint
from cpplan.remat.footprint import shared_footprint
from cpplan.remat.problem import remat_problem
from cpplan.verification import footprint
from cpplan.verification.access_trace import replay
from cpplan.verification.around import bytes_beside
from cpplan.verification.footprint import least_footprint
from tests.benchmarks.time_limits import GRAPHS

RESIDENCIES = [
    Residency(),
    Residency(inputs="keep", constants="keep"),
    Residency(inputs="outside", outputs="outside"),
]
KINDS = [("in place",), ("placement",), ("in place", "placement")]


def proved(program: Program, residency: Residency | None = None, sharing=()) -> int:
    residency = residency or Residency()
    return least_footprint(program.graph, residency, sharing, *replay(program, residency))


@pytest.mark.parametrize("seed", seeds(30))
def test_no_schedule_fits_below_the_footprint(seed):
    problem = random_remat_problem(seed, 5)
    bound = proved(to_anf(problem.graph))
    assert bound == planners_footprint(problem).bytes
    assert least_cost(problem, bound - 1) is None


@pytest.mark.parametrize("sharing", [(), *KINDS])
def test_the_op_that_a_certificate_names_is_looked_at_alone(sharing, monkeypatch):
    graph = GRAPHS["training"](40)
    graph = replace(graph, ops=tuple(replace(op, recomputable=False) for op in graph.ops))
    given = graph, Residency(), sharing, *replay(to_anf(graph), Residency())
    least = least_footprint(*given)
    looked_at: list[int] = []

    def beside(storages, around, roots, chosen):
        looked_at.append(len(chosen))
        return bytes_beside(storages, around, roots, chosen)

    monkeypatch.setattr(footprint, "bytes_beside", beside)
    alone = []
    for op in graph.ops:
        looked_at.clear()
        assert least_footprint(*given, at=op.name, enough=least) == least
        alone.append(max(looked_at, default=1) == 1)
    assert set(alone) == {False, True}
    with pytest.raises(VerificationError, match="unknown op 'none'"):
        least_footprint(*given, at="none", enough=least)


def test_a_chain_whatever_runs_again():
    """Three units of 1 byte meet at the turn, at any order and with any repetition."""
    graph = remat_chain(4)
    names = [op.name for op in graph.ops]
    assert proved(to_anf(graph)) == proved(to_anf(graph, [*names[:3], *names])) == 3


def test_tensor_of_a_single_run_is_live_until_it_is_read():
    """d cannot be drawn again: 8 B while g runs (1 + 4 of its own); h reads b, d, writes y: 13."""
    tensors = Tensor("x", 1, kind="input"), Tensor("d", 8), Tensor("a", 1), Tensor("b", 4)
    tensors += (Tensor("y", 0, kind="output"),)
    ops = (
        Op("r", inputs=("x",), outputs=("d",)),
        Op("e", inputs=("d",), outputs=("a",)),
        Op("g", inputs=("a",), outputs=("b",)),
        Op("h", inputs=("b", "d"), outputs=("y",)),
    )
    for recomputable, sequence, bound in ((True, None, 12), (False, None, 13), (True, "s", 13)):
        first = replace(ops[0], recomputable=recomputable, sequence=sequence)
        graph = Graph("dropout", tensors, (first, *ops[1:]))
        assert proved(to_anf(graph)) == planners_footprint(remat_problem(graph)).bytes == bound


def test_parts_that_several_ops_write_can_be_written_again():
    """l and r, halves of w, are made anew after the 9 bytes of t: w need not be there then."""
    tensors = (
        Tensor("w", 8),
        Tensor("l", 4, view_of=("w", 0)),
        Tensor("r", 4, view_of=("w", 4)),
        *(Tensor(name, size) for name, size in (("s", 1), ("t", 9), ("u", 1))),
        Tensor("y", 1, kind="output"),
    )
    ops = (
        Op("fill", outputs=("w",)),
        Op("left", outputs=("l",)),
        Op("right", outputs=("r",)),
        Op("f", inputs=("l", "r"), outputs=("s",)),
        Op("g", inputs=("s",), outputs=("t",)),
        Op("h", inputs=("t",), outputs=("u",)),
        Op("end", inputs=("u", "l", "r"), outputs=("y",)),
    )
    graph = Graph("parts", tensors, ops)
    again = to_anf(graph, [op.name for op in (*ops[:6], *ops[:3], ops[6])])
    assert again.live_bytes().max() == 10
    assert proved(to_anf(graph)) == planners_footprint(remat_problem(graph)).bytes == 10


def test_bodies_and_their_constants():
    """The loop holds x, y, t (2 B) and its constant (3 B), which is there throughout."""
    body = Graph(
        "body",
        (
            Tensor("x", 4, kind="input"),
            Tensor("c", 3, kind="constant"),
            Tensor("unused", 50, kind="constant"),
            Tensor("t", 2),
            Tensor("y", 4, kind="output"),
        ),
        (Op("f", inputs=("x", "c"), outputs=("t",)), Op("g", inputs=("t",), outputs=("y",))),
    )
    tensors = Tensor("x", 4, kind="input"), Tensor("y", 4, kind="output")
    graph = Graph("g", tensors, (Op("loop", inputs=("x",), outputs=("y",), bodies=(body,)),))
    for constants, bound in (("outside", 10), ("keep", 13)):
        residency = Residency(constants=constants)
        for order in (["loop"], ["loop", "loop"]):
            assert proved(to_anf(graph, order), residency) == bound
        assert planners_footprint(remat_problem(graph, residency)).bytes == bound
        plan = cpplan.solve(graph, remat=True, memory_limit=20, constants=constants)
        assert (plan.bound_by, plan.lower_bound) == ("least footprint", bound)


@given(programs() | oracles.programs(), st.sampled_from(RESIDENCIES))
@settings(max_examples=examples(30), deadline=None)
def test_as_much_as_the_planner_claims(program, residency):
    """Also where the accesses are those of a program that runs ops again."""
    problem = remat_problem(program.graph, residency)
    assert proved(program, residency) == planners_footprint(problem).bytes


@pytest.mark.parametrize("residency", RESIDENCIES)
def test_with_sharing_no_less_than_the_planner_claims(residency):
    compared = 0
    for seed in seeds(40):
        graph = random_sharing_graph(seed, 3 + seed % 6)
        problem = remat_problem(graph, residency)
        for kinds in KINDS:
            if candidates := find_candidates(graph, residency, kinds):
                claimed = shared_footprint(problem, candidates).bytes
                assert proved(to_anf(graph), residency, kinds) >= claimed
                compared += 1
    assert compared > 10


@pytest.mark.parametrize("seed", range(40))
def test_footprint_with_sharing_is_at_most_the_peak(seed):
    graph = random_sharing_graph(seed, 6)
    for kinds in KINDS:
        plan = cpplan.solve(
            graph, in_place="in place" in kinds, placement="placement" in kinds, time_limit=5
        )
        least = proved(to_anf(graph), None, kinds)
        assert least <= plan.peak
        candidates = find_candidates(graph, Residency(), kinds)
        assert least >= shared_footprint(remat_problem(graph), candidates).bytes


def test_a_claim_that_proves_more_than_there_is_is_refused():
    """Every unit once: the 6 results of the way forward meet; but 3 B are all that an op needs."""
    graph = remat_chain(6)
    plan = cpplan.solve(graph, remat=True, cost_limit=1.0, time_limit=20)
    assert plan.peak is not None
    assert plan.peak > 4
    claim = replace(plan, lower_bound=3, bound_by="least footprint", status="feasible")
    verify(graph, claim)
    with pytest.raises(
        VerificationError, match=r"proves a lower bound of 3 B, but the plan claims 4 B"
    ):
        verify(graph, replace(claim, lower_bound=4))


def test_a_bare_problem_has_no_ops():
    problem = cpplan.Problem(("a",), lower=[0], upper=[1], size=[4])
    columns = {name: getattr(problem, name) for name in ("size", "lower", "upper")}
    plan = Plan("p", "optimal", ("a",), offset=problem.lower, peak=4, lower_bound=4, **columns)
    with pytest.raises(VerificationError, match="a bare problem does not have"):
        verify(problem, replace(plan, bound_by="least footprint"))


@pytest.mark.parametrize(("reads", "least"), [(False, 4), (True, 3)])
def test_storage_written_by_a_body_lies_apart(reads, least):
    # x, 1 B, may lie within y, 3 B, where the body of a call only passes it on.
    graph = calling(reads=reads)
    candidates = find_candidates(graph, Residency())
    demands = replay(to_anf(graph), Residency())
    assert least_footprint(graph, Residency(), ("placement",), *demands) == least
    assert shared_footprint(remat_problem(graph), candidates).bytes == least
