"""Plans as JSON text."""

import json

import numpy as np
import pytest

from cpplan import solve
from cpplan.io.plan_json import plan_from_dict, plan_text, plan_to_dict
from cpplan.model.errors import InputError
from cpplan.model.plan import Plan
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.model.small_graphs import two_chains


def test_a_plan_of_many_buffers_is_written_in_pieces_of_the_same_text(monkeypatch, tmp_path):
    monkeypatch.setattr("cpplan.io.plan_json._ROWS_A_PIECE", 3)
    for count in (0, 1, 3, 7):
        names = [f'b"é{k}' for k in range(count)]
        problem = Problem(names, range(count), range(1, count + 1), range(4, count + 4))
        plan = solve(problem)
        plan.save(tmp_path / "plan.json")
        text = (tmp_path / "plan.json").read_text()
        assert text == "".join(plan_text(plan))
        rows = "".join(f"  {json.dumps(row)},\n" for row in plan_to_dict(plan)["buffers"])
        assert rows[:-2] in text
        assert json.loads(text) == json.loads(json.dumps(plan_to_dict(plan)))


@pytest.mark.parametrize("placed", [True, False])
def test_lines_of_buffers_are_what_json_writes(placed):
    """Whatever is in a name: quotes, line ends, percent signs, letters beyond ASCII."""
    names = ('a "quoted" one', "two\nlines", "100 % s", "größe\u2028", "back\\slash")
    size = np.arange(1, 6)
    plan = Plan(
        name="odd",
        status="feasible" if placed else "unknown",
        buffers=names,
        size=size,
        lower=np.zeros(5, int),
        upper=np.ones(5, int),
        offset=np.cumsum(size) - size if placed else None,
        pools=(Pool("fast %d"),),
        pool=np.zeros(5, int),
        peak=15 if placed else None,
        lower_bound=15,
    )
    text = "".join(plan_text(plan))
    lines = [line.strip().rstrip(",") for line in text.splitlines() if line.startswith('  {"name"')]
    assert lines == [json.dumps(row) for row in plan_to_dict(plan)["buffers"]]
    assert json.loads(text)["buffers"] == plan_to_dict(plan)["buffers"]


@pytest.mark.parametrize("key", ["scope", "size"])
def test_a_key_given_twice_is_refused(key, tmp_path):
    """Some readers take the first, others the last."""
    path = tmp_path / "plan.json"
    solve(two_chains()).save(path)
    path.write_text(path.read_text().replace(f'"{key}"', f'"{key}": 1, "{key}"', 1))
    with pytest.raises(InputError, match=f"plan.json: key '{key}' is given twice in one object"):
        Plan.load(path)


@pytest.mark.parametrize("row", [False, True])
def test_an_unknown_key_is_refused(row):
    values = plan_to_dict(solve(two_chains()))
    (values["buffers"][0] if row else values)["ofset"] = 0
    place = "buffer 0: " if row else ""
    with pytest.raises(InputError, match=f"not a valid plan: {place}unknown key 'ofset'"):
        plan_from_dict(values)
