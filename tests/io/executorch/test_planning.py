"""Programs whose memory cpplan plans: they run in ExecuTorch's runtime as with its own plan."""

from __future__ import annotations

import copy
import warnings
from importlib.util import find_spec

import pytest

pytest.importorskip("executorch", reason="cpplan[executorch] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")
# ExecuTorch warns while it is imported, where no mark applies yet.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from support import executorch_models  # noqa: F401

import torch  # noqa: E402
from executorch.exir import to_edge, to_edge_transform_and_lower  # noqa: E402
from executorch.exir.error import InternalError  # noqa: E402
from executorch.exir.memory_planning import Verifier  # noqa: E402
from executorch.exir.passes import MemoryPlanningPass  # noqa: E402
from support.executorch_models import (  # noqa: E402
    RandWire,
    bytes_of,
    finish,
    lower,
    run,
    same,
    settle,
    torchvision_model,
)
from torch import nn  # noqa: E402

import cpplan  # noqa: E402
from cpplan.io.executorch import (  # noqa: E402
    algorithm,
    planning_pass,
    read_program,
    verify_program,
)
from cpplan.io.executorch.specs import planned_specs  # noqa: E402
from cpplan.model.errors import InfeasibleError, InputError, VerificationError  # noqa: E402

FAST = {"time_limit": 5, "workers": 1}


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def fan(x):
    """Eight wide values in a row, then what each is reduced to: better one after the other."""
    wide = [torch.cat([x, x * (k + 1), x], 1) for k in range(8)]
    return sum(value.mean(1, keepdim=True) for value in wide)


@pytest.fixture(scope="module")
def fan_program():
    inputs = (torch.randn(2, 64),)
    return lower(Function(fan), inputs), inputs


def modules_of(program):
    return program.exported_program().graph_module


@pytest.mark.parametrize("ends", [(True, True), (True, False), (False, False)])
def test_planned_programs_compute_the_same_in_fewer_bytes(fan_program, ends):
    edge, inputs = fan_program
    passing = {"alloc_graph_input": ends[0], "alloc_graph_output": ends[1]}
    default = finish(edge, MemoryPlanningPass(**passing))
    placed = finish(edge, MemoryPlanningPass(memory_planning_algo=algorithm(**FAST), **passing))
    planned = finish(edge, planning_pass(**FAST, passing=passing))
    for program in (default, placed, planned):
        verify_program(program)
    assert bytes_of(placed) <= bytes_of(default)
    # Of the eight wide values (1536 B each) one is alive at a time.
    assert bytes_of(planned) < bytes_of(default) // 3
    if all(ends):
        wanted = run(default, inputs)
        assert same(run(placed, inputs), wanted)
        assert same(run(planned, inputs), wanted)


def test_functions_of_the_package_stay_functions():
    """A submodule of a function's name would take its place when it is imported."""
    from cpplan.io import executorch

    executorch.planning_pass(**FAST)
    assert all(callable(getattr(executorch, name)) for name in executorch.__all__)


def test_the_order_alone_and_in_place_alone(fan_program):
    edge, inputs = fan_program
    wanted = run(finish(edge), inputs)
    sizes = {}
    for order in ("given", "search"):
        for in_place in (False, True):
            program = finish(edge, planning_pass(**FAST, order=order, in_place=in_place))
            assert same(run(program, inputs), wanted)
            sizes[order, in_place] = bytes_of(program)
    assert sizes["search", False] < sizes["given", False]
    assert sizes["search", True] <= sizes["search", False]
    assert sizes["given", False] == bytes_of(finish(edge, algorithm(**FAST)))


def test_same_input_and_seed_give_the_same_program(fan_program):
    edge, _ = fan_program
    first, second = (finish(edge, planning_pass(**FAST, deterministic=True)) for _ in range(2))
    assert first.buffer == second.buffer


def test_broken_plans_are_rejected_by_both_verifiers(fan_program):
    edge, _ = fan_program

    class Careless:
        def __init__(self):
            self.careful = algorithm(**FAST)

        def __call__(self, alignment, specs, *rest):
            specs = list(specs)
            sizes = self.careful(alignment, specs, *rest)
            live = sorted(specs, key=lambda spec: spec.lifetime[1] - spec.lifetime[0])
            live[-1].mem_offset = next(
                other.mem_offset
                for other in specs
                if other is not live[-1] and Verifier.lifetime_overlap(other, live[-1])
            )
            return sizes

    program = finish(edge, Careless())
    with pytest.raises(VerificationError, match="overlap at step"):
        verify_program(program)
    method = program.exported_program()
    theirs = Verifier(method.graph_module, True, True, True, method.graph_signature)
    with pytest.raises(InternalError, match="Unexpected storage overlap"):
        theirs.verify_storage_reuse()


def test_bytes_beyond_a_memory_or_off_the_grid_are_found(fan_program):
    edge, _ = fan_program
    program = finish(edge, algorithm(**FAST))
    modules_of(program).meta["non_const_buffer_sizes"][1] -= 16
    with pytest.raises(VerificationError, match="of memory 1, which has"):
        verify_program(program)
    program = finish(edge, algorithm(**FAST))
    planned_specs(modules_of(program))[0].mem_offset += 8
    with pytest.raises(VerificationError, match="not a multiple of the alignment"):
        verify_program(program)


def test_memory_ids_are_pools_with_capacities(fan_program):
    edge, inputs = fan_program

    def spread(capacities):
        placing = algorithm(**FAST, capacities=capacities)

        def plan(alignment, specs, *rest):
            specs = list(specs)
            for spec in specs:
                spec.mem_id = 3 if spec.allocated_memory > 1000 else 1
            return placing(alignment, specs, *rest)

        return finish(edge, plan)

    program = spread({3: "12 KiB"})
    sizes = modules_of(program).meta["non_const_buffer_sizes"]
    assert sizes[0] == sizes[2] == 0
    assert 0 < sizes[3] <= 12288
    assert same(run(program, inputs), run(finish(edge), inputs))
    problem = read_program(program)
    assert [pool.name for pool in problem.pools] == ["memory 1", "memory 2", "memory 3"]
    table = cpplan.compare(problem, algorithms=["bump"], time_limit=2)
    assert set(table.algorithm) == {"cpplan", "executorch", "bump"}
    assert "invalid" not in set(table.status)
    with pytest.raises(InfeasibleError, match="memory 3"):
        spread({3: 12287})


def test_padding_is_added_and_alignments_are_kept(fan_program):
    edge, _ = fan_program
    module = copy.deepcopy(modules_of(finish(edge)))
    specs = planned_specs(module)
    plain = algorithm(**FAST)(128, specs, module, None, 0)
    assert all(spec.mem_offset % 128 == 0 for spec in specs)
    assert algorithm(**FAST)(128, specs, module, None, 64) == [0, plain[1] + 64]
    capacities = {1: plain[1] + 63}
    with pytest.raises(InfeasibleError):
        algorithm(**FAST, capacities=capacities)(128, specs, module, None, 64)


def test_programs_without_buffers_need_no_bytes():
    module = torch.fx.symbolic_trace(lambda x: x)
    assert algorithm(**FAST)(16, [], module, None, 0) == [0, 0]


class TwoResults(nn.Module):
    """Maxima and their indices; the maxima, which are an output, are read by nothing else."""

    def forward(self, x):
        maxima, indices = torch.nn.functional.max_pool1d_with_indices(x, 2)
        return torch.cat([indices.float()] * 8, 2).exp().sin(), maxima


def test_parts_of_results_are_picked_at_once():
    """Picked at the end, one part would keep the other one for all the ops between."""
    edge = lower(TwoResults(), (torch.randn(1, 2, 64),))
    kept, searched = (
        bytes_of(finish(edge, planning_pass(order=order, in_place=False, workers=1)))
        for order in ("given", "search")
    )
    assert searched <= kept


def test_storage_bases_are_kept():
    inputs = (torch.randn(6, 40),)
    edge = lower(Function(lambda x: torch.tanh(torch.sigmoid(x * 2) + x)), inputs)
    wanted = run(finish(edge), inputs)
    for node in edge.exported_program().graph.nodes:
        if "tanh" in node.name or "sigmoid" in node.name:
            node.meta["_share_alloc_with_arg_idx"] = 0
    default, program = finish(edge), finish(edge, algorithm(**FAST))
    shared = [spec for spec in planned_specs(modules_of(program)) if spec.storage_base]
    assert len(shared) == 2
    assert all(spec.mem_offset == spec.storage_base.mem_offset for spec in shared)
    verify_program(program)
    assert bytes_of(program) <= bytes_of(default)
    assert same(run(program, inputs), wanted)
    shared[0].mem_offset += 16
    with pytest.raises(VerificationError, match="its storage_base"):
        verify_program(program)


def test_storage_bases_that_contradict_themselves_are_refused(fan_program):
    edge, _ = fan_program

    def planner(change):
        def plan(alignment, specs, *rest):
            specs = sorted(specs, key=lambda spec: spec.allocated_memory)
            change(specs)
            return algorithm(**FAST)(alignment, specs, *rest)

        return plan

    def loop(specs):
        specs[0].storage_base, specs[1].storage_base = specs[1], specs[0]

    def leave(specs):
        specs[-1].storage_base = specs[0]

    def stray(specs):
        specs[0].storage_base = copy.deepcopy(specs[1])

    def off(specs):
        specs[0].storage_base, specs[0].storage_base_offset = specs[-1], 8

    for change, message in (
        (loop, "lies within the tensor itself"),
        (leave, "exceed the"),
        (stray, "is not among the tensors to be planned"),
        (off, "must be a multiple of the alignment"),
    ):
        with pytest.raises(InputError, match=message):
            finish(edge, planner(change))


def test_a_mutable_buffer_lives_throughout_and_is_written_last():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("state", torch.zeros(32))

        def forward(self, x):
            y = torch.relu(self.state + x)
            self.state.add_(x)
            return torch.exp(y) + torch.tanh(y) * self.state

    inputs = (torch.randn(32),)
    edge = lower(Counter(), inputs)
    wanted = run(finish(edge), inputs)
    for planning in (algorithm(**FAST), planning_pass(**FAST)):
        program = finish(edge, planning)
        verify_program(program)
        assert same(run(program, inputs), wanted)


def test_wrong_objects_methods_and_capacities(fan_program):
    edge, _ = fan_program
    program = finish(edge)
    with pytest.raises(InputError, match="no method 'backward': it has 'forward'"):
        read_program(program, "backward")
    with pytest.raises(InputError, match="expected an ExecutorchProgramManager"):
        read_program(edge)
    with pytest.raises(InputError, match="memory id 0"):
        finish(edge, algorithm(capacities={0: 100}))


def test_the_default_plan_is_a_rival(fan_program):
    edge, _ = fan_program
    program = finish(edge)
    problem = read_program(program)
    (answer,) = problem.answers
    assert answer.peak == bytes_of(program)
    table = cpplan.compare(problem, algorithms=["bump"], time_limit=2).set_index("algorithm")
    assert table.bytes["executorch"] == answer.peak
    assert table.bytes["cpplan"] <= answer.peak <= table.bytes["bump"]


class Mixed(nn.Module):
    """Two linear layers and operators between them that no backend takes."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(20, 30), nn.Linear(30, 20)

    def forward(self, x):
        y = torch.relu(self.first(x))
        return self.second(torch.topk(torch.cumsum(y, 1) * 2, 30)[0] + y).sin()


class Cache(nn.Module):
    """A row of its state is written, then all of it read twice."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(8, 20))

    def forward(self, x, position):
        self.rows.index_put_((position,), x)
        return (self.rows * 2).exp().sum(0) + self.rows.relu().sum(0)


def mixed_of_any_length(x):
    length = torch.export.Dim("n", min=1, max=16)
    return to_edge(torch.export.export(Mixed().eval(), (x,), dynamic_shapes=({0: length},)))


def mixed_with_a_delegate(x):
    exported = torch.export.export(Mixed().eval(), (x,))
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    return to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])


def two_methods(x):
    other = torch.export.export(nn.Sequential(nn.ReLU(), nn.Tanh()), (x,))
    return to_edge({"forward": torch.export.export(Mixed().eval(), (x,)), "other": other})


def parts_of_one_result(x):
    def swap(x):
        first, middle, last = torch.split(x * 2, [5, 10, 5], 1)
        return torch.cat([last.exp(), first, middle.relu()], 1).topk(3)[0]

    return lower(Function(swap), (x,))


def inputs_handed_back(x):
    return lower(Function(lambda x: (x, x.view(-1), torch.relu(x * 2).view(2, -1))), (x,))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (mixed_of_any_length, (4, 16, 1)),
        (mixed_with_a_delegate, (4,)),
        (two_methods, (4,)),
        (parts_of_one_result, (4,)),
        (inputs_handed_back, (4,)),
    ],
)
def test_odd_programs_compute_the_same_in_no_more_bytes(make, rows):
    inputs = [(torch.randn(count, 20),) for count in rows]
    edge = make(inputs[0][0])
    default = finish(edge)
    wanted = [run(default, given) for given in inputs]
    for planning in (algorithm(**FAST), planning_pass(**FAST)):
        program = finish(edge, planning)
        verify_program(program)
        assert bytes_of(program) <= bytes_of(default)
        assert all(same(run(program, i), w) for i, w in zip(inputs, wanted, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("reinplaced", [False, True])
def test_a_cache_is_written_before_it_is_read(reinplaced):
    inputs = (torch.randn(1, 20), torch.tensor([3]))
    edge = to_edge(torch.export.export(Cache(), inputs))
    default = finish(edge, run_reinplace_pass=reinplaced)
    program = finish(edge, planning_pass(**FAST), run_reinplace_pass=reinplaced)
    verify_program(program)
    assert bytes_of(program) < bytes_of(default)
    assert same(run(program, inputs), run(default, inputs))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["randwire", "densenet121", "swin_t"])
def test_known_models_run_alike_in_fewer_bytes(name):
    torch.manual_seed(0)
    if name != "randwire" and find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    shape = (1, 3, 64, 64)
    model = RandWire() if name == "randwire" else torchvision_model(name)
    images = [(torch.randn(shape),) for _ in range(2)]
    edge = lower(settle(model, shape), images[0])
    default = finish(edge)
    wanted = [run(default, image) for image in images]
    assert not same(*wanted)
    for planning in (algorithm(**FAST), planning_pass(**FAST)):
        program = finish(edge, planning)
        verify_program(program)
        assert bytes_of(program) < bytes_of(default)
        assert all(same(run(program, i), w) for i, w in zip(images, wanted, strict=True))


class Parts(nn.Module):
    """Two parts of a split, one read at once and the other much later."""

    def forward(self, x):
        y = (x.t().contiguous() + 1).t()
        late, early = torch.split(x, [2, 2], 1)
        joined = torch.cat([early * torch.sigmoid(early), late], 1)
        return y * 2, joined


def test_parts_live_no_longer_than_in_the_searched_order() -> None:
    """Reads of the list of results that an op is given count for all of them."""
    edge = lower(Parts(), (torch.randn(8, 4),))
    found = {}
    for order in ("given", "search"):
        planning = planning_pass(order=order, in_place=False, time_limit=2, deterministic=True)
        found[order] = bytes_of(finish(edge, planning))
    assert found["search"] == planning.arrangements[0].peak <= found["given"]
