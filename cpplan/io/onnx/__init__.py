"""ONNX models: read as graphs, run op by op in a planned arena, and written in a plan's order.

Reading starts in :mod:`~cpplan.io.onnx.model`: ``dims`` binds variables, ``check`` finds malformed
nodes, ``shapes`` derives the shape of every tensor, and ``graph`` makes an op of each node, with
its views (``views``), in-place pairs (``in_place``), placements (``placements``), bodies
(``bodies``) and cost (``costs``). If extents stay variables, ``symbolic`` reads the model at their
upper bounds and adds expressions for other sizes (``symbolic_*``, rules by operator in
``*_shapes``). ``run``, with ``kernels`` and ``weights``, runs a model; ``reorder``, with
``copies``, writes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING

from cpplan.model.graph import Graph

if TYPE_CHECKING:
    import onnx


def read_model(
    source: str | PathLike[str] | onnx.ModelProto, dims: Mapping[str, object] | None = None
) -> Graph:
    """The graph of an ONNX model, with symbols if a dimension is given bounds.

    See :func:`cpplan.io.onnx.model.read_onnx` and
    :func:`cpplan.io.onnx.symbolic.read_symbolic_onnx`.
    """
    if dims and any(isinstance(given, (tuple, list)) for given in dims.values()):
        from cpplan.io.onnx.symbolic import read_symbolic_onnx

        return read_symbolic_onnx(source, dims)
    from cpplan.io.onnx.model import read_onnx

    return read_onnx(source, dims)  # type: ignore[arg-type]
