"""Files of ONNX models: which are read, what is refused, and what is loaded to read them."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support.onnx_texts import model

from cpplan.model.errors import InputError, MissingExtraError

onnx = pytest.importorskip("onnx")
from onnx import numpy_helper  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402

SMALL = model("g (float[4] x) => (float[4] y) { t = Relu(x) y = Exp(t) }").SerializeToString()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: No such file"),
        (b"", "not an ONNX model"),
        (b"not an onnx file, just text\n", "not an ONNX model"),
        (b'{"format": "cpplan.graph", "version": 1}', "not an ONNX model"),
        (random.Random(0).randbytes(500), "not an ONNX model"),
        (SMALL[: len(SMALL) // 2], "not an ONNX model, or cut short"),
        (SMALL[:-1], "not an ONNX model"),
        (SMALL.replace(b"\x01t", b"\x01\xff"), "not UTF-8"),
    ],
    ids=["missing", "empty", "text", "json", "random", "half", "last byte", "not utf-8"],
)
def test_a_file_that_is_no_model_is_refused_by_name(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "bad.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_onnx(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert reason in message
    assert "\n" not in message


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a regular file"):
        read_onnx(tmp_path)


def test_every_truncation_and_many_corruptions_are_read_or_refused(tmp_path: Path) -> None:
    path, rng = tmp_path / "broken.onnx", random.Random(1)
    broken = [SMALL[:length] for length in range(len(SMALL))]
    for _ in range(300):
        corrupt = bytearray(SMALL)
        corrupt[rng.randrange(len(corrupt))] = rng.randrange(256)
        broken.append(bytes(corrupt))
    refusals = []
    for content in broken:
        path.write_bytes(content)
        try:
            read_onnx(path)
        except InputError as error:
            refusals.append(str(error))
    assert all(text.startswith(f"{path}: ") and "\n" not in text for text in refusals)
    assert len(refusals) >= len(SMALL)  # every truncation, at least


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[onnx\]'"):
        read_onnx("any.onnx")


def test_the_reader_loads_onnx_only_when_it_reads() -> None:
    code = "import sys, cpplan.io.execution, cpplan.io.onnx.model;"
    code += "sys.exit('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_name_is_the_files_the_models_or_the_callers(tmp_path: Path) -> None:
    path = tmp_path / "net.v2.onnx"
    path.write_bytes(SMALL)
    loaded = onnx.ModelProto.FromString(SMALL)
    assert read_onnx(path).name == "net.v2"
    assert read_onnx(loaded).name == "g"
    assert read_onnx(path, name="mine").name == "mine"


def test_a_loaded_model_is_left_as_it_was() -> None:
    loaded = model("g (float[N] x) => (float[N] y) { y = Relu(x) }")
    before = loaded.SerializeToString(deterministic=True)
    read_onnx(loaded, {"N": 3})
    assert loaded.SerializeToString(deterministic=True) == before


def test_weights_in_another_file_are_not_needed(tmp_path: Path) -> None:
    loaded = model("g (float[4,4] x) => (float[4,4] y) { y = MatMul(x, w) }")
    weight = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    loaded.graph.initializer.append(weight)
    onnx.external_data_helper.set_external_data(loaded.graph.initializer[0], "weights.bin")
    loaded.graph.initializer[0].ClearField("raw_data")
    path = tmp_path / "m.onnx"
    path.write_bytes(loaded.SerializeToString())
    assert read_onnx(path).tensor["w"].nbytes == 64


def calling(levels: int, leaf: list[onnx.NodeProto], *, times: int = 2) -> onnx.ModelProto:
    """A model of nested functions; each calls the function below it ``times`` times."""
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("local", 1)]
    functions = [onnx.helper.make_function("local", "f0", ["x"], ["y"], leaf, opsets)]
    for level in range(1, levels):
        names = ["x", *(f"t{k}" for k in range(1, times)), "y"]
        nodes = [
            onnx.helper.make_node(f"f{level - 1}", [before], [after], domain="local")
            for before, after in pairwise(names)
        ]
        functions.append(
            onnx.helper.make_function("local", f"f{level}", ["x"], ["y"], nodes, opsets)
        )
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(f"f{levels - 1}", ["a"], ["b"], domain="local")],
        "g", [value("a", 1, [4])], [value("b", 1, [4])],
    )  # fmt: skip
    return onnx.helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=8)


RELU = onnx.helper.make_node("Relu", ["x"], ["y"])


@pytest.mark.parametrize("levels", [17, 25, 500])
def test_functions_that_write_out_to_many_nodes_are_refused(levels: int) -> None:
    deep = calling(levels, [RELU])
    assert deep.ByteSize() < 100_000
    with pytest.raises(InputError, match=r"its functions are \d+ nodes when written out: expected"):
        read_onnx(deep)


def test_functions_that_write_out_to_many_bytes_are_refused() -> None:
    weights = numpy_helper.from_array(np.zeros(1 << 18, np.float32), "w")
    constant = onnx.helper.make_node("Constant", [], ["w"], value=weights)
    heavy = calling(11, [constant, RELU])
    with pytest.raises(InputError, match=r"its functions are 1[.0]* GiB when written out"):
        read_onnx(heavy)


def test_functions_in_many_levels_that_are_called_once_are_read() -> None:
    graph = read_onnx(calling(90, [RELU], times=1))
    assert [op.kind for op in graph.ops] == ["Relu"]


def test_functions_that_are_called_as_often_as_models_do_are_read() -> None:
    assert len(read_onnx(calling(8, [RELU], times=2)).ops) == 128
