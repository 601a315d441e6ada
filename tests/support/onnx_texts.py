"""ONNX models in their text form, and what the reader makes of them."""

from __future__ import annotations

import pytest

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph

onnx = pytest.importorskip("onnx")
from onnx import parser  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402

# z is zero: ``y`` is ``t`` with the other sign.
CHAIN = "chain (float[4] x) => (float[4] z) { t = Exp(x) y = Neg(t) z = Add(t, y) }"


def model(text: str, *, opset: int = 17) -> onnx.ModelProto:
    """The model of a text, with a header for its opset."""
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}, "my" : 1]> {text}')


def read(text: str, *, opset: int = 17, **dims: int) -> Graph:
    """The graph that the reader makes of a text."""
    return read_onnx(model(text, opset=opset), dims)


def refusal(source: str | onnx.ModelProto, *, opset: int = 17, **dims: int) -> str:
    """The message, one line, with which the reader refuses a model."""
    loaded = model(source, opset=opset) if isinstance(source, str) else source
    with pytest.raises(InputError) as caught:
        read_onnx(loaded, dims)
    message = str(caught.value)
    assert "\n" not in message
    return message


def kinds(graph: Graph) -> dict[str, str]:
    """Kinds of all tensors, by name."""
    return {tensor.name: tensor.kind for tensor in graph.tensors}


def views(graph: Graph) -> dict[str, str]:
    """Names of views, each with its base."""
    return {t.name: t.view_of[0] for t in graph.tensors if t.view_of is not None}
