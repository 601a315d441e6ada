"""Readers and writers, one file a format: :mod:`~cpplan.io.formats` is the table of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cpplan.io.formats import FORMATS, describe_suffixes, find_reader, readers
from cpplan.model.errors import InputError, MissingExtraError
from cpplan.model.methods import find_function

if TYPE_CHECKING:
    import networkx
    import onnx
    from torch.export import ExportedProgram
    from torch.fx import GraphModule

    from cpplan.model.graph import Graph
    from cpplan.model.problem import Problem


def load(
    source: (
        str
        | PathLike[str]
        | onnx.ModelProto
        | ExportedProgram
        | GraphModule
        | networkx.DiGraph
        | Graph
        | Problem
    ),
    *,
    dims: Mapping[str, object] | None = None,
    name: str | None = None,
    in_place: Mapping[str, bool] | None = None,
    workspaces: Mapping[str, int | str] | None = None,
    kernels: str | None = None,
    through: Literal["tvm"] | None = None,
) -> Graph | Problem:
    """A graph or packing problem from a file or from another library's object.

    Parameters
    ----------
    source
        A file, known by its suffix: ``.onnx``, ``.pt2`` (``torch.export``), ``.tflite`` (see
        :mod:`cpplan.io.tflite`), ``.json`` or ``.json.gz`` (``cpplan.graph``), ``.csv``
        (MiniMalloc) or ``.txt`` (what XLA, vela or TVM planned: see
        :mod:`cpplan.comparison.rivals.listings`); or
        the name of a model, ``zoo://family/model`` (see :mod:`cpplan.zoo`); or an
        ``onnx.ModelProto``, an exported program or FX graph module of torch (see
        :mod:`cpplan.io.torch`), a ``networkx.DiGraph``, a graph or a problem.
    dims
        Extents of an ONNX model's open dimensions, by name, or by ``input[axis]`` where an axis has
        no name (see :func:`cpplan.io.onnx.model.read_onnx`); or their bounds ``(lower, upper)``,
        ``None`` for no upper one. With bounds the graph has symbols, and is planned at the upper
        ones. Exported programs have bounds of their own, which these replace. Of a TFLite model,
        extents of the axes that it leaves open, by ``input[axis]``, instead of those it stores.
    name
        Of what is returned, instead of the source's own.
    in_place
        Kind of op -> whether its kernels may write over their inputs, instead of what the source
        says of that kind (see :func:`cpplan.model.in_place_kinds.with_in_place`).
    workspaces
        Kind or name of an op -> bytes of scratch memory that its kernel asks for while it runs,
        instead of what the source says (see :func:`cpplan.model.workspaces.with_workspaces`).
    kernels
        Kernels whose scratch memory is planned: of a TFLite model ``"reference"``, the default,
        ``"cmsis-nn"``, ``"cmsis-nn-dsp"`` or ``"cmsis-nn-mve"`` (see
        :mod:`cpplan.io.tflite.scratch`); of a torch model, from a file, an object or the zoo,
        ``"measured"``: those of this machine, run once on zeros.

    through
        ``"tvm"`` reads an ONNX model through TVM's importer: ops are the kernels that TVM fuses.

    Raises
    ------
    InputError
        If the source is of no known kind or cannot be read, or ``in_place`` or ``workspaces`` names
        a kind that it does not have; names the file and what was expected.

    Examples
    --------
    >>> import networkx
    >>> digraph = networkx.DiGraph()
    >>> digraph.add_node("relu", size=16)
    >>> load(digraph, name="tiny").name
    'tiny'
    """
    from cpplan.model.in_place_kinds import with_in_place
    from cpplan.model.problem import Problem
    from cpplan.model.workspaces import with_workspaces

    if dims is not None and not isinstance(dims, Mapping):
        raise InputError(f"dims={dims!r}: expected values by name, e.g. dims={{'N': 8}}")
    if through is not None:
        model: Graph | Problem = _read_through(source, through, dims, kernels)
    else:
        model = _read(
            source, {"dims": dims, "name": name, "workspaces": workspaces, "kernels": kernels}
        )
    where = f"{source}: " if isinstance(source, (str, PathLike)) else ""
    for option, given in (("in_place", in_place), ("workspaces", workspaces)):
        if given is not None and isinstance(model, Problem):
            raise InputError(f"{where}{option} is for graphs only: a problem has no ops")
    try:
        if in_place is not None:
            model = with_in_place(model, in_place)  # type: ignore[arg-type]
        if workspaces is not None:
            model = with_workspaces(model, workspaces)  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(f"{where}{error}") from error
    return model if name is None else replace(model, name=name)


def _read_through(
    source: Any, through: str, dims: Mapping[str, object] | None, kernels: str | None
) -> Graph:
    """The graph of an ONNX model as another compiler runs it."""
    if through != "tvm":
        raise InputError(f"through={through!r} is not understood: expected 'tvm'")
    found = find_reader(source)
    if found is None or found.name != "onnx" or kernels is not None:
        raise InputError("only ONNX models are read through TVM, and without scratch memory")
    if find_spec("tvm") is None:
        raise MissingExtraError("tvm", "tvm", "reading a model through TVM")
    graph: Graph = find_function("cpplan.io.tvm.importing:read_onnx_through")(source, dims=dims)
    return graph


def _read(source: Any, options: Mapping[str, Any]) -> Graph | Problem:
    from cpplan.model.graph import Graph
    from cpplan.model.problem import Problem

    found = find_reader(source)
    if options["dims"] and (found is None or "dims" not in found.takes):
        *most, last = (each.what for each in FORMATS if "dims" in each.takes)
        what = source if isinstance(source, (str, PathLike)) else f"a {type(source).__name__}"
        raise InputError(
            f"dims are for {', '.join(most)} and {last} models only: {what} has no symbolic "
            "dimensions"
        )
    if options["kernels"] is not None and (found is None or "kernels" not in found.takes):
        raise InputError("kernels are for TFLite and torch models only: others name no kernels")
    if found is not None:
        assert found.read is not None
        taken = {key: options[key] for key in found.takes if options[key] is not None}
        model: Graph | Problem = find_function(found.read)(source, **taken)
        return model
    if isinstance(source, (Graph, Problem)):
        return source
    if not isinstance(source, (str, PathLike)):
        raise InputError(
            f"cannot load {type(source).__name__}: expected a path, an onnx.ModelProto, an "
            "exported program or graph module of torch, a networkx.DiGraph, a Graph or a Problem"
        )
    suffix, expected = Path(source).suffix.lower(), describe_suffixes(readers())
    raise InputError(f"{source}: suffix {suffix!r} is not understood: expected {expected}")
