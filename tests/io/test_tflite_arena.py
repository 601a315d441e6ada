"""The arena to reserve for TFLite Micro, beside what its recording allocator measures."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest
from support.pages import blocks_of

import cpplan
from cpplan.cli.main import main
from cpplan.io.tflite import (
    micro_arena,
    piece_bytes,
    plan_micro,
    planned_tflite,
    planning,
    read_carried_plan,
    read_tflite,
)
from cpplan.model.byte_sizes import format_bytes
from cpplan.model.errors import InputError
from cpplan.solving.request import Request

pytest.importorskip("tflite", reason="needs cpplan[tflite]")
networks = pytest.importorskip("support.tflite_networks", reason="needs cpplan[tflite]")
kinds = pytest.importorskip("support.tflite_kinds", reason="needs cpplan[tflite]")
runtimes = pytest.importorskip("support.tflite_runtimes", reason="needs cpplan[tflite]")

FOLDER = Path(__file__).resolve().parents[2] / "datasets" / "tflite"
MODELS = (
    dict(kinds.MODELS)
    | {path.stem: path.read_bytes for path in sorted(FOLDER.glob("*.tflite"))}
    | {
        make.__name__: make
        for make in (networks.conditional, networks.counting, networks.summing, networks.joined)
    }
)


def solve(data: bytes, **options):
    return cpplan.solve(read_tflite(data), time_limit=2, workers=1, **options)


@pytest.mark.parametrize("name", MODELS)
def test_the_runtime_never_needs_more_than_is_stated(name):
    data = MODELS[name]()
    plan = solve(data)
    written, stated = planned_tflite(data, plan), micro_arena(data, plan)
    recorded = runtimes.record(written)
    assert recorded.head == stated.head
    # An upper bound, and no far one: structures of kernels are rounded up one by one.
    assert recorded.tail <= stated.tail <= 1.25 * recorded.tail
    runs = runtimes.draw_inputs(data)
    least = runtimes.run_micro(written, runs, arena=stated.total)
    assert runtimes.equal(least, runtimes.run_micro(data, runs))


@pytest.mark.parametrize("name", ["pooled_int8", "segmentation_int8", "shuffled_float"])
def test_tensors_left_to_the_runtime_are_stated_on_top(name):
    data = MODELS[name]()
    plan = solve(data, inputs="outside", outputs="outside")
    stated = micro_arena(data, plan)
    assert plan.peak <= runtimes.record(planned_tflite(data, plan)).head <= stated.head


def strays() -> bytes:
    """A ``RELU``, two tensors that no operator accesses, and a subgraph that none runs."""
    model = networks.Model()
    main = kinds.Net(model.subgraph("main"))
    x = main.input("x", (1, 8))
    for k in range(2):
        main.tensor(f"stray{k}", (1, 1024))
    main.output(main.relu("y", x))
    other = kinds.Net(model.subgraph("other"))
    other.output(other.relu("w", other.relu("v", other.input("u", (1, 1024)))))
    return model.pack()


def test_tensors_that_nobody_accesses_lie_on_one_another():
    data = strays()
    plan = solve(data)
    assert plan.peak == 64
    stated = micro_arena(data, plan)
    # The runtime takes all five to be live at once, and reserves bytes for each place.
    assert runtimes.record(data).head == 5 * 4096
    assert runtimes.record(planned_tflite(data, plan)).head == stated.head == 4096


def test_a_small_model_needs_room_to_plan():
    data = networks.conditional()
    stated = micro_arena(data, solve(data))
    assert stated.planning > stated.head
    assert stated.total == stated.tail + stated.planning
    assert "instead of the head while it plans" in str(stated)


def test_plans_that_the_runtime_cannot_follow_have_no_arena():
    data = kinds.segmentation(kinds.INT8)
    pools = [cpplan.Pool("sram", 8192), cpplan.Pool("dram")]
    with pytest.raises(InputError, match="one arena, but the plan uses"):
        micro_arena(data, solve(data, pools=pools))
    with pytest.raises(InputError, match="is for another model"):
        micro_arena(data, solve(networks.joined()))


def test_the_command_line_and_the_report_state_the_arena(tmp_path, capsys):
    path, page = tmp_path / "segmentation.tflite", tmp_path / "plan.html"
    path.write_bytes(kinds.segmentation(kinds.INT8))
    assert main(["plan", str(path), "-q", "--report", str(page)]) == 0
    line = "17.06 KiB (17472 B): head 12.50 KiB, tail up to 4672 B"
    assert f"micro arena  {line}\n" in capsys.readouterr().out
    assert f'"notes":{{"micro arena":"{line}"}}' in page.read_text()
    assert main(["plan", str(path), "-q", "--pool", "sram=8KiB", "--pool", "dram"]) == 0
    expected = "micro arena  none: TFLite Micro has one arena, but the plan uses dram, sram"
    assert expected in capsys.readouterr().out


def widened() -> bytes:
    """Two convolutions with many channels between them."""
    model, net = kinds.new_net("widened", kinds.INT8)
    x = net.conv("conv0", net.input("x", [1, 48, 48, 2]), 16, 1, 1)
    net.output(net.conv("conv1", x, 2, 1, 1))
    return model.pack()


def test_pieces_weighed_by_what_the_runtime_keeps_need_less_in_all():
    data = widened()
    whole, plain = solve(data), solve(data, split=True)
    weighed = solve(data, split=True, piece_bytes=piece_bytes(data))
    assert len(whole.order) < len(weighed.order) < len(plain.order)
    assert plain.peak < weighed.peak < whole.peak
    least, most = (runtimes.record(planned_tflite(data, plan)) for plan in (weighed, whole))
    assert least.head + least.tail < most.head + most.tail


def test_the_command_line_weighs_pieces_of_tflite_models_and_says_so(tmp_path, capsys):
    path = tmp_path / "widened.tflite"
    path.write_bytes(widened())
    command = ["plan", str(path), "-q", "--split", "--workers", "1", "--time-limit", "2"]
    assert main(command) == 0
    most = max(piece_bytes(path).values())
    note = f"piece bytes  up to {most} B weighed for each run beyond one per op, as TFLite"
    assert note in capsys.readouterr().out
    assert main([*command, "--piece-bytes", "1GiB"]) == 0
    assert "piece bytes" not in capsys.readouterr().out
    assert piece_bytes(networks.single("my_kernel")) == {}


def deep() -> bytes:
    """Separable convolutions, with fewer and fewer positions."""
    model, net = kinds.new_net("deep", kinds.INT8)
    x = net.conv("conv0", net.input("x", [1, 48, 48, 3]), 8, 3, 2)
    for k in range(1, 5):
        x = net.conv(f"point{k}", net.depthwise(f"depth{k}", x), 8 << k // 2, 1)
        x = net.pool(f"pool{k}", x) if k % 2 else x
    net.output(x)
    return model.pack()


def test_the_smallest_arena_counts_of_plans_with_fewer_and_fewer_pieces():
    data = deep()
    graph, whole = read_tflite(data), micro_arena(data, solve(data)).total
    # Weighed too little, the pieces take more of the tail than they save.
    light = Request(split=True, piece_bytes=200, deterministic=True, workers=1, time_limit=4)
    options = {"deterministic": True, "workers": 1, "time_limit": 4}
    lightest = cpplan.solve(graph, split=True, piece_bytes=200, **options)
    least = micro_arena(data, plan_micro(data, graph, light)).total
    assert least < whole < micro_arena(data, lightest).total
    limited = plan_micro(data, graph, replace(light, memory_limit=least))
    assert micro_arena(data, limited).total <= least
    # Whole, it fits: no op is cut.
    assert plan_micro(data, graph, replace(light, memory_limit=whole)).pieces == ()


def test_ctrl_c_ends_all_plans_that_would_follow(monkeypatch):
    data, limits = deep(), []

    def solve_arena(graph, request):
        limits.append(request.time_limit)
        if len(limits) == 2:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        return solved(graph, request)

    solved = planning.solve_arena
    monkeypatch.setattr(planning, "solve_arena", solve_arena)
    request = Request(split=True, piece_bytes=64, workers=1, time_limit=3)
    plan = plan_micro(data, read_tflite(data), request)
    assert len(limits) == 2
    assert plan.offset is not None
    limits[:] = [0.0]  # Ctrl-C in the plan without pieces: others get no time
    plan = plan_micro(data, read_tflite(data), replace(request, memory_limit=1 << 10))
    assert plan.offset is None
    assert max(limits[2:]) <= 0.001


def test_pieces_are_weighed_by_op():
    graph = read_tflite(widened())
    plain, dear = (
        cpplan.solve(graph, split=True, piece_bytes=weights, workers=1, time_limit=4)
        for weights in (0, {"conv1": 1 << 20})
    )
    assert {pieces.op for pieces in plain.pieces} == {"conv0", "conv1"}
    assert {pieces.op for pieces in dear.pieces} <= {"conv0"}
    with pytest.raises(InputError, match="piece_bytes: graph 'main' has no op 'unknown'"):
        cpplan.solve(graph, split=True, piece_bytes={"unknown": 1})


def test_the_command_line_says_what_the_arena_lacks(tmp_path, capsys):
    path = tmp_path / "single.tflite"
    path.write_bytes(networks.single("my_kernel"))
    assert main(["plan", str(path), "-q"]) == 0
    assert "; without scratch memory of my_kernel\n" in capsys.readouterr().out
    assert main(["plan", str(path), "-q", "--workspace", "my_kernel=0"]) == 0
    assert "without" not in capsys.readouterr().out


LIMITED = {
    "segmentation": lambda: kinds.segmentation(kinds.INT8),
    "conditional": networks.conditional,  # needs most while the runtime plans
    "strays": strays,  # needs most for tensors that nobody accesses
    "ensemble": lambda: kinds.ensemble(kinds.FLOAT32),
}


@pytest.mark.parametrize("name", LIMITED)
@pytest.mark.parametrize("option", ["--memory-limit", "--capacity"])
def test_limits_are_on_the_arena_that_the_command_line_states(name, option, tmp_path, capsys):
    path = tmp_path / "model.tflite"
    path.write_bytes(LIMITED[name]())
    total = micro_arena(path, solve(path.read_bytes())).total
    command = ["plan", str(path), "-q", "--time-limit", "2", option]
    assert main([*command, str(total)]) == 0
    text = capsys.readouterr().out
    assert f"{total} B" in text.replace(",", "")
    assert ("; the limit is" in text) == (option == "--memory-limit")
    assert main([*command, str(total - 1)]) == 3
    assert " lacks 1 B: TFLite Micro keeps up to " in capsys.readouterr().err


@pytest.mark.parametrize("name", LIMITED)
@pytest.mark.parametrize("outside", [(), ("inputs",), ("inputs", "outputs")], ids=len)
def test_limits_of_python_are_on_the_same_arena(name, outside):
    data = LIMITED[name]()
    options = dict.fromkeys(outside, "outside")
    total = micro_arena(data, solve(data, **options)).total
    fits = solve(data, memory_limit=total, **options)
    assert micro_arena(data, fits).total == total
    assert fits.peak <= fits.capacity < total
    less = solve(data, memory_limit=total - 1, **options)
    assert (less.status, less.offset) == ("infeasible", None)
    assert " lacks 1 B: " in less.message
    assert solve(data, memory_limit="100%", **options).status == "optimal"  # of tensors alone


@pytest.mark.parametrize("kernels", ["reference", "cmsis-nn"])
def test_limits_follow_the_kernels(kernels, tmp_path, capsys):
    path = tmp_path / "model.tflite"
    path.write_bytes(kinds.segmentation(kinds.INT8))
    graph = cpplan.load(path, kernels=kernels)
    total = micro_arena(path, cpplan.solve(graph, workers=1), kernels=kernels).total
    command = ["plan", str(path), "-q", "--kernels", kernels, "--memory-limit"]
    assert [main([*command, str(total - less)]) for less in (0, 1)] == [0, 3]
    capsys.readouterr()


def test_a_model_in_pieces_fits_into_the_limit_with_all_that_the_runtime_keeps(tmp_path, capsys):
    data = widened()
    path, written = tmp_path / "widened.tflite", tmp_path / "written.tflite"
    path.write_bytes(data)
    whole = micro_arena(data, solve(data)).total
    limit = whole * 2 // 3
    command = ["plan", str(path), "-q", "--split", "--workers", "1", "--time-limit", "4"]
    assert main([*command, "--memory-limit", str(limit), "--tflite", str(written)]) == 0
    assert "; the limit is" in capsys.readouterr().out
    made = written.read_bytes()
    assert micro_arena(made, read_carried_plan(made).plan).total <= limit
    assert main([*command, "--memory-limit", str(limit // 3)]) == 3
    assert "lacks" in capsys.readouterr().err


def test_the_best_model_in_pieces_is_named_if_its_arena_is_too_large():
    data = widened()
    graph = read_tflite(data)
    whole = micro_arena(data, solve(data)).total
    request = Request(split=True, memory_limit=whole * 2 // 5, workers=1, time_limit=2)
    plan = plan_micro(data, graph, request)
    assert (plan.status, plan.offset, plan.pieces) == ("unknown", None, ())
    assert "in pieces, the best model needs" in plan.message
    assert f"whole, an arena of {format_bytes(request.memory_limit)} lacks" in plan.message


def gathering() -> bytes:
    """A convolution over all channels of two joined images: pieces gather what they read."""
    model, net = kinds.new_net("gathering", kinds.INT8)
    x = net.conv("first", net.input("x", [1, 24, 24, 2]), 8, 5)
    x = net.conv("second", x, 8, 5)
    net.output(net.conv("third", x, 2, 5))
    return model.pack()


def test_no_op_runs_in_pieces_if_the_runtime_then_needs_more(tmp_path, capsys):
    path, plan = tmp_path / "gathering.tflite", tmp_path / "plan.json"
    path.write_bytes(gathering())
    whole = micro_arena(path, solve(path.read_bytes())).total
    # The search weighs less than the runtime keeps, and finds pieces whose arena is larger.
    command = ["plan", str(path), "-q", "--split", "--workers", "1", "--time-limit", "2"]
    assert main([*command, "--piece-bytes", "1", "-o", str(plan)]) == 0
    text = capsys.readouterr().out
    assert f"micro arena  {format_bytes(whole)}" in text
    assert "no op runs in pieces: in TFLite Micro, the model in pieces that was found" in text
    assert main(["verify", str(path), str(plan), "--execute"]) == 0
    assert cpplan.Plan.load(plan).scope == "every splitting"
    assert main([*command, "--piece-bytes", "0"]) == 0
    assert "no op runs in pieces" not in capsys.readouterr().out


def test_the_page_on_devices_prints_what_it_shows(monkeypatch, capsys):
    root = FOLDER.parents[1]
    page = (root / "docs/guide/devices.md").read_text(encoding="utf-8")
    (block,) = (block.text for block in blocks_of(page) if block.language == "python")
    monkeypatch.chdir(root)
    exec(compile(block, "devices.md", "exec"), {})
    assert f"# {capsys.readouterr().out}" in block
