"""Training graphs: what their papers count, what gradients read, and plans that run ops again."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

import cpplan
from cpplan.io.graph_json import read_graph
from cpplan.model.graph import Graph, Op
from cpplan.remat import heuristics as baselines
from cpplan.remat.problem import remat_problem
from cpplan.runtime.deadline import Deadline

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
FILES = {
    path.stem: path
    for path in (
        DATASETS / "ordering/vgg11_training.json",
        DATASETS / "aten/resnet18_aten_training.json",
        *sorted((DATASETS / "training").glob("*.json")),
    )
}
PRODUCTS = ("Conv", "ConvTranspose", "Gemm")
# Of our own graphs: images a batch, products an image, weights without biases.
PUBLISHED = {
    # 13 convolutions on planes of 224², 112², …; three matrices, of 25088, 4096 and 4096 rows.
    "vgg16_training": (32, 15_470_264_320, 138_344_128),
    # "569 million mult-adds, 4.2 million parameters" (Howard et al. 2017, table 4).
    "mobilenet_training": (32, 568_740_352, 4_230_976),
    # "1.8e9 FLOPs" (He et al. 2016, table 1); 11,689,512 weights with 1000 biases.
    "resnet18_training": (32, 1_814_073_344, 11_688_512),
    # See ``test_a_unet_by_hand``.
    "unet_training": (4, 48_171_581_440, 31_024_960),
}


@pytest.fixture(params=sorted(FILES))
def graph(request: pytest.FixtureRequest) -> Graph:
    """Each training graph in turn."""
    return read_graph(FILES[request.param])


def elements(graph: Graph, name: str) -> int:
    return math.prod(graph.tensor[name].shape or ())


def work(graph: Graph, *kinds: str) -> int | float:
    return sum(op.cost for op in graph.ops if op.kind in kinds)


def test_all_training_graphs_are_here() -> None:
    assert set(FILES) == {*PUBLISHED, "vgg11_training", "resnet18_aten_training"}
    assert sum(path.stat().st_size for path in FILES.values()) < 400_000


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_a_network_has_the_products_and_weights_that_its_paper_counts(name: str) -> None:
    graph = read_graph(FILES[name])
    batch, products, weights = PUBLISHED[name]
    assert work(graph, *PRODUCTS) == 2 * batch * products
    assert sum(elements(graph, t.name) for t in graph.tensors if t.kind == "constant") == weights


def test_unet_costs_equal_a_count_by_hand() -> None:
    # Channels c on planes of n² with 9 taps, down and up; transposed convolutions of 4 taps give c
    # from 2c, of which each result takes one; the last layer chooses between 2 classes.
    planes = [(256, 64, 3), (128, 128, 64), (64, 256, 128), (32, 512, 256), (16, 1024, 512)]
    down = [(n * n, 9 * (before * c + c * c)) for n, c, before in planes]
    up = [(n * n, 9 * (2 * c * c + c * c)) for n, c, _ in planes[:-1]]
    wider = [(n * n // 4, 4 * 2 * c * c) for n, c, _ in planes[:-1]]
    layers = [*down, *up, *wider, (256 * 256, 64 * 2)]
    _, products, weights = PUBLISHED["unet_training"]
    assert products == sum(places * weights for places, weights in layers)
    assert weights == sum(weights for _, weights in layers)


@pytest.mark.parametrize("name", sorted({*PUBLISHED, "vgg11_training"}))
def test_a_weight_has_one_gradient_of_its_shape_and_one_update(name: str) -> None:
    graph = read_graph(FILES[name])
    weights = [tensor for tensor in graph.tensors if tensor.kind == "constant"]
    updates = [op for op in graph.ops if op.kind == "SGD"]
    assert [op.inputs[1] for op in updates] == [tensor.name for tensor in weights]
    assert list(graph.ops[-len(updates) :]) == updates
    for op, weight in zip(updates, weights, strict=True):
        assert graph.tensor[op.inputs[0]].shape == weight.shape
        assert (op.cost, op.recomputable) == (2 * elements(graph, weight.name), False)
    # Gradients of products cost what the products cost; the image needs none.
    first = next(op for op in graph.ops if op.kind == "Conv")
    forward = work(graph, *PRODUCTS)
    assert work(graph, *(f"{kind}GradWeight" for kind in PRODUCTS)) == forward
    assert work(graph, *(f"{kind}GradInput" for kind in PRODUCTS)) == forward - first.cost


def test_what_gradients_read(generators_on_the_path: None) -> None:
    # A convolution of a sum of two branches of one tensor, so that this has two gradients, added.
    from generators.tape import Tape

    tape = Tape("branches")
    stem = tape.conv(tape.input("image", (1, 3, 4, 4)), 2)
    both = tape.add(tape.relu(stem), tape.max_pool(stem, 1))
    tape.loss(tape.conv(tape.batch_norm(both), 2), "MeanSquaredError")
    graph = tape.graph()
    backward = {op.name: (op.inputs, op.outputs) for op in graph.ops[7:-3]}
    assert graph.ops[6].outputs == ("loss", "conv2_d")
    assert backward == {
        "conv2_dx": (("conv2_d", "conv2_w"), ("conv2_dx",)),
        "conv2_dw": (("conv2_d", "norm1"), ("conv2_dw",)),
        "norm1_grad": (("conv2_dx", "add1", "norm1_saved", "norm1_w"), ("norm1_dx", "norm1_dw")),
        "pool1_dx": (("norm1_dx", "conv1", "pool1"), ("pool1_dx",)),
        "relu1_dx": (("norm1_dx", "relu1"), ("relu1_dx",)),
        "sum1": (("pool1_dx", "relu1_dx"), ("sum1",)),
        "conv1_dw": (("sum1", "image"), ("conv1_dw",)),
    }


def test_the_gradient_of_a_concatenation_is_split(generators_on_the_path: None) -> None:
    from generators.tape import Tape

    tape = Tape("levels")
    stem = tape.conv(tape.input("image", (1, 3, 4, 4)), 2)
    up = tape.up_conv(tape.max_pool(stem), 5)
    assert tape.shape(up) == (1, 5, 4, 4)
    both = tape.concat(stem, up)
    tape.loss(tape.dense(tape.average(both), 4), "MeanSquaredError")
    graph = tape.graph()
    split = next(op for op in graph.ops if op.kind == "Split")
    assert [graph.tensor[part].shape for part in split.outputs] == [(1, 2, 4, 4), (1, 5, 4, 4)]
    assert graph.producer["up1_dx"].inputs[0] == graph.producer["up1_dw"].inputs[0]
    # 4 elements in each of 2 channels, times 5 channels of 4 taps.
    assert graph.producer["up1"].cost == 2 * 4 * 2 * 5 * 4


def test_the_trace_of_resnet18_is_the_network_that_we_write_op_by_op() -> None:
    traced, ours = (
        read_graph(FILES["resnet18_aten_training"]),
        read_graph(FILES["resnet18_training"]),
    )
    kinds = Counter(op.kind for op in traced.ops)
    assert kinds["aten.convolution.default"] == kinds["aten.convolution_backward.default"] == 20
    assert work(traced, "aten.convolution.default") == work(ours, "Conv")
    backward = work(ours, "ConvGradInput", "ConvGradWeight")
    assert work(traced, "aten.convolution_backward.default") == backward
    assert work(traced, "aten.addmm.default", "aten.mm.default") == 3 * work(ours, "Gemm")
    norms = ("BatchNorm", "BatchNormGrad")
    names = ("_native_batch_norm_legit_functional", "native_batch_norm_backward")
    assert work(traced, *(f"aten.{name}.default" for name in names)) == work(ours, *norms)
    # A loss; 62 gradients, as large as the parameters; two averages and a count for each norm.
    outputs = [tensor for tensor in traced.tensors if tensor.kind == "output"]
    assert len(outputs) == 1 + 62 + 3 * 20
    gradients = [t for t in outputs if traced.producer[t.name].kind in GRADIENTS]
    assert sum(elements(traced, tensor.name) for tensor in gradients) == 11_689_512
    # Listed after torch.utils: an order as it stands.
    assert all(op.recomputable for op in traced.ops)


GRADIENTS = (
    "aten.convolution_backward.default",
    "aten.mm.default",
    "aten.native_batch_norm_backward.default",
    "aten.sum.dim_IntList",
)


def test_a_plan_that_runs_ops_again_fits(graph: Graph) -> None:
    plan = evicted(graph)
    cpplan.verify(graph, plan)
    assert plan.cost is not None
    assert plan.base_cost is not None
    assert plan.cost > plan.base_cost == sum(op.cost for op in graph.ops)
    again = repeated(graph, plan)
    assert again
    assert all(op.recomputable for op in again)


def test_the_smallest_of_the_plans_runs() -> None:
    graph = read_graph(FILES["vgg11_training"])
    plan = evicted(graph)
    assert cpplan.simulate(graph, plan).arena_bytes == plan.peak


@pytest.mark.slow
def test_plans_that_need_up_to_two_gigabytes_run(graph: Graph) -> None:
    cpplan.simulate(graph, evicted(graph))


def evicted(graph: Graph) -> cpplan.Plan:
    """Packed: what is needed last is dropped within 80 % of the bytes live in the given order."""
    problem = remat_problem(graph)
    limit = problem.peak(range(len(problem))) * 4 // 5
    sequence = baselines.get("farthest_use")(problem, limit, Deadline(60))
    assert sequence is not None
    assert len(sequence) > len(problem)
    assert problem.peak(sequence) <= limit
    program = cpplan.Program(graph, problem.expand(sequence))
    return cpplan.solve(program, time_limit=1, workers=1)


def repeated(graph: Graph, plan: cpplan.Plan) -> list[Op]:
    ops = {op.name: op for op in graph.ops}
    return [ops[name] for name, count in Counter(plan.order).items() if count > 1]
