"""TVM's own storage planner on an ONNX model, where TVM is installed."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from cpplan.comparison.rivals.relax_script import read_relax
from cpplan.io.onnx.model import load_model, naming
from cpplan.model.errors import MissingExtraError
from cpplan.model.names import name_of_file

if TYPE_CHECKING:
    import onnx

    from cpplan.model.problem import Problem


def plan_with_relax(
    source: str | PathLike[str] | onnx.ModelProto, dims: Mapping[str, int] | None = None
) -> Problem:
    """The tensors of the model that Relax makes of this one, with its storages as TVM's answer.

    Relax legalises and fuses the ops, so that the tensors are its own; then
    ``StaticPlanBlockMemory`` plans their storages. See
    :mod:`cpplan.comparison.rivals.relax_script`.

    Parameters
    ----------
    source
        A file, or a model that is already loaded.
    dims
        Extents of the symbolic dimensions of the model's inputs.

    Raises
    ------
    InputError
        If the model cannot be read, or what Relax makes of it has symbolic extents.
    MissingExtraError
        If the package ``tvm`` or ``onnx`` is missing.

    Examples
    --------
    >>> problem = plan_with_relax("squeezenet1_1.onnx")  # doctest: +SKIP
    >>> problem.answers[0].peak, cpplan.solve(problem).peak  # doctest: +SKIP
    (6349088, 3928576)
    """
    name = name_of_file(source) if isinstance(source, (str, PathLike)) else source.graph.name
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "relax.txt")
        path.write_text(relax_text(source, dims), encoding="utf-8")
        return replace(read_relax(path), name=name)


def relax_text(
    source: str | PathLike[str] | onnx.ModelProto, dims: Mapping[str, int] | None = None
) -> str:
    """The function that Relax makes of the model, with its storages planned, as text.

    Parameters and errors are those of :func:`plan_with_relax`.

    Examples
    --------
    >>> "R.memory.alloc_storage" in relax_text("squeezenet1_1.onnx")  # doctest: +SKIP
    True
    """
    if find_spec("tvm") is None:
        raise MissingExtraError("tvm", "tvm", "planning with TVM")
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    from cpplan.io.onnx.dims import bind_dims

    with naming(source):
        model = load_model(source, with_weights=True)
        bind_dims(model, dims or {})
    passes = relax.transform
    planned = tvm.transform.Sequential(
        [
            passes.DecomposeOpsForInference(),
            passes.LegalizeOps(),
            passes.AnnotateTIROpPattern(),
            passes.FoldConstant(),
            passes.FuseOps(),
            passes.FuseTIR(),
            passes.ToNonDataflow(),
            passes.RemovePurityChecking(),
            passes.CallTIRRewrite(),
            passes.StaticPlanBlockMemory(),
        ]
    )
    with tvm.target.Target("llvm"):
        module = planned(from_onnx(model))
    text: str = module["main"].script(show_meta=False)
    return text
