"""Plans as JSON text."""

import json

from cpplan import solve
from cpplan.io.plan_json import plan_text, plan_to_dict
from cpplan.model.problem import Problem


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
