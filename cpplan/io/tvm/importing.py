"""Graphs of ONNX models as TVM runs them: through its importer, with ops fused as it fuses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from cpplan.io.onnx.dims import OpenDimsError, model_inputs
from cpplan.io.onnx.model import load_model, name_of, naming, prepare_model
from cpplan.io.tvm.passes import read_module
from cpplan.model.errors import InputError, first_line
from cpplan.model.graph import Graph

if TYPE_CHECKING:
    import onnx

# Extent that a message proposes for an open dimension.
_ONE = 1


def read_onnx_through(
    source: str | PathLike[str] | onnx.ModelProto, *, dims: Mapping[str, object] | None = None
) -> Graph:
    """The graph of the fused kernels that TVM makes of an ONNX model.

    TVM's importer makes a Relax module of the model, operators for inference are decomposed, and
    its pipeline ``zero`` fuses them. Inputs, weights and results belong to TVM's caller and have
    no place in the graph (:func:`cpplan.load` of a module).
    """
    with naming(source):
        model = prepare_model(load_model(source, with_weights=True), with_weights=True)
        shapes = _shapes(model.graph, dims or {})
        try:
            module = from_onnx(model, shape_dict=shapes, keep_params_in_input=True)
            module = relax.transform.DecomposeOpsForInference()(module)
            module = relax.get_pipeline("zero")(module)
        except Exception as error:  # whatever TVM raises for an operator that it does not know
            raise InputError(f"TVM does not import it: {first_line(error)}") from error
        return replace(read_module(module), name=name_of(source, model))


def _shapes(graph: onnx.GraphProto, dims: Mapping[str, object]) -> dict[str, list[int]]:
    """Shape of every input, with extents for its symbolic dimensions."""
    for name, extent in dims.items():
        if not isinstance(extent, int):
            raise InputError(f"dimension {name!r}: through TVM, models have extents, not bounds")
    found: dict[str, list[int]] = {}
    missing: list[str] = []
    for value in model_inputs(graph):
        extents: list[Any] = []
        for dim in value.type.tensor_type.shape.dim:
            named = dim.HasField("dim_param")
            extents.append(dims.get(dim.dim_param) if named else dim.dim_value)
            if extents[-1] is None:
                missing.append(dim.dim_param)
        found[value.name] = extents
    if missing:
        names = tuple(dict.fromkeys(missing))
        raise OpenDimsError(names, dict.fromkeys(names, _ONE))
    return found
