"""Rows of eviction rules beside a plan whose tensors move."""

from __future__ import annotations

import cpplan
from cpplan import Pool
from cpplan.comparison.spill_comparison import _Judge, _run_rule
from cpplan.model.small_graphs import kept_meanwhile
from cpplan.program.anf import to_anf


def test_a_rule_leaves_as_much_time_as_the_longest_layout_took() -> None:
    pools = [Pool("fast", 16), Pool("slow")]
    graph = kept_meanwhile()
    plan = cpplan.solve(graph, pools=pools, spill=True, deterministic=True)
    judge = _Judge(to_anf(graph), plan)
    assert judge.layout_seconds == 0.0
    assert _run_rule("belady", judge, 1000).status == "feasible"
    assert judge.layout_seconds > 0.0
    judge.layout_seconds = 2000.0
    assert _run_rule("belady", judge, 1000).status == "unknown"
