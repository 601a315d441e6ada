"""The exported ONNX models: what their papers count, the plan, and a run in the arena."""

from __future__ import annotations

import importlib.util
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import cpplan
from cpplan.model.graph import Graph, Op

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper, parser  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
FOLDER = DATASETS / "onnx"


@dataclass(frozen=True)
class Export:
    """Facts about a model that are known without its file.

    Attributes
    ----------
    extent
        Height and width of the image.
    convolutions
        Layers of that kind in its paper.
    parameters
        Of the classifier that torchvision publishes, without auxiliary heads.
    peak
        Bytes of float32 activations at the fullest step of the given order.
    """

    extent: int
    convolutions: int
    parameters: int
    peak: int


EXPORTS = {
    # A layer late in the first dense block: 224 channels so far, their concatenation, and its
    # batch norm.
    "densenet121": Export(224, 120, 7_978_856, 4 * 3 * 224 * 56 * 56),
    # The third convolution and its ReLU.
    "inception_v3": Export(299, 94, 23_834_568, 4 * 2 * 64 * 147 * 147),
    # The first expansion, to 96 channels, and its ReLU6.
    "mobilenet_v2": Export(224, 52, 3_504_872, 4 * 2 * 96 * 112 * 112),
    # Both sides of the first residual addition, and its sum.
    "resnet50": Export(224, 53, 25_557_032, 4 * 3 * 256 * 56 * 56),
    # The first convolution and its ReLU, here and below.
    "shufflenet_v2_x1_0": Export(224, 56, 2_278_604, 4 * 2 * 24 * 112 * 112),
    "squeezenet1_1": Export(224, 26, 1_235_496, 4 * 2 * 64 * 111 * 111),
}


def load(name: str) -> Graph:
    graph = cpplan.load(FOLDER / f"{name}.onnx")
    assert isinstance(graph, Graph)
    return graph


def elements(graph: Graph, op: Op, first: int) -> int:
    """Numbers in the constants that an op reads, from its ``first`` input on."""
    shapes = [graph.tensor[name].shape or () for name in op.inputs[first:]]
    return sum(math.prod(shape) for shape in shapes)


@pytest.fixture
def exports() -> ModuleType:
    """The script that made the files; without torch, it can still take weights out."""
    path = DATASETS / "generators/onnx_exports.py"
    spec = importlib.util.spec_from_file_location("onnx_exports", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_files_are_those_that_the_script_makes(exports: ModuleType) -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(exports.MODELS) == set(EXPORTS)
    assert all(exports.MODELS[name][0] == EXPORTS[name].extent for name in EXPORTS)


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_reads_one_image_and_gives_a_thousand_scores(name: str) -> None:
    graph, extent = load(name), EXPORTS[name].extent
    faces = [tensor for tensor in graph.tensors if tensor.kind in ("input", "output")]
    assert [(tensor.name, tensor.shape, tensor.dtype) for tensor in faces] == [
        ("image", (1, 3, extent, extent), "float32"),
        ("scores", (1, 1000), "float32"),
    ]


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_has_the_layers_and_parameters_that_are_published(name: str) -> None:
    graph, expected = load(name), EXPORTS[name]
    kinds = Counter(op.kind for op in graph.ops)
    assert kinds["Conv"] == expected.convolutions
    # Where batch norm is folded, a bias stands for a scale and a shift.
    folded = 1 if name == "squeezenet1_1" else 2
    parameters = 0
    for op in graph.ops:
        if op.kind == "Conv":
            parameters += elements(graph, op, 1) + (folded - 1) * elements(graph, op, 2)
        elif op.kind == "Gemm":
            parameters += elements(graph, op, 1)
        elif op.kind == "BatchNormalization":  # scale, shift; mean and variance are not trained
            parameters += elements(graph, op, 1) // 2
    assert parameters == expected.parameters
    # Only DenseNet normalises what it concatenates: 58 layers, three transitions, the end.
    assert kinds["BatchNormalization"] == (62 if name == "densenet121" else 0)


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_holds_no_weights_and_no_remarks(name: str) -> None:
    path = FOLDER / f"{name}.onnx"
    assert path.stat().st_size < 150_000
    model = onnx.load(path, load_external_data=False)
    assert not any(tensor.external_data for tensor in model.graph.initializer)
    held = [t for t in model.graph.initializer if t.data_type == TensorProto.FLOAT]
    assert all(math.prod(tensor.dims) == 1 for tensor in held)
    for part in (model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output):
        assert not part.doc_string
        assert not part.metadata_props


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_is_planned_to_its_optimum(name: str) -> None:
    graph = load(name)
    plan = cpplan.solve(graph, time_limit=30, workers=1)
    assert (plan.status, plan.peak) == ("optimal", EXPORTS[name].peak)
    cpplan.verify(graph, plan)
    cpplan.simulate(graph, plan)


@pytest.mark.slow  # as the light models that tests of executions run
@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_runs_in_the_arena(name: str) -> None:
    graph, path = load(name), FOLDER / f"{name}.onnx"
    plan = cpplan.solve(graph, time_limit=30, workers=1)
    done = cpplan.execute(path, plan, weights="random")
    assert (done.steps, done.arena_bytes) == (len(graph.ops), EXPORTS[name].peak)
    scores = done.outputs["scores"]
    assert np.isfinite(scores).all()
    assert np.unique(scores).size > 500  # ReLU ends SqueezeNet: about half its scores are 0
    other = cpplan.execute(
        path,
        plan,
        weights="random",
        inputs={"image": np.zeros(graph.tensor["image"].shape or (), np.float32)},
    )
    assert not np.array_equal(scores, other.outputs["scores"])


@pytest.mark.parametrize(
    "name", ["mobilenet_v2", pytest.param("shufflenet_v2_x1_0", marks=pytest.mark.slow)]
)
def test_the_weights_of_the_file_itself_give_finite_numbers(name: str) -> None:
    plan = cpplan.solve(load(name), time_limit=30, workers=1)
    scores = cpplan.execute(FOLDER / f"{name}.onnx", plan).outputs["scores"]
    assert np.isfinite(scores).all()
    assert scores.min() > 0  # means of what is positive, plus 1


def test_taking_weights_out_keeps_all_else(exports: ModuleType) -> None:
    model = parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 20],
         producer_name: "maker", producer_version: "2.1+cpu">
        traced (float[1, 2, 4, 4] x) => (float[1, 3, 2, 2] y) {
            c = Conv<strides = [2, 2], kernel_shape = [1, 1]>(x, w, b)
            r = Reshape(c, shape)
            y = Clip(r, low)
        }""")
    weight = np.arange(6, dtype=np.float32).reshape(3, 2, 1, 1)
    constants = {
        "w": weight,
        "b": np.zeros(3, np.float32),
        "shape": np.array([1, 3, 2, 2]),
        "low": np.array(0.25, np.float32),
    }
    model.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in constants.items())
    model.doc_string = model.graph.doc_string = model.graph.node[0].doc_string = "where"
    model.graph.node[1].metadata_props.add(key="where", value="there")
    made = exports.without_weights(model, "small")

    bare = [node for node in made.graph.node if node.op_type != "ConstantOfShape"]
    assert [helper.printable_node(node) for node in bare] == [
        helper.printable_node(node) for node in model.graph.node
    ]
    assert (made.graph.name, made.ir_version) == ("small", 10)
    assert (made.producer_name, made.producer_version) == ("maker", "2.1")
    for word in (b"where", b"there"):
        assert word not in made.SerializeToString()
    tensors = read_onnx(made).tensor
    assert [(tensors[name].kind, tensors[name].shape) for name in ("w", "b")] == [
        ("constant", (3, 2, 1, 1)),
        ("constant", (3,)),
    ]
    session = ReferenceEvaluator(made)
    # Each of the three kernels takes the mean of two channels of ones, and adds 1.
    np.testing.assert_array_equal(
        session.run(None, {"x": np.ones((1, 2, 4, 4), np.float32)})[0],
        np.full((1, 3, 2, 2), 2, np.float32),
    )
    low = session.run(None, {"x": np.full((1, 2, 4, 4), -9, np.float32)})[0]
    np.testing.assert_array_equal(low, np.full((1, 3, 2, 2), 0.25, np.float32))
