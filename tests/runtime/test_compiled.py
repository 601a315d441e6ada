"""Loops are compiled once, never beyond a deadline."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import cpplan
from cpplan.runtime import compiled
from cpplan.runtime.compiled import LoopGroup
from cpplan.runtime.deadline import Deadline
from cpplan.runtime.loop_compiler.loop import CompiledLoop, noting
from cpplan.solving.all_loops import GROUPS

# Neither has a loop: tests say what another process does.
ONE, OTHER = LoopGroup("one", (), "here:one"), LoopGroup("other", (), "here:other")
SEARCHES = """
import cpplan, cpplan.zoo.packing, numpy as np
from cpplan.model.graph import Graph, Op, Tensor
random = np.random.default_rng(0)
lower = random.integers(0, 300, 300)
problem = cpplan.Problem(
    tuple(map(str, range(300))), lower, lower + random.integers(1, 40, 300),
    random.integers(1, 100, 300) * 64 + 1,
)
cpplan.solve(problem, time_limit=5, workers=1)
cpplan.solve(cpplan.zoo.packing.random_lifespans(3000, seed=0), time_limit=5, workers=1)
tensors = [Tensor(f"t{k}", int(random.integers(1, 99))) for k in range(200)]
ops = [
    Op(f"f{k}", inputs=tuple({f"t{j}" for j in random.integers(max(0, k - 20), k, 3)}) if k else (),
       outputs=(f"t{k}",))
    for k in range(200)
]
graph = Graph("random", tensors, ops)
plan = cpplan.solve(graph, order="search", time_limit=5, workers=1)
cpplan.solve(graph, remat=True, memory_limit=int(0.8 * plan.peak), time_limit=15, workers=1)
pools = cpplan.Pool("fast", plan.peak // 2), cpplan.Pool("slow", direct=True)
cpplan.solve(graph, spill=True, pools=pools, time_limit=5, workers=1)
"""


@pytest.fixture
def never_compiled(monkeypatch, tmp_path):
    monkeypatch.setattr(compiled, "_ready", set())
    monkeypatch.setattr(compiled, "_compiling", {})
    monkeypatch.setattr(compiled, "_path", lambda group: tmp_path / group.name)


def test_groups_are_compiled_side_by_side(never_compiled, monkeypatch):
    """Neither ends before the other has begun."""
    script = "import sys, time; from pathlib import Path; one, other = map(Path, sys.argv[1:])\n"
    script += "one.touch()\nwhile not other.exists(): time.sleep(0.01)"

    def command(groups: list[LoopGroup]) -> list[str]:
        groups = (ONE, OTHER) if groups == [ONE] else (OTHER, ONE)
        paths = [f"{compiled._path(each)}.begun" for each in groups]
        return [sys.executable, "-c", script, *paths]

    monkeypatch.setattr(compiled, "_command", command)
    assert compiled.prepare_all((ONE, OTHER), Deadline(60))


def test_the_first_group_is_not_slowed_down_by_more_than_there_are_cores(
    never_compiled, monkeypatch
):
    third = LoopGroup("third", (), "here:third")
    sleeping = [sys.executable, "-c", "import time; time.sleep(100)"]
    ending = [sys.executable, "-c", "pass"]
    monkeypatch.setattr(
        compiled, "_command", lambda groups: ending if groups == [ONE] else sleeping
    )
    monkeypatch.setattr(compiled, "available_cores", lambda: 2)
    begun = []
    begin = compiled.begin
    monkeypatch.setattr(compiled, "begin", lambda group: (begun.append(group), begin(group)))
    assert compiled.prepare_first((ONE, OTHER, third), Deadline(60))
    assert begun == [ONE, OTHER, third]
    assert not compiled.prepare_first((OTHER, third), Deadline(0.01))
    for process in list(compiled._compiling.values()):
        process.kill()
        process.communicate()


def test_waiting_ends_with_the_deadline_and_goes_on_in_the_next_stage(never_compiled, monkeypatch):
    sleeping = [sys.executable, "-c", "import time; time.sleep(100)"]
    monkeypatch.setattr(compiled, "_command", lambda groups: sleeping)
    lines: list[str] = []
    with compiled.telling(lines.append):
        assert not compiled.prepare(ONE, Deadline(0.1))
        process = compiled._compiling[ONE]
        assert not compiled.prepare(ONE, Deadline(0.1))
    assert compiled._compiling[ONE] is process
    assert lines == ["compiling the loops for one, once for this installation"]
    process.kill()
    process.communicate()


def test_ready_as_soon_as_the_other_process_is_done(never_compiled, monkeypatch):
    monkeypatch.setattr(compiled, "_command", lambda groups: [sys.executable, "-c", "pass"])
    assert compiled.prepare(ONE, Deadline(60))
    assert compiled.prepare(ONE, Deadline(0))


def test_a_failure_to_compile_is_an_error(never_compiled, monkeypatch):
    failing = [sys.executable, "-c", "raise ValueError('no such register')"]
    monkeypatch.setattr(compiled, "_command", lambda groups: failing)
    with pytest.raises(RuntimeError, match="for one failed: ValueError: no such register"):
        compiled.prepare(ONE, Deadline(60))


def test_threads_wait_for_one_process_together(never_compiled, monkeypatch):
    napping = [sys.executable, "-c", "import time; time.sleep(0.2)"]
    monkeypatch.setattr(compiled, "_command", lambda groups: napping)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda k: compiled.prepare(ONE, Deadline(60)), range(4)))
    assert compiled._compiling == {}


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="there are no process groups")
def test_ctrl_c_ends_the_wait_and_not_the_compiling(tmp_path):
    """Interrupt a process and its group, as a terminal does; then let it wait again."""
    script = f"""
import os, signal, sys, threading
from pathlib import Path
from cpplan.runtime import compiled
from cpplan.runtime.compiled import LoopGroup
from cpplan.runtime.deadline import Deadline
one = {ONE!r}
compiled._path = lambda group: Path({str(tmp_path)!r}) / group.name
compiled._command = lambda groups: [sys.executable, "-c", "import time; time.sleep(0.5)"]
threading.Timer(0.2, lambda: os.killpg(0, signal.SIGINT)).start()
try:
    compiled.prepare(one, Deadline(60))
except KeyboardInterrupt:
    print(compiled.prepare(one, Deadline(60)))
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, start_new_session=True
    )
    assert done.stdout == "True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_waits_for_no_process_of_its_parent(never_compiled, monkeypatch):
    """Nor does it end one: what the parent began is done when the parent asks again."""
    napping = [sys.executable, "-c", "import time; time.sleep(0.5)"]
    monkeypatch.setattr(compiled, "_command", lambda groups: napping)
    assert not compiled.prepare(ONE, Deadline(0.1))
    child = os.fork()
    if child == 0:
        os._exit(len(compiled._compiling))
    assert os.waitpid(child, 0)[1] == 0
    assert compiled.prepare(ONE, Deadline(60))


def test_another_process_is_told_the_group_itself(never_compiled, monkeypatch, tmp_path):
    """It imports the module that the group names for its first use, and no room."""
    (tmp_path / "some_first_uses.py").write_text("import sys\ndef use(): sys.exit('used')\n")
    monkeypatch.syspath_prepend(tmp_path)
    group = LoopGroup("some", ("cpplan.packing.sizes.fit_kernel",), "some_first_uses:use")
    monkeypatch.setenv("CPPLAN_CACHE", str(tmp_path))
    with pytest.raises(RuntimeError, match="for some failed: used"):
        compiled.prepare(group, Deadline(60))


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_first_use_calls_every_loop_that_python_calls(group):
    """And with one kind of arguments: each other one would be compiled in every process."""
    with noting(group.kernels) as uses:
        group.use()
    names = [f"{use.loop.__module__}.{use.loop.__name__}" for use in uses]
    assert sorted(names) == sorted(set(names))
    assert {name for name in called_by_python() if name.rpartition(".")[0] in group.kernels} <= {
        *names
    }


@cache
def called_by_python() -> set[str]:
    """Loops that modules other than those with loops name."""
    kernels = {name: import_module(name) for group in GROUPS.values() for name in group.kernels}
    found = set()
    for path in Path(cpplan.__file__).parent.rglob("*.py"):
        text = path.read_text()
        if path.stem.endswith("_kernel") or "_kernel" not in text:
            continue
        tree = ast.parse(text)
        known: dict[str, object] = {}
        for node in ast.walk(tree):
            for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                name = f"{node.module}.{alias.name}"
                own = getattr(kernels.get(node.module), alias.name, None)
                known[alias.asname or alias.name] = kernels.get(name, own)
        for node in ast.walk(tree):
            value = known.get(node.id) if isinstance(node, ast.Name) else None
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                value = getattr(known.get(node.value.id), node.attr, None)
            if isinstance(value, CompiledLoop):
                found.add(f"{value.__module__}.{value.__name__}")
    return found


@pytest.mark.slow
def test_after_a_warm_up_nothing_is_compiled(tmp_path):
    environment = {**os.environ, "CPPLAN_CACHE": str(tmp_path)}
    command = [sys.executable, "-m", "cpplan", "warm-up"]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert len(list(tmp_path.rglob("*.loops"))) == len(GROUPS)
    refusing = "from cpplan.runtime.loop_compiler import library\n"
    refusing += "def refuse(uses): raise AssertionError([use.name for use in uses])\n"
    refusing += "library.make_library = refuse\n"
    subprocess.run([sys.executable, "-c", refusing + SEARCHES], env=environment, check=True)


def test_loops_are_compiled_for_this_copy_of_cpplan(tmp_path, monkeypatch):
    """A copy of cpplan in the working directory is another one."""
    (tmp_path / "cpplan" / "runtime").mkdir(parents=True)
    for folder in ("cpplan", "cpplan/runtime"):
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "cpplan" / "runtime" / "compiled.py").write_text("raise SystemExit('another copy')")
    monkeypatch.chdir(tmp_path)
    *interpreter, script = compiled._command([ONE])
    shown = f"{script.partition('; from ')[0]}; import cpplan; print(cpplan.__file__)"
    run = subprocess.run([*interpreter, shown], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == cpplan.__file__
