"""The generators of graphs whose order matters: what their papers say can be counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from cpplan.model.graph import Graph
from cpplan.ordering.problem import order_problem

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
pytestmark = pytest.mark.usefixtures("generators_on_the_path")


def kinds(graph: Graph) -> Counter[str]:
    return Counter(op.kind for op in graph.ops)


def layers(graph: Graph) -> list[int]:
    """The longest path to every op, in ops."""
    depth: list[int] = []
    for before in graph.predecessors:
        depth.append(1 + max((depth[op] for op in before), default=-1))
    return depth


@pytest.mark.parametrize("nodes", [2, 5, 10, 40, 100, 500])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_layered_graphs_have_one_source_one_sink_and_one_output_an_op(
    nodes: int, seed: int
) -> None:
    from generators.layered import layered

    graph = layered("g", nodes, seed)
    assert graph == layered("g", nodes, seed)
    assert len(graph.ops) == len(graph.tensors) == nodes
    assert [op.name for op in graph.ops if not op.inputs] == ["n0"]
    read = {name for op in graph.ops for name in op.inputs}
    assert [op.name for op in graph.ops if op.outputs[0] not in read] == [f"n{nodes - 1}"]
    assert all(tensor.nbytes > 0 and tensor.nbytes % 10 == 0 for tensor in graph.tensors)
    assert graph.ops[0].cost == 0
    assert all(1 <= op.cost <= 1000 for op in graph.ops[1:])
    # Listed by layers: an order as it stands.
    assert order_problem(graph).is_order(range(nodes))


def test_two_seeds_give_different_graphs() -> None:
    from generators.layered import layered
    from generators.randwire import randwire

    assert layered("g", 50, 0) != layered("g", 50, 1)
    assert randwire("g", 0) != randwire("g", 100)


def test_layered_graphs_are_like_the_published_ones() -> None:
    # MOCCASIN's of 500 ops: 33 layers, at most 29 wide; 2,461 edges, 13 % of them skip a layer; in-
    # and out-degrees up to 21 and 22; sizes 20 to 7,300 B, quartiles 718, 1,610 and 3,040 B.
    from generators.layered import layered

    for seed in range(5):
        graph = layered("g", 500, seed)
        depth = layers(graph)
        edges = [(before, op) for op, all_of in enumerate(graph.predecessors) for before in all_of]
        assert 20 <= max(depth) <= 40
        assert max(Counter(depth).values()) <= 60
        assert 1500 <= len(edges) <= 4000
        skips = sum(depth[op] - depth[before] > 1 for before, op in edges)
        assert 0.1 <= skips / len(edges) <= 0.25
        sizes = sorted(tensor.nbytes for tensor in graph.tensors)
        assert 600 <= sizes[125] <= 900
        assert 1400 <= sizes[250] <= 1900
        assert 2800 <= sizes[375] <= 3500


def test_a_randwire_stage_has_a_separable_convolution_for_every_node() -> None:
    from generators.randwire import randwire

    graph = randwire("g", 3)
    assert graph == randwire("g", 3)
    count = kinds(graph)
    assert count["DepthwiseConv"] == 3 * 32
    # Two before the stages, one after them, and a pointwise one in every node.
    assert count["Conv"] == 2 + 1 + 3 * 32
    # A node has a ReLU; so have the second and the last plain convolution.
    assert count["Relu"] == 3 * 32 + 2
    # Watts-Strogatz with K = 4 has 2 edges a node; a node that reads only one adds nothing up.
    sums = [len(op.inputs) for op in graph.ops if op.kind == "Add"]
    assert all(terms >= 2 for terms in sums)
    shapes = [t.shape for t in graph.tensors if t.shape is not None and len(t.shape) == 4]
    assert {(78, 28), (156, 14), (312, 7)} <= {shape[1:3] for shape in shapes}


def test_the_nasnet_cell_is_the_published_one() -> None:
    from generators.cells import NASNET_NORMAL, single_cell

    graph = single_cell("cell", NASNET_NORMAL, channels=44, extent=28)
    # Five separable ops applied twice, two 1×1 convolutions before, five sums, three pools.
    assert kinds(graph) == {
        "Relu": 12,
        "DepthwiseConv": 10,
        "Conv": 12,
        "AveragePool": 3,
        "Add": 5,
        "Concat": 1,
    }
    (result,) = (t for t in graph.tensors if t.kind == "output")
    assert result.shape == (1, 6 * 44, 28, 28)


def test_nasnet_mobile_ends_with_1056_channels() -> None:
    from generators.cells import nasnet_mobile

    graph = nasnet_mobile("net")
    # 12 normal cells and 4 reductions, each with one result; other concatenations halve a state.
    wide = [graph.tensor[op.outputs[0]].shape for op in graph.ops if op.kind == "Concat"]
    assert Counter(wide)[(1, 1056, 7, 7)] == 4
    assert kinds(graph)["DepthwiseConv"] == 12 * 10 + 4 * 10


def test_darts_networks_are_the_published_ones() -> None:
    from generators.cells import DARTS_NORMAL, darts_cifar, single_cell

    cell = single_cell("cell", DARTS_NORMAL, channels=48, extent=28)
    # Five separable convolutions applied twice and one dilated; four sums; two 1×1 before.
    assert kinds(cell) == {"Relu": 13, "DepthwiseConv": 11, "Conv": 13, "Add": 4, "Concat": 1}
    graph = darts_cifar("net")
    results = [graph.tensor[op.outputs[0]].shape for op in graph.ops if op.kind == "Concat"]
    for shape, count in (((1, 144, 32, 32), 2), ((1, 288, 16, 16), 3), ((1, 576, 8, 8), 3)):
        # The first cell after a reduction halves the other state, which is as wide as one node.
        assert results.count(shape) == count


def test_a_training_step_updates_every_weight_once_in_the_end() -> None:
    from generators.training import VGG11, training_step

    graph = training_step("step")
    count = kinds(graph)
    convolutions = sum(isinstance(layer, int) for layer in VGG11)
    assert count["Conv"] == count["ConvGradWeight"] == count["SGD"] == convolutions == 8
    assert count["ConvGradInput"] == convolutions - 1
    assert count["MaxPool"] == count["MaxPoolGrad"] == 5
    assert all(op.kind == "SGD" for op in graph.ops[-convolutions:])
    problem = order_problem(graph)
    assert problem.is_order(range(len(problem)))


def test_an_update_run_early_frees_its_gradient() -> None:
    # The second of two convolutions of one channel has nine weights.
    from generators.training import training_step

    problem = order_problem(training_step("step", (1, 1), batch=1, extent=4))
    names = list(problem.names)
    given = list(range(len(problem)))
    assert names[-2:] == ["conv1_update", "conv2_update"]
    early = [op for op in given if names[op] != "conv2_update"]
    early.insert(early.index(names.index("conv2_dw")) + 1, names.index("conv2_update"))
    # Their gradient, of 36 B, no longer waits for the first layer's.
    assert problem.pressure(given)[-2] - problem.pressure(early)[-1] == 36


def test_what_is_kept_here_is_small_and_can_be_ordered() -> None:
    from cpplan.io.graph_json import read_graph

    files = sorted((DATASETS / "ordering").glob("*.json"))
    assert len(files) == 11
    assert sum(path.stat().st_size for path in files) < 1_500_000
    for path in files:
        graph = read_graph(path)
        assert graph.name == path.stem
        problem = order_problem(graph)
        assert problem.is_order(range(len(problem)))
