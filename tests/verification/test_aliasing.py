"""``verify`` and ``simulate`` where tensors share bytes: sound plans pass, others are named."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from support.cases import seeds
from support.plan_verdicts import accepts
from support.sharing_instances import (
    concat,
    halves,
    random_read_graph,
    relu_chain,
    two_branches,
    unary,
)
from support.sharing_oracle import may_lie, random_sharing_graph
from support.sharing_verdicts import is_sound, joined, mutated, runs_right, true_relations

from cpplan import Graph, Op, Plan, Tensor, simulate, solve, verify
from cpplan.model.errors import VerificationError
from cpplan.model.graph import Placement
from cpplan.model.plan_data import Relation
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem

BOTH = ("in place", "placement")


def plan_at(graph: Graph, relations: list[Relation] | None = None, **offsets: int) -> Plan:
    """A plan with these offsets; without ``relations`` those that the addresses make true."""
    program = to_anf(graph)
    problem = to_problem(program)
    offset = np.array([offsets[name] for name in problem.names], np.int64)
    plan = Plan(
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
        base_cost=program.cost,
        sharing=BOTH,
        inputs=tuple(t.name for t in graph.tensors if t.kind == "input"),
        outputs=tuple(t.name for t in graph.tensors if t.kind == "output"),
        views={name: at for name, at in graph.root.items() if graph.tensor[name].view_of},
    )
    return replace(
        plan, relations=tuple(true_relations(graph, plan) if relations is None else relations)
    )


def rejected(check, graph: Graph, plan: Plan, match: str) -> None:
    with pytest.raises(VerificationError, match=match) as caught:
        check(graph, plan)
    assert "\n" not in str(caught.value)


def accepted(graph: Graph, plan: Plan) -> None:
    verify(graph, plan)
    simulate(graph, plan)


def test_sound_plans_by_hand():
    accepted(two_branches(), plan_at(two_branches(), x=8, a=0, b=4, y=0))
    accepted(halves(), plan_at(halves(), x=0, p=0, q=4, r=0, y=8))
    accepted(relu_chain(2), plan_at(relu_chain(2), x=0, t1=0, t2=0))


def test_bytes_that_no_relation_speaks_of_may_lie_anywhere():
    """b in y, a beside it."""
    accepted(two_branches(), plan_at(two_branches(), x=12, a=8, b=4, y=0))


def test_a_part_beside_its_place_is_named():
    plan = plan_at(two_branches(), x=8, a=0, b=4, y=0)
    offset = plan.offset.copy()
    offset[plan.buffers.index("b")] = 3
    moved = replace(plan, offset=offset)
    rejected(
        verify,
        two_branches(),
        moved,
        r"^relation 'b' within 'y' at byte 4: 'b' lies at 3, not at 4$",
    )
    # Byte 3 is a's, written before.
    rejected(
        simulate,
        two_branches(),
        moved,
        r"step 2 .*bytes 3\.\.4 .*'a'.*'b' .*overwrote them at step 1",
    )
    unsaid = replace(moved, relations=plan.relations[:1])
    rejected(verify, two_branches(), unsaid, r"^buffers '[ay]' and 'b' overlap at step [12]: bytes")


def test_a_dropped_relation_makes_an_overlap():
    plan = plan_at(two_branches(), x=8, a=0, b=4, y=0)
    rejected(
        verify,
        two_branches(),
        replace(plan, relations=plan.relations[:1]),
        r"^buffers 'b' and 'y' overlap at step 2: bytes 4\.\.8 and 0\.\.8$",
    )
    # What is placed is equal all the same: no byte is destroyed.
    simulate(two_branches(), replace(plan, relations=()))


def test_without_its_relation_a_result_in_place_destroys_an_input():
    plan = plan_at(relu_chain(1), [], x=0, t1=0)
    rejected(
        verify,
        relu_chain(1),
        plan,
        r"^buffers 'x' and 't1' overlap at step 0: bytes 0\.\.8 and 0\.\.8$",
    )
    rejected(
        simulate,
        relu_chain(1),
        plan,
        r"step 0 op 'relu0' finds .*'x'.*'t1' \(op 'relu0'\) overwrote",
    )


@pytest.mark.parametrize(
    ("relation", "message"),
    [
        (Relation("in place", "y", "x"), "'y' in place of 'x': no op of the model allows it"),
        (Relation("placement", "a", "y", 4), "'a' within 'y' at byte 4: no op"),
        (Relation("placement", "y", "a"), "'y' within 'a' at byte 0: no op"),
        (Relation("in place", "a", "y"), "'a' in place of 'y': no op"),
        (Relation("placement", "a", "nobody"), "'a' within 'nobody' at byte 0: no op"),
    ],
)
def test_a_relation_that_no_op_allows(relation, message):
    plan = plan_at(two_branches(), x=8, a=0, b=4, y=0)
    rejected(verify, two_branches(), replace(plan, relations=(*plan.relations, relation)), message)


def test_relation_of_the_wrong_kind_is_refused():
    """An in-place pair of an op does not allow a relation of kind ``placement``."""
    plan = plan_at(relu_chain(1), x=0, t1=0)
    swapped = (Relation("placement", "t1", "x"),)
    rejected(
        verify, relu_chain(1), replace(plan, relations=swapped), "no op of the model allows it"
    )


@pytest.mark.parametrize("sharing", [(), ("placement",)])
def test_a_kind_that_was_not_free_to_choose(sharing):
    plan = replace(plan_at(relu_chain(1), x=0, t1=0), sharing=sharing)
    rejected(
        verify,
        relu_chain(1),
        plan,
        "^relation 't1' in place of 'x': the plan's sharing does not include",
    )


def test_a_relation_of_what_is_not_in_the_arena():
    graph = relu_chain(1)
    plan = solve(graph, inputs="outside", in_place=True)
    claim = replace(plan, relations=(Relation("in place", "t1", "x"),))
    rejected(verify, graph, claim, "^relation 't1' in place of 'x': 'x' is not in the arena$")


def test_an_order_in_which_the_input_has_a_later_reader():
    """g reads x after f has written a over it."""
    tensors = (Tensor("x", 4, kind="input"), *(Tensor(n, 4, kind="output") for n in "ab"))
    graph = Graph("g", tensors, (Op("g", "", ("x",), ("b",)), unary("f", "x", "a")))
    good = plan_at(graph, x=0, a=0, b=4)
    accepted(graph, good)
    turned = Graph("g", tensors, graph.ops[::-1])
    bad = plan_at(turned, x=0, a=0, b=4)
    rejected(
        verify, turned, bad, r"^buffers 'a' and 'x' share bytes 0\.\.4 at step 0, where they hold"
    )
    rejected(simulate, turned, bad, r"step 1 op 'g' finds .*'x'.*'a' \(op 'f'\) overwrote")
    # The good plan with its order turned.
    turned_plan = replace(good, order=("f", "g"))
    rejected(verify, graph, turned_plan, "^buffers 'a' and 'x' share bytes 0..4 at step 0")


def test_raised_bound_with_sharing_is_refused():
    graph = two_branches()
    plan = solve(graph, in_place=True)
    assert (plan.peak, plan.bound_by) == (10, "live bytes, shared")
    wasteful = plan_at(graph, x=12, a=8, b=4, y=0)
    claims = {"lower_bound": 11, "bound_by": "live bytes, shared"}
    rejected(
        verify,
        graph,
        replace(wasteful, **claims),
        "'live bytes, shared' proves a lower bound of 10 B, but the plan claims 11 B",
    )
    verify(graph, replace(wasteful, **{**claims, "lower_bound": 10}))
    rejected(
        verify,
        graph,
        replace(wasteful, lower_bound=10, bound_by="live bytes"),
        "bound 'live bytes' is of tensors that share no bytes",
    )


def test_less_freedom_proves_more():
    """Without placements, the last step needs a, b and y."""
    graph = two_branches()
    plan = plan_at(graph, [], x=16, a=8, b=12, y=0)
    plan = replace(plan, sharing=("in place",), lower_bound=16, bound_by="live bytes, shared")
    verify(graph, plan)
    rejected(verify, graph, replace(plan, sharing=BOTH), "proves a lower bound of 10 B")


@pytest.mark.parametrize("shift", [-1, 1, 3])
def test_a_result_a_little_beside_its_input(shift):
    """The relation does not hold, and claiming it excuses nothing."""
    base = max(0, -shift)
    plan = plan_at(relu_chain(1), [Relation("in place", "t1", "x")], x=base, t1=base + shift)
    rejected(verify, relu_chain(1), plan, f"'t1' lies at {base + shift}, not at {base}")
    rejected(
        simulate, relu_chain(1), plan, "step 0 op 'relu0' finds .*'x'.*overwrote them at step 0"
    )


def test_copies_that_meet_at_the_wrong_byte():
    """y = x x, u = (bytes 2..6 of y) x: u at byte 2 of y would have x's bytes 0, 1 for 2, 3.

    Everything there is a copy of x, and all relations hold; only byte by byte the two differ.
    """
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("y", 8),
        Tensor("w", 4),
        Tensor("u", 8, kind="output"),
        Tensor("e", 1, kind="output"),
    )
    ops = (
        concat("cat", ["x", "x"], "y", [0, 4]),
        Op("cut", "", ("y",), ("w",), placements=(Placement("w", "y", 2),)),
        concat("cat2", ["w", "x"], "u", [0, 4]),
        Op("end", "", ("y", "u"), ("e",)),
    )
    graph = Graph("g", tensors, ops)
    plan = plan_at(graph, x=0, y=0, w=2, u=2, e=10)
    assert len(plan.relations) == 3
    rejected(
        verify, graph, plan, r"^buffers 'y' and 'u' share bytes 2\.\.8 at step 2, where they hold"
    )
    rejected(
        simulate, graph, plan, r"step 3 op 'end' finds that bytes 6\.\.8 .*'y'.*'u' \(op 'cat2'\)"
    )


def test_a_copy_of_something_old_over_something_new_is_named():
    """z, a copy of the first tensor, destroys t, which was written after it."""
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("t", 4),
        Tensor("z", 4),
        Tensor("y", 4, kind="output"),
    )
    ops = (
        Op("f", "", (), ("t",)),
        concat("copy", ["x"], "z", [0]),
        Op("end", "", ("t", "z"), ("y",)),
    )
    graph = Graph("g", tensors, ops)
    plan = plan_at(graph, x=0, t=4, z=6, y=10)
    rejected(
        verify, graph, plan, r"^buffers 't' and 'z' overlap at step 1: bytes 4\.\.8 and 6\.\.10$"
    )
    rejected(
        simulate,
        graph,
        plan,
        r"'end' finds that bytes 6\.\.8 .*'t', written at step 0: .*'z' \(op 'copy'\)",
    )


@pytest.mark.parametrize("second", [("v", 4, 0), ("v", 2, 1)])
def test_an_input_that_the_op_also_reads_under_another_name(second):
    """y over x, which the op reads as v too; nobody says that it may write over that."""
    name, size, start = second
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor(name, size, view_of=("x", start)),
        Tensor("y", 4, kind="output"),
    )
    graph = Graph("g", tensors, (Op("add", "", ("x", "v"), ("y",), in_place=(("y", "x"),)),))
    plan = plan_at(graph, x=0, y=0)
    rejected(verify, graph, plan, r"^buffers '[xy]' and '[xy]' share bytes 0\.\.4 at step 0")
    rejected(
        simulate, graph, plan, "step 0 op 'add' finds .*'v' in buffer 'x'.*overwrote them at step 0"
    )


def test_an_op_whose_body_reads_what_it_would_overwrite():
    pair = Tensor("x", 4, kind="input"), Tensor("y", 4, kind="output")
    body = Graph("body", pair, (Op("inner", "", ("x",), ("y",)),))
    graph = Graph("g", pair, (replace(unary("call", "x", "y"), bodies=(body,)),))
    program = to_anf(graph)
    problem = to_problem(program)
    assert set(problem.names) == {"x", "y"}
    plan = plan_at(graph, x=0, y=0)
    rejected(verify, graph, plan, "share bytes 0..4 at step 0")
    rejected(simulate, graph, plan, "'call/0/inner' finds .*'x'")


def test_members_of_a_group_are_named_where_they_meet_others():
    """x lies in y's second half, where b is: not y's first member a is at fault."""
    plan = plan_at(two_branches(), x=5, a=0, b=4, y=0)
    rejected(
        verify,
        two_branches(),
        plan,
        r"^buffers 'x' and 'b' overlap at step 1: bytes 5\.\.7 and 4\.\.8$",
    )


def test_two_groups_that_meet():
    """Two chains of equal sizes side by side, then one moved into the other."""
    tensors = (
        *(Tensor(n, 4, kind="input") for n in "xy"),
        *(Tensor(n, 4, kind="output") for n in "ab"),
    )
    graph = Graph("g", tensors, (unary("f", "x", "a"), unary("g", "y", "b")))
    accepted(graph, plan_at(graph, x=0, a=0, y=4, b=4))
    plan = plan_at(graph, x=0, a=0, y=3, b=3)
    rejected(
        verify, graph, plan, r"^buffers 'x' and 'y' overlap at step 0: bytes 0\.\.4 and 3\.\.7$"
    )


def test_verdicts_on_mutated_plans_are_those_of_bytes():
    """Three mutants a plan, some still sound; verify and simulate say of each what the oracles say.

    A simulation is content where bytes are destroyed that nobody reads again.
    """
    verified: Counter[bool] = Counter()
    simulated: Counter[bool] = Counter()
    for seed in seeds(50):
        rng = random.Random(seed)
        graph = random_read_graph(seed, 2 + seed % 6)
        plan = solve(graph, in_place=True, time_limit=0.3, workers=1)
        plan = replace(plan, status="feasible", lower_bound=None, bound_by=None)
        for _ in range(3):
            mutant = mutated(rng, graph, plan)
            sound, runs = is_sound(graph, mutant), runs_right(graph, mutant)
            if sound:
                verify(graph, mutant)
            else:
                with pytest.raises(VerificationError) as told:
                    verify(graph, mutant)
                _check_named(graph, mutant, str(told.value))
            assert accepts(simulate, graph, mutant) is runs, (seed, mutant.offset)
            assert runs or not sound
            verified[sound] += 1
            simulated[runs] += 1
    assert min(*verified.values(), *simulated.values()) > 30


def _check_named(graph: Graph, plan: Plan, message: str) -> None:
    """The two buffers named share bytes at the step named, and may not, or nothing says so."""
    pattern = r"buffers '(.*)' and '(.*)' (?:share bytes .*|overlap) at step (\d+)"
    one, other, step = re.match(pattern, message).groups()
    problem, at = (
        to_problem(to_anf(graph)),
        dict(zip(plan.buffers, plan.offset.tolist(), strict=True)),
    )
    for name in (one, other):
        row = problem.names.index(name)
        assert problem.lower[row] <= int(step) < problem.upper[row]
    shift = at[other] - at[one]
    assert shift < graph.tensor[one].nbytes
    assert -shift < graph.tensor[other].nbytes
    harmless = may_lie(graph, to_anf(graph).order, one, other, shift)
    assert not harmless or one not in joined(graph, plan)[other]


def test_rejects_every_false_claim_about_relations():
    """Plans, each with a relation dropped that was needed, of another kind, or made up."""
    refused = 0
    for seed in seeds(50):
        rng = random.Random(seed)
        graph = random_sharing_graph(seed, 6)
        plan = solve(graph, in_place=True, time_limit=0.3, workers=1)
        if not plan.relations:
            continue
        k = rng.randrange(len(plan.relations))
        chosen, rest = plan.relations[k], plan.relations[:k] + plan.relations[k + 1 :]
        other = {"in place": "placement", "placement": "in place"}[chosen.kind]
        for wrong in (
            chosen._replace(kind=other),
            chosen._replace(offset=chosen.offset + 1),
            chosen._replace(tensor=chosen.other, other=chosen.tensor),
        ):
            rejected(
                verify,
                graph,
                replace(plan, relations=(*rest, wrong)),
                "^relation .*(no op|lies at)",
            )
        for claims in ({"sharing": ()}, {"relations": (), "sharing": ()}):
            rejected(
                verify,
                graph,
                replace(plan, **claims),
                "not include|overlap|is of|at most|prove|contradicts",
            )
        refused += 1
    assert refused > 35


def test_raised_bounds_are_rejected():
    refused = 0
    for seed in seeds(40):
        graph = random_sharing_graph(seed, 6)
        plan = solve(graph, in_place=True, time_limit=0.3, workers=1)
        if plan.bound_by != "live bytes, shared":
            continue
        wasteful = replace(
            plan,
            offset=plan.offset + 12 * np.lcm.reduce(to_problem(to_anf(graph)).alignment),
        )
        wasteful = replace(
            wasteful, peak=int((wasteful.offset + plan.size).max()), status="feasible"
        )
        verify(graph, wasteful)
        raised = replace(wasteful, lower_bound=plan.lower_bound + 1)
        rejected(verify, graph, raised, f"proves a lower bound of {plan.lower_bound} B, but")
        refused += 1
    assert refused > 25
