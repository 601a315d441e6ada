"""Ops in pieces whose bands move between two pools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx.parser
import pytest

import cpplan
from cpplan import Graph, Op, Plan, Pool, Tensor
from cpplan.model.axes import Axis, Window
from cpplan.model.errors import VerificationError
from cpplan.program.anf import Program
from cpplan.spilling.outcome import Spilled
from cpplan.spilling.solve import spill
from tests.support.split_networks import Network

ONNX = Path(__file__).resolve().parents[2] / "datasets" / "onnx"


def three_pools() -> Graph:
    """A chain of poolings over 16, 8, 4 and 2 rows of 64 B, with a wide tensor in the middle."""
    rows = {"x": 16, "a": 16, "b": 8, "y": 4}
    kinds = {"x": "input", "y": "output"}
    tensors = tuple(
        Tensor(name, shape=(count, 64), dtype="int8", kind=kinds.get(name, "intermediate"))
        for name, count in rows.items()
    )

    def op(name: str, source: str, target: str, stride: int) -> Op:
        windows = Window(source, 0, stride, 0, stride), Window(target, 0)
        return Op(name, "Pool", (source,), (target,), axes=(Axis("rows", rows[target], windows),))

    return Graph(
        "pools", tensors, (op("f", "x", "a", 1), op("g", "a", "b", 2), op("h", "b", "y", 2))
    )


def solved(graph: Graph, capacity: int, **options) -> Plan:
    pools = [Pool("fast", capacity), Pool("slow", direct=True)]
    common = {"pools": pools, "spill": True, "time_limit": 20, "deterministic": True}
    return cpplan.solve(graph, **common, **options)


def test_bands_move_fewer_bytes_than_whole_tensors() -> None:
    whole, cut = solved(three_pools(), 1024), solved(three_pools(), 1024, split=True)
    assert whole.moved_bytes is not None
    assert cut.moved_bytes is not None
    assert cut.pieces
    assert cut.moved_bytes < whole.moved_bytes
    cpplan.simulate(three_pools(), cut)


def test_a_plan_in_pieces_with_moves_is_checked(tmp_path) -> None:
    graph = three_pools()
    plan = solved(graph, 1024, split=True)
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan
    for changed in (
        {"pieces": plan.pieces[1:]},
        {"copied_bytes": (plan.copied_bytes or 0) + 1},
        {"moved_bytes_bound": (plan.moved_bytes or 0) + 1},
    ):
        with pytest.raises(VerificationError):
            cpplan.verify(graph, replace(plan, **changed))


def test_other_orders_are_searched_of_the_best_pieces_alone(monkeypatch) -> None:
    """Pieces at the given order cost what they do when only that is asked for."""
    searched = []

    def moves(program: Program, *given: object, order: bool, **options: object) -> Spilled:
        found = spill(program, *given, order=order, **options)
        assert found.choice is not None
        searched.append((order, len(program.order), found.choice.paid))
        return found

    monkeypatch.setattr("cpplan.spilling.solve.spill", moves)
    plan = solved(three_pools(), 1024, split=True, order="search")
    first = [order for order, _, _ in searched].index(True)
    assert first >= 2
    assert searched[first][1] == min(searched[:first], key=lambda one: one[2])[1]
    assert plan.moved_bytes == min(paid for _, _, paid in searched)


def test_without_axes_no_op_is_cut() -> None:
    graph = three_pools()
    graph = Graph(graph.name, graph.tensors, tuple(replace(op, axes=()) for op in graph.ops))
    assert solved(graph, 1024, split=True).moved_bytes == solved(graph, 1024).moved_bytes


def test_no_bound_on_moves_of_pieces_lies_above_moves_of_other_pieces() -> None:
    """In place, other pieces are chosen, and each choice has a bound of its own."""
    net = Network()
    x = net.image(4, 2, 3)
    net.turn(net.add(net.relu(net.conv(x, 3, taps=1)), x))
    graph = net.graph()
    for capacity in range(12, 80, 4):
        plans = [solved(graph, capacity, split=True, in_place=again) for again in (False, True)]
        for plan in plans:
            cpplan.verify(graph, plan)
            assert plan.scope == "every splitting"
            least = min(p.moved_bytes for p in plans if p.moved_bytes is not None)
            assert plan.moved_bytes_bound <= least
            assert (plan.status == "optimal") == (plan.moved_bytes == 0)


def test_an_input_that_does_not_fit_is_read_in_bands() -> None:
    """All rows begin in the fast pool but 17: 16 do not fit, and one makes room for a row of a."""
    rows = {"x": 64, "a": 64, "b": 32, "y": 2}
    kinds = {"x": "input", "y": "output"}
    tensors = tuple(
        Tensor(name, shape=(count, 64), dtype="int8", kind=kinds.get(name, "intermediate"))
        for name, count in rows.items()
    )

    def op(source: str, target: str, stride: int) -> Op:
        windows = Window(source, 0, stride, 0, stride), Window(target, 0)
        axes = (Axis("rows", rows[target], windows),)
        return Op(f"make {target}", "Pool", (source,), (target,), axes=axes)

    graph = Graph("large input", tensors, (op("x", "a", 1), op("a", "b", 2), op("b", "y", 16)))
    whole, cut = solved(graph, 3072), solved(graph, 3072, split=True)
    assert (cut.moved_bytes, cut.status) == (17 * 64, "feasible")
    # The first op reads x in the slow pool and writes a there, where the second reads it.
    assert (whole.moved_bytes, whole.status) == (3 * 4096, "optimal")
    cpplan.simulate(graph, cut)


@pytest.mark.slow
def test_mobilenet_of_bytes_moves_less_in_pieces() -> None:
    """In 128 KiB of SRAM beside PSRAM that ops may read and write."""
    read = cpplan.load(ONNX / "mobilenet_v2.onnx")
    tensors = tuple(
        replace(t, dtype="int8", size=None) if t.dtype == "float32" and t.shape is not None else t
        for t in read.tensors
    )
    graph = Graph("mobilenet_v2 int8", tensors, read.ops)
    options = {"in_place": True}
    whole, cut = (solved(graph, 128 << 10, split=split, **options) for split in (False, True))
    assert whole.moved_bytes is not None
    assert cut.moved_bytes is not None
    assert cut.moved_bytes < 0.01 * whole.moved_bytes
    for plan in (whole, cut):
        cpplan.simulate(graph, plan)


def test_bands_that_move_compute_the_same_bytes() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        chain (float[1,2,32,8] x) => (float[1,2,4,1] y) {
            a = Relu(x)
            b = MaxPool <kernel_shape = [2, 2], strides = [2, 2]>(a)
            c = Exp(b)
            y = MaxPool <kernel_shape = [4, 4], strides = [4, 4]>(c)
        }""")
    plan = solved(cpplan.load(model), 1024, split=True)
    assert plan.pieces
    assert plan.moved_bytes
    done = cpplan.execute(model, plan)
    assert done.steps > len(plan.pieces)
    # An offset on top of another tensor's bytes is found out.
    row = plan.buffers.index(plan.moves[0].tensor + "@slow")
    offset = plan.offset.copy()
    offset[row] = 0 if offset[row] else 64
    with pytest.raises(VerificationError):
        cpplan.execute(model, replace(plan, offset=offset))


@pytest.mark.parametrize(("capacity", "missing"), [(64, 128), (128, 64)])
def test_an_op_that_fits_in_no_pieces_is_named_with_the_bytes_of_its_least(capacity, missing):
    """Whole, op f has operands of 2,048 B; op g reads at least two rows and writes one."""
    plan = solved_apart(three_pools(), capacity)
    assert plan.status == "infeasible"
    assert plan.message == (
        f"op g needs 192 B of pool fast, which holds {capacity} B: {missing} B are missing"
    )
    assert solved_apart(three_pools(), 192).status == "feasible"


def test_an_op_that_does_not_fit_whole_proves_nothing_if_pieces_might() -> None:
    """No time is left to cut op f, which has operands of 2,048 B."""
    plan = solved_apart(three_pools(), 512, time_limit=1e-9)
    assert plan.status == "unknown"
    assert plan.message == (
        "no pieces that fit were found: "
        "op f needs 2048 B of pool fast, which holds 512 B: 1536 B are missing"
    )


def solved_apart(graph: Graph, capacity: int, **options) -> Plan:
    """A plan in pieces whose ops cannot read the slow pool."""
    pools = [Pool("fast", capacity), Pool("slow")]
    common = {"pools": pools, "spill": True, "split": True, "deterministic": True}
    return cpplan.solve(graph, **common, **{"time_limit": 5, **options})


def test_pieces_that_would_run_again_in_one_pool_move_instead() -> None:
    net = Network()
    x = net.relu(net.image(6, 4, 2))
    net.conv(net.concat(net.relu(x), x), 2)
    graph = net.graph()
    alone = {"inputs": "outside", "outputs": "outside", "cost_limit": 1.5, "split": True}
    again = cpplan.solve(graph, **alone, time_limit=1, deterministic=True)
    assert len(again.order) > len(set(again.order))
    plan = solved(graph, 60, **alone)
    cpplan.simulate(graph, plan)
    assert len(plan.order) == len(set(plan.order))


def test_every_choice_of_moves_for_some_pieces_says_nothing_of_others():
    """Whole, the slice needs its input beside its scratch and more; in columns it fits."""
    rows, columns, channels = 6, 5, 3
    size = 4 * columns * channels

    def alike(name, extent, place, source, result, offset=0):
        windows = Window(source, place, offset=offset), Window(result, place)
        return Axis(name, extent, windows)

    def axes(source, result, height, offset=0):
        return (
            alike("rows", height, 0, source, result, offset),
            alike("columns", columns, 1, source, result),
            alike("channels", channels, 2, source, result),
        )

    def tensor(name, height, **fields):
        shape = (height, columns, channels)
        return Tensor(name, height * size, shape=shape, dtype="float32", **fields)

    graph = Graph(
        "slice",
        (
            tensor("x", rows, kind="input"),
            tensor("y", rows, kind="output"),
            tensor("part", 1, view_of=("x", size)),
            tensor("z", 1, kind="output"),
            Tensor("w", 6, kind="constant"),
            Tensor("scratch", 186, kind="workspace"),
        ),
        (
            Op("relu", "Relu", ("x",), ("y",), in_place=(("y", "x"),), axes=axes("x", "y", rows)),
            Op("slice", "Slice", ("x", "w"), ("part",), ("scratch",), axes=axes("x", "part", 1, 1)),
            Op("conv", "Conv", ("part",), ("z",), cost=135, axes=axes("part", "z", 1)),
        ),
    )
    options = {"pools": (Pool("fast", 543), Pool("slow")), "spill": True, "constants": "keep"}
    options |= {"order": "search", "in_place": True, "deterministic": True, "time_limit": 0.2}
    assert cpplan.solve(graph, **options).status == "infeasible"
    plan = cpplan.solve(graph, **options, split=True, cost_limit=1.3)
    assert plan.status != "infeasible"
