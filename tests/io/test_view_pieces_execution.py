"""ONNX networks with views and moves in pieces: channel shuffles, tokens, attention of one head."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.cases import seeds

onnx = pytest.importorskip("onnx")
from support.onnx_networks import OnnxNetwork  # noqa: E402
from support.split_plans import plan_in_pieces, random_pieces  # noqa: E402

import cpplan  # noqa: E402
from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.model.errors import InputError, VerificationError  # noqa: E402
from cpplan.model.pieces import Pieces  # noqa: E402
from cpplan.model.residency import Residency  # noqa: E402
from cpplan.program.anf import to_anf  # noqa: E402
from cpplan.splitting.frontier import Choice  # noqa: E402
from cpplan.splitting.piece_graph import split_graph  # noqa: E402
from cpplan.splitting.problem import SplitProblem  # noqa: E402
from cpplan.splitting.region import Region  # noqa: E402
from cpplan.splitting.schedule import schedule  # noqa: E402
from cpplan.splitting.styles import Style  # noqa: E402


class ViewNetwork(OnnxNetwork):
    """A network in the making, with views."""

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("Reshape", [x, self._constant(np.array(shape, np.int64))])

    def shuffle(self, x: str, groups: int) -> str:
        """Channels of several groups one by one from each."""
        batch, channels, rows, columns = self.shape[x]
        apart = self.reshape(x, batch, groups, channels // groups, rows, columns)
        turned = self.op("Transpose", [apart], perm=[0, 2, 1, 3, 4])
        return self.reshape(turned, batch, channels, rows, columns)

    def tokens(self, x: str) -> str:
        """Positions of an image as rows of a matrix."""
        batch, channels, rows, columns = self.shape[x]
        flat = self.reshape(x, batch, channels, rows * columns)
        return self.op("Transpose", [flat], perm=[0, 2, 1])

    def linear(self, x: str, columns: int) -> str:
        weights = self.rng.standard_normal((self.shape[x][-1], columns)) / 4
        return self.op("MatMul", [x, self._constant(weights.astype(np.float32))])

    def attention(self, x: str) -> str:
        """Scores of all pairs of rows, their softmax, and sums of the rows by it."""
        query, key, value = (self.linear(x, 4) for _ in range(3))
        turned = self.op("Transpose", [key], perm=[0, 2, 1])
        scores = self.op("Softmax", [self.op("MatMul", [query, turned])], axis=-1)
        return self.op("MatMul", [scores, value])


def view_network(seed: int) -> onnx.ModelProto:
    """A convolution, then views of one of three kinds, then another layer."""
    net = ViewNetwork(seed)
    rng = net.rng
    rows, columns = (2 * int(rng.integers(2, 6)) for _ in range(2))
    x = net.conv(net.image(1, 3, rows, columns), 4, pads=[1] * 4)
    kind = seed % 4
    given: dict[str, Any] = {"pads": [1] * 4}
    if kind == 0:
        y = net.conv(net.shuffle(net.op("Relu", [x]), 2), 4, **given)
    elif kind == 1:
        y = net.attention(net.tokens(x))
    elif kind == 2:
        y = net.linear(net.op("Relu", [net.tokens(net.shuffle(x, 2))]), 3)
    else:
        squeezed = net.op("Squeeze", [net.op("Sigmoid", [x])])
        y = net.op("Softmax", [net.op("Transpose", [squeezed], perm=[1, 0, 2])], axis=1)
    return net.model(y)


@pytest.mark.parametrize("seed", seeds(12))
def test_networks_with_views_compute_the_same_in_pieces(seed: int) -> None:
    print(f"seed {seed}")
    model = view_network(seed)
    graph = read_onnx(model)
    plan = plan_in_pieces(graph, random_pieces(random.Random(seed), graph))
    cpplan.verify(graph, plan)
    done = cpplan.execute(model, plan)
    whole = cpplan.execute(model, cpplan.solve(graph, time_limit=1))
    for name, value in whole.outputs.items():
        # Without pieces, kernels add up in the order that a library chooses.
        np.testing.assert_allclose(done.outputs[name], value, rtol=1e-4, atol=1e-5)


def test_the_shuffle_of_channels_is_cut_between_rows() -> None:
    model = view_network(0)
    graph = read_onnx(model)
    pieces = [Pieces(op.name, ("rows",), ((4,),)) for op in graph.ops]
    plan = plan_in_pieces(graph, pieces)
    cpplan.verify(graph, plan)
    bands = split_graph(graph, pieces).graph.tensor
    assert bands["t2[0:4]"].view_of == ("t1[0:4]", 0)
    assert plan.peak < cpplan.solve(graph, in_place=True, time_limit=1).peak
    cpplan.execute(model, plan)


def window_network() -> onnx.ModelProto:
    """Two layers over windows of 4 x 4 positions of an image, and a sum with the image."""
    net = ViewNetwork(0)
    x = net.op("Relu", [net.image(1, 8, 8, 4)])
    apart = net.reshape(net.op("Neg", [x]), 1, 2, 4, 2, 4, 4)
    rows = net.reshape(net.op("Transpose", [apart], perm=[0, 1, 3, 2, 4, 5]), 4, 16, 4)
    wide = net.op("Relu", [net.linear(rows, 32)])
    back = net.reshape(net.linear(wide, 4), 1, 2, 2, 4, 4, 4)
    y = net.reshape(net.op("Transpose", [back], perm=[0, 1, 3, 2, 4, 5]), 1, 8, 8, 4)
    return net.model(net.op("Add", [x, y]))


def test_pieces_are_whole_windows() -> None:
    model = window_network()
    graph = read_onnx(model)
    problem = SplitProblem(to_anf(graph), Residency(), frozenset({"in place"}))
    # The view of what it writes has windows of four rows.
    neg = graph.op["neg1"]
    assert (problem.axes(neg)["channels"].extent, problem.steps(neg, "channels")) == (2, 4)
    style = Style("channels")
    whole = Region(problem, 0, len(graph.ops))
    run = whole.estimate(style)
    assert run is not None
    peaks = [Region(problem, k, k + 1).estimate(Style()) for k in range(len(graph.ops))]
    assert run.peak < max(found.peak for found in peaks if found is not None)
    pieces, program = schedule(problem, [Choice(0, len(graph.ops), style)])
    assert Pieces("neg1", ("channels",), ((4,),)) in pieces.cuts
    plan = plan_in_pieces(graph, pieces.cuts)
    assert len(plan.order) == len(program.order)
    cpplan.execute(model, plan)


def test_cuts_within_a_window_are_refused() -> None:
    graph = read_onnx(window_network())
    message = "axis 'channels' cannot be cut at 2: views allow only multiples of 4"
    with pytest.raises(InputError, match=message):
        split_graph(graph, [Pieces("neg1", ("channels",), ((2, 4),))])
    plan = plan_in_pieces(graph, [Pieces("neg1", ("channels",), ((4,),))])
    cpplan.verify(graph, plan)
    wrong = replace(plan, pieces=(Pieces("neg1", ("channels",), ((2,),)),))
    with pytest.raises(VerificationError, match=r"its outputs cannot be cut at \[2\]"):
        cpplan.verify(graph, wrong)
