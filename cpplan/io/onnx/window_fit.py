"""Check for convolutions and poolings whose window is larger than the image under it.

Such an op has no output, and runtimes refuse it; but ONNX's inference rounds towards zero and gives
it one element or none.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cpplan.io.onnx.types import bodies_of, static_shape, types_of
from cpplan.io.onnx.views import is_standard
from cpplan.model.errors import InputError

if TYPE_CHECKING:
    import onnx

# Kind -> position of the weights, for kinds whose window is the weights' extents.
_CONVOLUTIONS = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}
_AS_GIVEN = (
    b"",
    b"NOTSET",
    b"VALID",
)  # modes in which the padding does not follow from the extents
_POOLINGS = frozenset({"AveragePool", "LpPool", "MaxPool"})


def check_windows(graph: onnx.GraphProto) -> None:
    """Check that windows fit, except for ops in branches, which may not run."""
    for complaint in unfit_windows(graph, branches=False):
        raise InputError(complaint)


def unfit_windows(
    graph: onnx.GraphProto,
    branches: bool = True,
    types: ChainMap[str, onnx.TypeProto] | None = None,
) -> Iterator[str]:
    """Messages for the ops whose window does not fit; ops in Ifs only if ``branches``."""
    types = (types or ChainMap()).new_child(types_of(graph))
    for node in graph.node:
        if branches or node.op_type != "If":
            for body in bodies_of(node):
                yield from unfit_windows(body, branches, types)
        if is_standard(node) and (node.op_type in _CONVOLUTIONS or node.op_type in _POOLINGS):
            yield from _unfit(node, types)


def _unfit(node: onnx.NodeProto, types: ChainMap[str, onnx.TypeProto]) -> Iterator[str]:
    import onnx

    given: dict[str, Any] = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    shape = static_shape(types.get(node.input[0]))
    weights = _CONVOLUTIONS.get(node.op_type)
    kernel = given.get("kernel_shape")
    if kernel is None and weights is not None:
        kernel = (static_shape(types.get(node.input[weights])) or ())[2:]
    if shape is None or kernel is None or given.get("auto_pad", b"NOTSET") not in _AS_GIVEN:
        return
    image = shape[2:]
    rank = len(image)
    pads = given.get("pads") or [0] * 2 * rank
    dilations = given.get("dilations") or [1] * rank
    if not len(kernel) == len(dilations) == rank or len(pads) != 2 * rank:
        return
    for axis, (extent, size, dilation) in enumerate(zip(image, kernel, dilations, strict=True)):
        window = dilation * (size - 1) + 1
        padded = extent + pads[axis] + pads[axis + rank]
        if extent > 0 and padded < window:
            yield (
                f"op {node.name!r} ({node.op_type}): its window of {window} along axis {axis + 2} "
                f"does not fit into the {padded} elements of its input, padding included"
            )
