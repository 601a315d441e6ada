"""Pieces of every kind of operator that can be cut are written as operators of equal bytes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")
from ai_edge_litert import schema_py_generated as schema
from support.cases import seeds
from support.split_plans import plan_in_pieces, random_pieces
from support.tflite_net import FLOAT32, INT8, Net, new_net
from support.tflite_runtimes import draw_inputs, equal, run_litert, run_micro

import cpplan
from cpplan.cli.main import main
from cpplan.io.tflite import read_tflite
from cpplan.io.tflite.graph import translate
from cpplan.io.tflite.model import parse_model
from cpplan.io.tflite.split_model import split_tflite
from cpplan.model.errors import InputError


def options(kind: str, **values: Any) -> Any:
    """Options of a kind of operator."""
    made = getattr(schema, f"{kind}OptionsT")()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def pool(net: Net, kind: str, x: int, name: str, same: bool) -> int:
    """A pool of windows of 3 by 2 with a stride of 2 along the rows."""
    n, rows, columns, channels = net.shape(x)
    made = options("Pool2D", padding=0 if same else 1, strideH=2, strideW=1, filterHeight=3,
                   filterWidth=2)  # fmt: skip
    shape = (n, (rows + 1) // 2 if same else (rows - 1) // 2, columns if same else columns - 1)
    return net.run(kind, name, [x], (*shape, channels), made)


def resize(net: Net, kind: str, x: int, name: str, times: tuple[int, int], half: bool) -> int:
    n, rows, columns, channels = net.shape(x)
    size = (rows * times[0], columns * times[1])
    label = "ResizeBilinear" if kind == "RESIZE_BILINEAR" else "ResizeNearestNeighbor"
    made = options(label, halfPixelCenters=half)
    sizes = net.numbers(f"{name} size", size)
    return net.run(kind, name, [x, sizes], (n, *size, channels), made)


def blocks(net: Net, x: int, name: str) -> int:
    n, rows, columns, channels = net.shape(x)
    deep = (n, rows // 2, columns // 2, channels * 4)
    y = net.run("SPACE_TO_DEPTH", f"{name} deep", [x], deep, options("SpaceToDepth", blockSize=2))
    return net.run("DEPTH_TO_SPACE", name, [y], (n, rows, columns, channels),
                   options("DepthToSpace", blockSize=2))  # fmt: skip


def padded(net: Net, x: int, name: str, kind: str) -> int:
    n, rows, columns, channels = net.shape(x)
    pads = net.numbers(f"{name} pads", [[0, 0], [3, 2], [0, 1], [0, 0]])
    inputs = [x, pads]
    if kind == "PADV2":
        data = np.array(3, np.int8 if net.dtype == INT8 else np.float32)
        inputs.append(net.tensor(f"{name} value", [], data=data))
    made = options("MirrorPad") if kind == "MIRROR_PAD" else None
    if kind == "MIRROR_PAD":
        pads = net.numbers(f"{name} pads too", [[0, 0], [2, 2], [0, 0], [0, 0]])
        return net.run(kind, name, [x, pads], (n, rows + 4, columns, channels), made)
    return net.run(kind, name, inputs, (n, rows + 5, columns + 1, channels), made)


def taken(net: Net, x: int, name: str) -> int:
    n, rows, columns, channels = net.shape(x)
    begin, size = (0, 1, 2, 0), (n, rows - 1, columns - 2, channels)
    y = net.run(
        "SLICE", f"{name} slice", [x, *(net.numbers(f"{name} {v}", v) for v in (begin, size))],
        size, options("Slice"),
    )  # fmt: skip
    ends = ((0, 1, 0, 0), size, (1, 2, 1, 1))
    return strided(net, y, name, ends, (n, (rows - 1) // 2, columns - 2, channels))


def strided(
    net: Net, x: int, name: str, ends: Sequence[Sequence[int]], shape: Sequence[int], masks: int = 0
) -> int:
    """A slice with begins, ends and steps; ``masks`` are the axes whose ends do not count."""
    numbers = [net.numbers(f"{name} to {v}", v) for v in ends]
    made = options("StridedSlice", beginMask=masks, endMask=masks)
    return net.run("STRIDED_SLICE", name, [x, *numbers], tuple(shape), made)


def backwards(net: Net, x: int, name: str) -> int:
    """All columns from the last to the first, then every other row from the last but one."""
    n, rows, columns, channels = net.shape(x)
    ends = ((0, 0, 0, 0), (0, 0, 0, 0), (1, 1, -1, 1))
    y = net.relu(f"{name} relu", strided(net, x, f"{name} flip", ends, net.shape(x), 0b1111))
    ends = ((0, -2, 0, 0), (n, 0, columns, channels), (1, -2, 1, 1))
    return strided(net, y, name, ends, (n, (rows - 1) // 2, columns, channels))


def tokens(net: Net, x: int, name: str) -> int:
    """A dense operator for each position of the image, as transformers have them."""
    n, rows, columns, channels = net.shape(x)
    y = net.reshape(f"{name} in a row", net.relu(f"{name} relu", x), (n, rows * columns, channels))
    y = net.dense(f"{name} dense", y, channels, keeps_axes=True)
    return net.reshape(name, net.relu(f"{name} again", y), (n, rows, columns, channels))


def reshaped(net: Net, x: int, name: str) -> int:
    n, rows, columns, channels = net.shape(x)
    flat = net.reshape(f"{name} flat", net.relu(f"{name} relu", x), (n, rows, columns * channels))
    return net.reshape(name, net.relu(f"{name} again", flat), (n, rows, columns, channels))


def stacked(net: Net, x: int, name: str) -> int:
    n, rows, columns, channels = net.shape(x)
    y = net.run("PACK", f"{name} packed", [x, x], (n, rows, 2, columns, channels),
                options("Pack", valuesCount=2, axis=2))  # fmt: skip
    if net.dtype == FLOAT32:
        zeros = net.run("ZEROS_LIKE", f"{name} 0", [y], net.shape(y), options("ZerosLike"))
        y = net.add(f"{name} sum", y, zeros)
    return net.reshape(name, y, (n, rows, 2 * columns, channels))


def parted(net: Net, x: int, name: str, kind: str) -> int:
    """The image taken apart along its four channels, and joined again."""
    n, rows, columns, channels = net.shape(x)
    if kind == "SPLIT":
        parts = net.split(f"{name} parts", x, 2, 3)
    elif kind == "SPLIT_V":
        parts = [net.tensor(f"{name} part {k}", (n, rows, columns, k)) for k in (1, 3)]
        inputs = [x, net.numbers(f"{name} sizes", [1, 3]), net.numbers(f"{name} axis", 3)]
        net.subgraph.run(kind, inputs, parts, options("SplitV", numSplits=2), 2)
    else:
        parts = [net.tensor(f"{name} part {k}", (n, rows, columns)) for k in range(channels)]
        net.subgraph.run(kind, [x], parts, options("Unpack", num=channels, axis=3), 2)
    ends = [net.relu(f"{name} relu", parts[0]), *parts[1:]]
    if kind != "UNPACK":
        return net.concatenate(f"{name} joined", ends)
    made = options("Pack", valuesCount=channels, axis=3)
    return net.run("PACK", name, ends, (n, rows, columns, channels), made)


LAYERS: dict[str, Callable[[Net, int, str], int]] = {
    "max pool": lambda net, x, name: pool(net, "MAX_POOL_2D", x, name, True),
    "average pool": lambda net, x, name: pool(net, "AVERAGE_POOL_2D", x, name, True),
    "plain pool": lambda net, x, name: pool(net, "AVERAGE_POOL_2D", x, name, False),
    "nearest": lambda net, x, name: resize(net, "RESIZE_NEAREST_NEIGHBOR", x, name, (3, 2), False),
    "nearest half": lambda net, x, name: resize(
        net, "RESIZE_NEAREST_NEIGHBOR", x, name, (2, 1), True
    ),
    "bilinear": lambda net, x, name: resize(net, "RESIZE_BILINEAR", x, name, (2, 3), False),
    "bilinear half": lambda net, x, name: resize(net, "RESIZE_BILINEAR", x, name, (4, 2), True),
    "up": lambda net, x, name: net.upconv(name, x, 3),
    "blocks": blocks,
    "pad": lambda net, x, name: padded(net, x, name, "PAD"),
    "padv2": lambda net, x, name: padded(net, x, name, "PADV2"),
    "mirror": lambda net, x, name: padded(net, x, name, "MIRROR_PAD"),
    "taken": taken,
    "backwards": backwards,
    "tokens": tokens,
    "reshaped": reshaped,
    "split": partial(parted, kind="SPLIT"),
    "split v": partial(parted, kind="SPLIT_V"),
    "stacked": stacked,
    "unpacked": partial(parted, kind="UNPACK"),
}


@pytest.mark.parametrize("dtype", [INT8, FLOAT32], ids=["int8", "float32"])
@pytest.mark.parametrize("layer", LAYERS)
def test_what_can_be_cut_can_be_written_and_executed(
    layer: str, dtype: int, tmp_path: Path
) -> None:
    model, net = new_net("net", dtype)
    x = net.conv("conv", net.input("x", [1, 8, 6, 2]), 4)
    net.output(net.conv("last", LAYERS[layer](net, x, "y"), 2))
    data, path = model.pack(), tmp_path / "net.tflite"
    path.write_bytes(data)
    graph, file = read_tflite(data), parse_model(data)
    runs = draw_inputs(data)
    # LiteRT has no reference kernel of blocks of integers; other kernels of floats round by shape.
    blocks_of_integers = layer == "blocks" and dtype == INT8
    kernels = {"delegates": False} if blocks_of_integers else {"reference": True}
    whole = run_litert(data, runs, **kernels)
    for seed in seeds(4):
        plan = plan_in_pieces(graph, random_pieces(random.Random(seed), graph))
        written = split_tflite(file, translate(file, "net"), plan)
        assert equal(whole, run_litert(written, runs, **kernels))
        if find_spec("tflite_micro") is not None:
            assert equal(run_micro(data, runs, 1 << 18), run_micro(written, runs, 1 << 18))
        if not blocks_of_integers:
            assert cpplan.execute(path, plan).steps == len(plan.order)
    if blocks_of_integers:
        with pytest.raises(InputError, match="pieces run by reference kernels alone: "):
            cpplan.execute(path, plan)
        assert cpplan.execute(path, cpplan.solve(graph)).steps == len(graph.ops)


class Hybrid(Net):
    """A network of floats whose weights are integers: kernels quantize each sample by itself."""

    def weights(self, name: str, shape: Sequence[int], axis: int, dtype: int | None = None) -> int:
        data = self.random.integers(-127, 128, shape, dtype=np.int8)
        dense = len(shape) == 2  # per-channel scales came to this operator later
        scale = 0.01 if dense else [0.01] * shape[axis]
        return self.subgraph.tensor(name, list(shape), INT8, data=data, scale=scale, axis=axis)


def test_samples_that_kernels_quantize_are_not_cut() -> None:
    model, plain = new_net("net", FLOAT32)
    net = Hybrid(plain.subgraph, FLOAT32)
    x = net.conv("conv", net.input("x", [2, 8, 6, 3]), 4)
    x = net.conv("last", net.depthwise("depthwise", net.relu("relu", x)), 2)
    net.output(net.dense("dense", net.reshape("rows", x, (16, 12)), 5))
    data = model.pack()
    graph, file = read_tflite(data), parse_model(data)
    axes = {op.name: [axis.name for axis in op.axes] for op in graph.ops}
    assert axes["conv"] == axes["depthwise"] == axes["last"] == ["batch"]
    assert axes["dense"] == ["rows"]
    runs = draw_inputs(data)
    whole = run_litert(data, runs, delegates=False)
    for seed in seeds(8):
        plan = plan_in_pieces(graph, random_pieces(random.Random(seed), graph))
        written = split_tflite(file, translate(file, "net"), plan)
        assert equal(whole, run_litert(written, runs, delegates=False))


def test_the_command_line_writes_what_it_plans_in_pieces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, net = new_net("net", INT8)
    x = net.conv("conv", net.input("x", [1, 16, 8, 2]), 4)
    for layer in ("average pool", "up", "nearest half", "max pool", "reshaped"):
        x = net.relu(f"{layer} relu", LAYERS[layer](net, x, layer))
    net.output(net.conv("last", x, 2))
    path, written = tmp_path / "net.tflite", tmp_path / "written.tflite"
    path.write_bytes(model.pack())
    command = ["plan", str(path), "-q", "--split", "--in-place", "--piece-bytes", "0"]
    assert main([*command, "--time-limit", "1", "--tflite", str(written)]) == 0
    assert "micro arena  none" not in capsys.readouterr().out
    runs = draw_inputs(path.read_bytes())
    whole, pieces = (run_litert(p.read_bytes(), runs, reference=True) for p in (path, written))
    assert equal(whole, pieces)
    assert len(parse_model(written.read_bytes()).subgraphs[0].operators) > len(
        parse_model(path.read_bytes()).subgraphs[0].operators
    )
