"""``pareto``: the curve of a chain is that of its published optima; bad input is named."""

from __future__ import annotations

import json

import pytest
from remat_oracle import remat_chain

import cpplan
from cpplan.cli import main
from cpplan.errors import InputError
from cpplan.io.graph_json import write_graph


def test_the_curve_of_a_chain():
    # n = 8, budgets 9, 7, 5, 3: 18, 20, 22, 45 evaluations; without a limit, 17 within 10 B.
    table = cpplan.pareto(remat_chain(8), points=8, time_limit=60)
    best = dict(zip(table["limit"], table["cost"], strict=True))
    assert {limit: best[limit] for limit in (10, 9, 7, 5, 3)} == {
        10: 17,
        9: 18,
        7: 20,
        5: 22,
        3: 45,
    }
    assert (table["status"] == "optimal").all()
    assert (table["peak"] <= table["limit"]).all()
    assert table["cost"].is_monotonic_increasing


def test_on_the_command_line(tmp_path, capsys):
    path = str(tmp_path / "chain.json")
    write_graph(remat_chain(2), path)
    assert main(["pareto", path, "--points", "2", "--json", "-"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["capacity"], row["cost"]) for row in rows] == [(4, 5), (3, 6)]
    assert main(["pareto", path, "--points", "2"]) == 0
    assert "+20.000%" in capsys.readouterr().out
    assert main(["plan", path, "--remat", "--memory-limit", "3", "-q"]) == 0
    assert "1 ops run again" in capsys.readouterr().out
    assert main(["plan", path, "--remat", "--memory-limit", "2", "-q"]) == 3
    assert "op n3 alone needs 3 B" in capsys.readouterr().err
    assert main(["plan", path, "--remat", "-q"]) == 2
    assert "either a memory_limit or a cost_limit" in capsys.readouterr().err


def test_bad_input():
    with pytest.raises(InputError, match="points must be at least 2, not 1"):
        cpplan.pareto(remat_chain(2), points=1)
    with pytest.raises(InputError, match="time_limit must be positive"):
        cpplan.pareto(remat_chain(2), time_limit=0)
    with pytest.raises(InputError, match="needs a graph"):
        cpplan.pareto(cpplan.Problem(("a",), [0], [1], [4]))
