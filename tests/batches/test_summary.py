"""Summaries of tables that a person can check."""

from __future__ import annotations

import json

import pandas
import pytest

from cpplan.batches.summary import Duel, summarize
from cpplan.batches.table import read_rows, to_frame
from cpplan.cli.main import main
from cpplan.model.errors import InputError


def _row(model, setting, need, ratio, status="feasible"):
    return {
        "model": model,
        "setting": setting,
        "status": status,
        "bytes": need,
        "bound": 50,
        "ratio_bump": ratio,
        "seconds": 0.5,
        "error": None if need else "it has none",
    }


# On a, x is twice as good; on b, y is; on c they agree; on d only y has a plan.
ROWS = [
    _row("a", "x", 100, 0.5),
    _row("a", "y", 200, 1.0),
    _row("b", "x", 200, 1.0),
    _row("b", "y", 100, 0.25),
    _row("c", "x", 50, 2.0, "optimal"),
    _row("c", "y", 50, 2.0, "optimal"),
    _row("d", "x", None, None, "error"),
    _row("d", "y", 70, 1.0),
]


def test_means_profiles_and_duels():
    found = summarize(ROWS, factors=(1, 1.9, 2))
    assert (found.models, found.common) == (4, 3)
    x, y = found.settings
    assert (x.planned, x.optimal, x.seconds) == (3, 1, 2.0)
    assert x.to_best == pytest.approx(2 ** (1 / 3))  # 1, 2, 1
    assert x.to_bound == pytest.approx(2.0)  # 2, 4, 1
    assert x.to_baseline["bump"] == pytest.approx(1.0)  # 0.5, 1, 2
    assert y.to_baseline["bump"] == pytest.approx(0.5 ** (1 / 3))  # 1, 0.25, 2, without d
    assert x.profile == (0.5, 0.5, 0.75)
    assert y.profile == (0.75, 0.75, 1.0)
    assert found.duels == (Duel("x", "y", wins=1, ties=1, losses=2),)
    assert found.baseline_duels == (Duel("x", "bump", 1, 1, 1), Duel("y", "bump", 1, 2, 1))


def test_a_setting_that_plans_nothing_does_not_empty_the_means():
    found = summarize([*ROWS, *(_row(m, "z", None, None, "error") for m in "abcd")])
    assert found.common == 3
    assert found.settings[0].to_best == pytest.approx(2 ** (1 / 3))
    assert found.settings[2].to_best is None
    assert found.settings[2].profile[-1] == 0.0


def test_a_ratio_without_end_has_no_mean(tmp_path, capsys):
    rows = [dict(_row("a", "x", 8, None), cost=0.0), dict(_row("a", "y", 8, None), cost=3.0)]
    x, y = summarize(rows, measure="cost").settings
    assert (x.to_best, y.to_best) == (1.0, None)
    assert (x.profile[-1], y.profile[-1]) == (1.0, 0.0)
    path = tmp_path / "r.parquet"
    to_frame([dict(row, bound=0) for row in rows], ()).to_parquet(path)
    page = tmp_path / "r.html"
    command = ["summary", str(path), "--measure", "cost", "--json", "-", "--report", str(page)]
    assert main(command) == 0

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    values = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert [one["to_bound"] for one in values["settings"]] == [None, None]
    assert page.exists()


def test_what_a_data_frame_misses_is_missing():
    found = summarize(to_frame(ROWS, ["bump"]).to_dict("records"), factors=(1, 1.9, 2))
    assert found == summarize(ROWS, factors=(1, 1.9, 2))
    assert summarize([dict(ROWS[0], seconds=float("nan"))]).settings[0].seconds == 0.0


def test_counts_in_csv_are_exact(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text(
        "\ufeffmodel,setting,bytes,bound,seconds,note\n"
        f"a,x,{2**53 + 1},12.0,nan,nan\nNA,x,,,1.5,\n",
        encoding="utf-8",
    )
    one, other = read_rows(path)
    assert (one["bytes"], one["bound"], one["seconds"], one["note"]) == (2**53 + 1, 12, None, "nan")
    assert (other["model"], other["bytes"], other["seconds"]) == ("NA", None, 1.5)


def test_empty_models_are_as_good_as_the_best():
    found = summarize([_row("a", "x", 0, None), _row("a", "y", 0, None)])
    assert [one.to_best for one in found.settings] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([], {}, "no rows"),
        ([ROWS[0], ROWS[0]], {}, "model 'a' has two rows of setting 'x'"),
        ([dict(ROWS[0], bytes="many")], {}, "row 1: bytes is 'many': expected a number"),
        ([dict(ROWS[0], ratio_bump=-1)], {}, "row 1: ratio_bump is -1: expected a number"),
        ([ROWS[0], dict(ROWS[1], setting=None)], {}, "row 2: setting is None: expected a name"),
        (ROWS, {"measure": "beauty"}, "expected one of bytes, cost, seconds"),
        (ROWS, {"factors": (0.5,)}, "factors must be at least 1"),
    ],
)
def test_what_cannot_be_summarized(rows, options, message):
    with pytest.raises(InputError, match=message):
        summarize(rows, **options)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_parquet_and_csv_say_the_same(tmp_path, capsys, suffix):
    path = tmp_path / f"r{suffix}"
    frame = to_frame(ROWS, ["bump"])
    if suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    rows = read_rows(path)
    assert [row["bytes"] for row in rows] == [row["bytes"] for row in ROWS]
    assert [row["error"] for row in rows] == [row["error"] for row in ROWS]
    assert main(["summary", str(path), "--json", "-"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["duels"] == [{"setting": "x", "other": "y", "wins": 1, "ties": 1, "losses": 2}]
    assert main(["summary", str(path), "--factor", "2"]) == 0
    out = capsys.readouterr().out
    assert "4 models; geometric means over the 3 that every setting planned" in out
    assert "x        baseline bump     1     1       1" in out
    assert main(["summary", str(path), "--measure", "seconds"]) == 0
    assert "x        baseline bump, bytes     1     1       1" in capsys.readouterr().out


def test_a_table_of_something_else_is_refused(tmp_path, capsys):
    path = tmp_path / "r.csv"
    pandas.DataFrame({"a": [1]}).to_csv(path)
    assert main(["summary", str(path)]) == 2
    assert "no column 'model': expected a table of cpplan batch" in capsys.readouterr().err
    path.write_text("model,setting,bytes\na,x,many\n")
    assert main(["summary", str(path)]) == 2
    assert "row 1: bytes is 'many': expected a number" in capsys.readouterr().err


def test_the_report_of_a_table_is_written(tmp_path, capsys):
    path, page = tmp_path / "r.csv", tmp_path / "r.html"
    path.write_text(
        "model,setting,status,bytes\nalexnet,given,optimal,12\nalexnet,other,optimal,9\n"
    )
    assert main(["summary", str(path), "--report", str(page)]) == 0
    assert "alexnet" in page.read_text()
    assert "given" in capsys.readouterr().out


def test_summary_has_one_row_for_each_model(tmp_path, capsys):
    # 1,024 B against 2,048 B of the baseline, then proved; the second model was not planned.
    rows = [
        {"model": "a|b", "setting": "x", "bytes": 1024, "status": "optimal", "ratio_bump": 0.5},
        {"model": "a|b", "setting": "y", "bytes": 2048, "status": "feasible", "ratio_bump": 1.0},
        {"model": "c", "setting": "x", "status": "infeasible"},
        {"model": "c", "setting": "y", "error": "c: no such file"},
    ]
    path = tmp_path / "results.csv"
    pandas.DataFrame(rows).to_csv(path, index=False)
    assert main(["summary", str(path), "--models"]) == 0
    head, rule, first, second, *_ = capsys.readouterr().out.splitlines()
    assert [cell.strip() for cell in head.split("|")[1:-1]] == ["model", "bump", "x", "y"]
    assert set(rule) == {"|", "-", ":"}
    assert " ".join(first.split()) == r"| a\|b | 2048 B | 1024 B * | 2048 B |"
    assert " ".join(second.split()) == "| c | | infeasible | error |"
    assert len({len(line) for line in (head, rule, first, second)}) == 1
