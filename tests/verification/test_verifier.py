"""``verify``: correct plans pass, and not one of the broken ones does."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import examples
from support.oracles import (
    brute_force_peak,
    plan_for,
    problems,
    programs,
    random_program,
)
from support.plan_verdicts import RESIDENCIES, rejected

import cpplan
from cpplan import Graph, Op, Plan, Problem, Program, Tensor, verify
from cpplan.model.errors import VerificationError
from cpplan.model.pool import Pool
from cpplan.model.problem import Gap
from cpplan.model.residency import Residency
from cpplan.packing.bounds import lower_bound
from cpplan.packing.search import niche_search
from cpplan.program.liveness import to_problem
from cpplan.verification.rectangles import check_bound, cut_gaps


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


@pytest.fixture
def staircase() -> Problem:
    """Three buffers, each live together with the next: optimum 12, at step 1 (4 + 8 B)."""
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


@pytest.mark.parametrize("name", [niche_search.NAME, "CP-SAT", "CP-SAT TWA"])
def test_accepts_the_bound_of_every_search_that_packs(staircase: Problem, name: str) -> None:
    """No solver is asked again; the bound must be one that such a search can have proved."""
    plan = plan_at(staircase, 8, 0, 8, status="optimal", lower_bound=12, bound_by=name)
    verify(staircase, plan)
    rejected(staircase, replace(plan, scope="every order"), "is of one order")


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
        ({"lower_bound": 12}, "no known bound"),
        ({"lower_bound": 11, "bound_by": "hope"}, "no known bound"),
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
    rejected(
        problem,
        plan_at(problem, 8, 4, lower_bound=12, **claims),
        "no buffer of fixed offset ends at 12 B",
    )


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


@settings(max_examples=examples(40))
@given(programs(), st.sampled_from(RESIDENCIES))
def test_graph_and_problem_level_agree(program: Program, residency: Residency) -> None:
    plan = plan_for(program, residency)
    verify(program, plan)
    none = {"order": (), "cost": None, "base_cost": None, "inputs": (), "outputs": ()}
    bare = replace(plan, views={}, **none)
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


@settings(max_examples=examples(50))
@given(problems(most=6))
def test_bounds_recomputed_match_those_claimed(problem: Problem) -> None:
    bound = lower_bound(problem)
    assert bound.value <= brute_force_peak(problem)
    if bound.name == "live bytes":
        check_bound(cut_gaps(problem), problem.alignment, bound.value)


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
        " ('cpplan', 'formulations', 'ortools', 'pandas', 'networkx', 'onnx', 'llvmlite')))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    rooms = {".".join(name.split(".")[:2]) for name in loaded}
    known = {"model", "program", "runtime", "verification"}
    assert rooms == {"cpplan", *(f"cpplan.{room}" for room in known)}
