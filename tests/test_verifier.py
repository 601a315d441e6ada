"""``verify``: correct plans pass, and not one of the broken ones does."""

from __future__ import annotations

import itertools
import random
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import (
    brute_force_peak,
    clashes,
    held,
    plan_for,
    problems,
    programs,
    random_problem,
    random_program,
)

import cpplan
from cpplan import Graph, Op, Plan, Problem, Program, Tensor, to_anf, verify
from cpplan.bounds import lower_bound
from cpplan.checks.demands import lifespans, trace
from cpplan.checks.rectangles import check_bound, cut_gaps
from cpplan.errors import VerificationError
from cpplan.liveness import to_problem
from cpplan.pool import Pool
from cpplan.problem import Gap
from cpplan.residency import Residency
from cpplan.search import canonical_search, niche_search

RESIDENCIES = [
    Residency(*choice)
    for choice in itertools.product(
        ("reuse", "keep", "outside"), ("keep", "outside"), ("outside", "keep")
    )
]


def plan_at(problem: Problem, *offsets: int, **claims: object) -> Plan:
    """A plan with these offsets and the peak they have."""
    offset = np.array(offsets, np.int64)
    values: dict[str, object] = {
        "name": "by hand",
        "status": "feasible",
        "buffers": tuple(problem.names),
        "size": problem.size,
        "lower": problem.lower,
        "upper": problem.upper,
        "gaps": problem.gaps,
        "offset": offset,
        "peak": int(max(offset + problem.size, default=0)),
    }
    return Plan(**{**values, **claims})  # type: ignore[arg-type]


def rejected(source: Graph | Program | Problem, plan: Plan, match: str) -> None:
    with pytest.raises(VerificationError, match=match) as caught:
        verify(source, plan)
    assert "\n" not in str(caught.value)


@pytest.fixture
def staircase() -> Problem:
    """Three buffers, of which neighbours meet: optimum 12, at step 1 (4 + 8 B)."""
    return Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])


@pytest.fixture
def chain() -> Program:
    """x -> a -> t -> b -> y; live 24 B at step 0, 20 B at step 1: optimum 24."""
    tensors = (Tensor("x", 8, kind="input"), Tensor("t", 16), Tensor("y", 4, kind="output"))
    ops = (Op("a", inputs=("x",), outputs=("t",)), Op("b", inputs=("t",), outputs=("y",)))
    return Program(Graph("chain", tensors, ops), (0, 1))


def test_accepts_a_correct_plan_and_every_true_claim(staircase: Problem) -> None:
    verify(staircase, plan_at(staircase, 8, 0, 8))
    verify(staircase, plan_at(staircase, 8, 0, 8, lower_bound=11, bound_by="live bytes"))
    verify(
        staircase,
        plan_at(staircase, 8, 0, 8, status="optimal", lower_bound=12, bound_by="live bytes"),
    )
    verify(staircase, plan_at(staircase, 8, 0, 8, capacity=12))


@pytest.mark.parametrize("name", [canonical_search.NAME, niche_search.NAME, "CP-SAT", "CP-SAT TWA"])
def test_accepts_the_bound_of_every_search_that_packs(staircase: Problem, name: str) -> None:
    """No solver is asked again; the bound must be one that such a search can have proved."""
    plan = plan_at(staircase, 8, 0, 8, status="optimal", lower_bound=12, bound_by=name)
    verify(staircase, plan)
    rejected(staircase, replace(plan, scope="every order"), "nothing about every order")


def test_accepts_the_empty_plan() -> None:
    empty = Problem((), lower=[], upper=[], size=[])
    verify(empty, plan_at(empty, status="optimal", lower_bound=0, bound_by="live bytes"))


def test_overlap_names_buffers_step_and_bytes(staircase: Problem) -> None:
    rejected(
        staircase,
        plan_at(staircase, 8, 1, 8),
        r"^buffers 'a' and 'b' overlap at step 1: bytes 8\.\.12 and 1\.\.9$",
    )


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"offset": None}, "holds no offsets"),
        ({"offset": np.array([8.0, 0.0, 8.0])}, "offset must hold integers"),
        ({"offset": np.array([8, 0])}, r"offset has shape \(2,\)"),
        ({"offset": np.array([8, -8, 8])}, "'b'.*offset -8 must not be negative"),
        ({"offset": np.array([8, 2**62 + 1, 8])}, "'b'.*beyond"),
        ({"size": np.array([4, 8, 5])}, "buffer 'c' has size 5 in the plan, but needs 4"),
        ({"lower": np.array([0, 2, 2])}, "buffer 'b' has lower 2 in the plan, but needs 1"),
        ({"upper": np.array([2, 2, 4])}, "buffer 'b' has upper 2 in the plan, but needs 3"),
        ({"buffers": ("a", "b", "b")}, "buffer 'b' is in the plan twice"),
        ({"buffers": ("a", "b", "d")}, "buffer 'c', needed from step 2, is not in the plan"),
        ({"peak": 13}, "claims a peak of 13 B, but it is 12 B"),
        ({"peak": 11}, "claims a peak of 11 B, but it is 12 B"),
        ({"peak": "12"}, "claims a peak of '12' B"),
        ({"peak": None}, "claims a peak of None B"),
        ({"capacity": 11}, "buffer 'a' ends at 12 B, beyond the plan's capacity of 11 B"),
        ({"lower_bound": 13}, "lower bound 13 B is above the peak of 12 B"),
        ({"lower_bound": -1}, "lower bound must be a byte count, not -1"),
        ({"lower_bound": 1.5}, "lower bound must be a byte count, not 1.5"),
        ({"lower_bound": 12, "bound_by": "CP-SAT"}, "status 'feasible' contradicts"),
        ({"lower_bound": 12}, "no known proof"),
        ({"lower_bound": 11, "bound_by": "hope"}, "no known proof"),
        ({"status": "optimal"}, "status 'optimal' contradicts"),
        ({"status": "infeasible"}, "claims to be 'infeasible'"),
        ({"pools": (Pool("sram"),)}, "the plan is for pools 'sram', not 'arena' as given"),
        ({"order": ("a",)}, "a bare problem has no order"),
        ({"cost": 1}, "a bare problem has no order"),
    ],
)
def test_names_the_broken_rule(staircase: Problem, change: dict[str, object], match: str) -> None:
    rejected(staircase, replace(plan_at(staircase, 8, 0, 8), **change), match)  # type: ignore[arg-type]


def test_a_buffer_that_is_not_needed_is_named(staircase: Problem) -> None:
    fewer = staircase.subset(np.array([0, 1]))
    rejected(fewer, plan_at(staircase, 8, 0, 8), "buffer 'c' of the plan is not needed")


def test_pool_capacity_counts_without_a_claim() -> None:
    problem = Problem(("a",), [0], [1], [8], pools=(Pool("sram", capacity=7),))
    rejected(
        problem,
        plan_at(problem, 0, pools=(Pool("sram", capacity=7),)),
        "pool 'sram''s capacity of 7 B",
    )


def test_alignment_and_fixed_offsets() -> None:
    problem = Problem(("a", "b"), [0, 0], [1, 1], [4, 4], alignment=[4, 1], fixed={1: 5})
    verify(problem, plan_at(problem, 0, 5))
    rejected(problem, plan_at(problem, 1, 5), "'a'.*aligned to 4 B: offset 1 is not a multiple")
    rejected(problem, plan_at(problem, 0, 4), "'b': offset 4, but it is fixed at 5")


def test_buffers_may_use_a_gap_but_not_its_window() -> None:
    # a is absent in [2, 4) but for its bytes 0..2: b fits over bytes 2..8 of it. Optimum 8.
    problem = Problem(("a", "b"), [0, 2], [6, 4], [8, 6], gaps={0: [Gap(2, 4, 0, 2)]})
    verify(problem, plan_at(problem, 0, 2, status="optimal", lower_bound=8, bound_by="live bytes"))
    rejected(problem, plan_at(problem, 0, 1), "'a' and 'b' overlap at step 2: bytes 0..2 and 1..7")
    later = Problem(("a", "b"), [0, 2], [6, 5], [8, 6], gaps={0: [Gap(2, 4, 0, 2)]})
    rejected(later, plan_at(later, 0, 2), "'b' and 'a' overlap at step 4: bytes 2..8 and 0..8")


def test_every_window_of_a_gap_counts() -> None:
    """From step 2 on, a keeps its first two and its last two bytes: b fits only between them."""
    gaps = {0: [Gap(2, 4, 0, 2), Gap(2, 4, 6, 8)]}
    problem = Problem(("a", "b"), [0, 2], [4, 4], [8, 4], gaps=gaps)
    verify(problem, plan_at(problem, 0, 2, status="optimal", lower_bound=8, bound_by="live bytes"))
    rejected(problem, plan_at(problem, 0, 1), "'a' and 'b' overlap at step 2: bytes 0..2 and 1..5")
    rejected(problem, plan_at(problem, 0, 3), "'b' and 'a' overlap at step 2: bytes 3..7 and 6..8")
    check_bound(cut_gaps(problem), problem.alignment, 8)


def test_the_bound_by_live_bytes_counts_padding() -> None:
    # Offsets 0 and 4: the second ends at 7, and nothing below can.
    problem = Problem(("a", "b"), [0, 0], [1, 1], [3, 3], alignment=[4, 4])
    optimal = {"status": "optimal", "lower_bound": 7, "bound_by": "live bytes"}
    verify(problem, plan_at(problem, 0, 4, **optimal))
    # With c of one byte in the hole the same rounding proves no more.
    more = Problem(("a", "b", "c"), [0, 0, 0], [1, 1, 1], [3, 3, 2], alignment=[4, 4, 1])
    rejected(
        more,
        plan_at(more, 0, 4, 7, status="optimal", lower_bound=9, bound_by="live bytes"),
        "live bytes prove a lower bound of 8 B, but the plan claims 9 B",
    )


def test_a_fixed_offset_proves_only_its_end() -> None:
    problem = Problem(("a", "b"), [0, 1], [1, 2], [4, 4], fixed={1: 4})
    claims = {"status": "optimal", "bound_by": "fixed offset"}
    verify(problem, plan_at(problem, 0, 4, lower_bound=8, **claims))
    rejected(problem, plan_at(problem, 8, 4, lower_bound=12, **claims), "no fixed offset proves")


def test_program_plans_are_checked_against_the_graph(chain: Program) -> None:
    plan = plan_for(chain)
    assert plan.peak == 24
    verify(chain, plan)
    verify(chain.graph, plan)
    for change, match in (
        ({"order": ("b", "a")}, "op 'b' runs before 'a'"),
        ({"order": ("a",)}, "op 'b' is missing from the order"),
        ({"order": ("a", "b", "c")}, "unknown op 'c'"),
        ({"order": (1, 2)}, "must hold names of ops"),
        ({"order": ("a", "a", "b")}, "claims a cost of 2, but it is 3"),
        ({"cost": 3}, "claims a cost of 3, but it is 2"),
        ({"base_cost": None}, "claims a base_cost of None, but it is 2"),
        ({"views": {"t": ("x", 0)}}, "views put tensor 't'"),
        ({"residency": Residency(inputs="outside")}, "buffer 'x' of the plan is not needed"),
        (
            {"residency": Residency(inputs="keep")},
            "buffer 'x' has upper 1 in the plan, but needs 2",
        ),
    ):
        rejected(chain, replace(plan, **change), match)  # type: ignore[arg-type]


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
        assert {stay.name: span for stay, span in traced.items()} == spans
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
    assert Plan.from_dict(plan.to_dict()).io_map == plan.io_map
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


def test_what_is_written_into_a_constant_again_is_outside_too() -> None:
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


@settings(max_examples=300)
@given(programs(), st.sampled_from(RESIDENCIES))
def test_two_derivations_of_liveness_agree(program: Program, residency: Residency) -> None:
    problem = to_problem(program, residency)
    columns = (problem.lower, problem.upper, problem.size, problem.alignment)
    swept = dict(zip(problem.names, zip(*(c.tolist() for c in columns), strict=True), strict=True))
    traced = {
        stay.name: (lower, upper, stay.size, stay.alignment)
        for stay, (lower, upper) in lifespans(trace(program, residency)).items()
    }
    assert traced == swept


@settings(max_examples=150)
@given(programs(), st.sampled_from(RESIDENCIES))
def test_graph_and_problem_level_agree(program: Program, residency: Residency) -> None:
    plan = plan_for(program, residency)
    verify(program, plan)
    bare = replace(plan, order=(), cost=None, base_cost=None, views={})
    verify(to_problem(program, residency), bare)
    for row in np.flatnonzero(plan.size):
        # Whatever a move does to the plan, both levels must say the same of it.
        offset = plan.offset.copy()
        offset[row] = 0
        moved = {
            "offset": offset,
            "peak": int(max(offset + plan.size)),
            "lower_bound": None,
            "status": "feasible",
        }
        assert _verdict(program, replace(plan, **moved)) == _verdict(
            to_problem(program, residency), replace(bare, **moved)
        )


def _verdict(source: Program | Problem, plan: Plan) -> set[str] | None:
    try:
        verify(source, plan)
    except VerificationError as error:
        return set(re.findall(r"'[^']*'|step \d+", str(error)))
    return None


@settings(max_examples=200)
@given(problems(most=6))
def test_bounds_recomputed_match_those_claimed(problem: Problem) -> None:
    bound = lower_bound(problem)
    assert bound.value <= brute_force_peak(problem)
    if bound.name == "live bytes":
        check_bound(cut_gaps(problem), problem.alignment, bound.value)


Mutation = Callable[[random.Random, Problem, Plan], Plan | None]


def _moved_into_neighbour(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
    pairs = [
        (i, j, low, high)
        for i, j in itertools.permutations(range(len(problem)), 2)
        for low, high in clashes(problem, i, j)
        if j not in problem.fixed
    ]
    rng.shuffle(pairs)
    for i, j, low, high in pairs:
        start = int(plan.offset[i])
        unit = int(problem.alignment[j])
        choices = [o for o in range(max(0, start + low + 1), start + high) if o % unit == 0]
        if choices:
            offset = plan.offset.copy()
            offset[j] = rng.choice(choices)
            peak = int(max(offset + problem.size))
            return replace(plan, offset=offset, peak=peak, lower_bound=None, status="feasible")
    return None


def _shifted(by: Callable[[int, int], int]) -> Mutation:
    """Move one buffer, from an offset of this alignment."""

    def mutate(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
        offset, row = plan.offset.copy(), rng.randrange(len(problem))
        offset[row] = by(int(offset[row]), int(problem.alignment[row]))
        if offset[row] == plan.offset[row]:
            return None
        peak = int(max(offset + problem.size))
        return replace(plan, offset=offset, peak=peak, lower_bound=None, status="feasible")

    return mutate


def _fixed_moved(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
    if not problem.fixed:
        return None
    offset, row = plan.offset.copy(), rng.choice(sorted(problem.fixed))
    offset[row] += 1000 * problem.alignment[row]
    return replace(plan, offset=offset, peak=int(max(offset + problem.size)))


def _rows(choose: Callable[[list[int], int], list[int]]) -> Mutation:
    def mutate(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
        rows = choose(list(range(len(problem))), rng.randrange(len(problem)))
        columns = {c: getattr(plan, c)[rows] for c in ("size", "lower", "upper", "offset")}
        return replace(plan, buffers=tuple(plan.buffers[k] for k in rows), **columns)

    return mutate


def _column(name: str, by: int) -> Mutation:
    def mutate(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
        values = getattr(plan, name).copy()
        values[rng.randrange(len(values))] += by
        return replace(plan, **{name: values})

    return mutate


def _claim(**values: Callable[[Plan], object]) -> Mutation:
    return lambda rng, problem, plan: replace(plan, **{k: f(plan) for k, f in values.items()})


def _falsely_optimal(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
    if brute_force_peak(problem) == plan.peak:
        return None
    return replace(plan, status="optimal", lower_bound=plan.peak)


def _claimed_only_feasible(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
    return replace(plan, status="feasible") if plan.status == "optimal" else None


def _falsely_called_optimal(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
    return replace(plan, status="optimal") if plan.status == "feasible" else None


MUTATIONS: dict[str, Mutation] = {
    "moved into a live neighbour": _moved_into_neighbour,
    "misaligned": _shifted(lambda offset, unit: offset + 1 if unit > 1 else offset),
    "negative": _shifted(lambda offset, unit: -unit),
    "fixed offset moved": _fixed_moved,
    "dropped": _rows(lambda rows, k: rows[:k] + rows[k + 1 :]),
    "duplicated": _rows(lambda rows, k: [*rows, k]),
    "one row for another": _rows(lambda rows, k: [*rows[1:], rows[1]] if len(rows) > 1 else []),
    "begins later": _column("lower", 1),
    "ends earlier": _column("upper", -1),
    "larger": _column("size", 1),
    "smaller": _column("size", -1),
    "peak too high": _claim(peak=lambda plan: plan.peak + 1),
    "peak too low": _claim(peak=lambda plan: plan.peak - 1),
    "bound above peak": _claim(lower_bound=lambda plan: plan.peak + 1),
    "capacity exceeded": _claim(capacity=lambda plan: plan.peak - 1),
    "bound raised to the peak": _falsely_optimal,
    "called optimal": _falsely_called_optimal,
    "called feasible": _claimed_only_feasible,
    "called unknown": _claim(status=lambda plan: "unknown"),
    "other pool": _claim(pools=lambda plan: (Pool("sram"),)),
    "an order": _claim(order=lambda plan: ("a",)),
}


def test_rejects_500_of_500_mutated_plans() -> None:
    rng, tried, kinds = random.Random(2), 0, itertools.cycle(MUTATIONS.items())
    while tried < 500:
        kind, mutate = next(kinds)
        mutated = None
        while mutated is None:
            problem = random_problem(rng, rng.randint(1, 7))
            plan = plan_for(problem)
            verify(problem, plan)
            mutated = mutate(rng, problem, plan)
        tried += 1
        with pytest.raises(VerificationError) as caught:
            verify(problem, mutated)
        if kind == "moved into a live neighbour":
            _check_overlap_is_real(problem, mutated, str(caught.value))


def _check_overlap_is_real(problem: Problem, plan: Plan, message: str) -> None:
    found = re.match(r"buffers '(\w+)' and '(\w+)' overlap at step (\d+):", message)
    assert found, message
    pieces = []
    for name in found.group(1, 2):
        row = problem.names.index(name)
        at = int(plan.offset[row])
        here = held(problem, row, int(found[3]))
        pieces.append({at + byte for piece in here for byte in range(*piece)})
    assert pieces[0] & pieces[1]


def test_rejects_every_order_that_changes_what_is_needed() -> None:
    rng, tried = random.Random(3), 0
    while tried < 100:
        program = random_program(rng)
        plan = plan_for(program)
        order = list(plan.order)
        one, other = rng.randrange(len(order)), rng.randrange(len(order))
        match rng.randrange(3):
            case 0:
                order[one], order[other] = order[other], order[one]
            case 1:
                del order[one]
            case _:
                order.insert(one, order[other])
        mutated = replace(plan, order=tuple(order))
        try:
            again = cpplan.to_anf(program.graph, order)
        except cpplan.errors.InputError:
            pass
        else:
            needs, had = (plan_for(p) for p in (again, program))
            rows = [
                sorted(zip(p.buffers, p.lower.tolist(), p.upper.tolist(), strict=True))
                for p in (needs, had)
            ]
            if rows[0] == rows[1] and again.cost == program.cost:
                continue
        tried += 1
        with pytest.raises(VerificationError):
            verify(program, mutated)


def test_accepts_what_solve_finds(staircase: Problem) -> None:
    rng = random.Random(4)
    verify(staircase, cpplan.solve(staircase))
    for residency in RESIDENCIES:
        program = random_program(rng)
        choice = {key: getattr(residency, key) for key in ("inputs", "outputs", "constants")}
        verify(program, cpplan.solve(program, time_limit=5, **choice))


def test_checkers_load_no_planner() -> None:
    code = (
        "import sys, numpy as np\n"
        "from cpplan import Graph, Op, Tensor, Plan, verify, simulate\n"
        "g = Graph('g', (Tensor('x', 4, kind='input'), Tensor('y', 4, kind='output')),"
        " (Op('f', inputs=('x',), outputs=('y',)),))\n"
        "a = lambda *v: np.array(v, np.int64)\n"
        "p = Plan('g', 'feasible', ('x', 'y'), a(4, 4), a(0, 0), a(1, 1), a(0, 4), peak=8,"
        " order=('f',), cost=1, base_cost=1, inputs=('x',), outputs=('y',))\n"
        "verify(g, p); simulate(g, p)\n"
        "print(*sorted(m for m in sys.modules if m.split('.')[0] in"
        " ('cpplan', 'formulations', 'ortools', 'pandas', 'networkx', 'onnx', 'numba')))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    loaded = [name for name in loaded if not name.startswith("cpplan.checks")]
    checkers = {"arena", "verifier"}
    types = {"anf", "byte_sizes", "dtypes", "errors", "graph", "plan", "pool", "problem", "tensor"}
    types |= {"copy_names", "costs", "dependencies", "graph_checks", "names", "printable"}
    types |= {"answers", "distinct", "residency"}
    assert set(loaded) == {"cpplan", *(f"cpplan.{name}" for name in checkers | types)}
