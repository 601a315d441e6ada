"""Limits as shares of the bytes that the given order keeps live at once."""

from __future__ import annotations

import json

import pytest
from support.remat_oracle import remat_chain

import cpplan
from cpplan.cli.main import main
from cpplan.comparison.remat_comparison import compare_remat_rows
from cpplan.io.graph_json import write_graph
from cpplan.model.errors import InputError
from cpplan.model.symbols import Symbols


@pytest.mark.parametrize("share", ["50%", "84 %", "100%"])
def test_solve_takes_a_share_as_compare_does(share: str) -> None:
    """The chain needs 6 slots in the given order: 3, 5 and 6 of them."""
    chain = remat_chain(4)
    rows = compare_remat_rows(chain, memory_limit=share, algorithms=["given_order"])
    [ours] = [row for row in rows if row.algorithm == "cpplan"]
    plan = cpplan.solve(chain, remat=True, memory_limit=share)
    assert (plan.cost, plan.status) == (ours.cost, "optimal")
    slots = {"50%": 3, "84 %": 5, "100%": 6}[share]
    assert plan.cost == cpplan.solve(chain, remat=True, memory_limit=slots).cost


def test_share_is_of_what_the_arena_holds() -> None:
    problem = cpplan.Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[40, 60])
    assert cpplan.solve(problem, memory_limit="100%").peak == 100
    assert cpplan.solve(problem, memory_limit="99.9%").status == "infeasible"
    assert cpplan.solve(problem, capacity="150%").peak == 100


def test_share_of_a_symbolic_graph_is_taken_at_its_bounds() -> None:
    x = cpplan.Tensor("x", shape=("n",), dtype="int8", kind="input")
    y = cpplan.Tensor("y", shape=("n",), dtype="int8", kind="output")
    op = cpplan.Op("relu", inputs=("x",), outputs=("y",))
    graph = cpplan.Graph("g", (x, y), (op,), Symbols({"n": (1, 50)}))
    assert cpplan.solve(graph, memory_limit="100%").peak == 100
    assert cpplan.solve(graph, memory_limit="60%").status == "infeasible"


@pytest.mark.parametrize("share", ["0%", "-5%", "%", "60%%", "a%"])
def test_invalid_shares_are_refused(share: str, tmp_path, capsys) -> None:
    with pytest.raises(InputError, match=r"is not a share: expected e\.g\. '60%'"):
        cpplan.solve(remat_chain(2), memory_limit=share)
    path = tmp_path / "chain.json"
    write_graph(remat_chain(2), path)
    assert main(["plan", str(path), f"--memory-limit={share}"]) == 2
    assert "--memory-limit: " in capsys.readouterr().err


def test_command_line_takes_a_share(tmp_path, capsys) -> None:
    path = tmp_path / "chain.json"
    write_graph(remat_chain(4), path)
    options = ["--remat", "--memory-limit", "50%", "--json", "-"]
    assert main(["plan", str(path), *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cost"] == cpplan.solve(remat_chain(4), remat=True, memory_limit=3).cost
    assert main(["plan", str(path), "--capacity", "10%"]) == 3
