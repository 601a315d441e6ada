"""Plans in TFLite files: written, run by the runtimes, read back and checked."""

from __future__ import annotations

import importlib
import struct
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import cpplan
from cpplan.cli.main import main
from cpplan.io.tflite import planned_tflite, read_carried_plan, read_tflite
from cpplan.io.tflite.model import parse_model
from cpplan.io.tflite.offsets import METADATA, read_offsets
from cpplan.io.tflite.write import with_offsets
from cpplan.model.errors import InputError, VerificationError

pytest.importorskip("tflite", reason="needs cpplan[tflite]")
networks = pytest.importorskip("support.tflite_networks", reason="needs cpplan[tflite]")
runtimes = pytest.importorskip("support.tflite_runtimes", reason="needs cpplan[tflite]")
draw_inputs, run_litert, run_micro, equal = (
    runtimes.draw_inputs, runtimes.run_litert, runtimes.run_micro, runtimes.equal
)  # fmt: skip

MODELS = sorted((Path(__file__).resolve().parents[2] / "datasets" / "tflite").glob("*.tflite"))
SETTINGS = (
    {},
    {"order": "search"},
    {"order": "search", "in_place": True},
    {"inputs": "outside", "outputs": "outside"},
)


def solve(graph, **options):
    return cpplan.solve(graph, time_limit=10, workers=1, **options)


def check_carried(data: bytes, **options):
    """The plan that a file carries, if it is right."""
    found = read_carried_plan(data, **options)
    cpplan.verify(found.graph, found.plan)
    cpplan.simulate(found.graph, found.plan)
    return found


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_outputs_depend_on_inputs(path):
    data = path.read_bytes()
    outputs = run_litert(data, draw_inputs(data))
    assert not np.array_equal(outputs[0], outputs[len(outputs) // runtimes.RUNS])


@pytest.mark.parametrize("options", SETTINGS, ids=str)
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_written_models_compute_the_same(path, options):
    data = path.read_bytes()
    plan = solve(cpplan.load(path), **options)
    written = planned_tflite(path, plan)
    found = check_carried(written)
    assert found.plan.order == plan.order
    assert found.plan.peak == plan.peak
    assert {(r.tensor, r.other) for r in plan.relations} <= {
        (r.tensor, r.other) for r in found.plan.relations
    }
    assert bool(found.left) == ("inputs" in options)
    runs = draw_inputs(data)
    assert equal(run_litert(data, runs), run_litert(written, runs))
    assert equal(run_micro(data, runs), run_micro(written, runs))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_no_more_bytes_than_the_runtimes_own_planner(path):
    # The largest first, each into the first gap that is large enough: the baseline of that name.
    graph = cpplan.load(path)
    table = cpplan.compare(graph, algorithms=["greedy_by_size"], order="search", time_limit=10)
    rows = table.set_index("algorithm")["bytes"]
    assert rows["cpplan"] <= rows["greedy_by_size"]
    if path.stem == "branches":
        assert (rows["cpplan"], rows["greedy_by_size"]) == (31744, 46080)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_broken_plan_is_found(path):
    written = planned_tflite(path, solve(cpplan.load(path)))
    offsets = list(read_offsets(parse_model(written)).values())
    broken = with_offsets(parse_model(written), [min(offset, 0) for offset in offsets])
    with pytest.raises(VerificationError, match=r"overlap|share bytes"):
        check_carried(broken)
    runs = draw_inputs(written)
    assert not equal(run_micro(written, runs), run_micro(broken, runs))


def test_every_single_move_onto_a_neighbour_is_found():
    data = next(path for path in MODELS if path.stem == "separable").read_bytes()
    graph = read_tflite(data)
    plan = solve(graph)
    written = planned_tflite(data, plan)
    model = parse_model(written)
    offsets = list(read_offsets(model).values())
    number = {tensor.name: k for k, tensor in enumerate(model.subgraphs[0].tensors)}
    for op in graph.ops:
        one, other = number[op.inputs[0]], number[op.outputs[0]]
        if graph.tensor[op.outputs[0]].view_of is None and not op.in_place:
            moved = list(offsets)
            moved[other] = offsets[one]
            with pytest.raises(VerificationError):
                check_carried(with_offsets(model, moved))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_the_runtime_needs_the_bytes_of_the_plan(path):
    data = path.read_bytes()
    plan = solve(cpplan.load(path), order="search", in_place=True)
    heads = [runtimes.record(model).head for model in (data, planned_tflite(path, plan))]
    assert heads[1] == -(-plan.peak // 16) * 16 <= heads[0]


@pytest.mark.parametrize("make", [networks.conditional, networks.counting, networks.summing])
def test_subgraphs_have_offsets_too(make):
    data = make()
    written = planned_tflite(data, solve(read_tflite(data)))
    assert check_carried(written).left == ()
    runs = draw_inputs(data)
    assert equal(run_litert(data, runs), run_litert(written, runs))
    assert equal(run_micro(data, runs), run_micro(written, runs))


def test_a_body_over_what_its_op_reads_is_found():
    data = networks.conditional()
    model = parse_model(planned_tflite(data, solve(read_tflite(data))))
    offsets = read_offsets(model)
    offsets[1, 0] = offsets[0, 1]
    with pytest.raises(VerificationError, match="overlap"):
        check_carried(with_offsets(model, list(offsets.values())))


def test_a_subgraph_of_two_callers_has_one_place():
    model = networks.Model()
    main = model.subgraph("main")
    x, keep, y = (
        main.input("x", [1, 8]), main.tensor("keep", [1, 32]), main.tensor("y", [1, 8])
    )  # fmt: skip
    options = networks.schema.CallOptionsT()
    options.subgraph = 1
    main.run("CALL", [x], [keep], options)
    main.run("CALL", [keep], [y], options)
    main.made.outputs.append(y)
    inner = model.subgraph("inner")
    a, b = inner.input("a", [1, 8]), inner.tensor("b", [1, 8])
    inner.run("NEG", [a], [b])
    inner.made.outputs.append(b)
    data = model.pack()
    plan = solve(read_tflite(data))
    rows = [plan.row[f"{op}/0/a"] for op in ("keep", "y")]
    assert plan.offset is not None
    plan.offset[rows[1]] = plan.offset[rows[0]] + 16
    with pytest.raises(InputError, match="subgraph 1 is run by several ops"):
        planned_tflite(data, plan)


def test_copies_where_reshapes_lie_apart():
    data = networks.crossing()
    plan = solve(read_tflite(data))
    assert plan.peak == 128
    model = parse_model(planned_tflite(data, plan))
    assert list(read_offsets(model).values()) == [0, -1, 0, 64]
    found = check_carried(with_offsets(model, [0, -1, 64, 0]))
    assert found.graph.tensor["flat"].view_of is None
    assert found.plan.peak == 128
    with pytest.raises(VerificationError, match="overlap"):
        check_carried(with_offsets(model, [0, -1, 32, 128]))
    found = check_carried(with_offsets(model, [0, -1, -1, 0]))
    assert (found.left, found.plan.peak) == (("flat",), 64)


def test_parts_within_the_whole_share_on_purpose():
    data = networks.joined()
    plan = solve(read_tflite(data), in_place=True)
    written = planned_tflite(data, plan)
    found = check_carried(written)
    assert "placement" in {relation.kind for relation in found.plan.relations}
    assert found.plan.peak == plan.peak == 96
    runs = draw_inputs(data)
    assert equal(run_micro(data, runs), run_micro(written, runs))


@pytest.mark.parametrize(
    ("kind", "shapes"),
    [(kind, [[1, 4, 24]]) for kind in networks.UNARY]
    + [(kind, [[1, 4, 24]] * 2) for kind in networks.BINARY]
    + [(kind, [[1, 4, 24], [1, 4, 1]]) for kind in networks.BINARY],
    ids=str,
)
def test_the_runtimes_kernels_may_write_over_what_they_read(kind, shapes):
    data = networks.element_wise(kind, shapes)
    draw = np.random.default_rng(0)
    values = [draw.random(size=shape) + 0.5 for shape in shapes]
    runs = [[v > 1 if "LOGICAL" in kind else v.astype(np.float32) for v in values]]
    model = parse_model(data)
    (op,) = read_tflite(data).ops
    pairs = [("y", "x0")] + [("y", "x1")] * (shapes[1:] == shapes[:1])
    assert list(op.in_place) == pairs
    for written in range(len(pairs)):
        offsets = [0 if k == written else 4096 for k in range(len(shapes))]
        over = with_offsets(model, [*offsets, 0])
        assert check_carried(over).plan.relations[0].other == f"x{written}"
        assert equal(run_micro(data, runs), run_micro(over, runs))


def test_the_runtimes_reshapes_may_lie_where_their_inputs_do():
    data = networks.reshaping()
    plan = solve(read_tflite(data))
    assert plan.peak == 192  # x under all its names, and y
    written = planned_tflite(data, plan)
    runs = draw_inputs(data)
    assert equal(run_micro(data, runs), run_micro(written, runs))


def test_writing_again_replaces_the_plan():
    path = MODELS[0]
    graph = cpplan.load(path)
    first, second = solve(graph), solve(graph, order="search")
    written = planned_tflite(path, first)
    again = planned_tflite(written, second)
    assert len(again) == len(written)
    assert check_carried(again).plan.peak == second.peak
    # Ops bear names that do not depend on their order: a plan of one file is a plan of the other.
    cpplan.verify(read_tflite(again), first)
    assert planned_tflite(again, first) == written


def test_all_else_in_the_file_is_kept():
    path = MODELS[0]
    data, model = path.read_bytes(), parse_model(path)
    written = planned_tflite(path, solve(cpplan.load(path)))
    assert written.endswith(data)
    found = parse_model(written)
    assert found.metadata == ((METADATA, len(model.buffers)),)
    assert found.root.text(3) == "branches"
    assert [len(found.buffer_span(k)) for k in range(2)] == [2, 2]
    for k, buffer in enumerate(model.buffers):
        start, count = model.buffer_span(k)
        moved, same = found.buffer_span(k)
        assert (count, (moved - start) % 64) == (same, 0) or not count
        assert buffer.field_count == found.buffers[k].field_count


def test_axes_planned_as_stored_stay_open_in_the_file():
    data = networks.open_batch()
    written = planned_tflite(data, solve(read_tflite(data)))
    assert check_carried(written).graph.tensor["y"].shape == (1, 4)
    assert read_tflite(written, {"x[0]": 5}).tensor["y"].shape == (5, 4)


def test_open_axes_are_fixed_in_the_file():
    data, dims = networks.open_batch(), {"x[0]": 5}
    plan = solve(read_tflite(data, dims))
    written = planned_tflite(data, plan, dims)
    assert read_tflite(written).tensor["y"].shape == (5, 4)
    assert check_carried(written).plan.peak == plan.peak
    (values,) = run_litert(written, [[np.ones((5, 4), np.float32)]])[:1]
    assert values.shape == (5, 4)


def metadata_file(values: list[int]) -> bytes:
    """A model of two tensors with this content of the metadata."""
    data = with_offsets(parse_model(networks.single("TANH")), [0, 16])
    place = data.index(struct.pack("<5i", 0, 1, 2, 0, 16))
    packed = struct.pack(f"<{len(values)}i", *values)
    return data[:place] + packed + data[place + len(packed) :]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 1, 3], "3 offsets announced and 2 there, for 2 tensors"),
        ([0, 1, 1], "1 offsets announced and 2 there, for 2 tensors"),
        ([0, 1, 2, -2], "tensor 0 of subgraph 0 at -2"),
        ([0, 1, 2, 8, 32], "alignment"),
    ],
)
def test_plans_that_cannot_be(values, expected):
    with pytest.raises(VerificationError, match=expected):
        check_carried(metadata_file(values))


def test_plans_of_other_versions_are_not_read():
    assert check_carried(metadata_file([1])).plan.peak == 32
    with pytest.raises(InputError, match="version 7 is not understood"):
        check_carried(metadata_file([7]))


def test_plans_that_a_file_cannot_say():
    path = MODELS[0]
    graph = cpplan.load(path)
    plan = solve(graph)
    other = solve(cpplan.load(MODELS[1]))
    with pytest.raises(InputError, match="is for another model: op"):
        planned_tflite(path, other)
    pools = [cpplan.Pool("sram", 20480), cpplan.Pool("dram")]
    with pytest.raises(InputError, match="one arena, but the plan uses dram, sram"):
        planned_tflite(path, solve(graph, pools=pools))
    with pytest.raises(InputError, match="runs ops again"):
        planned_tflite(path, replace(plan, order=(*plan.order, plan.order[0])))
    with pytest.raises(InputError, match="holds no offsets"):
        planned_tflite(path, solve(graph, capacity=100))


def test_the_command_line_writes_and_verifies(tmp_path, capsys):
    model, target = str(MODELS[0]), str(tmp_path / "planned.tflite")
    assert main(["plan", model, "-q", "--order", "search", "--tflite", target]) == 0
    assert main(["verify", target]) == 0
    out = capsys.readouterr().out
    assert "0 tensors are left to the runtime" in out
    assert "geometry   ok: 26 buffers within 31744 B" in out
    assert "simulation ok" in out
    parsed = parse_model(target)
    broken = with_offsets(parsed, [min(o, 0) for o in read_offsets(parsed).values()])
    Path(target).write_bytes(broken)
    assert main(["verify", target]) == 4
    err = capsys.readouterr().err
    assert "planned.tflite: buffers" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["verify", str(MODELS[0])],
            "carries no plan: expected metadata 'OfflineMemoryAllocation'",
        ),
        (["verify", "graph.json"], "graph.json: carries no plan, as TFLite models can: give PLAN"),
        (["plan", "graph.json", "--tflite", "a.tflite"], "--tflite needs a TFLite model"),
        (["plan", str(MODELS[0]), "--tflite", str(MODELS[0])], "would overwrite the file"),
    ],
)
def test_the_command_line_says_what_is_wrong(arguments, expected, capsys):
    assert main(arguments) == 2
    assert expected in capsys.readouterr().err


def test_the_data_sets_are_what_their_script_makes(monkeypatch):
    if version("ai-edge-litert") != "2.3.0":
        pytest.skip("made with ai-edge-litert 2.3.0")
    monkeypatch.syspath_prepend(str(MODELS[0].parents[1] / "generators"))
    script = importlib.import_module("tflite_models")
    made = {f"{make.__name__}.tflite": make().pack() for make in script.MODELS}
    assert made == {path.name: path.read_bytes() for path in MODELS}
