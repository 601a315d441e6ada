"""ONNX models with symbolic shapes, held against the same models read at each size."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from cpplan.model.shapes import Dim

onnx = pytest.importorskip("onnx")
from onnx import parser  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.io.onnx.symbolic import symbolic_shapes  # noqa: E402


def model_of(text: str, opset: int = 18) -> onnx.ModelProto:
    """The model of a text, with a header for its opset."""
    versions = f'"" : {opset}, "ai.onnx.ml" : 3'
    return parser.parse_model(f"<ir_version: 8, opset_import: [{versions}]>\n{text}")


def at(extents: tuple[int | Dim, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Extents at sizes of the variables."""
    return tuple(e.evaluate(sizes) if isinstance(e, Dim) else e for e in extents)


def texts(extents: tuple[int | Dim, ...]) -> list[str]:
    """Extents as they are printed."""
    return [str(extent) for extent in extents]


def check_everywhere(model: onnx.ModelProto, dims: Mapping[str, tuple[int, int]]) -> int:
    """Compare with the model read at every size; how many shapes depend on a variable."""
    found = symbolic_shapes(model, dims)
    assert not found.lost
    spans = (range(lower, upper + 1) for lower, upper in dims.values())
    for values in itertools.product(*spans):
        sizes = dict(zip(dims, values, strict=True))
        graph = read_onnx(model, sizes)
        assert {t.name: t.shape for t in graph.tensors} == {
            name: at(shape, sizes) for name, shape in found.shapes.items()
        }
    return sum(any(isinstance(e, Dim) for e in shape) for shape in found.shapes.values())
