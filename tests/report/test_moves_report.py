"""Reports of plans in which tensors move: the moves are ops, and noted with their bytes."""

from __future__ import annotations

from support.spill_oracle import random_spill_case

from cpplan.report.html.plan_report import plan_report


def test_report_has_every_move_and_the_bytes_moved() -> None:
    cases = (random_spill_case(seed) for seed in range(100))
    found = ((case, case.solve()) for case in cases)
    case, plan = next((c, p) for c, p in found if any(move.is_copy for move in p.moves))
    text = plan_report(plan, case.graph)
    assert f"{plan.moved_bytes} B between fast and slow" in text
    for move in plan.moves:
        assert move.name in text
