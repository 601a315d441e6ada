"""Plans of small joint graphs: what is found in time, what is proved, and what is neither."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")

from torch.fx import Graph, GraphModule, Node  # noqa: E402

from cpplan.io.torch.training import planning  # noqa: E402
from cpplan.io.torch.training.joint_graph import JointGraph, read_joint  # noqa: E402
from cpplan.io.torch.training.plan_cache import forget_plans  # noqa: E402
from cpplan.io.torch.training.planning import plan_schedule  # noqa: E402
from cpplan.io.torch.training.settings import read_settings  # noqa: E402
from cpplan.model.errors import InfeasibleError, InputError, NotFoundError  # noqa: E402
from cpplan.runtime import compiled, deadline  # noqa: E402

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def _fresh():
    forget_plans()
    yield
    forget_plans()


def chain(length: int = 10) -> JointGraph:
    """Sines of 1 KiB one after another, and their gradients: all are saved unless planned."""
    graph = Graph()

    def placed(node: Node) -> Node:
        node.meta["val"] = torch.empty(256, device="meta")
        return node

    values = [placed(graph.placeholder("primals_1"))]
    for _ in range(length):
        values.append(placed(graph.call_function(aten.sin.default, (values[-1],))))
    gradient = placed(graph.placeholder("tangents_1"))
    for value in reversed(values[:-1]):
        slope = placed(graph.call_function(aten.cos.default, (value,)))
        gradient = placed(graph.call_function(aten.mul.Tensor, (gradient, slope)))
    graph.output((values[-1], gradient))
    return read_joint(GraphModule(torch.nn.Module(), graph), 1)


def settings(**options):
    return read_settings({"resident": "outside", "cache": False, "time_limit": 0.5, **options})


class SlowProcess:
    """Process that compiles loops: it is done when it is asked a second time, which takes long."""

    returncode = pid = 0

    def __init__(self, clock):
        self.clock, self.asked = clock, 0

    def poll(self):
        self.clock.passed += 1000
        self.asked += 1
        return None if self.asked == 1 else 0

    def communicate(self):
        return b"", b""


def compile_slowly(monkeypatch):
    """Have all loops compiled by processes for which many seconds pass by the clock of searches."""
    now, processes = time.monotonic, {}
    clock = SimpleNamespace(passed=0)
    clock.monotonic = lambda: now() + clock.passed
    monkeypatch.setattr(deadline, "time", clock)
    ready = set()
    monkeypatch.setattr(compiled, "_ready", ready)
    monkeypatch.setattr(compiled, "_path", lambda group: Path("never compiled"))
    monkeypatch.setattr(compiled, "_set_ready", ready.add)
    monkeypatch.setattr(
        compiled, "_compiler", lambda group: processes.setdefault(group, SlowProcess(clock))
    )


def test_compiling_loops_does_not_count_against_the_time_of_the_search(monkeypatch):
    compile_slowly(monkeypatch)
    found = plan_schedule(chain(), settings(memory_limit="5 KiB"))
    assert found.peak <= found.memory_limit < found.unplanned


def test_limit_that_is_not_kept_in_time_is_not_called_infeasible(monkeypatch):
    joint = chain()
    with pytest.raises(InfeasibleError, match="every schedule needs at least 5120 B"):
        plan_schedule(joint, settings(memory_limit="4 KiB", time_limit=0.1))
    monkeypatch.setattr(planning, "_least", lambda search, most, budget: search.known.once)
    search = planning.ScheduleSearch
    monkeypatch.setattr(search, "within", lambda self, limit, budget: self.known.best(limit))
    with pytest.raises(NotFoundError, match=r"the smallest schedule found needs 12\.00 KiB"):
        plan_schedule(joint, settings(memory_limit="7 KiB"))
    monkeypatch.undo()
    assert not plan_schedule(joint, settings(memory_limit="7 KiB")).cached


def test_improvements_are_told_while_a_graph_is_planned(capsys):
    events = []
    found = plan_schedule(chain(), settings(memory_limit="5 KiB", progress=events.append))
    peaks = [event.peak for event in events]
    assert peaks[0] == found.unplanned
    assert peaks[-1] == found.peak <= found.memory_limit
    assert events[-1].source.startswith(f"{found.extra_work:.1%} more work, ")
    assert {event.lower_bound for event in events} == {found.least}
    assert capsys.readouterr().err == ""
    plan_schedule(chain(), settings(memory_limit="6 KiB", progress=True))
    assert "peak" in capsys.readouterr().err
    with pytest.raises(InputError, match="progress must be True, False or a function, not 'yes'"):
        settings(progress="yes")


def interrupting():
    """A function that presses Ctrl-C at the first schedule that it is told."""
    waiting = [signal.SIGINT]

    def tell(event):
        if waiting:
            signal.raise_signal(waiting.pop())

    return tell


def test_ctrl_c_takes_the_best_plan_so_far_and_keeps_it_for_no_later_run(tmp_path, caplog):
    joint, options = chain(), {"cost_limit": 2, "cache": tmp_path}
    best = plan_schedule(joint, settings(cost_limit=2))
    forget_plans()
    ended = plan_schedule(joint, settings(**options, progress=interrupting()))
    assert best.peak < ended.peak <= ended.unplanned
    assert "planning was ended by Ctrl-C" in caplog.text
    again = plan_schedule(joint, settings(**options))
    assert (again.cached, again.peak) == (False, best.peak)


def test_ctrl_c_ends_the_program_while_a_limit_is_missed():
    with pytest.raises(KeyboardInterrupt):
        plan_schedule(chain(), settings(memory_limit="5 KiB", progress=interrupting(), cache=False))
