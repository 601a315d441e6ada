"""Weights in other files: what a model says of them is checked before anything is read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from support.onnx_texts import model

import cpplan
from cpplan.cli.main import main
from cpplan.io.onnx.external import load_external_data
from cpplan.io.onnx.model import read_onnx
from cpplan.model.errors import InputError

WANTED = 64  # bytes of the weight


def write_model(folder: Path, *entries: tuple[str, str], dims: tuple[int, int] = (4, 4)) -> Path:
    """A product with one weight in another file, described by these entries."""
    weight = onnx.TensorProto(name="w", data_type=1, dims=dims, data_location=1)
    for key, value in entries:
        weight.external_data.add(key=key, value=value)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")], "g",
        [value("x", 1, [1, dims[0]])], [value("y", 1, [1, dims[1]])], [weight],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    path = folder / "m.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    )
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with weights, links and a pipe, beside a file that no model may read."""
    (tmp_path / "secret").write_bytes(b"S" * WANTED)
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "w.bin").write_bytes(bytes(range(WANTED)))
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "sub" / "up").symlink_to(tmp_path)
    os.link(tmp_path / "secret", folder / "hard")
    os.mkfifo(folder / "pipe")
    with open(folder / "sparse", "wb") as stream:
        stream.truncate(1 << 33)
    return folder


WRONG = {
    "up": [("location", "../secret")],
    "up again": [("location", "sub/../../secret")],
    "absolute": [("location", "/etc/passwd")],
    "link": [("location", "link")],
    "through a link": [("location", "sub/up/secret")],
    "hard link": [("location", "hard")],
    "pipe": [("location", "pipe")],
    "folder": [("location", "sub")],
    "missing": [("location", "none.bin")],
    "empty": [("location", "")],
    "NUL": [("location", "w\0.bin")],
    "long": [("location", "a" * 5000)],
    "backslash": [("location", "..\\secret")],
    "twice": [("location", "w.bin"), ("location", "../secret")],
    "negative": [("location", "w.bin"), ("offset", "-4")],
    "words": [("location", "w.bin"), ("offset", "four")],
    "other digits": [("location", "w.bin"), ("offset", "٣")],
    "beyond": [("location", "w.bin"), ("offset", "4")],
    "short": [("location", "w.bin"), ("length", "32")],
    "long length": [("location", "sparse"), ("length", str(1 << 32))],
    "digits": [("location", "w.bin"), ("length", "9" * 6000)],
}


@pytest.mark.parametrize("entries", WRONG.values(), ids=WRONG)
def test_what_a_file_says_wrong_of_its_weights_is_refused(folder, entries, capsys):
    path, target = write_model(folder, *entries), folder.parent / "out" / "m.onnx"
    target.parent.mkdir()
    model = onnx.load(path, load_external_data=False)
    with pytest.raises(InputError, match="its weights cannot be read: tensor 'w' in file '"):
        load_external_data(model, folder)
    plan = folder / "plan.json"
    cpplan.solve(read_onnx(path)).save(plan)
    before = sorted(folder.iterdir())
    for command in (
        ("plan", str(path), "-q", "--onnx", str(target)),
        ("plan", str(path), "-q", "--onnx", str(folder / "beside.onnx")),
        ("verify", str(path), str(plan), "--execute"),
    ):
        assert main([*command]) == 2
        printed = capsys.readouterr().err.strip()
        assert "\n" not in printed
        assert "m.onnx" in printed
        assert len(printed) < 400
    assert sorted(folder.iterdir()) == before
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("link", "is a link, or lies in one: expected a file of the model's folder"),
        ("sub/up/secret", "is a link, or lies in one"),
        ("loop", "Too many levels of symbolic links"),
        ("w\0.bin", "expected a path without NUL"),
    ],
)
def test_weights_behind_a_link_are_refused_as_such(folder, location, reason):
    (folder / "loop").symlink_to(folder / "loop")
    model = onnx.load(write_model(folder, ("location", location)), load_external_data=False)
    with pytest.raises(InputError, match=reason):
        load_external_data(model, folder)


def test_only_the_bytes_of_a_weight_are_read(folder):
    model = onnx.load(
        write_model(folder, ("location", "sparse"), ("offset", "8")), load_external_data=False
    )
    load_external_data(model, folder)
    assert model.graph.initializer[0].raw_data == bytes(WANTED)


def test_a_weight_larger_than_its_file_is_not_written(folder):
    path = write_model(folder, ("location", "w.bin"), dims=(1 << 20, 1 << 20))
    target = folder.parent / "m.onnx"
    assert main(["plan", str(path), "-q", "--onnx", str(target)]) == 2
    assert [name for name in os.listdir(folder.parent) if "onnx" in name] == []


def test_weights_over_one_another_are_bounded(folder, monkeypatch):
    from cpplan.io.onnx import external

    path = write_model(folder, ("location", "w.bin"))
    model = onnx.load(path, load_external_data=False)
    for k in range(3):
        model.graph.initializer.add().CopyFrom(model.graph.initializer[0])
        model.graph.initializer[-1].name = f"w{k}"
    load_external_data(onnx.ModelProto.FromString(model.SerializeToString()), folder)
    monkeypatch.setattr(external, "MOST_UNPACKED", 0)
    with pytest.raises(InputError, match="take 256 B, but their files hold 64 B"):
        load_external_data(model, folder)


def test_keys_of_other_tools_are_ignored(folder, recwarn):
    path = write_model(folder, ("location", "w.bin"), ("checksum", "0"), ("mine", "1"))
    model = onnx.load(path, load_external_data=False)
    load_external_data(model, folder)
    found = np.frombuffer(model.graph.initializer[0].raw_data, np.uint8)
    assert found.tolist() == list(range(WANTED))
    assert len(recwarn) == 0


def test_weights_in_another_file_are_read(tmp_path: Path) -> None:
    loaded = model("g (float[4] x) => (float[4] y) { y = Mul(x, w) }")
    weight = onnx.numpy_helper.from_array(np.array([1, 2, 3, 4], np.float32), "w")
    loaded.graph.initializer.append(weight)
    path = tmp_path / "m.onnx"
    onnx.save(loaded, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    plan = cpplan.solve(read_onnx(path))
    done = cpplan.execute(path, plan, inputs={"x": np.ones(4, np.float32)})
    np.testing.assert_array_equal(done.outputs["y"], [1, 2, 3, 4])
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(InputError, match=r"m\.onnx: its weights cannot be read"):
        cpplan.execute(path, plan)


@pytest.mark.parametrize("location", ["../secret", "{outside}", "link"])
def test_weights_outside_the_models_folder_are_refused(tmp_path, location):
    outside, folder = tmp_path / "secret", tmp_path / "model"
    folder.mkdir()
    outside.write_bytes(bytes(16))
    (folder / "link").symlink_to(outside)
    weights = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=1)
    weights.external_data.add(key="location", value=location.format(outside=outside))
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("Add", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph(
        [node], "g", [value("x", 1, [4])], [value("y", 1, [4])], initializer=[weights]
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    path = folder / "m.onnx"
    onnx.save_model(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    plan = cpplan.solve(cpplan.load(path))
    with pytest.raises(InputError, match=r"m\.onnx: its weights cannot be read"):
        cpplan.execute(path, plan)
