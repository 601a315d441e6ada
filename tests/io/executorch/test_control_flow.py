"""Submodules of control flow: their memory is a block of the module's that they are in."""

from __future__ import annotations

import functools
import warnings

import pytest

pytest.importorskip("executorch", reason="cpplan[executorch] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")
# ExecuTorch warns while it is imported, where no mark applies yet.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from support import executorch_models  # noqa: F401

import torch  # noqa: E402
from functorch.experimental.control_flow import map as each  # noqa: E402
from support.executorch_models import bytes_of, finish, lower, run, same  # noqa: E402
from torch import nn  # noqa: E402

from cpplan.io.executorch import (  # noqa: E402
    algorithm,
    planning_pass,
    read_program,
    verify_program,
)
from cpplan.io.executorch.specs import find_regions  # noqa: E402
from cpplan.model.errors import InputError, VerificationError  # noqa: E402

FAST = {"time_limit": 5, "workers": 1}


def grow(x):
    return torch.relu(x) * 2 + x.exp()


def shrink(x):
    return x.cos() - 1


class One(nn.Module):
    """A branch, and work before and after it that does not overlap with it."""

    def forward(self, choice, x):
        before = torch.tanh(torch.cat([x, x])).sum(0, keepdim=True)
        y = torch.cond(choice.sum() > 0, grow, shrink, (x + before,))
        return torch.cat([y, y * 2]).sin()


class Two(nn.Module):
    """The first branch's result is needed after the second branch has run."""

    def forward(self, choice, x):
        first = torch.cond(choice.sum() > 0, grow, shrink, (x,))
        second = torch.cond(choice.sum() > 1, grow, shrink, (x + 3,))
        return first.sin() + second


class Nested(nn.Module):
    def forward(self, choice, x):
        def outer(choice, x):
            inner = torch.cond(choice.sum() > 3, grow, shrink, (x * 2,))
            other = torch.cond(choice.sum() > 2, shrink, grow, (x * 3,))
            return inner * other

        return torch.cond(choice.sum() > 0, outer, lambda c, x: x - c.sum(), (choice, x)) + x


class Loop(nn.Module):
    def forward(self, rows, y):
        scaled = y * 2
        return each(lambda row, y: (row.cos() + y).exp() * y, rows, scaled).sum(0) + scaled


CASES = {
    "one": (One(), [(torch.full((3,), value), torch.randn(4, 10)) for value in (1.0, -1.0)]),
    "two": (Two(), [(torch.full((3,), value), torch.randn(40)) for value in (1.0, 0.2, -1.0)]),
    "nested": (
        Nested(), [(torch.full((2,), value), torch.randn(30)) for value in (2.0, 1.2, 0.5, -1.0)]
    ),
    "loop": (Loop(), [(torch.randn(5, 12), torch.randn(12))]),
}  # fmt: skip


@functools.cache
def lowered(case):
    model, inputs = CASES[case]
    return lower(model, inputs[0])


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow) for c in CASES])
def test_programs_with_control_flow_compute_what_torch_does(case):
    model, inputs = CASES[case]
    edge = lowered(case)
    for planning in (algorithm(**FAST), planning_pass(**FAST)):
        program = finish(edge, planning)
        verify_program(program)
        for given in inputs:
            # The kernels are not torch's; a value written over would be off by far more.
            torch.testing.assert_close(run(program, given)[0], model(*given), atol=1e-3, rtol=1e-3)


def test_a_block_is_reserved_only_while_it_is_needed():
    _, inputs = CASES["one"]
    edge = lowered("one")
    default, program = finish(edge), finish(edge, algorithm(**FAST))
    assert bytes_of(program) < bytes_of(default)
    assert all(same(run(program, given), run(default, given)) for given in inputs)


def test_default_plan_overwrites_the_first_branchs_result_with_the_second():
    # executorch 1.5.1 places the submodules of both branches from byte 0 on. A result of a branch
    # is not copied, so that the second branch writes over that of the first.
    model, inputs = CASES["two"]
    program = finish(lowered("two"))
    with pytest.raises(VerificationError, match="'cond in memory 1' and 'cond_1 in memory 1'"):
        verify_program(program)
    assert not torch.allclose(run(program, inputs[0])[0], model(*inputs[0]), atol=1e-2)
    program = finish(lowered("two"), algorithm(**FAST))
    verify_program(program)
    assert torch.allclose(run(program, inputs[0])[0], model(*inputs[0]), atol=1e-3)
    problem = read_program(program)
    blocks = [name for name in problem.names if name.endswith("in memory 1")]
    assert blocks == ["cond in memory 1", "cond_1 in memory 1"]


@pytest.mark.slow
def test_a_broken_submodule_is_found():
    program = finish(lowered("nested"), algorithm(**FAST))
    (region,) = find_regions(program.exported_program().graph_module)
    branch = region.modules[0]
    specs = [node.meta["spec"] for node in branch.graph.nodes if "cond" in node.name]
    offsets = {spec.mem_offset for group in specs for spec in group}
    assert len(offsets) == 2
    for group in specs:
        group[0].mem_offset = min(offsets)
    with pytest.raises(VerificationError, match="overlap at step"):
        verify_program(program)


def test_what_is_reserved_for_unknown_submodules_is_refused():
    module = torch.fx.symbolic_trace(lambda x: x)
    module.input_mem_buffer_sizes = [0, 64]
    with pytest.raises(InputError, match="reserves 64 B of memory 1"):
        algorithm(**FAST)(16, [], module, None, 0)
