"""Rows of eviction rules beside a plan whose tensors move."""

from __future__ import annotations

import pytest

import cpplan
from cpplan import Pool, Residency
from cpplan.comparison import spill_curve
from cpplan.comparison.spill_comparison import _Judge, _run_rule
from cpplan.model.small_graphs import kept_meanwhile
from cpplan.model.spill_problem import Flags, SpillProblem
from cpplan.program.anf import to_anf
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.spilling import heuristics
from cpplan.spilling.heuristics.eviction import belady
from cpplan.spilling.problem import spill_problem


def test_a_rule_leaves_as_much_time_as_the_longest_layout_took_but_has_half(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = []

    def rule(problem: SpillProblem, deadline: Deadline) -> Flags:
        given.append(deadline.remaining())
        return belady(problem, deadline)

    pools = [Pool("fast", 16), Pool("slow")]
    graph = kept_meanwhile()
    plan = cpplan.solve(graph, pools=pools, spill=True, deterministic=True)
    judge = _Judge(to_anf(graph), plan)
    assert judge.layout_seconds == 0.0
    assert _run_rule("belady", judge, 1000).status == "feasible"
    assert judge.layout_seconds > 0.0
    monkeypatch.setattr(heuristics, "get", lambda name: rule)
    for judge.layout_seconds in 300.0, 2000.0:
        assert _run_rule("belady", judge, 1000).status == "feasible"
    assert 650 < given[0] <= 700
    assert 450 < given[1] <= 500


def test_rules_of_a_curve_have_a_share_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def rule(problem: SpillProblem, deadline: Deadline) -> Flags:
        given.append(deadline)
        if len(given) == 2:
            raise TimeUpError
        return belady(problem, deadline)

    names = heuristics.names()
    monkeypatch.setattr(spill_curve.heuristics, "get", lambda name: rule)
    problem = spill_problem(to_anf(kept_meanwhile()), Residency(), (Pool("fast", 16), Pool("slow")))
    found = spill_curve._by_rules(problem, 0, Deadline(50))
    assert [found[name] for name in names[:3]] == [16, None, 16]
    assert {deadline.seconds for deadline in given} == {50}
