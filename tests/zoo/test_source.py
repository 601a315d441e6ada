"""Names of models: their parts, their options, and what is said of those that are wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpplan
from cpplan.cli.main import main
from cpplan.io.zoo_names import read_named
from cpplan.model.errors import CpplanError, InputError, MissingExtraError
from cpplan.zoo import build_network, names, packages
from cpplan.zoo.source import SCHEME, is_named, parse_source, read_options

KNOWN = {"batch": 1, "size": None}
MODES = ("infer", "train")


def options_of(query: str):
    return read_options(parse_source(f"zoo://torchvision/resnet18{query}"), KNOWN, MODES)


def test_what_is_left_out_has_its_default():
    options = options_of("")
    assert (options.mode, options.training, dict(options.numbers)) == ("infer", False, KNOWN)
    assert options.number("size", 224) == 224


def test_options_in_any_order():
    options = options_of("?mode=train&size=96&batch=8")
    assert (options.mode, options.training) == ("train", True)
    assert (options.number("batch"), options.number("size", 224)) == (8, 96)


def test_models_may_have_any_name():
    source = parse_source("zoo://timm/resnet50.a1/in1k%20x?batch=2")
    assert (source.family, source.model) == ("timm", "resnet50.a1/in1k x")


@pytest.mark.parametrize("text", ["zoo://", "zoo://timm", "zoo://timm/", "zoo:///x", "timm/x"])
def test_a_name_has_a_family_and_a_model(text):
    with pytest.raises(InputError, match="expected zoo://family/model"):
        parse_source(text)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("?batch", "'batch' is no option: expected option=value"),
        ("?batch=", "expected option=value"),
        ("?=2", "expected option=value"),
        ("?batch=2&", "expected option=value"),
        ("?batch=2&batch=2", "option 'batch' is given twice"),
        ("?bach=2", "torchvision has no option 'bach': expected batch, size or mode"),
        ("?mode=test", "mode 'test': expected infer or train"),
        ("?batch=0", "batch '0': expected an integer from 1 to 2147483647"),
        ("?batch=-1", "expected an integer"),
        ("?batch=1e3", "expected an integer"),
        ("?batch=٣", "expected an integer"),
        (f"?batch={'9' * 5000}", "expected an integer"),
    ],
)
def test_wrong_options_are_named(query, message):
    with pytest.raises(InputError, match=message) as caught:
        options_of(query)
    assert "\n" not in str(caught.value)


@settings(max_examples=50)
@given(st.text(max_size=30))
def test_any_text_that_is_no_name_is_refused_in_a_line(text):
    with pytest.raises(CpplanError) as caught:
        cpplan.load(SCHEME + text)
    assert "\n" not in str(caught.value)


def test_paths_are_no_names():
    assert not is_named("zoo/resnet50.json.gz")
    assert not is_named(b"zoo://onnx/squeezenet")


def test_an_unknown_family_is_told_all_that_there_are():
    message = "no family 'torchvison': expected torchvision, timm, transformers, onnx or cpplan"
    with pytest.raises(InputError, match=message):
        cpplan.load("zoo://torchvison/resnet50")
    with pytest.raises(InputError, match="no family 'torchvison'"):
        names("torchvison")


def test_an_unknown_model_is_told_those_spelt_alike():
    pytest.importorskip("onnx")
    message = "no model of onnx 'squeezenett': near are squeezenet"
    with pytest.raises(InputError, match=message):
        cpplan.load("zoo://onnx/squeezenett")
    with pytest.raises(InputError, match=r"there are 9; cpplan\.zoo\.names"):
        cpplan.load("zoo://onnx/%%%")


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda package: None)
    for family, extra in {
        "torchvision": "zoo",
        "timm": "zoo",
        "onnx": "onnx",
        "cpplan": "zoo",
    }.items():
        with pytest.raises(MissingExtraError, match=rf"pip install '\.\[{extra}\]'"):
            read_named(f"zoo://{family}/squeezenet")
    assert names() == ()


def test_light_models_are_those_of_the_package():
    pytest.importorskip("onnx")
    listed = names("onnx")
    assert len(listed) == 9
    graph = cpplan.load("zoo://onnx/squeezenet")
    assert graph.name == "squeezenet"
    assert graph.ops == cpplan.load("datasets/light_squeezenet.json").ops
    with pytest.raises(InputError, match="onnx has no option 'batch': expected none"):
        cpplan.load("zoo://onnx/squeezenet?batch=2")
    with pytest.raises(InputError, match="graphs only"):
        build_network("zoo://onnx/squeezenet")
    assert cpplan.load("zoo://onnx/squeezenet", name="mine").name == "mine"


def test_names_have_no_dims():
    with pytest.raises(InputError, match="has no symbolic dimensions"):
        cpplan.load("zoo://onnx/squeezenet", dims={"N": 8})


def test_the_command_line_takes_names(capsys, tmp_path):
    pytest.importorskip("onnx")
    plan = str(tmp_path / "plan.json")
    assert main(["plan", "zoo://onnx/squeezenet", "-q", "-o", plan]) == 0
    assert "optimal" in capsys.readouterr().out
    assert main(["verify", "zoo://onnx/squeezenet", plan]) == 0
    capsys.readouterr()
    assert main(["plan", "zoo://nobody/x", "-q"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_looking_for_a_model_imports_no_torch():
    script = (
        "import cpplan, sys\n"
        "cpplan.load('zoo://onnx/squeezenet')\n"
        "assert 'torch' not in sys.modules and 'timm' not in sys.modules\n"
    )
    pytest.importorskip("onnx")
    subprocess.run([sys.executable, "-c", script], check=True)
