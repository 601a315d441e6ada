"""Published splitting rules beside ``solve``, on networks that can be checked by hand."""

from __future__ import annotations

import pytest
from support.split_networks import Network

import cpplan
from cpplan.comparison.split_comparison import SplitBaseline, compare_split_rows
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.residency import Residency
from cpplan.splitting import heuristics
from cpplan.splitting.heuristics.published import is_chain
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.region import Region


def hourglass() -> Graph:
    """A 1x1 convolution to 16 channels, a depthwise one of 3x3, and one back to 2 channels."""
    net = Network("float32")
    wide = net.conv(net.image(6, 6, 2), 16, taps=1)
    net.conv(net.conv(wide, 0, taps=3, depthwise=True), 2, taps=1)
    return net.graph()


@pytest.fixture(scope="module")
def rows() -> dict[str, SplitBaseline]:
    """Rows of all rules and of ``solve`` at a half more work."""
    found = compare_split_rows(
        hourglass(), time_limit=0.3, cost_limit=1.5, in_place=True, deterministic=True
    )
    assert [row.bytes or 0 for row in found] == sorted(row.bytes or 0 for row in found)
    return {row.algorithm: row for row in found}


def test_every_rule_splits_an_hourglass(rows: dict[str, SplitBaseline]) -> None:
    whole = cpplan.solve(hourglass(), in_place=True).peak
    assert rows.keys() == {"cpplan", *heuristics.names()}
    for row in rows.values():
        assert row.status in ("feasible", "optimal"), row
        assert row.bytes is not None
        assert whole is not None
        assert row.bytes < whole, row


def test_rules_compute_halos_again_as_published(rows: dict[str, SplitBaseline]) -> None:
    assert {name for name, row in rows.items() if row.extra} >= {
        "fused_blocks", "fused_stages", "patches"
    }  # fmt: skip
    # Rolling buffers and slices of channels never do.
    assert rows["cascades"].extra == rows["channel_slices"].extra == 0
    assert all((row.extra or 0) <= 0.5 for row in rows.values())


@pytest.mark.parametrize("cost_limit", [1.0, None])
def test_rules_have_the_bound_that_covers_their_work(cost_limit: float | None) -> None:
    """The bound of ``solve`` is on plans at no more work, and rules may do more without a limit."""
    net = Network()
    x = net.image(16, 8, 1)
    for channels in (16, 16, 2):
        x = net.conv(x, channels)
    net.dense(x, 4)
    graph = net.graph()
    found = compare_split_rows(graph, time_limit=1, cost_limit=cost_limit, deterministic=True)
    bounds = {bool(row.extra): round((row.bytes or 0) / row.ratio) for row in found if row.ratio}
    assert "invalid" not in {row.status for row in found}
    assert bounds.keys() == ({False} if cost_limit else {False, True})
    plan = cpplan.solve(graph, split=True, time_limit=1, deterministic=True)
    assert plan.bound_by == "live between pieces"
    assert bounds[False] == plan.lower_bound
    assert plan.lower_bound is not None
    assert bounds.get(True, 0) < plan.lower_bound


def test_a_branch_ends_a_cascade() -> None:
    net = Network()
    x = net.conv(net.image(12, 4, 2), 8, taps=3)
    net.add(x, net.conv(net.conv(x, 8, taps=3), 8, taps=3))
    problem = SplitProblem(cpplan.to_anf(net.graph()), Residency())
    assert is_chain(Region(problem, 0, 3))
    assert is_chain(Region(problem, 1, 3))
    assert not is_chain(Region(problem, 0, 4))
    assert not is_chain(Region(problem, 1, 4))


def test_an_unknown_rule_and_two_comparisons_at_once_are_refused() -> None:
    with pytest.raises(InputError, match="splitting rule"):
        compare_split_rows(hourglass(), algorithms=["bands"])
    with pytest.raises(InputError, match="give one"):
        cpplan.compare(hourglass(), split=True, remat=True)
