"""``solve`` with in-place results and placements where ops run again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from support import oracles
from support.cases import examples, seeds
from support.random_graphs import programs
from support.sharing_instances import concat, recomputed_activation, relu_chain, unary
from support.sharing_oracle import each_run_alone, least_peak, random_repeats, random_sharing_graph

from cpplan import Graph, Op, Plan, Pool, Program, Tensor, simulate, solve

Pairs = list[tuple[str, str]]


def plan_of(program: Program, **options) -> Plan:
    """A plan with sharing; ``solve`` verifies it, and here it is simulated too."""
    options = {"in_place": True, "time_limit": 5, "workers": 1, **options}
    plan = solve(program, **options)
    simulate(program, plan)
    return plan


def pairs(plan: Plan) -> Pairs:
    return [(r.tensor, r.other) for r in plan.relations]


def test_every_run_writes_over_its_own_copy():
    """f~1 needs x and a~1 beside u, 14 B; without sharing, x, a and r are 20 B."""
    plan = plan_of(recomputed_activation())
    assert plan.order == ("f", "relu", "g", "f", "relu", "h")
    assert (plan.status, plan.peak) == ("optimal", 14)
    assert pairs(plan) == [("r", "a"), ("r~1", "a~1")]
    assert plan_of(recomputed_activation(), in_place=False).peak == 20


def test_what_is_read_again_is_not_overwritten():
    """relu0 reads x twice: only its second run may write over it.

    At step 0 x and t1 are live, 8 B each; the second t1 lies over x, and t2 over that.
    """
    graph = relu_chain(2)
    plan = plan_of(Program(graph, (0, 0, 1)))
    assert (plan.status, plan.peak) == ("optimal", 16)
    assert ("t1", "x") not in pairs(plan)


def test_a_result_that_is_computed_again_may_be_overwritten_before():
    """r over a, which is needed again, but in another copy: a~1 and not a must stay for the end."""
    tensors = (
        Tensor("x", 1, kind="input"),
        Tensor("a", 8),
        Tensor("r", 8),
        Tensor("s", 1),
        Tensor("y", 1, kind="output"),
    )
    ops = (
        Op("f", "", ("x",), ("a",)),
        unary("relu", "a", "r"),
        Op("sum", "", ("r",), ("s",)),
        Op("end", "", ("a", "s"), ("y",)),
    )
    graph = Graph("again", tensors, ops)
    # Once: a and r at step 1, or 16 B and x. Again: x and a, then r alone, then s, x and a~1.
    once, again = (plan_of(Program(graph, order)) for order in ((0, 1, 2, 3), (0, 1, 2, 0, 3)))
    assert (once.peak, again.peak) == (17, 10)
    assert pairs(again) == [("r", "a")]


def test_placements_of_every_copy():
    """a and b are placed in y both times: 8 B a stay, and 8 B are never held twice."""
    tensors = (
        Tensor("x", 2, kind="input"),
        *(Tensor(name, 4) for name in "ab"),
        Tensor("y", 8),
        Tensor("u", 1),
        Tensor("z", 1, kind="output"),
    )
    ops = (
        Op("left", "", ("x",), ("a",)),
        Op("right", "", ("x",), ("b",)),
        concat("cat", ["a", "b"], "y", [0, 4]),
        Op("use", "", ("y",), ("u",)),
        Op("end", "", ("y", "u"), ("z",)),
    )
    program = Program(Graph("placed", tensors, ops), (0, 1, 2, 3, 0, 1, 2, 4))
    plan = plan_of(program)
    # x, u and a~1, b~1 within y~1.
    assert (plan.status, plan.peak) == ("optimal", 11)
    assert {("a", "y"), ("b", "y"), ("a~1", "y~1"), ("b~1", "y~1")} == set(pairs(plan))


def test_recomputed_activation_stays_in_the_first_of_two_pools():
    pools = (Pool("sram", capacity=14), Pool("dram"))
    plan = plan_of(recomputed_activation(), pools=pools)
    assert plan.pool_peaks == {"sram": 14, "dram": 0}


def small_programs(first: int, count: int, storages: int):
    found, seed = 0, first
    while found < count:
        graph = random_sharing_graph(seed, 1 + seed % 4)
        program = random_repeats(graph, seed, most=2)
        alone = each_run_alone(program)
        if sum(t.view_of is None for t in alone.tensors) <= storages:
            found += 1
            yield program, alone
        seed += 1


@pytest.mark.parametrize("block", range(5))
def test_against_brute_force(block):
    """125 programs; every byte of every copy by the definitions."""
    for program, alone in small_programs(1000 * block, 25, storages=7):
        plan = plan_of(program, time_limit=20)
        wanted = least_peak(alone, tuple(range(len(alone.ops))))
        assert (plan.peak, plan.status) == (wanted, "optimal"), program.graph.name


@pytest.mark.parametrize("block", range(4))
def test_larger_programs_are_verified_and_run(block):
    """Sharing never costs bytes, and everything claimed is checked."""
    for seed in seeds(16, first=40 * block):
        program = random_repeats(random_sharing_graph(seed, 4 + seed % 9), seed, most=8)
        shared = plan_of(program, time_limit=20)
        assert shared.peak <= plan_of(program, in_place=False, time_limit=20).peak


@given(programs() | oracles.programs())
@settings(max_examples=examples(16), deadline=None)
def test_programs_with_everything_there_is(program):
    """Bodies, control edges, views of views, parts, alignments, writes into constants."""
    plan_of(program, time_limit=1)


def test_copies_pass_over_names_that_there_are():
    """t1~1 is an input of 4 bytes that nobody reads: relu twice, in place, in all 8 bytes."""
    graph = relu_chain(2, size=4)
    tensors = (*graph.tensors, Tensor("t1~1", 4, kind="input"))
    plan = plan_of(Program(Graph("taken", tensors, graph.ops), (0, 0, 1)))
    assert "t1~2" in plan.buffers
