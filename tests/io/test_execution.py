"""Models that can be executed, and the table that holds the kernels of their formats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cpplan.io.execution import RUNNERS, Runner, execute
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.graph import Graph, Op
from cpplan.model.plan import Plan
from cpplan.model.tensor import Tensor

X = np.arange(4, dtype=np.uint8)
COLUMNS = {"size": [4, 4], "lower": [0, 0], "upper": [1, 1], "offset": [0, 4]}
PLAN = Plan(
    "g",
    "feasible",
    ("x", "y"),
    **{key: np.array(column) for key, column in COLUMNS.items()},
    peak=8,
    order=("negate",),
)


class NegateRun:
    """A format of one model, whose kernel is NumPy's."""

    output_names = ("y",)

    def __init__(self, model: object, dims: object, inputs: object, *, seed: int, weights: str):
        ends = (
            Tensor("x", 4, dtype="uint8", kind="input"),
            Tensor("y", 4, dtype="uint8", kind="output"),
        )
        self.graph = Graph("g", ends, (Op("negate", inputs=("x",), outputs=("y",)),))
        self.given = model, dims, inputs, seed, weights

    def values(self) -> dict[str, np.ndarray]:
        return {"x": X, "y": ~X}

    def compute(self, op: Op, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"y": ~arrays["x"]}

    def output(self, name: str, value: np.ndarray) -> np.ndarray:
        return value


@pytest.mark.parametrize(
    ("model", "what"), [("net.csv", "net.csv"), (Path("net"), "net"), (3, "an? int")]
)
def test_a_model_without_kernels_is_refused_by_name(model: object, what: str) -> None:
    known = r"\.onnx or a model of onnx or \.tflite or \.pt2 or a model of torch"
    with pytest.raises(InputError, match=f"{what}.*expected {known}"):
        execute(model, PLAN)  # type: ignore[arg-type]


def test_a_format_is_executed_once_it_is_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Runner(".negate", __name__.partition(".")[0], f"{__name__}:NegateRun")
    monkeypatch.setattr("cpplan.io.execution.RUNNERS", (*RUNNERS, row))
    done = execute("net.negate", PLAN)
    assert (done.steps, done.arena_bytes, done.bytes_checked) == (1, 8, 20)
    assert done.outputs["y"].tolist() == (~X).tolist()


def test_kernels_are_for_formats_that_know_them() -> None:
    with pytest.raises(InputError, match="kernels='cmsis-nn' is for TFLite and torch models only"):
        execute("net.onnx", PLAN, kernels="cmsis-nn")


def test_stated_scratch_memory_lies_apart_from_the_tensors_of_its_op(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = Runner(".negate", __name__.partition(".")[0], f"{__name__}:NegateRun")
    monkeypatch.setattr("cpplan.io.execution.RUNNERS", (*RUNNERS, row))
    stated = {"negate": 2}
    rows = {"size": [4, 4, 2], "lower": [0] * 3, "upper": [1] * 3, "offset": [0, 4, 8]}
    columns = {key: np.array(column) for key, column in rows.items()}
    buffers = "x", "y", "negate/scratch"
    plan = Plan("g", "feasible", buffers, **columns, peak=10, order=("negate",))
    assert execute("net.negate", plan, workspaces=stated).bytes_checked == 22
    for offset, lost in ((2, "reads tensor 'x'"), (4, "wrote tensor 'negate/scratch'")):
        broken = replace(plan, offset=np.array([0, 4, offset]))
        with pytest.raises(VerificationError, match=f"step 0: op 'negate' {lost} at bytes"):
            execute("net.negate", broken, workspaces=stated)
    with pytest.raises(VerificationError, match="the plan places no buffer 'negate/scratch'"):
        execute("net.negate", PLAN, workspaces=stated)
