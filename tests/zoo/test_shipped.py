"""The exported graphs: what is known of their models, and their plans, without torch."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import pytest

import cpplan
from cpplan.model.graph import Graph

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
FOLDER = DATASETS / "zoo"
FILES = sorted(path.name.removesuffix(".json.gz") for path in FOLDER.glob("*.json.gz"))
INFERENCE = [file for file in FILES if file.endswith(".infer")]
TRAINING = [file for file in FILES if file.endswith(".train")]
# Planned and verified in a moment; the others are by the slow tests.
QUICK = {f"{name}.infer" for name in ("resnet18", "squeezenet1_1", "shufflenet_v2_x1_0", "unet")}
QUICK |= {"swin_t.infer", "transformer.infer", "resnet18.train"}

# Numbers of weights, as the packages' documentation has them; Inception without its auxiliary
# classifier, and the language models with the embedding that their heads share counted once.
WEIGHTS = {
    "bert-base": 109_514_298,
    "convnext_tiny": 28_589_128,
    "densenet121": 7_978_856,
    "efficientnet_b0": 5_288_548,
    "gpt2": 124_439_808,
    "inception_v3": 23_834_568,
    "mobilenet_v2": 3_504_872,
    "mobilenet_v3_large": 5_483_032,
    "nasnetalarge": 88_753_150,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "shufflenet_v2_x1_0": 2_278_604,
    "squeezenet1_1": 1_235_496,
    "swin_t": 28_288_354,
    "t5-small": 60_506_624,
    "vit_b_16": 86_567_656,
}

# Multiply-adds in thousands of millions, as the documentation of torchvision's weights has them.
MULTIPLY_ADDS = {
    "convnext_tiny": 4.46,
    "densenet121": 2.83,
    "efficientnet_b0": 0.39,
    "inception_v3": 5.71,
    "mobilenet_v2": 0.30,
    "mobilenet_v3_large": 0.22,
    "resnet18": 1.81,
    "resnet50": 4.09,
    "shufflenet_v2_x1_0": 0.14,
    "squeezenet1_1": 0.35,
}


@cache
def load(file: str) -> Graph:
    graph = cpplan.load(FOLDER / f"{file}.json.gz")
    assert isinstance(graph, Graph)
    return graph


def elements(graph: Graph, prefix: str) -> int:
    return sum(
        math.prod(tensor.shape or ())
        for tensor in graph.tensors
        if tensor.kind == "constant" and not tensor.view_of and tensor.name.startswith(prefix)
    )


def test_some_twenty_models_in_few_bytes():
    assert (len(INFERENCE), len(TRAINING)) == (19, 8)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 1_500_000


@pytest.mark.parametrize("name", sorted(WEIGHTS))
def test_a_model_has_the_weights_that_it_is_known_for(name):
    assert elements(load(f"{name}.infer"), "p_") == WEIGHTS[name]


@pytest.mark.parametrize("name", sorted(MULTIPLY_ADDS))
def test_a_model_costs_what_it_is_known_for(name):
    kinds = ("aten.conv2d.default", "aten.linear.default")
    cost = sum(op.cost for op in load(f"{name}.infer").ops if op.kind in kinds)
    assert cost / 2e9 == pytest.approx(MULTIPLY_ADDS[name], abs=0.0051)


@pytest.mark.parametrize(
    "file",
    [pytest.param(file, marks=() if file in QUICK else pytest.mark.slow) for file in FILES],
)
def test_a_graph_is_planned_with_proof(file):
    graph = load(file)
    plan = cpplan.solve(graph, time_limit=60, workers=1)
    cpplan.verify(graph, plan)
    assert plan.status == "optimal"


def test_training_gives_a_loss_and_a_gradient_for_every_weight():
    graph = load("resnet18.train")
    shapes = [t.shape for t in graph.tensors if t.kind == "output"]
    # The loss, a gradient of each of 62 weights, three new statistics of each of 20 norms.
    assert len(shapes) == 1 + 62 + 60
    assert shapes.count(()) == 1 + 20
    images = [t.shape for t in graph.tensors if t.kind == "input"]
    assert images == [(32, 3, 224, 224), (32,)]
