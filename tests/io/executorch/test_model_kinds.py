"""Kinds of models: planned, run and equal to ExecuTorch's own plan, in the bytes that were stated.

Each model runs several times, so that what its variables hold from one run is read in the next; the
results of the runs differ. What ExecuTorch's plan itself gets wrong is compared with torch instead.
"""

from __future__ import annotations

import copy
import ctypes
import sys
import warnings
from dataclasses import dataclass

import pytest

pytest.importorskip("executorch", reason="cpplan[executorch] is not installed")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]
# ExecuTorch warns while it is imported, where no mark applies yet.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from support import executorch_models  # noqa: F401

import torch  # noqa: E402
from executorch.exir import to_edge, to_edge_transform_and_lower  # noqa: E402
from executorch.exir._serialize._program import deserialize_pte_binary  # noqa: E402
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass  # noqa: E402
from executorch.runtime import Runtime  # noqa: E402
from functorch.experimental.control_flow import map as each  # noqa: E402
from support.executorch_models import bytes_of, finish, same  # noqa: E402
from torch import nn  # noqa: E402

from cpplan.io.executorch import (  # noqa: E402
    algorithm,
    fold_constants,
    planning_pass,
    verify_program,
)

FAST = {"time_limit": 3, "workers": 1}
N = torch.export.Dim("n", min=3, max=24)


@dataclass
class Case:
    """A model, inputs of one run after another, and how it is lowered."""

    model: nn.Module
    runs: list
    shapes: tuple | None = None
    delegate: bool = False
    quantize: bool = False
    fold: bool = True
    reinplace: bool = False
    # Whether ExecuTorch's own plan computes what torch does.
    rival: bool = True


def randn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape)))


def runs(*shape, count=3):
    return [(randn(*shape) * (k + 1) + k,) for k in range(count)]


class Attention(nn.Module):
    """A model of any number of tokens, whose views take their sizes from its input."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        batch, n, _ = x.shape
        query = self.first(x).view(batch, n, 4, 4).transpose(1, 2)
        key = self.second(x).view(batch, n, 4, 4).transpose(1, 2)
        mixed = torch.softmax(query @ key.transpose(2, 3), -1) @ key
        return self.last(mixed.transpose(1, 2).reshape(batch, n, 16) + x).view(batch * n, 16)


class Reshaped(nn.Module):
    """Views by the size of an intermediate result that another branch computes."""

    def forward(self, x):
        wide = torch.cat([x, x * 2, x * 3], 0)
        count = wide.shape[0]
        rows = [torch.cat([x * (k + 1)] * 3, 1).view(count, -1).tanh() for k in range(5)]
        return sum(rows) + wide.view(count, -1), wide.view(count // 3, 3, -1).sum(1)


class Decoder(nn.Module):
    """One block with a cache of keys and of values, written at a position."""

    def __init__(self, rows=16):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, rows, 8))
        self.register_buffer("values", torch.zeros(1, rows, 8))
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x, position):
        count = x.shape[1]
        self.keys.index_copy_(1, position, self.key(x))
        self.values.index_copy_(1, position, self.value(x))
        query = self.query(x).view(1, count, 2, 4).transpose(1, 2)
        keys = self.keys.view(1, -1, 2, 4).transpose(1, 2)
        values = self.values.view(1, -1, 2, 4).transpose(1, 2)
        mixed = torch.softmax(query @ keys.transpose(2, 3), -1) @ values
        return mixed.transpose(1, 2).reshape(1, count, 8)


def tokens(*positions):
    return [
        (randn(1, len(some), 8) * (k + 1), torch.tensor(some)) for k, some in enumerate(positions)
    ]


class Streaming(nn.Module):
    """A convolution over time, one frame a run: a ring of frames, and a mean that is carried on."""

    def __init__(self):
        super().__init__()
        self.register_buffer("frames", torch.zeros(1, 12, 5))
        self.register_buffer("mean", torch.zeros(1, 12))
        self.convolve, self.head = nn.Conv1d(12, 24, 5), nn.Linear(24, 6)

    def forward(self, x):
        self.mean.mul_(0.9).add_(x * 0.1)
        self.frames.copy_(torch.cat([self.frames[:, :, 1:], (x - self.mean).unsqueeze(2)], 2))
        return self.head(torch.relu(self.convolve(self.frames)).squeeze(2)), self.mean + 1


class Recurrent(nn.Module):
    """A recurrent layer of a kind, and the mean of its states."""

    def __init__(self, kind):
        super().__init__()
        self.layer, self.head = kind(10, 14, num_layers=2, batch_first=True), nn.Linear(14, 3)

    def forward(self, x):
        states = self.layer(x)[0]
        return self.head(states[:, -1]), states.mean(1)


class Carried(nn.Module):
    """A cell whose state is a variable."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(10, 14)
        self.register_buffer("state", torch.zeros(1, 14))

    def forward(self, x):
        self.state.copy_(self.cell(x, self.state))
        return torch.tanh(self.state * 2)


class Choice(nn.Module):
    """Layers in both branches, chosen by the input; work before and after."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(12, 12), nn.Linear(12, 12)

    def forward(self, x):
        before = torch.cat([x, x.exp()], 0)[: x.shape[0]]
        after = torch.cond(
            x.sum() > 0,
            lambda x: torch.relu(self.first(x)) + x,
            lambda x: self.second(x.sin()) * 2,
            (before,),
        )
        return after + x, after.mean(1)


class Rows(nn.Module):
    """A body that runs for every row."""

    def forward(self, x):
        scale = x.mean(0) * 2
        return each(lambda row, scale: (row.cos() + scale).exp() * scale, x, scale).sum(0) + scale


class Aliases(nn.Module):
    """Results that are returned twice, as views of one another, and the input itself."""

    def forward(self, x):
        wide = torch.relu(x * 2)
        flat = wide.view(-1)
        return wide, flat, wide, x, (flat * 3).view(2, -1), flat.exp().view(wide.shape)


class Upsampling(nn.Module):
    """An encoder and a decoder with transposed convolutions and skips."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(16, 8, 2, 2), nn.ConvTranspose2d(16, 3, 2, 2)])

    def forward(self, x):
        half = torch.relu(self.down[0](x))
        quarter = torch.relu(self.down[1](half))
        return torch.sigmoid(self.up[1](torch.cat([self.up[0](quarter), half], 1))) + x


class Detector(nn.Module):
    """Kernels with several results and of indices: top-k, maximum, split, gather."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 24)

    def forward(self, x):
        boxes, scores = torch.split(self.head(x), [8, 16], 1)
        values, chosen = scores.topk(4, 1)
        best, _ = torch.max(boxes, 1)
        return torch.gather(scores * 2, 1, chosen) + values, best, chosen


class Words(nn.Module):
    """Token numbers in, an embedding and a mean over those that are no padding."""

    def __init__(self):
        super().__init__()
        self.embed, self.layer = nn.Embedding(50, 12), nn.Linear(12, 20)

    def forward(self, tokens):
        there = (tokens != 0).unsqueeze(2)
        rows = torch.where(there, self.layer(self.embed(tokens)), torch.zeros(1))
        return rows.sum(1) / there.sum(1)


class Norms(nn.Module):
    """A transformer's block: layer norms, a gated product, a residual."""

    def __init__(self):
        super().__init__()
        self.norm, self.last = nn.LayerNorm(16), nn.LayerNorm(16)
        self.wide, self.gate, self.narrow = nn.Linear(16, 64), nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x):
        y = self.norm(x)
        return self.last(x + self.narrow(nn.functional.silu(self.gate(y)) * self.wide(y)))


def convolutions():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.Sigmoid(),
        nn.Flatten(), nn.Linear(2048, 5),
    )  # fmt: skip


class Mixed(nn.Module):
    """Layers for a delegate, and operators between them that none takes."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(20, 30), nn.Linear(30, 20)

    def forward(self, x):
        y = torch.relu(self.first(x))
        return self.second(torch.topk(torch.cumsum(y, 1) * 2, 30)[0] + y).sin()


CASES = {
    "attention of any length": lambda: Case(
        Attention(),
        [(randn(2, k, 16),) for k in (5, 24, 3)],
        ({1: N},),
    ),
    "attention of any length, weights transposed in the arena": lambda: Case(
        Attention(), [(randn(2, k, 16),) for k in (5, 24, 3)], ({1: N},), fold=False
    ),
    "views by the size of another result": lambda: Case(
        Reshaped(), [(randn(k, 12),) for k in (5, 24, 3)], ({0: N},)
    ),
    "cache": lambda: Case(Decoder(), tokens([0], [1], [2])),
    "cache, written in place": lambda: Case(
        Decoder(), tokens([0], [1], [2]), reinplace=True, rival=False
    ),
    "cache, any number of tokens": lambda: Case(
        Decoder(48),
        tokens([0, 1, 2], [3, 4, 5, 6], [7, 8, 9]),
        ({1: N}, {0: N}),
    ),
    "cache, any number of tokens, written in place": lambda: Case(
        Decoder(48),
        tokens([0, 1, 2], [3, 4, 5, 6], [7, 8, 9]),
        ({1: N}, {0: N}),
        reinplace=True,
        rival=False,
    ),
    "streaming with variables": lambda: Case(Streaming(), runs(1, 12)),
    "a cell whose state is a variable": lambda: Case(Carried(), runs(1, 10)),
    "lstm": lambda: Case(Recurrent(nn.LSTM), runs(2, 7, 10)),
    "gru": lambda: Case(Recurrent(nn.GRU), runs(2, 7, 10)),
    "rnn": lambda: Case(Recurrent(nn.RNN), runs(2, 7, 10)),
    "cond": lambda: Case(Choice(), [(sign * randn(3, 12).abs(),) for sign in (1, -1, 2)]),
    "map": lambda: Case(Rows(), runs(5, 12)),
    "aliased outputs": lambda: Case(Aliases(), runs(4, 6)),
    "transposed convolutions": lambda: Case(Upsampling(), runs(1, 3, 16, 16)),
    "several results and indices": lambda: Case(Detector(), runs(6, 16)),
    "tokens": lambda: Case(
        Words(), [(torch.tensor([[k + 1, 7, 49, k, 0, 0], [2, 0, 0, 0, 0, 9]]),) for k in range(3)]
    ),
    "gated block": lambda: Case(Norms(), runs(2, 9, 16)),
    "delegate": lambda: Case(convolutions(), runs(1, 3, 16, 16), delegate=True),
    "delegate and any length": lambda: Case(
        Mixed(), [(randn(k, 20),) for k in (5, 24, 3)], ({0: N},), delegate=True
    ),
    "int8": lambda: Case(convolutions(), runs(1, 3, 16, 16), quantize=True),
    "int8, delegate": lambda: Case(
        convolutions(), runs(1, 3, 16, 16), quantize=True, delegate=True
    ),
}


def lowered(case):
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    model = copy.deepcopy(case.model).eval().requires_grad_(False)
    exported = torch.export.export(model, case.runs[0], dynamic_shapes=case.shapes, strict=False)
    if case.quantize:
        import executorch.kernels.quantized  # noqa: F401  (registers its kernels)
        from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
            XNNPACKQuantizer,
            get_symmetric_quantization_config,
        )
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
        prepared = prepare_pt2e(exported.module(), quantizer)
        for inputs in case.runs:
            prepared(*inputs)
        exported = torch.export.export(convert_pt2e(prepared), case.runs[0])
    if case.delegate:
        edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    else:
        edge = to_edge(exported)
    return fold_constants(edge) if case.fold else edge


def finished(case, edge, planning=None):
    # Variables start as they are in the model, not as the memory happens to be.
    starts = [InitializedMutableBufferPass([name for name, _ in case.model.named_buffers()])]
    return finish(edge, planning, passes=starts, run_reinplace_pass=case.reinplace)


def run_all(program, case):
    """Results of all runs, and the bytes that the runtime took to load the program."""
    code = program.buffer
    before = held_bytes()
    method = Runtime.get().load_program(code).load_method("forward")
    taken = held_bytes() - before
    return [
        [torch.as_tensor(result).clone() for result in method.execute(inputs)]
        for inputs in case.runs
    ], taken


def held_bytes():
    """Bytes that the C library has given out, 0 where it does not tell."""
    library = ctypes.CDLL(None)
    if not sys.platform.startswith("linux") or not hasattr(library, "mallinfo2"):
        return 0

    class Info(ctypes.Structure):
        """glibc's ``struct mallinfo2``."""

        _fields_ = [(f"field{k}", ctypes.c_size_t) for k in range(10)]

    library.mallinfo2.restype = Info
    info = library.mallinfo2()
    # Of mapped blocks (hblkhd) and of others that are in use (uordblks).
    return info.field4 + info.field7


def expected(case):
    model = copy.deepcopy(case.model).eval()
    with torch.no_grad():
        results = [model(*inputs) for inputs in case.runs]
    return [list(r) if isinstance(r, tuple) else [r] for r in results]


@pytest.mark.parametrize("kind", CASES)
def test_kinds_of_models_run_alike_in_the_bytes_that_are_stated(kind):
    torch.manual_seed(0)
    case = CASES[kind]()
    edge = lowered(case)
    default = finished(case, edge)
    wanted, taken = run_all(default, case)
    assert not same(wanted[0], wanted[1])
    if not case.quantize and case.rival:
        for results, others in zip(wanted, expected(case), strict=True):
            for result, other in zip(results, others, strict=True):
                torch.testing.assert_close(result, other, atol=1e-3, rtol=1e-3)
    for planning in (algorithm(**FAST), planning_pass(**FAST)):
        program = finished(case, edge, planning)
        verify_program(program)
        results, bytes_taken = run_all(program, case)
        if case.rival:
            assert all(same(a, b) for a, b in zip(results, wanted, strict=True))
        else:
            for result, other in zip(results, expected(case), strict=True):
                torch.testing.assert_close(result, other, atol=1e-3, rtol=1e-3)
        stated = bytes_of(program)
        assert stated <= bytes_of(default)
        read = deserialize_pte_binary(program.buffer).program.execution_plan[0]
        assert sum(read.non_const_buffer_sizes) == stated
        # The rest of what is loaded is the same; blocks are rounded up to pages.
        assert bytes_taken - taken <= stated - bytes_of(default) + 2 * 4096
        (arranged,) = getattr(planning, "arrangements", []) or [None]
        if arranged is not None and arranged.lower_bound is not None:
            assert arranged.lower_bound <= stated
