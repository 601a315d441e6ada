"""Real models in two arenas, with tensors that move between them: every byte as unplanned."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import onnx
import onnx.parser
import pytest
from support.cases import seeds

import cpplan
from cpplan import Pool
from cpplan.model.errors import VerificationError

ONNX = Path(__file__).resolve().parents[2] / "datasets" / "onnx"


def _model(seed: int) -> onnx.ModelProto:
    """Twelve ops on vectors of 16 numbers, each of one or two of the values so far."""
    rng = random.Random(seed)
    values, lines = ["x", "w"], []
    for k in range(12):
        kind = rng.choice(["Exp", "Neg", "Relu", "Add", "Mul", "Sub"])
        # Mostly of what is recent, sometimes of what is old.
        recent = values[-3:] if rng.random() < 0.6 else values
        inputs = [rng.choice(recent), rng.choice(values)][: 1 + (kind in ("Add", "Mul", "Sub"))]
        lines.append(f"t{k} = {kind}({', '.join(inputs)})")
        values.append(f"t{k}")
    lines.append(f"y = Add({values[-1]}, {values[3]})")
    text = "\n".join(lines)
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[16] x, float[16] w) => (float[16] y) '
        f"{{ {text} }}"
    )


@pytest.mark.parametrize("seed", seeds(10))
def test_small_models_compute_the_same_bytes_in_two_arenas(seed: int) -> None:
    model = _model(seed)
    graph = cpplan.load(model)
    pools = [Pool("fast", 192), Pool("slow", direct=seed % 2 == 0)]
    plan = cpplan.solve(
        graph, pools=pools, spill=True, in_place=True, time_limit=20, deterministic=True
    )
    assert plan.moved_bytes is not None
    done = cpplan.execute(model, plan, seed=seed)
    assert done.steps == len(plan.order)
    assert done.arena_bytes == plan.peak


def test_a_reload_of_other_bytes_is_found() -> None:
    model = _model(3)
    graph = cpplan.load(model)
    pools = [Pool("fast", 192), Pool("slow")]
    plan = cpplan.solve(graph, pools=pools, spill=True, time_limit=20, deterministic=True)
    slow = [k for k in range(len(plan.buffers)) if plan.pool[k] == 1]
    pairs = [
        (i, j)
        for i in slow
        for j in slow
        if i < j and plan.lower[i] < plan.upper[j] and plan.lower[j] < plan.upper[i]
    ]
    assert pairs
    offset = plan.offset.copy()
    one, other = pairs[0]
    offset[one] = offset[other]
    with pytest.raises(VerificationError):
        cpplan.execute(model, replace(plan, offset=offset))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in ONNX.glob("*.onnx")))
def test_networks_compute_the_same_bytes_in_two_arenas(name: str) -> None:
    path = ONNX / f"{name}.onnx"
    graph = cpplan.load(path)
    peak = cpplan.solve(graph, in_place=True, placement=False, time_limit=20).peak
    pools = [Pool("sram", peak // 2), Pool("dram", direct=True)]
    plan = cpplan.solve(graph, pools=pools, spill=True, in_place=True, time_limit=20)
    assert plan.moved_bytes
    cpplan.execute(path, plan, weights="random")
