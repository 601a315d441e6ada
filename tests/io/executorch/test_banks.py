"""ExecuTorch's memory maps as pools, and its planners as rivals."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path

import pytest

pytest.importorskip("executorch", reason="cpplan[executorch] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")
# ExecuTorch warns while it is imported, where no mark applies yet.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from support import executorch_models  # noqa: F401

import torch  # noqa: E402
from executorch.exir import to_edge  # noqa: E402
from executorch.exir.banked_memory_planning import (  # noqa: E402
    Bank,
    TargetMemoryMap,
    banked_memory_planning_pass,
)
from support.executorch_models import bytes_of, finish, lower, run, same  # noqa: E402
from torch import nn  # noqa: E402

import cpplan  # noqa: E402
from cpplan.comparison.spill_comparison import compare_spill_rows  # noqa: E402
from cpplan.io.executorch import (  # noqa: E402
    algorithm,
    fold_constants,
    planning_pass,
    read_program,
    verify_program,
)
from cpplan.io.executorch.banks import banked_greedy  # noqa: E402
from cpplan.model.errors import InfeasibleError, InputError  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
FAST = {"time_limit": 5, "workers": 1}
INPUTS = (torch.randn(2, 64),)


class Fan(nn.Module):
    """Eight wide values in a row, then what each is reduced to."""

    def forward(self, x):
        wide = [torch.cat([x, x * (k + 1), x], 1) for k in range(8)]
        return sum(value.mean(1, keepdim=True) for value in wide)


class Branches(nn.Module):
    """Values before, in and after a branch."""

    def forward(self, x):
        before = torch.cat([x, x.exp()]).sum(0, keepdim=True)
        y = torch.cond(x.sum() > 0, lambda x: torch.relu(x) * 2, lambda x: x.cos() - 1, (x,))
        return torch.cat([y + before, y * 2]).sin()


@functools.cache
def fan():
    return fold_constants(lower(Fan(), INPUTS))


def banks(fast, slow=1 << 20, alignment=None):
    return TargetMemoryMap([Bank("fast", fast, 2, alignment), Bank("slow", slow, 1)])


def sizes_of(program):
    return program.exported_program().graph_module.meta["non_const_buffer_sizes"]


@pytest.mark.parametrize("fast", [512, 2048, 6000, 1 << 20])
def test_no_more_lies_in_the_slow_bank_than_by_banked_greedy(fast):
    memory_map = banks(fast)
    theirs = finish(fan(), banked_memory_planning_pass(memory_map))
    for planning in (
        algorithm(**FAST, memory_map=memory_map),
        planning_pass(**FAST, memory_map=memory_map),
    ):
        program = finish(fan(), planning)
        verify_program(program, executorch_verifier=True)
        sizes = [*sizes_of(program), 0]
        assert sizes[2] <= fast
        assert sizes[1] <= sizes_of(theirs)[1]
        assert same(run(program, INPUTS), run(theirs, INPUTS))


def test_pins_alignments_and_memories_that_are_not_declared_are_kept():
    memory_map = banks(4096, alignment=64)
    placing = algorithm(**FAST, memory_map=memory_map)
    pinned = []

    def plan(alignment, specs, *rest):
        specs = list(specs)
        pinned.extend(sorted(specs, key=lambda spec: -spec.allocated_memory)[:2])
        pinned[0].mem_id, pinned[1].mem_id = 1, 3
        return placing(alignment, specs, *rest)

    program = finish(fan(), plan)
    verify_program(program)
    assert [spec.mem_id for spec in pinned] == [1, 3]
    assert sizes_of(program)[3] == pinned[1].allocated_memory
    module = program.exported_program().graph_module
    specs = [node.meta.get("spec") for node in module.graph.nodes]
    fast = [spec for spec in specs if getattr(spec, "mem_id", None) == 2]
    assert fast
    assert all(spec.mem_offset % 64 == 0 for spec in fast)
    assert same(run(program, INPUTS), run(finish(fan()), INPUTS))


def test_submodules_keep_within_the_banks():
    inputs = [(torch.full((2, 40), value),) for value in (1.0, -1.0)]
    edge = lower(Branches(), inputs[0])
    program = finish(edge, algorithm(**FAST, memory_map=banks(2048)))
    verify_program(program)
    assert sizes_of(program)[2] <= 2048
    for given in inputs:
        torch.testing.assert_close(run(program, given)[0], Branches()(*given), atol=1e-3, rtol=0)


def test_wrong_maps_are_refused():
    with pytest.raises(InputError, match="must be a TargetMemoryMap"):
        algorithm(memory_map={1: 100})
    with pytest.raises(InputError, match="give only one"):
        algorithm(memory_map=banks(512), capacities={1: 512})
    with pytest.raises(InputError, match="must be a multiple of the tensors' alignment 16"):
        finish(fan(), algorithm(**FAST, memory_map=banks(512, alignment=8)))
    with pytest.raises(InfeasibleError):
        finish(fan(), algorithm(**FAST, memory_map=banks(512, slow=1024)))


def test_their_planners_are_rivals():
    program = finish(fan(), algorithm(**FAST))
    problem = read_program(program, rivals=True)
    assert [answer.name for answer in problem.answers] == ["executorch", "greedy"]
    assert problem.answers[1].peak == bytes_of(finish(fan()))
    table = cpplan.compare(problem, algorithms=["first_fit_by_size"], time_limit=2)
    assert set(table.algorithm) == {"cpplan", "executorch", "greedy", "first_fit_by_size"}
    assert "invalid" not in set(table.status)


def test_their_memory_maps_are_pools():
    memory_map = banks(2048, alignment=32)
    theirs = finish(fan(), banked_memory_planning_pass(memory_map))
    problem = read_program(theirs, memory_map=memory_map, rivals=True)
    pools = [(pool.name, pool.capacity, pool.alignment) for pool in problem.pools]
    assert pools == [("memory 2", 2048, 32), ("memory 1", 1 << 20, 1)]
    found, rival = problem.answers
    assert (found.name, rival.name) == ("executorch", "banked_greedy")
    assert rival.peak == found.peak == sum(sizes_of(theirs))
    table = cpplan.compare(
        problem, algorithms=["first_fit_by_size"], time_limit=2, objective="preference"
    )
    assert set(table.status) <= {"optimal", "feasible"}
    assert table.algorithm[0] == "cpplan"


def test_a_rival_that_finds_no_room_is_left_out():
    program = finish(fan(), algorithm(**FAST))
    memory_map = banks(512, slow=1024)
    answers = read_program(program, memory_map=memory_map, rivals=True).answers
    assert [answer.name for answer in answers] == ["executorch"]


def test_the_default_overlaps_submodules_as_a_rival_too():
    class Two(nn.Module):
        def forward(self, x):
            def grow(x):
                return torch.relu(x) * 2

            def shrink(x):
                return x.cos() - 1

            first = torch.cond(x.sum() > 0, grow, shrink, (x,))
            second = torch.cond(x.sum() > 1, grow, shrink, (x + 3,))
            return first.sin() + second

    edge = to_edge(torch.export.export(Two(), (torch.randn(40),)))
    problem = read_program(finish(edge, algorithm(**FAST)), rivals=True)
    table = cpplan.compare(problem, algorithms=[], time_limit=2).set_index("algorithm")
    assert table.status["executorch"] in ("optimal", "feasible")
    assert table.status["greedy"] == "invalid"


def test_banked_greedy_is_compared_where_tensors_move():
    cell = ROOT / "datasets" / "ordering" / "nasnet_cell.json"
    pools = [cpplan.Pool("sram", 1_400_000), cpplan.Pool("dram", direct=True)]
    rows = compare_spill_rows(
        cpplan.load(cell), algorithms=[], placers={"banked_greedy": banked_greedy}, pools=pools
    )
    ours, theirs = (row.moved for row in rows)
    assert [row.algorithm for row in rows] == ["cpplan", "banked_greedy"]
    assert 0 < ours < theirs
