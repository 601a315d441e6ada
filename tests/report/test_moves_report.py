"""Reports of plans in which tensors move: the moves are ops, and noted with their bytes."""

from __future__ import annotations

import html

import pytest
from support.spill_oracle import random_spill_case
from support.split_networks import Network

from cpplan import Pool, solve
from cpplan.report.html.plan_report import plan_report


def test_report_has_every_move_and_the_bytes_moved() -> None:
    cases = (random_spill_case(seed) for seed in range(100))
    found = ((case, case.solve()) for case in cases)
    case, plan = next((c, p) for c, p in found if any(move.is_copy for move in p.moves))
    text = plan_report(plan, case.graph)
    assert f"{plan.moved_bytes} B between fast and slow" in text
    for move in plan.moves:
        assert move.name in text


@pytest.mark.parametrize(
    "options", [{"spill": True}, {"spill": True, "split": True}, {"split": True}]
)
def test_report_of_a_plan_that_does_not_fit_says_why(options: dict[str, bool]) -> None:
    net = Network()
    net.conv(net.conv(net.image(12, 4, 2), 6), 2)
    graph = net.graph()
    fast = Pool("fast", 10)
    limit = {"pools": [fast, Pool("slow")]} if "spill" in options else {"memory_limit": 100}
    plan = solve(graph, **options, **limit, time_limit=1, deterministic=True)
    assert plan.offset is None
    assert bool(plan.pieces) == ("split" in options)
    assert plan.message in html.unescape(plan_report(plan, graph)).replace("\\u003c", "<")
