"""Progress goes to stderr, point by point for curves, and -q leaves it out."""

from __future__ import annotations

import pytest
from support.sources import ROOT

from cpplan.cli.main import main

MODEL = str(ROOT / "datasets/hand/residual.json")
CURVES = [
    ["--points", "3", "--time-limit", "2"],
    ["--points", "3", "--time-limit", "2", "--spill"],
]


@pytest.mark.parametrize("options", CURVES)
def test_curves_say_which_point_they_are_at(options, capsys):
    assert main(["pareto", MODEL, *options]) == 0
    shown = capsys.readouterr()
    assert all(f"point {number} of 3: " in shown.err for number in (1, 2, 3))
    assert "point" not in shown.out
    assert main(["pareto", MODEL, *options, "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_a_line_on_a_terminal_says_how_much_time_is_left(monkeypatch):
    from cpplan.model.plan_data import Progress
    from cpplan.runtime.progress import _Line

    line = _Line(60.0)
    line.close()
    monkeypatch.setattr(line, "_began", line._began - 18)
    assert line._text(Progress(18.0, 4096, 2048, "search")).endswith("search  42 s left")
