"""``cpplan.batch``: its table, and what is not done again."""

from __future__ import annotations

import os

import pytest
from support.batch_manifests import DATASETS

import cpplan
from cpplan import Graph, Op, Tensor
from cpplan.batches import running
from cpplan.batches.table import columns, read_rows
from cpplan.batches.task_planning import plan_task
from cpplan.model.axes import Axis, Window
from cpplan.model.errors import InputError

# a and b, then b and c: the optimum is 12.
TINY = "id,lower,upper,size\na,0,2,4\nb,1,3,8\nc,2,4,4\n"


@pytest.fixture
def here(monkeypatch):
    """Tasks run in this process, which is faster; the names of those that ran, in order."""
    ran: list[tuple[str, str]] = []

    def run_here(tasks, processes, tell):
        for task in tasks:
            ran.append((task.model.name, task.setting.name))
            yield plan_task(task)

    monkeypatch.setattr(running, "run_here", run_here)
    return ran


@pytest.fixture
def models(tmp_path):
    """Two files: three buffers, and what is no model."""
    (tmp_path / "tiny.csv").write_text(TINY)
    (tmp_path / "wrong.json").write_text("[]")
    return {name: tmp_path / name for name in ("tiny.csv", "wrong.json")}


def test_tasks_run_in_processes_of_their_own(models):
    table = cpplan.batch(models, task_seconds=1_000_000)
    assert table["status"].tolist() == ["optimal", "error"]
    assert (table["task_seconds"] > 0).all()
    assert table["machine"].notna().all()


def test_rows_come_model_by_model_and_failures_are_rows(models, here):
    settings = {"plain": {}, "searched": {"order": "search", "in_place": True}}
    table = cpplan.batch(models, settings, baselines=["bump", "first_fit"], processes=1)
    assert tuple(table.columns) == columns(["bump", "first_fit"])
    found = table[["model", "setting", "status"]].values.tolist()
    assert found == [
        ["tiny.csv", "plain", "optimal"],
        ["tiny.csv", "searched", "error"],
        ["wrong.json", "plain", "error"],
        ["wrong.json", "searched", "error"],
    ]
    plain = table.iloc[0]
    assert (plain.bytes, plain.bound, plain.gap, plain.buffers) == (12, 12, 0.0, 3)
    assert (plain.ratio_bump, plain.ratio_first_fit) == (12 / 16, 1.0)
    assert "bare problem" in table.iloc[1].error
    assert "wrong.json" in table.iloc[2].error


def test_what_is_done_is_not_done_again(models, here, tmp_path):
    output, settings = tmp_path / "r.parquet", {"one": {}, "two": {"seed": 1}}
    first = cpplan.batch(models, settings, output=output)
    assert len(here) == 4
    here.clear()
    again = cpplan.batch(models, settings, output=output)
    assert here == []
    assert again.equals(first)
    assert sorted(os.listdir(tmp_path)) == ["r.parquet", "tiny.csv", "wrong.json"]

    models["wrong.json"].write_text("{}")
    seen = []
    cpplan.batch(models, settings, output, progress=seen.append)
    assert [event.others for event in seen] == [2, 0, 0]
    assert here == [("wrong.json", "one"), ("wrong.json", "two")]
    here.clear()
    cpplan.batch(models, settings | {"two": {"seed": 2}}, output=output)
    assert here == [("tiny.csv", "two"), ("wrong.json", "two")]


def test_another_version_and_failures_are_done_again_where_asked(
    models, here, tmp_path, monkeypatch
):
    output = tmp_path / "r.parquet"
    cpplan.batch(models, output=output)
    here.clear()
    cpplan.batch(models, output=output, retry=True)
    assert here == [("wrong.json", "default")]
    here.clear()
    monkeypatch.setattr("cpplan.batches.task.__version__", "0.0.0")
    cpplan.batch(models, output=output)
    assert len(here) == 2


def test_a_run_that_ends_early_goes_on_where_it_was(models, here, tmp_path):
    output, settings = tmp_path / "r.parquet", {"one": {}, "two": {"seed": 1}}

    def stop_at_three(event):
        if event.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cpplan.batch(models, settings, output=output, progress=stop_at_three)
    assert not output.exists()
    here.clear()
    seen = []
    cpplan.batch(models, settings, output=output, progress=seen.append)
    assert here == [("wrong.json", "two")]
    assert [(event.done, event.total, event.kept) for event in seen] == [(3, 4, 3), (4, 4, 3)]
    assert len(read_rows(output)) == 4
    assert not (tmp_path / "r.parquet.parts").exists()


def test_a_share_limits_each_model_by_its_own_bytes(here):
    # A chain that keeps x: 5 units are live at once, 4 with x computed again.
    found = cpplan.batch(
        [DATASETS / "hand" / "fork_join.json"],
        {"all": {"memory_limit": "100%"}, "half": {"memory_limit": "50%"}},
    )
    assert found["status"].tolist() == ["optimal", "infeasible"]
    assert found["bytes"][0] > 0
    assert "does not fit" in found["error"][1]


def test_objects_are_known_by_their_content(here, tmp_path):
    output = tmp_path / "r.parquet"

    def problem(size):
        return cpplan.Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, size])

    for size, done in ((8, 1), (8, 1), (12, 2)):
        table = cpplan.batch({"made": problem(size)}, output=output)
        assert table["bytes"].tolist() == [4 + size]
        assert len(here) == done


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"settings": {"x": {"ordre": "search"}}}, "setting 'x': unknown key 'ordre': expected"),
        ({"settings": {"x": {"order": "shuffled"}}}, "setting 'x': order='shuffled' is not"),
        ({"settings": {"x": {"memory_limit": "0%"}}}, "is not a share"),
        ({"settings": {"x": {"first": [3]}}}, "setting 'x': first must be a sequence of str"),
        (
            {"settings": {"x": ["order"]}},
            r"setting 'x': keywords must be a mapping, not \['order'\]",
        ),
        ({"settings": {"x": {"pools": [{"size": 4}]}}}, "unknown key 'size'"),
        ({"settings": {"x": {"workers": 10**6}}}, "is more than the"),
        ({"processes": 10**6}, "1000000 processes of up to 1 threads are more than the"),
        ({"processes": 0}, "processes must be an integer from 1 on, not 0"),
        ({"task_seconds": -1}, "task_seconds must be positive"),
        ({"task_seconds": 1e7}, "task_seconds must be at most 1000000, not 10000000.0"),
        ({"task_memory": "much"}, "is not a byte count"),
        ({"baselines": ["unheard_of"]}, "unheard_of"),
        ({"output": "results.txt"}, "expected a name that ends in .parquet"),
        ({"backend": "moon"}, "backend='moon' is not understood"),
        ({"scheduler": "tcp://nowhere:1"}, "scheduler is for backend 'dask'"),
        ({"models": "folder"}, "models must be a list or a mapping"),
    ],
)
def test_what_is_not_understood_is_refused_before_any_task(options, message, here):
    with pytest.raises(InputError, match=message):
        cpplan.batch(**({"models": {"absent": "absent.json"}} | options))
    assert here == []


def test_names_must_differ():
    with pytest.raises(InputError, match=r"two models are named 'a\.csv'"):
        cpplan.batch(["a.csv", "a.csv"])


def test_rows_say_what_is_moved_and_copied(here):
    rows = {"shape": (4, 2), "dtype": "int8"}
    ends = Tensor("x", kind="input", **rows), Tensor("y", kind="output", **rows)
    axis = Axis("rows", 4, (Window("x", 0), Window("y", 0)))
    graph = Graph("bands", ends, (Op("f", inputs=("x",), outputs=("y",), axes=(axis,)),))
    pools = [cpplan.Pool("fast", capacity=16), cpplan.Pool("slow")]
    settings = {"split": {"split": True}, "moved": {"spill": True, "pools": pools}}
    table = cpplan.batch({"bands": graph}, settings, processes=1)
    split, moved = table.iloc[0], table.iloc[1]
    assert (split["copied_bytes"], moved["moved_bytes"]) == (0, 0)
    assert table[["moved_bytes", "copied_bytes"]].isna().values.tolist() == [
        [True, False],
        [False, True],
    ]
