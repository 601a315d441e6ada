"""Scratch memory of CMSIS-NN's kernels: by kind, shape and processor, and where it is planned."""

from __future__ import annotations

from typing import Any

import pytest

import cpplan
from cpplan.cli.main import main
from cpplan.io.tflite.cmsis_nn import TARGETS
from cpplan.io.tflite.model import FileOperator, FileTensor
from cpplan.io.tflite.scratch import scratch_sizes
from cpplan.model.errors import InputError

PATH = "datasets/tflite/branches.tflite"


class Settings:
    """An operator's options by field, as a table of the file gives them."""

    def __init__(self, fields: dict[int, int]):
        self.fields = fields

    def number(self, field: int, kind: str) -> int:
        return self.fields.get(field, 0)


def sizes(
    kind: str, *shapes: tuple[int, ...], fields: dict[int, int] | None = None, dtype: str = "int8",
    weights: str = "int8",
) -> list[tuple[int, ...] | None]:  # fmt: skip
    """Sizes on each processor; shapes of the inputs, then of the output."""
    dtypes = [dtype, weights, *[dtype] * (len(shapes) - 2)]
    tensors = [tensor(shape, found) for shape, found in zip(shapes, dtypes, strict=True)]
    inputs = tuple(range(len(shapes) - 1))
    options: Any = Settings(fields or {})
    operator = FileOperator(kind, False, inputs, (len(shapes) - 1,), options)
    return [scratch_sizes(operator, tensors, target) for target in TARGETS]


def tensor(shape: tuple[int, ...], dtype: str) -> FileTensor:
    made = object.__new__(FileTensor)
    object.__setattr__(made, "shape", shape)
    object.__setattr__(made, "dtype", dtype)
    return made


VALID, SAME = {0: 1}, {0: 0}


@pytest.mark.parametrize(
    ("kind", "shapes", "fields", "expected"),
    [
        # 3 × 3 taps of 16 channels are 144 columns; two rows of int16, or four of int8.
        ("CONV_2D", [(1, 8, 8, 16), (32, 3, 3, 16), (1, 8, 8, 32)], SAME, [576, 576, 576]),
        # Of 3 channels 27 columns: rounded up to 28, or to 32.
        ("CONV_2D", [(1, 8, 8, 3), (8, 3, 3, 3), (1, 6, 6, 8)], VALID, [112, 112, 128]),
        ("CONV_2D", [(1, 8, 8, 16), (32, 1, 1, 16), (1, 8, 8, 32)], VALID, [0, 0, 0]),
        # One row of steps of 4 bytes.
        ("CONV_2D", [(1, 1, 20, 4), (8, 1, 4, 4), (1, 1, 17, 8)], VALID, [64, 64, 0]),
        ("DEPTHWISE_CONV_2D", [(1, 8, 8, 16), (1, 3, 3, 16), (1, 8, 8, 16)], SAME, [0, 0, 4464]),
        ("DEPTHWISE_CONV_2D", [(1, 9, 9, 8), (1, 5, 5, 8), (1, 5, 5, 8)], VALID, [0, 400, 12400]),
        ("DEPTHWISE_CONV_2D", [(2, 8, 8, 16), (1, 3, 3, 16), (2, 8, 8, 16)], SAME, [0, 0, 0]),
        ("DEPTHWISE_CONV_2D", [(1, 8, 8, 8), (1, 5, 5, 16), (1, 4, 4, 16)], VALID, [0, 0, 0]),
        ("FULLY_CONNECTED", [(1, 64), (10, 64), (1, 10)], {}, [0, 0, 40]),
        ("FULLY_CONNECTED", [(1, 5, 64), (10, 64), (1, 5, 10)], {}, [0, 0, 0]),
    ],
)  # fmt: skip
def test_sizes_by_hand(kind, shapes, fields, expected):
    assert [sum(found or ()) for found in sizes(kind, *shapes, fields=fields)] == expected


def test_averages_need_their_channels_with_dsp_alone():
    found = sizes("AVERAGE_POOL_2D", (1, 8, 8, 24), (1, 1, 1, 24))
    assert found == [(), (96,), ()]


def test_transposed_convolutions():
    """Two channels: 4 × ((4 − 1) × 2 + 3) × 5 × 3; twenty: columns of 3 × 3 × 20, and weights."""
    shapes = (4,), (5, 3, 3, 2), (1, 4, 4, 2), (1, 8, 8, 5)
    assert sizes("TRANSPOSE_CONV", *shapes, fields={1: 2, 2: 2}) == [(540,)] * 3
    shapes = (4,), (5, 3, 3, 20), (1, 4, 4, 20), (1, 8, 8, 5)
    assert sizes("TRANSPOSE_CONV", *shapes, fields={1: 2, 2: 2}) == [
        (720, 900), (720, 900), (736, 900)
    ]  # fmt: skip


def test_what_is_not_known_is_none_and_float_is_the_reference():
    shapes = (1, 8, 8, 16), (32, 3, 3, 16), (1, 8, 8, 32)
    assert sizes("CONV_2D", *shapes, dtype="int16") == [None] * 3
    assert sizes("CONV_2D", *shapes, weights="int4") == [None] * 3
    assert sizes("BATCH_MATMUL", (4, 8), (8, 4), (4, 4)) == [None] * 3
    assert sizes("CONV_2D", *shapes, dtype="float32", weights="float32") == [()] * 3
    assert sizes("CONV_2D", (8, 16), (32, 16), (8, 32)) == [None] * 3


def test_a_model_is_planned_for_the_kernels_that_run_it(capsys):
    pytest.importorskip("tflite", reason="needs cpplan[tflite]")
    plain, with_dsp = (
        cpplan.load(PATH, kernels=kernels) for kernels in ("reference", "cmsis-nn-dsp")
    )
    assert plain == cpplan.load(PATH)
    assert [op.name for op in plain.ops] == [op.name for op in with_dsp.ops]
    with pytest.raises(InputError, match="kernels='xnnpack' is not understood: expected one of"):
        cpplan.load(PATH, kernels="xnnpack")
    assert main(["plan", PATH, "--kernels", "cmsis-nn-mve", "-q", "--time-limit", "5"]) == 0
    assert "micro arena" in capsys.readouterr().out


def test_other_formats_name_no_kernels():
    with pytest.raises(InputError, match="kernels are for TFLite and torch models only"):
        cpplan.load("datasets/hand/fragmentation.json", kernels="measured")
