"""``compare(remat=True)`` and ``cpplan compare --remat``: rows, limits, what is refused."""

from __future__ import annotations

import json
import signal
from contextlib import suppress

import pytest
from support.remat_oracle import remat_chain

import cpplan
from cpplan import Graph, Op, Problem, Program, Tensor
from cpplan.cli.main import main
from cpplan.comparison import baselines as heuristic_rows
from cpplan.comparison import remat_comparison
from cpplan.comparison.remat_comparison import RematBaseline, compare_remat_rows
from cpplan.io.graph_json import write_graph
from cpplan.model.errors import InputError
from cpplan.remat import heuristics as baselines
from cpplan.remat.problem import remat_problem
from cpplan.solving.pipeline import solve_request
from cpplan.solving.request import Request


def by_name(rows: list[RematBaseline]) -> dict[str, RematBaseline]:
    return {row.algorithm: row for row in rows}


def test_a_chain_with_a_known_optimum():
    """n = 8 within 7 of 10 slots: 20 runs, of 17 ops. The order alone saves nothing on a chain."""
    rows = compare_remat_rows(remat_chain(8), memory_limit=7, workers=1)
    found = by_name(rows)
    assert set(found) == {"cpplan", *baselines.names()}
    assert (found["cpplan"].status, found["cpplan"].cost) == ("optimal", 20)
    assert found["cpplan"].extra == pytest.approx(3 / 17)
    assert (found["checkmate_milp"].status, found["checkmate_milp"].cost) == ("optimal", 20)
    assert (found["dtr"].status, found["dtr"].cost) == ("feasible", 22)
    given = found["given_order"]
    assert (given.status, given.bytes, given.cost, given.extra) == ("does not fit", 10, 17, 0)
    fitting = [row for row in rows if row.status in ("optimal", "feasible")]
    assert rows[: len(fitting)] == fitting
    assert [row.cost for row in fitting] == sorted(row.cost for row in fitting)
    assert all(row.bytes <= 7 for row in fitting)


def test_a_share_of_what_the_given_order_needs():
    """n = 4: the given order needs 6 slots; half of that are 3, 84 % are 5, rounded down."""
    rows = by_name(compare_remat_rows(remat_chain(4), memory_limit="50%", algorithms=["dtr"]))
    assert rows["cpplan"].cost == 15
    rows = by_name(compare_remat_rows(remat_chain(4), memory_limit="84 %", algorithms=["dtr"]))
    assert rows["cpplan"].cost == 10
    rows = by_name(compare_remat_rows(remat_chain(4), memory_limit="100%", algorithms=["dtr"]))
    assert (rows["dtr"].cost, rows["dtr"].status) == (9, "optimal")


def test_the_given_order_is_that_of_the_program():
    """a and b are 8 B, c is 2 B; a is read at once, or long after b was."""
    tensors = Tensor("a", 8), Tensor("b", 8), Tensor("c", 2), Tensor("y", 1, kind="output")
    ops = (
        Op("f", outputs=("a",)),
        Op("g", outputs=("b",)),
        Op("h", inputs=("b",), outputs=("c",)),
        Op("k", inputs=("a", "c"), outputs=("y",)),
    )
    graph = Graph("two orders", tensors, ops)
    for order, peak in (((0, 1, 2, 3), 18), ((1, 2, 0, 3), 11)):
        rows = compare_remat_rows(
            Program(graph, order), memory_limit=100, algorithms=["given_order"], order="given"
        )
        assert by_name(rows)["given_order"].bytes == peak


def test_what_nobody_can_reach():
    """Three slots are the least that an op of the chain needs."""
    rows = by_name(compare_remat_rows(remat_chain(4), memory_limit=2))
    assert (rows["cpplan"].status, rows["cpplan"].bytes) == ("infeasible", None)
    assert rows["checkmate_milp"].status == rows["chen"].status == "unknown"
    assert rows["given_order"].status == "does not fit"


def test_a_baseline_of_ones_own():
    @baselines.register("backwards")
    def backwards(problem, limit, deadline):
        return tuple(reversed(range(len(problem))))

    @baselines.register("elsewhere")
    def elsewhere(problem, limit, deadline):
        return (len(problem),)

    try:
        rows = by_name(
            compare_remat_rows(
                remat_chain(2), memory_limit=4, algorithms=["backwards", "elsewhere"]
            )
        )
    finally:
        baselines.unregister("backwards")
        baselines.unregister("elsewhere")
    assert rows["backwards"].status == rows["elsewhere"].status == "invalid"
    assert rows["backwards"].cost is None


def test_compare_with_remat_returns_a_table_of_costs():
    table = cpplan.compare(remat_chain(2), remat=True, memory_limit=3, algorithms=["dtr"])
    assert table.columns.tolist() == ["algorithm", "bytes", "cost", "extra", "seconds", "status"]
    assert table["cost"].tolist() == [6, 6]


def test_compare_with_remat_refuses_wrong_limits_and_algorithms():
    chain = remat_chain(2)
    with pytest.raises(InputError, match="needs a memory_limit"):
        cpplan.compare(chain, remat=True)
    with pytest.raises(InputError, match="'bump' is not understood: expected one of given_order"):
        cpplan.compare(chain, remat=True, memory_limit=3, algorithms=["bump"])
    for share in ("%", "0%", "-3%", "1.2.3%", "sixty%"):
        with pytest.raises(InputError, match="is not a share: expected"):
            cpplan.compare(chain, remat=True, memory_limit=share)
    bare = Problem(("a",), lower=[0], upper=[1], size=[4])
    with pytest.raises(InputError, match="needs a graph"):
        cpplan.compare(bare, remat=True, memory_limit=3)
    twice = Program(chain, (0, 1, 2, 3, 0, 4))
    with pytest.raises(InputError, match="runs every op once"):
        cpplan.compare(twice, remat=True, memory_limit=3)


@pytest.fixture
def chain_file(tmp_path) -> str:
    path = str(tmp_path / "chain.json")
    write_graph(remat_chain(4), path)
    return path


def test_on_the_command_line(chain_file, capsys):
    arguments = ["compare", chain_file, "--remat", "--memory-limit", "5"]
    assert main([*arguments, "--algorithm", "dtr", "--json", "-"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["algorithm"], row["cost"]) for row in rows] == [("cpplan", 10), ("dtr", 11)]
    assert set(rows[0]) == {"algorithm", "bytes", "cost", "extra", "seconds", "status"}
    assert main(["compare", chain_file, "--remat", "--memory-limit", "84%"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["algorithm", "bytes", "cost", "extra", "cost", "seconds", "status"]
    assert lines[1].split()[:6] == ["cpplan", "5", "5", "B", "10", "+11.111%"]
    assert {line.split()[0] for line in lines[1:]} == {"cpplan", *baselines.names()}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--remat"], "--remat and --memory-limit belong together"),
        (["--memory-limit", "5"], "--remat and --memory-limit belong together"),
        (["--remat", "--memory-limit", "x%"], "--memory-limit: 'x%' is not a share"),
        (["--remat", "--memory-limit", "x"], "--memory-limit: 'x' is not a byte count"),
        (["--remat", "--memory-limit", "5", "--algorithm", "bump"], "'bump' is not understood"),
    ],
)
def test_usage_errors_are_one_line_with_the_reason(chain_file, capsys, arguments, reason):
    assert main(["compare", chain_file, *arguments]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("module", "options"),
    [(heuristic_rows, {}), (remat_comparison, {"remat": True, "memory_limit": 7})],
)
def test_interrupted_in_solve_no_baseline_runs(monkeypatch, module, options):
    """``solve`` ends at Ctrl-C with the best it has; that row is all there is."""

    def interrupt(source, request):
        plan = solve_request(source, request)
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return plan

    monkeypatch.setattr(module, "solve_request", interrupt)
    table = cpplan.compare(remat_chain(8), **options)
    assert table["algorithm"].tolist() == ["cpplan"]


@pytest.mark.parametrize(("seconds", "part"), [(10, 0.8), (0.5, 0.6), (0.1, 0.5)])
def test_schedules_leave_time_to_pack_many_units(seconds, part):
    """The chain has 4,001 units, packed in 0.2 s."""
    problem = remat_problem(remat_chain(2000))
    request = Request(time_limit=seconds, remat=True, memory_limit=7)
    share = remat_comparison._schedule_share(problem, request)
    assert share == pytest.approx(part, abs=1e-3)
