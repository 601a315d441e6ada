"""Forms of operators that ONNX's reference kernels do not run, by the operators' definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
from onnx import parser

from cpplan.io.onnx.kernels import make_kernel

DATA = np.arange(12, dtype=np.float32).reshape(3, 4)


def run(text: str, **values: Any) -> dict[str, np.ndarray]:
    """Results of the one node of a graph's body."""
    graph = parser.parse_graph(f"g (float x) => (float y) {{ {text} }}")
    return make_kernel(graph.node[0], {}, {"": 17})(values)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_negative_pads_cut(mode: str) -> None:
    pads = np.array([-1, 2, 0, -1])
    found = run(f'y = Pad<mode = "{mode}">(x, pads)', x=DATA, pads=pads)["y"]
    rows = [[4, 5, 6], [8, 9, 10]]
    before = {"constant": lambda r: [0, 0], "edge": lambda r: [r[0]] * 2,
              "reflect": lambda r: [r[2], r[1]]}[mode]  # fmt: skip
    np.testing.assert_array_equal(found, [[*before(row), *row] for row in rows])


def test_negative_pads_of_some_axes() -> None:
    given = {"pads": np.array([-2, 1]), "value": np.array(7, np.float32), "axes": np.array([-1])}
    found = run("y = Pad(x, pads, value, axes)", x=DATA, **given)["y"]
    np.testing.assert_array_equal(found, [[2, 3, 7], [6, 7, 7], [10, 11, 7]])


def test_negative_pads_of_old_opsets() -> None:
    graph = parser.parse_graph(
        "g (float x) => (float y) { y = Pad<pads = [-1, 0, 0, -2], value = 7.0>(x) }"
    )
    found = make_kernel(graph.node[0], {}, {"": 10})({"x": DATA})["y"]
    np.testing.assert_array_equal(found, DATA[1:, :2])


@pytest.mark.parametrize("axis", [0, -1])
def test_fewer_elements_are_gathered_than_there_are(axis: int) -> None:
    indices = np.array([[2, 0, 1], [0, -1, 2]])
    found = run(f"y = GatherElements<axis = {axis}>(x, indices)", x=DATA, indices=indices)["y"]
    expected = [
        [DATA[at, k] if axis == 0 else DATA[row, at] for k, at in enumerate(listed)]
        for row, listed in enumerate(indices)
    ]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(2, 40), (2, 40, 1)])
@pytest.mark.parametrize("one_side", [0, 1])
def test_spectra_of_real_signals(shape: tuple[int, ...], one_side: int) -> None:
    rng, bins, step = np.random.default_rng(0), 16, 8
    signal = rng.standard_normal(shape).astype(np.float32)
    window = rng.standard_normal(bins).astype(np.float32)
    found = run(
        f"y = STFT<onesided = {one_side}>(x, step, w)", x=signal, step=np.array(step), w=window
    )["y"]
    waves = np.exp(-2j * np.pi * np.outer(np.arange(bins), np.arange(bins)) / bins)
    kept = bins // 2 + 1 if one_side else bins
    assert found.shape == (2, 4, kept, 2)
    for k in range(4):
        frame = signal.reshape(2, 40)[:, k * step : k * step + bins] * window
        expected = frame @ waves[:, :kept]
        np.testing.assert_allclose(found[:, k, :, 0], expected.real, atol=1e-4)
        np.testing.assert_allclose(found[:, k, :, 1], expected.imag, atol=1e-4)


@pytest.mark.parametrize("backwards", [False, True])
def test_scans_along_other_axes_and_backwards(backwards: bool) -> None:
    """Running sums along the columns; each is stacked along the last axis."""
    turn = int(backwards)
    found = run(
        f"""last, y = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [-1],
            scan_input_directions = [{turn}], scan_output_directions = [{turn}],
            body = step (float[3] s, float[3] c) => (float[3] t, float[3] u) {{
                t = Add(s, c) u = Identity(t) }}>(start, x)""",
        x=DATA,
        start=np.ones(3, np.float32),
    )
    columns = DATA[:, ::-1] if backwards else DATA
    sums = 1 + np.cumsum(columns, axis=1)
    np.testing.assert_array_equal(found["last"], sums[:, -1])
    np.testing.assert_array_equal(found["y"], sums[:, ::-1] if backwards else sums)
