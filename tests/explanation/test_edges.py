"""Explanations where a rule cannot be dropped, a search gave up, or the plan is another's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.random_graphs import Graph, Op, Tensor

import cpplan
from cpplan.model.errors import InputError
from cpplan.model.pool import Pool
from cpplan.model.problem import Gap, Problem
from cpplan.model.small_graphs import kept_meanwhile


def _rules(found):
    return {rule.rule: rule for rule in found.relaxations}


@pytest.fixture
def fork() -> Graph:
    """While c runs, u waits for d: 32 bytes are live then, and c itself needs 24."""
    tensors = [Tensor(n, s) for n, s in (("t", 16), ("u", 8), ("v", 8))]
    ops = (
        Op("a", outputs=("t",)),
        Op("b", inputs=("t",), outputs=("u",)),
        Op("c", inputs=("t",), outputs=("v",)),
        Op("d", inputs=("u", "v"), outputs=("y",)),
    )
    return Graph("fork", (*tensors, Tensor("y", 4, kind="output")), ops)


def test_what_waits_and_for_whom(fork):
    found = cpplan.solve(fork).explain(fork)
    assert [(t.name, t.role, t.until) for t in found.fullest.tensors] == [
        ("t", "read", "c"),
        ("u", "waits", "d"),
        ("v", "written", "d"),
    ]
    assert (found.needed, found.to_dict()["needed"]) == (24, 24)
    assert "of these         24 B the op itself needs, 8 B are kept for later" in str(found)
    assert "kept for d" in str(found)
    assert cpplan.solve(fork).explain().needed is None


def test_what_is_kept_for_the_caller():
    tensors = Tensor("y", 8, kind="output"), Tensor("z", 4, kind="output")
    graph = Graph("two", tensors, (Op("f", outputs=("y",)), Op("g", outputs=("z",))))
    first = cpplan.solve(graph).explain(graph).fullest.tensors[0]
    assert (first.name, first.role, first.until) == ("y", "waits", None)
    assert "kept to the end" in str(cpplan.solve(graph).explain(graph))


def test_explanation_names_the_copy_that_is_read():
    """a is computed twice: the copy that g reads is the second one."""
    tensors = [Tensor(n, s) for n, s in (("a", 4), ("b", 1), ("c", 16), ("d", 1))]
    ops = (
        Op("fa", outputs=("a",)),
        Op("fb", inputs=("a",), outputs=("b",)),
        Op("fc", inputs=("b",), outputs=("c",)),
        Op("fd", inputs=("c",), outputs=("d",)),
        Op("g", inputs=("d", "a"), outputs=("y",)),
    )
    graph = Graph("again", (*tensors, Tensor("y", 13, kind="output")), ops)
    plan = cpplan.solve(graph, remat=True, memory_limit=18)
    full = plan.explain(graph).fullest
    assert (full.op, full.filled) == ("g", 18)
    assert {t.name: t.role for t in full.tensors} == {"y": "written", "a~1": "read", "d": "read"}


def test_roles_within_bodies():
    body = Graph("body", (Tensor("p", 8, kind="output"),), (Op("q", outputs=("p",)),))
    call = Op("call", outputs=("y",), bodies=(body,))
    graph = Graph("outer", (Tensor("y", 4, kind="output"),), (call,))
    full = cpplan.solve(graph).explain(graph).fullest
    assert {tensor.role for tensor in full.tensors} == {"written", "body"}
    assert "in a body" in str(cpplan.solve(graph).explain(graph))


def test_pools_that_cannot_be_joined():
    """Both lie at byte 0 of their pool: one arena cannot hold them so."""
    pools = Pool("fast"), Pool("slow")
    both = Problem(
        ("a", "b"), [0, 0], [1, 1], [8, 8],
        pools=pools, candidates={0: [0], 1: [1]}, fixed={0: 0, 1: 0},
    )  # fmt: skip
    assert _rules(cpplan.solve(both).explain(both)).keys() == {"fixed offsets", "objective"}


def test_pools_may_save_padding():
    """Apart, the two need 10 bytes; in one arena at multiples of 8, they need 13."""
    pools = Pool("fast"), Pool("slow")
    problem = Problem(
        ("a", "b"), [0, 0], [1, 1], [5, 5], [8, 8], pools=pools, candidates={0: [0], 1: [1]}
    )
    rule = _rules(cpplan.solve(problem).explain(problem, time_limit=2))["pools"]
    assert (rule.before, rule.bound, rule.peak) == (10, 13, 13)
    assert (rule.at_least, rule.at_most, rule.saved) == (0, 0, 0)


def test_an_order_that_may_not_be_the_best(fork):
    """As if the search had stopped before its proof."""
    plan = cpplan.solve(fork, order="search")
    assert "order found" not in _rules(plan.explain(fork))
    early = replace(plan, status="feasible", lower_bound=24, bound_by="forced live bytes")
    rule = _rules(early.explain(fork))["order found"]
    assert (rule.before, rule.bound, rule.at_most) == (32, 24, 8)


def test_what_was_proved_before_counts():
    """Better than live bytes: the plan's own bound."""
    problem = Problem(("a", "b"), [0, 0], [1, 1], [4, 4])
    plan = cpplan.solve(problem)
    apart = {"offset": plan.offset * 2, "peak": 12}
    worse = replace(plan, status="feasible", lower_bound=10, bound_by="CP-SAT", **apart)
    rule = _rules(worse.explain(problem))["nothing"]
    assert (rule.bound, rule.bound_by, rule.at_most) == (10, "CP-SAT", 2)


def test_explanation_names_the_memory_limit(fork):
    """Within 32 bytes nothing has to run again: that costs least, and is not the fewest bytes."""
    plan = cpplan.solve(fork, remat=True, memory_limit=32)
    found = plan.explain(fork)
    limit = _rules(found)["memory limit"]
    assert (limit.before, limit.bound) == (plan.peak, plan.lower_bound)
    assert {"run once", "order found"}.isdisjoint(_rules(found))
    assert "limit 32 B" in str(found)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"alignment": [8, 8]}, "'b' lies at 5, which is no multiple of its alignment 8"),
        ({"fixed": {0: 100}}, "'a' lies at 0, and is fixed at 100"),
        ({"gaps": {0: [Gap(0, 1, 0, 2)]}}, "differ in gaps of 'a'"),
        ({"size": [5, 6]}, "differ in buffer 'b'"),
    ],
)
def test_a_plan_that_breaks_the_rules_is_another_models(change, complaint):
    problem = Problem(("a", "b"), [0, 0], [1, 1], [5, 5])
    with pytest.raises(InputError, match=f"another model: .*{complaint}"):
        cpplan.solve(problem).explain(replace(problem, **change))


def test_other_ops_are_another_model(fork):
    with pytest.raises(InputError, match="another model: order names unknown op 'f'"):
        cpplan.solve(Graph("g", (Tensor("y", 1, kind="output"),), (Op("f", outputs=("y",)),))
                     ).explain(fork)  # fmt: skip


def test_what_saves_nothing_takes_one_line():
    problem = Problem(("a", "b"), [0, 0], [1, 1], [8, 8], alignment=[8, 8], fixed={0: 0})
    text = str(cpplan.solve(problem).explain(problem))
    last = "Dropping one of these rules saves nothing: alignment, fixed offsets"
    assert text.splitlines()[-1] == last


def test_many_tensors_are_cut():
    count = 1000
    names = [f"b{k}" for k in range(count)]
    problem = Problem(names, [0] * count, [1] * count, [8] * count)
    text = str(cpplan.solve(problem).explain(problem))
    assert len(text.splitlines()) == 17
    assert "and 990 more, 7920 B" in text


def test_moves_are_explained_with_the_options_of_every_explanation() -> None:
    graph = kept_meanwhile()
    plan = cpplan.solve(graph, pools=[Pool("fast", 16), Pool("slow")], spill=True)
    plain = plan.explain(graph)
    assert plan.explain(graph, time_limit=1, workers=1, seed=3, deterministic=True) == plain
