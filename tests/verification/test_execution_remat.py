"""Real models within limits that no order keeps: ops run again, and every bit is the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.weighted_models import with_random_weights

import cpplan
from cpplan.cli.main import main
from cpplan.io.onnx.reorder import reorder_onnx
from cpplan.model.plan import Plan

onnx = pytest.importorskip("onnx")
from onnx import numpy_helper, parser  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

EXPORTS = Path(__file__).resolve().parents[2] / "datasets/onnx"
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
# Images of 32 x 32 where the files say 224 x 224: as many ops, on a fiftieth of the bytes.
EXTENT = 32


def training_step(depth: int, batch: int = 64, width: int = 8) -> onnx.ModelProto:
    """The gradients of a chain of matrix products and tanh, for a loss that is the last sum."""
    lines = ["h0 = Identity(x)"]
    for k in range(1, depth + 1):
        lines += [f"z{k} = MatMul(h{k - 1}, w{k})", f"h{k} = Tanh(z{k})"]
    gradient = "seed"
    for k in range(depth, 0, -1):
        lines += [
            f"s{k} = Mul(h{k}, h{k})",
            f"f{k} = Sub(one, s{k})",
            f"d{k} = Mul({gradient}, f{k})",
            f"t{k} = Transpose(h{k - 1})",
            f"g{k} = MatMul(t{k}, d{k})",
            f"v{k} = Transpose(w{k})",
            f"e{k} = MatMul(d{k}, v{k})",
        ]
        gradient = f"e{k}"
    outputs = ", ".join(f"float[{width}, {width}] g{k}" for k in range(1, depth + 1))
    made = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        step (float[{batch}, {width}] x) => ({outputs}) {{ {" ".join(lines[:-1])} }}"""
    )
    rng = np.random.default_rng(0)
    constants = {f"w{k}": rng.standard_normal((width, width)) / 2 for k in range(1, depth + 1)}
    constants |= {"one": np.ones(()), "seed": np.ones((batch, width))}
    made.graph.initializer.extend(
        numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()
    )
    return made


def within(model: onnx.ModelProto, share: float, seconds: float | None = None) -> Plan:
    """A plan at this share of the least that any order needs, which is proved."""
    graph = cpplan.load(model)
    searched = cpplan.solve(graph, order="search", time_limit=30, workers=1)
    assert searched.status == "optimal"
    limit = int(share * searched.peak)
    plan = cpplan.solve(
        graph,
        remat=True,
        memory_limit=limit,
        time_limit=seconds or 1,
        workers=1,
        deterministic=seconds is None,
    )
    assert plan.offset is not None, plan.message
    assert plan.peak <= limit < searched.lower_bound
    assert plan.cost > plan.base_cost
    assert len(plan.order) > len(graph.ops)
    return plan


def assert_runs(model: onnx.ModelProto, plan: Plan) -> None:
    """The plan runs in an arena of its peak, and so does the model written from it."""
    done = cpplan.execute(model, plan)
    assert (done.arena_bytes, done.steps) == (plan.peak, len(plan.order))
    given = cpplan.execute(model, cpplan.solve(cpplan.load(model), time_limit=5, workers=1))
    written = reorder_onnx(model, plan.order)
    onnx.checker.check_model(written, full_check=True)
    graph = cpplan.load(written)
    assert len(graph.ops) == len(plan.order)
    # As it is listed, without running anything again, it has the live bytes that the plan has.
    again = cpplan.solve(graph, time_limit=5, workers=1)
    least = max(cpplan.to_anf(cpplan.load(model), plan.order).live_bytes())
    assert max(cpplan.to_anf(graph).live_bytes()) == least <= plan.peak
    outputs = cpplan.execute(written, again).outputs
    assert list(outputs) == list(given.outputs) == list(done.outputs)
    for name, value in given.outputs.items():
        assert np.unique(value).size > value.size // 2  # no constant, which any order would give
        assert done.outputs[name].tobytes() == value.tobytes()
        assert outputs[name].tobytes() == value.tobytes()


def test_training_step_that_recomputes_runs_right() -> None:
    step = training_step(6)
    plan = within(step, 0.7)
    assert_runs(step, plan)
    # An evaluator that knows nothing of plans agrees.
    x = np.random.default_rng(1).standard_normal((64, 8)).astype(np.float32)
    results = [
        ReferenceEvaluator(m).run(None, {"x": x}) for m in (step, reorder_onnx(step, plan.order))
    ]
    for a, b in zip(*results, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        pytest.param(EXPORTS, "densenet121", marks=pytest.mark.slow),
        pytest.param(LIGHT, "light_densenet121", marks=pytest.mark.slow),
    ],
)
def test_densely_connected_networks_run_right(folder: Path, name: str) -> None:
    # Each layer of a block reads all before it: what it concatenates can be put together again.
    model = with_random_weights(folder / f"{name}.onnx", extent=EXTENT)
    assert_runs(model, within(model, 0.96, seconds=60))


@pytest.mark.parametrize(("second", "fits"), [("Tanh(r)", True), ("Dropout(r, p, on)", False)])
def test_random_results_are_kept(second: str, fits: bool) -> None:
    # While n is computed from b, d need not be there if it can be computed again from x:
    # 128 + 128 + 4 B; else d of 32 B is.
    text = f"""g (float[1] x) => (float[8] y)
        <int64[1] s = {{8}}, float p = {{0.5}}, bool on = {{1}}>
        {{ r = Expand(x, s) d = {second} b = Concat <axis = 0> (d, d, d, d) n = Neg(b)
          c = ReduceSum <keepdims = 1> (n) y = Mul(d, c) }}"""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    graph = cpplan.load(model)
    assert cpplan.solve(graph, order="search", time_limit=5).lower_bound == 128 + 128 + 32
    plan = cpplan.solve(
        graph, remat=True, memory_limit=128 + 128 + 4, time_limit=5, deterministic=True
    )
    assert (plan.offset is not None) == fits
    if fits:
        assert cpplan.execute(model, plan).arena_bytes == 260


def test_command_line_plans_writes_and_verifies_a_recomputing_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, written = tmp_path / "step.onnx", tmp_path / "again.onnx"
    saved = tmp_path / "plan.json"
    onnx.save(training_step(4), source)
    least = cpplan.solve(cpplan.load(source), order="search", time_limit=30, workers=1).lower_bound
    options = ["--remat", "--memory-limit", str(int(0.7 * least)), "--deterministic", "-q"]
    options += ["--time-limit", "0.5"]
    command = ["plan", str(source), *options, "--workers", "1"]
    assert main([*command, "-o", str(saved), "--onnx", str(written)]) == 0
    plan = Plan.load(saved)
    assert len(plan.order) > len(set(plan.order))
    assert main(["verify", str(source), str(saved), "--execute"]) == 0
    assert cpplan.solve(cpplan.load(written), capacity=plan.peak).peak <= plan.peak
    names = [node.name for node in onnx.load(written).graph.node]
    assert any(name.endswith("~1") for name in names)
    # Again, byte for byte.
    first = written.read_bytes()
    assert main([*command, "--onnx", str(written)]) == 0
    assert written.read_bytes() == first
    capsys.readouterr()
    for wrong, code in ((["--memory-limit", "10"], 3), (["--onnx", str(source)], 2)):
        assert main([*command, *wrong]) == code
        assert capsys.readouterr().err.count("\n") == 1
