"""Manifests: what they say, and how they are refused."""

from __future__ import annotations

import re

import pytest

from cpplan.batches.manifest import read_manifest
from cpplan.model.errors import InputError
from cpplan.model.pool import Pool


def _read(tmp_path, text):
    path = tmp_path / "m.toml"
    path.write_text(text)
    return read_manifest(path)


def test_models_and_settings_in_the_order_given(tmp_path):
    folder = tmp_path / "nets"
    folder.mkdir()
    for name in ("b.json", "a.ONNX", "notes.md"):
        (folder / name).touch()
    manifest = _read(
        tmp_path,
        """
        baselines = ["bump"]
        task_memory = "1 GiB"
        [[model]]
        source = "nets/"
        [[model]]
        source = "zoo://onnx/squeezenet"
        [[model]]
        source = "net.onnx"
        name = "net"
        dims = { N = 8, T = [1, 128], W = [1] }
        in_place = { Add = false }
        workspaces = { Conv = "64KiB" }
        [[setting]]
        name = "two pools"
        pools = [{ name = "sram", capacity = "1 KiB" }, { name = "dram" }]
        [[setting]]
        name = "drawn"
        order = "search"
        seeds = [0, 7]
        """,
    )
    names = [model.name for model in manifest.models]
    assert names == ["nets/a.ONNX", "nets/b.json", "zoo://onnx/squeezenet", "net"]
    assert manifest.models[1].source == str(folder / "b.json")
    assert manifest.models[2].source == "zoo://onnx/squeezenet"
    assert manifest.models[3].dims == {"N": 8, "T": (1, 128), "W": (1, None)}
    assert manifest.models[3].workspaces == {"Conv": "64KiB"}
    assert [setting.name for setting in manifest.settings] == [
        "two pools",
        "drawn, seed 0",
        "drawn, seed 7",
    ]
    assert manifest.settings[0].options["pools"] == (Pool("sram", 1024), Pool("dram"))
    assert manifest.settings[2].options == {"order": "search", "seed": 7, "workers": 1}
    assert manifest.run == {"baselines": ["bump"], "task_memory": "1 GiB"}


def test_a_pattern_is_every_model_file_that_matches(tmp_path):
    for name in ("nets/a/b.onnx", "nets/c.ONNX", "nets/c.md", "nets/[x].csv", "nets/x.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    manifest = _read(
        tmp_path,
        """
        [[model]]
        source = "nets/**/[a-c]*"
        [[model]]
        source = "nets/[x].csv"
        dims = { N = 1 }
        """,
    )
    # The last is a file's own name.
    names = [model.name for model in manifest.models]
    assert names == ["nets/a/b.onnx", "nets/c.ONNX", "nets/[x].csv"]
    assert manifest.models[0].source == str(tmp_path / "nets" / "a" / "b.onnx")


def test_a_folder_is_a_manifest_of_it_alone(tmp_path):
    (tmp_path / "b.csv").touch()
    (tmp_path / "a.tflite").touch()
    manifest = read_manifest(tmp_path)
    assert [model.name for model in manifest.models] == ["a.tflite", "b.csv"]
    assert [setting.name for setting in manifest.settings] == ["default"]


MODEL = '[[model]]\nsource = "a.csv"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no [[model]]: expected at least one"),
        ("[[model", "not TOML: "),
        ("modle = 1", "unknown key 'modle': expected 'model'"),
        ("model = 3", "expected [[model]]"),
        ("[[model]]\nsource = 3", "model 3: source must be a file, a folder or zoo://…, not 3"),
        (MODEL + "name = ''", "a model's name must be a non-empty string, not ''"),
        ("[[model]]\nsource = '*.onnx'", "*.onnx: matches no file in .onnx, "),
        ("[[model]]\nsource = '*.onnx'\nname = 'a'", "a folder or a pattern of models has no name"),
        (MODEL + "[[setting]]\nname='s'\nfirst=[1979-05-27]", "first must be a sequence of str"),
        (MODEL + "dim = 3", "model 'a.csv': unknown key 'dim': expected 'dims'"),
        (MODEL + "dims = { N = [1, 2, 3] }", "N = [1, 2, 3]: expected 8, [1, 128] or [1]"),
        (MODEL + "in_place = true", "in_place must say true or false of kinds of op"),
        (MODEL + "workspaces = 8", "workspaces must give bytes of kinds of op"),
        (MODEL + MODEL, "two models are named 'a.csv'"),
        (MODEL + "[[setting]]", "a setting's name must be a non-empty string, not None"),
        (MODEL + "[[setting]]\nname='s'\nalgoritm='x'", "unknown key 'algoritm': expected 'algo"),
        (MODEL + "[[setting]]\nname='s'\nalgorithm='x'", "setting 's': algorithm 'x' is not"),
        (
            MODEL + "[[setting]]\nname='s'\ntime_limit='1'",
            "time_limit must be a positive number of seconds, not '1'",
        ),
        (MODEL + "[[setting]]\nname='s'\nseeds=[1]\nseed=2", "stand instead of seed"),
        ("task_seconds = 0\n" + MODEL, "task_seconds must be positive, not 0"),
        ("baselines = 'bump'\n" + MODEL, "baselines must be a list of names, not 'bump'"),
        ("processes = 0.5\n" + MODEL, "processes must be an integer from 1 on, not 0.5"),
    ],
)
def test_errors_name_the_file_the_entry_and_what_was_expected(tmp_path, text, message):
    with pytest.raises(InputError, match=r"m\.toml: .*" + re.escape(message)):
        _read(tmp_path, text)


def test_a_folder_without_models_is_refused(tmp_path):
    with pytest.raises(InputError, match="no model in it: expected files in"):
        read_manifest(tmp_path)
