"""``verify`` and ``simulate`` where ops run again and copies of tensors share bytes."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from support.cases import seeds
from support.plan_verdicts import accepts
from support.sharing_instances import random_read_graph, recomputed_activation, relu_chain, unary
from support.sharing_oracle import each_run_alone, random_repeats, random_sharing_graph
from support.sharing_verdicts import is_sound, mutated, runs_right, true_relations

from cpplan import Graph, Op, Plan, Program, Tensor, simulate, solve, verify
from cpplan.aliasing.alias_candidates import find_candidates
from cpplan.aliasing.bounds import shared_bound
from cpplan.aliasing.lives import ProgramLives
from cpplan.model.errors import VerificationError
from cpplan.model.plan_data import Relation
from cpplan.model.residency import Residency
from cpplan.program.liveness import last_places, to_problem
from cpplan.program.unrolled import unroll
from cpplan.verification.access_trace import replay
from cpplan.verification.shared_bound import least_bytes

BOTH = ("in place", "placement")
RESIDENCIES = [Residency(), Residency("keep", "keep", "keep"), Residency("outside", "outside")]


def plan_at(program: Program, *relations: tuple[str, str], **offsets: int) -> Plan:
    """A plan with these offsets, in which these tensors are in place of one another."""
    problem, graph = to_problem(program), program.graph
    offset = np.array([offsets[name.replace("~", "_")] for name in problem.names], np.int64)
    return Plan(
        graph.name,
        "feasible",
        tuple(problem.names),
        problem.size,
        problem.lower,
        problem.upper,
        offset,
        peak=int((offset + problem.size).max(initial=0)),
        order=program.names,
        cost=program.cost,
        base_cost=sum(op.cost for op in graph.ops),
        sharing=BOTH,
        relations=tuple(Relation("in place", *pair) for pair in relations),
        inputs=tuple(t.name for t in graph.tensors if t.kind == "input"),
        outputs=tuple(t.name for t in graph.tensors if t.kind == "output"),
        views={name: at for name, at in last_places(program).items() if at != (name, 0)},
    )


def rejected(check, program: Program, plan: Plan, match: str) -> None:
    with pytest.raises(VerificationError, match=match) as caught:
        check(program, plan)
    assert "\n" not in str(caught.value)


@pytest.fixture
def activation() -> Program:
    return recomputed_activation()


PLACES = {"x": 8, "a": 0, "r": 0, "u": 12, "a_1": 0, "r_1": 0, "v": 8}


def test_both_copies_may_be_in_place(activation):
    plan = plan_at(activation, ("r", "a"), ("r~1", "a~1"), **PLACES)
    verify(activation, plan)
    assert simulate(activation, plan).arena_bytes == 14


@pytest.mark.parametrize(
    ("relations", "message"),
    [
        ([("r", "a"), ("r", "a~1")], "'r' in place of 'a~1': no op of the model allows it"),
        ([("r", "a"), ("r~1", "a")], "'r~1' in place of 'a': no op of the model allows it"),
        ([("r", "a"), ("r~2", "a~2")], "'r~2' in place of 'a~2': no op of the model allows it"),
        ([("r", "a")], "^buffers 'a~1' and 'r~1' overlap at step 4: bytes 0..8 and 0..8$"),
        ([("r~1", "a~1")], "^buffers 'a' and 'r' overlap at step 1: bytes 0..8 and 0..8$"),
    ],
)
def test_every_copy_needs_a_relation_of_its_own(activation, relations, message):
    rejected(verify, activation, plan_at(activation, *relations, **PLACES), message)


def test_without_a_copys_relation_its_input_is_destroyed(activation):
    plan = plan_at(activation, ("r", "a"), **PLACES)
    rejected(
        simulate,
        activation,
        plan,
        "step 4 op 'relu' finds .*'a' in buffer 'a~1'.*'r' in buffer 'r~1' .* overwrote",
    )


def test_a_relation_of_copies_that_lie_apart(activation):
    plan = plan_at(activation, ("r", "a"), ("r~1", "a~1"), **{**PLACES, "r_1": 16})
    rejected(
        verify, activation, plan, "^relation 'r~1' in place of 'a~1': 'r~1' lies at 16, not at 0$"
    )


def test_an_op_that_runs_again_reads_what_its_first_run_has_overwritten():
    """relu0 writes t1 over x, and reads x again."""
    program = Program(relu_chain(2), (0, 0, 1))
    plan = plan_at(program, ("t1", "x"), ("t2", "t1~1"), x=0, t1=0, t1_1=8, t2=8)
    rejected(
        verify,
        program,
        plan,
        r"^buffers 't1' and 'x' share bytes 0\.\.8 at step 0, where they hold different values$",
    )
    rejected(
        simulate,
        program,
        plan,
        r"^at step 1 op 'relu0' finds that bytes 0\.\.8 .*'x', written at step 0: tensor 't1' "
        r"\(op 'relu0'\) overwrote them at step 0$",
    )
    # The second run may do it, the first must not.
    good = plan_at(program, ("t1~1", "x"), ("t2", "t1~1"), x=0, t1=8, t1_1=0, t2=0)
    verify(program, good)
    simulate(program, good)


def test_another_op_that_runs_again_reads_it():
    """f and g read x; g is run, then f writes over x, then g is run once more."""
    tensors = (Tensor("x", 4, kind="input"), *(Tensor(n, 4, kind="output") for n in "ab"))
    graph = Graph("g", tensors, (Op("g", "", ("x",), ("b",)), unary("f", "x", "a")))
    once, again = Program(graph, (0, 1)), Program(graph, (0, 1, 0))
    verify(once, plan_at(once, ("a", "x"), x=0, a=0, b=4))
    plan = plan_at(again, ("a", "x"), x=0, a=0, b=4, b_1=8)
    rejected(verify, again, plan, "^buffers 'x' and 'a' share bytes 0..4 at step 1")
    rejected(simulate, again, plan, r"^at step 2 op 'g' finds .*'x'.*'a' \(op 'f'\) overwrote")


def test_views_bear_the_number_of_their_buffer():
    """v is part of a: of its second copy, v~1; p and q may take their place."""
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("a", 4),
        Tensor("v", 2, view_of=("a", 2)),
        Tensor("p", 2),
        Tensor("y", 1, kind="output"),
    )
    ops = (
        Op("f", "", ("x",), ("a",)),
        Op("cut", "", ("a",), ("v",)),
        unary("relu", "v", "p"),
        Op("end", "", ("p",), ("y",)),
    )
    program = Program(Graph("views", tensors, ops), (0, 1, 1, 2, 0, 1, 2, 3))
    plan = solve(program, in_place=True)
    assert {("p", "v"), ("p~1", "v~1")} == {(r.tensor, r.other) for r in plan.relations}
    simulate(program, plan)
    for wrong in ("a", "v", "p~1", "v~2"):
        made_up = replace(plan, relations=(Relation("in place", "p~1", wrong),))
        rejected(verify, program, made_up, "no op of the model allows it$")


def test_relations_name_graph_tensors_before_copies():
    """v~1 is the graph's own; the second copy of v, in no buffer of that name, is v~2."""
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("a", 4),
        Tensor("v", 4, view_of=("a", 0)),
        Tensor("v~1", 4),
        Tensor("w", 4),
        Tensor("y", 4, kind="output"),
    )
    ops = (
        Op("f", "", ("x",), ("a",)),
        Op("cut", "", ("a",), ("v",)),
        unary("g", "x", "v~1"),
        unary("h", "v", "w"),
        Op("end", "", ("w", "v~1"), ("y",)),
    )
    program = Program(Graph("names", tensors, ops), (0, 1, 0, 1, 2, 3, 4))
    offsets = {"x": 0, "a": 4, "a_1": 8, "v_1": 0, "w": 8, "y": 12}
    plan = plan_at(program, ("v~1", "x"), ("w", "v~2"), **offsets)
    verify(program, plan)
    simulate(program, plan)
    wrong = replace(plan, relations=(plan.relations[0], plan.relations[1]._replace(other="v~1")))
    rejected(verify, program, wrong, "'w' in place of 'v~1': no op of the model allows it$")


def as_alone(alone: Graph, plan: Plan) -> Plan:
    """The plan as one of the graph in which every run is an op; its relations by the addresses."""
    views = {name: at for name, at in alone.root.items() if name != at[0]}
    order = tuple(op.name for op in alone.ops)
    plan = replace(plan, views=views, order=order, relations=())
    return replace(plan, relations=tuple(true_relations(alone, plan)))


def as_repeated(alone: Graph, plan: Plan, original: Plan) -> Plan:
    """The other way: copies are numbered as their buffers are."""

    def name(tensor: str) -> str:
        number = alone.root[tensor][0].partition("~")[2]
        return tensor.partition("~")[0] + (f"~{number}" if number else "")

    relations = (r._replace(tensor=name(r.tensor), other=name(r.other)) for r in plan.relations)
    return replace(
        original, offset=plan.offset, peak=plan.peak, relations=tuple(dict.fromkeys(relations))
    )


def test_verdicts_on_mutated_plans_are_those_of_bytes():
    """Three mutants a plan, some still sound: verify and simulate say what the oracles say."""
    verified: Counter[bool] = Counter()
    simulated: Counter[bool] = Counter()
    for seed in seeds(50):
        rng = random.Random(seed)
        program = random_repeats(random_read_graph(seed, 2 + seed % 5), seed, most=3)
        alone = each_run_alone(program)
        plan = solve(program, in_place=True, time_limit=0.3, workers=1)
        plan = replace(plan, status="feasible", lower_bound=None, bound_by=None)
        for _ in range(3):
            mutant = mutated(rng, alone, as_alone(alone, plan))
            sound, right = is_sound(alone, mutant), runs_right(alone, mutant)
            repeated = as_repeated(alone, mutant, plan)
            assert accepts(verify, program, repeated) is sound, (seed, mutant.offset)
            assert accepts(simulate, program, repeated) is right, (seed, mutant.offset)
            verified[sound] += 1
            simulated[right] += 1
    assert min(*verified.values(), *simulated.values()) > 30


def test_rejects_every_false_claim_about_relations():
    refused = 0
    for seed in seeds(60):
        rng = random.Random(seed)
        program = random_repeats(random_sharing_graph(seed, 5), seed, most=4)
        plan = solve(program, in_place=True, time_limit=0.3, workers=1)
        if not plan.relations:
            continue
        chosen = rng.choice(plan.relations)
        rest = tuple(relation for relation in plan.relations if relation != chosen)
        other = {"in place": "placement", "placement": "in place"}[chosen.kind]
        for wrong in (
            chosen._replace(kind=other),
            chosen._replace(offset=chosen.offset + 1),
            chosen._replace(tensor=chosen.other, other=chosen.tensor),
            chosen._replace(tensor=f"{chosen.tensor}~9"),
        ):
            claim = replace(plan, relations=(*rest, wrong))
            rejected(verify, program, claim, "^relation .*(no op|lies at)")
        claim = replace(plan, relations=(), sharing=())
        rejected(verify, program, claim, "overlap|at most|prove|contradicts|by choice")
        refused += 1
    assert refused > 40


@pytest.mark.parametrize("block", range(4))
def test_checker_and_planner_prove_the_same_bound(block):
    """Neither more (then planners give bytes away) nor less (then it is rejected)."""
    for seed in seeds(20, first=50 * block):
        program = random_repeats(random_sharing_graph(seed, 1 + seed % 8), seed, most=5)
        for residency in RESIDENCIES:
            problem, alone = to_problem(program, residency), unroll(program, residency)
            lives = ProgramLives(alone, problem, residency)
            for kinds in (("in place",), ("placement",), BOTH):
                candidates = find_candidates(alone.graph, residency, kinds)
                proved = least_bytes(kinds, *replay(program, residency))
                assert shared_bound(problem, candidates, lives).value == proved, (seed, residency)
