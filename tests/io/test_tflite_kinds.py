"""TFLite models of many kinds: planned, run by both runtimes, and what the arena must hold."""

from __future__ import annotations

import pytest

import cpplan
from cpplan.io.tflite import planned_tflite, read_tflite
from cpplan.io.tflite.model import parse_model

pytest.importorskip("tflite", reason="needs cpplan[tflite]")
interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="needs cpplan[tflite]")

kinds = pytest.importorskip("support.tflite_kinds", reason="needs cpplan[tflite]")
runtimes = pytest.importorskip("support.tflite_runtimes", reason="needs cpplan[tflite]")

SETTINGS = ({}, {"order": "search", "in_place": True})


@pytest.fixture(scope="module", params=kinds.MODELS)
def data(request) -> bytes:
    return kinds.MODELS[request.param]()


@pytest.fixture
def litert_runs(request) -> bool:
    """False where a kernel is TFLite Micro's alone: sums of many int8 tensors, ring buffers."""
    return not any(name in request.node.name for name in ("ensemble_int8", "ring"))


def solve(data: bytes, **options):
    return cpplan.solve(read_tflite(data), time_limit=2, workers=1, **options)


def test_outputs_depend_on_inputs(data):
    outputs = runtimes.run_micro(data, runtimes.draw_inputs(data))
    assert not runtimes.equal(outputs[: len(outputs) // 3], outputs[-(len(outputs) // 3) :])


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_planned_models_compute_the_same_within_the_peak(data, options, litert_runs):
    plan = solve(data, **options)
    written = planned_tflite(data, plan)
    runs = runtimes.draw_inputs(data)
    for delegates in (False, True) if litert_runs else ():
        one, other = (runtimes.run_litert(d, runs, delegates=delegates) for d in (data, written))
        assert runtimes.equal(one, other)
    assert runtimes.equal(runtimes.run_micro(data, runs), runtimes.run_micro(written, runs))
    head = runtimes.record(written).head
    assert head == -(-plan.peak // 16) * 16
    if len(parse_model(data).subgraphs) == 1:
        assert head <= runtimes.record(data).head


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_stay_within_the_peak(seed):
    data = kinds.random_network(seed)
    runs = runtimes.draw_inputs(data)
    expected = runtimes.run_micro(data, runs)
    for options in SETTINGS:
        plan = solve(data, **options)
        written = planned_tflite(data, plan)
        assert runtimes.record(written).head == -(-plan.peak // 16) * 16
        assert runtimes.equal(runtimes.run_micro(written, runs), expected)
