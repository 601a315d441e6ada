"""Scratch memory of TFLite Micro's kernels: the table, and what the user states."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator

import pytest

import cpplan
from cpplan.cli.main import main
from cpplan.io.tflite import micro_arena, read_carried_plan, read_tflite
from cpplan.io.tflite.model import parse_model
from cpplan.io.tflite.scratch import scratch_bytes
from cpplan.io.tflite.write import planned_tflite, with_offsets
from cpplan.model.dtypes import BITS
from cpplan.model.errors import InputError

pytest.importorskip("tflite", reason="needs cpplan[tflite]")
flatbuffers = pytest.importorskip("flatbuffers", reason="needs cpplan[tflite]")
networks = pytest.importorskip("support.tflite_networks", reason="needs cpplan[tflite]")
kinds = pytest.importorskip("support.tflite_kinds", reason="needs cpplan[tflite]")
runtimes = pytest.importorskip("support.tflite_runtimes", reason="needs cpplan[tflite]")

# Of more than one subgraph, or that need another op before them.
NOT_ALONE = "IF WHILE CALL_ONCE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE".split()  # noqa: SIM905


def isolated(data: bytes) -> Iterator[bytes]:
    """Models of one operator each: those of subgraph 0 that can run alone."""
    source = parse_model(data).subgraphs[0]
    for number, operator in enumerate(source.operators):
        if operator.kind in NOT_ALONE:
            continue
        model = networks.schema.ModelT.InitFromPackedBuf(data, 0)
        (main,) = model.subgraphs = model.subgraphs[:1]
        (alone,) = main.operators = [main.operators[number]]
        used = [*operator.inputs, *operator.outputs]
        if alone.intermediates is not None:
            used += alone.intermediates.tolist()
        place = {k: n for n, k in enumerate(dict.fromkeys(k for k in used if k >= 0))} | {-1: -1}
        main.tensors = [main.tensors[k] for k in place if k >= 0]
        alone.inputs = [place[k] for k in operator.inputs]
        alone.outputs = main.outputs = [place[k] for k in operator.outputs]
        if alone.intermediates is not None:
            alone.intermediates = [place[int(k)] for k in alone.intermediates]
        tensors = source.tensors
        main.inputs = [
            place[k]
            for k in dict.fromkeys(operator.inputs)
            if k >= 0 and not tensors[k].data_bytes and not tensors[k].variable
        ]
        model.metadata, model.signatureDefs = [], []
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        yield bytes(builder.Output())


def stacked(data: bytes) -> tuple[bytes, int]:
    """The model with its tensors one above another, and where the last ends."""
    model = parse_model(data)
    end, offsets = 0, []
    for tensor in model.subgraphs[0].tensors:
        if tensor.data_bytes or tensor.variable:
            offsets.append(-1)
            continue
        offsets.append(end)
        size = math.prod(tensor.shape) * BITS[tensor.dtype] // 8
        end += -(-size // 16) * 16
    return with_offsets(model, offsets), end


@pytest.mark.parametrize("name", [name for name in kinds.MODELS if "looping" not in name])
def test_reference_kernels_ask_for_what_the_table_says(name):
    checked = 0
    for data in isolated(kinds.MODELS[name]()):
        placed, end = stacked(data)
        source = parse_model(data).subgraphs[0]
        expected = scratch_bytes(source.operators[0], source.tensors)
        assert runtimes.record(placed).head - end == expected, source.operators[0].kind
        checked += 1
    assert checked


@pytest.mark.parametrize(("kind", "count"), networks.ELEMENT_WISE)
def test_element_wise_kernels_ask_for_nothing(kind, count):
    data = networks.element_wise(kind, [[1, 4, 24]] * count)
    placed, end = stacked(data)
    source = parse_model(data).subgraphs[0]
    assert scratch_bytes(source.operators[0], source.tensors) == 0
    assert runtimes.record(placed).head == end


@pytest.mark.parametrize("dtype", [kinds.FLOAT32, kinds.INT8], ids=["float", "int8"])
@pytest.mark.parametrize("operator", kinds.OPERATORS, ids=lambda operator: operator[0])
def test_other_kernels_ask_for_what_the_table_says(operator, dtype):
    kind, *rest = operator
    data = kinds.one_operator(kind, dtype, *rest)
    placed, end = stacked(data)
    source = parse_model(data).subgraphs[0]
    recorded = runtimes.record(placed)
    assert recorded.head - end == scratch_bytes(source.operators[0], source.tensors)
    plan = cpplan.solve(read_tflite(data), time_limit=2, workers=1)
    assert recorded.tail <= micro_arena(data, plan).tail


def test_a_transposed_convolution_asks_for_four_bytes_an_element():
    graph = read_tflite(kinds.segmentation(kinds.INT8))
    assert graph.op["up2"].workspaces == ("up2/scratch",)
    scratch = graph.tensor["up2/scratch"]
    assert (scratch.nbytes, scratch.kind, scratch.alignment) == (4 * 16 * 16 * 8, "workspace", 16)
    assert read_tflite(kinds.segmentation(kinds.FLOAT32)).op["up2"].workspaces == ()


def test_kernels_in_bodies_ask_too():
    then, other = read_tflite(kinds.branching(kinds.INT8)).op["chosen"].bodies
    assert [op.workspaces for op in then.ops] == [("mean/scratch",)]
    assert then.tensor["mean/scratch"].nbytes == 16 + 16 + 4 * 8
    assert other.tensor["up/scratch"].nbytes == 4 * 12 * 12 * 8


def test_a_carried_plan_leaves_scratch_memory_to_the_runtime():
    data = kinds.segmentation(kinds.INT8)
    plan = cpplan.solve(read_tflite(data), time_limit=2, workers=1)
    found = read_carried_plan(planned_tflite(data, plan))
    assert found.left == ()
    assert not any(op.workspaces for op in found.graph.ops)
    cpplan.verify(found.graph, found.plan)


def test_kinds_that_nobody_knows_are_named_once(caplog):
    data = networks.single("my_kernel")
    with caplog.at_level(logging.WARNING):
        read_tflite(data)
    (record,) = caplog.records
    assert "TFLite model: scratch memory of my_kernel is not known" in record.getMessage()
    assert "--workspace 'my_kernel=BYTES'" in record.getMessage()
    caplog.clear()
    read_tflite(data, workspaces={"my_kernel"})
    read_tflite(kinds.segmentation(kinds.INT8))
    assert not caplog.records


@pytest.mark.parametrize("key", ["TRANSPOSE_CONV", "up2"])
def test_stated_bytes_replace_those_of_the_table(tmp_path, key):
    path = tmp_path / "segmentation.tflite"
    path.write_bytes(kinds.segmentation(kinds.INT8))
    graph = cpplan.load(path, workspaces={key: "100 B"})
    assert graph.tensor["up2/scratch"].nbytes == 100
    expected = 100 if key == "TRANSPOSE_CONV" else 4 * 8 * 8 * 12
    assert graph.tensor["up1/scratch"].nbytes == expected
    assert cpplan.load(path, workspaces={key: 0}).op["up2"].workspaces == ()


def test_the_command_line_states_scratch_memory(tmp_path, capsys, caplog):
    path, plan = tmp_path / "single.tflite", str(tmp_path / "plan.json")
    path.write_bytes(networks.single("my_kernel"))
    assert main(["plan", str(path), "-q", "--workspace", "my_kernel=1KiB", "-o", plan]) == 0
    assert not caplog.records
    assert "1056 B" in capsys.readouterr().out  # 1024 B beside two tensors of 16 B
    assert main(["verify", str(path), plan, "--workspace", "my_kernel=1KiB"]) == 0
    assert main(["verify", str(path), plan]) == 4


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"CONV_3D": 8}, "workspaces: the graph has no op of kind or name 'CONV_3D'"),
        ({"TANH": -1}, "workspaces: 'TANH': a byte count cannot be negative"),
        ({"TANH": "few"}, "workspaces: 'TANH': 'few' is not a byte count"),
        (8, "workspaces must map ops to bytes, not 8"),
    ],
)
def test_what_cannot_be_stated_is_refused(tmp_path, stated, expected):
    path = tmp_path / "single.tflite"
    path.write_bytes(networks.single("TANH"))
    with pytest.raises(InputError, match=expected):
        cpplan.load(path, workspaces=stated)
