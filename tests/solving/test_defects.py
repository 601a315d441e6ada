"""Plans and searches that fail inside: the run goes on with the best plan that passed, and says so.

Warnings are errors in these tests unless they are expected, so that a defect fails the test.
"""

from __future__ import annotations

import re
import signal
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from support.split_networks import Network

from cpplan import Graph, Plan, Pool, simulate, solve, verify
from cpplan.cli.main import main
from cpplan.io.graph_json import write_graph
from cpplan.model.errors import DefectWarning, InputError, VerificationError
from cpplan.solving import best_moves, pipeline


@pytest.fixture
def graph() -> Graph:
    """A network whose plan in pieces needs fewer bytes than its ops whole, in any order."""
    net = Network()
    x = net.conv(net.image(8, 4, 2), 8)
    net.conv(net.relu(x), 1)
    net.relu("x")
    return net.graph()


@pytest.fixture
def refuse(monkeypatch) -> Callable[[Callable[[Plan], bool]], None]:
    """Function that makes the check refuse the plans for which a function is true."""

    def refuse(is_wrong: Callable[[Plan], bool]) -> None:
        def check(source: Graph, plan: Plan) -> None:
            if is_wrong(plan):
                raise VerificationError("two tensors overlap")
            verify(source, plan)

        monkeypatch.setattr(pipeline, "verify", check)

    return refuse


def test_a_refused_plan_in_pieces_leaves_the_plan_without(graph, refuse) -> None:
    whole = solve(graph, in_place=True)
    refuse(lambda plan: bool(plan.pieces))
    with pytest.warns(DefectWarning, match="split ended with VerificationError in .*overlap"):
        plan = solve(graph, split=True, in_place=True, time_limit=2)
    assert (plan.peak, plan.pieces, plan.status) == (whole.peak, (), "feasible")
    assert plan.lower_bound is None  # that of whole ops is none of pieces
    assert any("two tensors overlap" in event.source for event in plan.history)
    verify(graph, plan)
    simulate(graph, plan)


def test_a_refused_order_leaves_the_given_one(graph, refuse) -> None:
    given = tuple(op.name for op in graph.ops)
    refuse(lambda plan: plan.scope != "given order")
    with pytest.warns(DefectWarning, match="the search with freedoms order ended"):
        plan = solve(graph, order="search", time_limit=2)
    assert (plan.order, plan.status, plan.lower_bound) == (given, "feasible", None)


def test_a_failed_assertion_is_reported_with_its_place(graph, monkeypatch) -> None:
    def fail(*_: object) -> None:
        pieces: list[int] = []
        assert pieces, "no pieces"

    monkeypatch.setattr(pipeline, "split_ops", fail)
    message = r"AssertionError in test_defects\.py:\d+: no pieces"
    with pytest.warns(DefectWarning, match=message):
        plan = solve(graph, split=True, memory_limit="1 MiB", time_limit=2)
    assert plan.offset is not None


def test_refused_moves_leave_those_of_fewer_freedoms(graph, monkeypatch) -> None:
    def check(source: Graph, plan: Plan) -> Plan:
        if plan.sharing:
            raise VerificationError("a tensor is read where it is not")
        return verify_counting(source, plan)

    verify_counting = best_moves.verify_counting
    monkeypatch.setattr(best_moves, "verify_counting", check)
    options = {"spill": True, "pools": [Pool("fast", 320), Pool("slow", direct=True)]}
    with pytest.warns(DefectWarning, match="freedoms spill, in place ended"):
        plan = solve(graph, in_place=True, time_limit=2, **options)
    assert plan.moved_bytes == solve(graph, time_limit=2, **options).moved_bytes
    assert plan.moved_bytes_bound == 0
    verify(graph, plan)


def test_without_any_plan_the_error_says_that_it_is_internal(graph, refuse) -> None:
    refuse(lambda plan: True)
    internal = re.escape("internal error: no plan passed its check: two tensors overlap")
    with pytest.warns(DefectWarning), pytest.raises(VerificationError, match=internal):
        solve(graph, split=True, in_place=True, time_limit=1)


def test_no_plan_within_a_limit_is_unknown_if_the_one_within_is_refused(graph, refuse) -> None:
    limit = solve(graph, split=True, time_limit=2).peak
    refuse(lambda plan: bool(plan.pieces))
    with pytest.warns(DefectWarning):
        plan = solve(graph, split=True, memory_limit=limit, time_limit=2)
    assert (plan.status, plan.offset) == ("unknown", None)


def test_a_defect_is_an_error_where_warnings_are(graph, refuse) -> None:
    refuse(lambda plan: bool(plan.pieces))
    with pytest.raises(DefectWarning) as caught:
        solve(graph, split=True, time_limit=1)
    assert isinstance(caught.value.__context__, VerificationError)


def test_errors_of_the_input_are_none_of_the_planner(graph, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise InputError("views make a cycle")

    monkeypatch.setattr(pipeline, "split_ops", fail)
    with pytest.raises(InputError, match="views make a cycle"):
        solve(graph, split=True, time_limit=1)


def test_the_command_line_tells_a_defect_in_one_line(graph, refuse, tmp_path, capsys) -> None:
    path = tmp_path / "net.json"
    write_graph(graph, path)
    refuse(lambda plan: bool(plan.pieces))
    with warnings.catch_warnings():
        warnings.resetwarnings()
        code = main(
            ["plan", str(path), "--split", "--quiet", "--time-limit", "1", "--suggest", "0"]
        )
    lines = capsys.readouterr().err.splitlines()
    assert code == 0
    assert len(lines) == 1
    assert lines[0].startswith(
        "cpplan: warning: a defect of cpplan: the search with freedoms split"
    )


def test_ctrl_c_after_the_first_search_keeps_its_plan(graph, monkeypatch) -> None:
    search, asked = pipeline._search, []

    def interrupted(source: Any, request: Any, budget: Any) -> Plan:
        asked.append(request)
        if len(asked) == 2:
            signal.raise_signal(signal.SIGINT)
        return search(source, request, budget)

    monkeypatch.setattr(pipeline, "_search", interrupted)
    plan = solve(graph, split=True, in_place=True, time_limit=5)
    assert len(asked) == 2
    assert plan.pieces
