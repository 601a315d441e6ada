"""``pareto``: the curve of a chain is that of its published optima; bad input is named."""

from __future__ import annotations

import json
import signal
from contextlib import suppress

import numpy as np
import pytest
from support.remat_oracle import remat_chain

import cpplan
from cpplan import Graph, Op, Plan, Tensor
from cpplan.cli.main import main
from cpplan.comparison import pareto_curve as tradeoff
from cpplan.io.graph_json import write_graph
from cpplan.model.errors import InputError
from cpplan.solving.pipeline import solve_request


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
    assert "either a --memory-limit or a --cost-limit" in capsys.readouterr().err


def relu_and_back() -> Graph:
    """x of 8 B, a chain of two in-place ops, and y reads the end of it."""
    tensors = (
        Tensor("x", 8, kind="input"),
        *(Tensor(name, 8) for name in "ab"),
        Tensor("y", 8, kind="output"),
    )
    ops = tuple(
        Op(f"{source}{target}", inputs=(source,), outputs=(target,), in_place=((target, source),))
        for source, target in ("xa", "ab", "by")
    )
    return Graph("relus", tensors, ops)


def test_a_curve_with_sharing_starts_and_ends_lower(tmp_path, capsys):
    """Two tensors of 8 B at each step, 16 B; one in place of the other, 8 B."""
    path = str(tmp_path / "relus.json")
    write_graph(relu_and_back(), path)
    for options, peak in (([], 16), (["--in-place"], 8)):
        assert main(["pareto", path, "--points", "2", "--json", "-", *options]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert [(row["capacity"], row["peak"]) for row in rows] == [(peak, peak)] * 2
    table = cpplan.pareto(relu_and_back(), points=2, in_place=True)
    assert table["peak"].tolist() == [8, 8]
    assert main(["pareto", path, "--in-place-kind", "op=on"]) == 2
    assert "give that too" in capsys.readouterr().err


def test_pools_that_all_have_a_size_are_the_limit(tmp_path, capsys):
    """Three slots of 8 B in two pools, for which an op runs again; two hold no plan."""
    path = str(tmp_path / "chain.json")
    write_graph(remat_chain(2), path)
    command = ["plan", path, "--remat", "-q", "--pool", "a=2", "--pool"]
    assert main([*command, "b=1"]) == 0
    assert "1 ops run again" in capsys.readouterr().out
    assert main([*command[:-3], "--pool", "a=3"]) == 0
    assert "1 ops run again" in capsys.readouterr().out
    target = tmp_path / "order.txt"
    assert main([*command, "b=0", "--program", str(target)]) == 3
    assert not target.exists()
    assert main([*command, "b"]) == 2
    assert "a capacity of every pool" in capsys.readouterr().err


def test_pareto_refuses_wrong_points_limits_and_sources():
    with pytest.raises(InputError, match="points must be at least 2, not 1"):
        cpplan.pareto(remat_chain(2), points=1)
    with pytest.raises(InputError, match="time_limit must be a positive number of seconds"):
        cpplan.pareto(remat_chain(2), time_limit=0)
    with pytest.raises(InputError, match="needs a graph"):
        cpplan.pareto(cpplan.Problem(("a",), [0], [1], [4]))
    with pytest.raises(InputError, match="it takes no memory_limit"):
        cpplan.pareto(remat_chain(2), memory_limit=3)
    with pytest.raises(InputError, match="algorithms must be a list of names, not 'dtr'"):
        cpplan.compare(remat_chain(2), remat=True, memory_limit=3, algorithms="dtr")
    with pytest.raises(InputError, match="algorithms must be a list of names, not 'bump'"):
        cpplan.compare(remat_chain(2), algorithms="bump")
    with pytest.raises(InputError, match="algorithms must be a list of names, not 'belady'"):
        cpplan.compare(remat_chain(2), spill=True, algorithms="belady")


def found(limit: int, cost: int | None, bound: int | None, peak: int | None = None) -> Plan:
    """A plan of one buffer within ``limit``, or none: as ``solve`` returns it."""
    some = np.array([0])
    return Plan(
        "p", "unknown" if cost is None else "feasible", ("a",), some + 8, some, some + 1,
        None if cost is None else some, peak=peak or (None if cost is None else limit),
        lower_bound=8, bound_by="least footprint", scope="every order", capacity=limit,
        cost=cost or 10, base_cost=10, cost_bound=bound,
        cost_bound_by=None if bound is None else "CP-SAT cut",
    )  # fmt: skip


def test_what_fits_a_tighter_limit_fits(monkeypatch):
    """Searches within five limits: what each finds and proves is so of others, too."""
    answers = iter(
        [
            found(40, None, None),
            found(32, None, None),
            found(24, 19, 11),
            found(16, 14, 13),
            found(8, None, None),
        ]
    )
    once = found(40, 10, None)
    monkeypatch.setattr(
        tradeoff, "solve_request", lambda _, asked: next(answers) if asked.remat else once
    )
    table = cpplan.pareto(remat_chain(2), points=5)
    assert table["limit"].tolist() == [40, 32, 24, 16, 8]
    assert table["cost"].tolist()[:4] == [10, 14, 14, 14]
    assert table["cost_bound"].tolist()[:4] == [10, 10, 11, 13]
    assert table["status"].tolist() == ["optimal", "feasible", "feasible", "feasible", "unknown"]


def test_interrupted_it_ends_with_the_rows_it_has(monkeypatch):
    """A search ends at Ctrl-C with the best it has; there are no others after that one."""

    def interrupt(source, request):
        plan = solve_request(source, request)
        if request.remat:
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        return plan

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(tradeoff, "solve_request", interrupt)
    assert cpplan.pareto(remat_chain(8), points=8)["cost"].tolist() == [17]
    assert signal.getsignal(signal.SIGINT) is before
