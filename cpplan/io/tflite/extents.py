"""Extents of axes that a TFLite file leaves open, as stored in the file or given.

An axis of an input whose extent is only known at run time has the name ``input[axis]``. A file
nevertheless stores an extent for it, which runtimes use unless another one is set; so does this
reader. If other extents are given, LiteRT resizes the inputs and computes all other shapes, with
the code that runs the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from cpplan.io.tflite.model import FileSubgraph, TfliteModel
from cpplan.model.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from ai_edge_litert.interpreter import Interpreter


# Operators whose number of result rows depends on values.
_BY_VALUES = frozenset({"UNIQUE", "WHERE"})


def stored_extents(model: TfliteModel, dims: Mapping[str, int] | None) -> dict[str, int]:
    """Extents that the file stores for the open axes of its inputs that ``dims`` leaves out.

    Axes without a stored extent are not listed.
    """
    tensors = model.subgraphs[0].tensors
    return {
        name: tensors[k].shape[axis]
        for name, (k, axis) in _open_axes(model).items()
        if name not in (dims or {}) and axis < len(tensors[k].shape) and tensors[k].shape[axis] > 0
    }


def bind_extents(model: TfliteModel, dims: Mapping[str, int] | None) -> TfliteModel:
    """The model without open axes: with the extents given, or else the extents in the file.

    Raises
    ------
    InputError
        If no extent is stored or given for an open axis, a name belongs to no open axis, an extent
        is not a positive integer, the runtime refuses the extents, or a shape follows from values.
        Names the axis or tensor.
    MissingExtraError
        If extents are given, and the package ``ai-edge-litert`` is missing.
    """
    opened = _open_axes(model)
    given = dims or {}
    unknown = next((name for name in given if name not in opened), None)
    if unknown is not None:
        known = ", ".join(map(repr, opened)) or "none"
        raise InputError(f"dims: no axis {unknown!r} is open in this model: expected {known}")
    for name, extent in given.items():
        if isinstance(extent, bool) or not isinstance(extent, int) or not 0 < extent < 2**31:
            raise InputError(f"dims: {name!r} must be a positive integer, not {extent!r}")
    stored = stored_extents(model, dims)
    unbound = [name for name in opened if name not in given and name not in stored]
    if unbound:
        options = " ".join(f"--dim '{name}=8'" for name in unbound)
        raise InputError(
            f"the file stores no extent of axis {', '.join(map(repr, unbound))}: give dims, or "
            f"{options}"
        )
    if not given:
        return replace(model, subgraphs=tuple(map(_as_stored, model.subgraphs)))
    main = model.subgraphs[0]
    shapes = {k: list(main.tensors[k].signature) for k, _ in opened.values()}
    for name, (k, axis) in opened.items():
        shapes[k][axis] = given[name] if name in given else stored[name]
    interpreter = _allocated(model.data, shapes)
    details = {entry["index"]: entry["shape"] for entry in interpreter.get_tensor_details()}
    tensors = []
    for k, tensor in enumerate(main.tensors):
        shape = tuple(int(extent) for extent in details.get(k, tensor.shape))
        if -1 in tensor.signature and not _has_bytes(interpreter, k):
            raise InputError(f"tensor {tensor.name!r}: its shape follows from values at run time")
        tensors.append(replace(tensor, shape=shape, signature=shape))
    bound = replace(main, tensors=tuple(tensors))
    return replace(model, subgraphs=(bound, *model.subgraphs[1:]))


def _open_axes(model: TfliteModel) -> dict[str, tuple[int, int]]:
    """Names of the open axes of the main subgraph's inputs -> tensor and axis."""
    main = model.subgraphs[0]
    return {
        f"{main.tensors[k].name}[{axis}]": (k, axis)
        for k in main.inputs
        for axis, extent in enumerate(main.tensors[k].signature)
        if extent == -1
    }


def _as_stored(subgraph: FileSubgraph) -> FileSubgraph:
    """The subgraph with its stored shapes, if its open axes follow from the inputs' axes.

    A shape that follows from values is left open.
    """
    follows = {k for k in subgraph.inputs if -1 in subgraph.tensors[k].signature}
    for operator in subgraph.operators:
        if operator.kind not in _BY_VALUES and not follows.isdisjoint(operator.inputs):
            follows.update(operator.outputs)
    tensors = tuple(
        replace(t, signature=t.shape) if k in follows and len(t.shape) == len(t.signature) else t
        for k, t in enumerate(subgraph.tensors)
    )
    return replace(subgraph, tensors=tensors)


def _allocated(data: bytes, shapes: Mapping[int, list[int]]) -> Interpreter:
    if find_spec("ai_edge_litert") is None:
        raise MissingExtraError("ai-edge-litert", "tflite", "binding axes of TFLite models")
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    try:
        interpreter = Interpreter(
            model_content=data,
            # Delegates would replace the model's ops by their own.
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            experimental_preserve_all_tensors=True,
        )
        for k, shape in shapes.items():
            interpreter.resize_tensor_input(k, shape)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        text = " ".join(str(error).split())
        raise InputError(f"the runtime refuses these extents: {text}") from error
    return interpreter


def _has_bytes(interpreter: Interpreter, number: int) -> bool:
    """True if the runtime knows a tensor's shape before it runs, and so has memory for it."""
    try:
        interpreter.get_tensor(number)
    except ValueError:
        return False
    return True
