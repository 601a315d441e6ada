"""Extents of axes that a TFLite file leaves open, as the runtime works them out.

An axis of an input that is only known at run time bears the name ``input[axis]``. Given extents for
all of these, LiteRT resizes the inputs and works out every other shape, by the same code as when
the model runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from cpplan.errors import InputError, MissingExtraError
from cpplan.io.tflite.model import TfliteModel

if TYPE_CHECKING:
    from ai_edge_litert.interpreter import Interpreter


def bind_extents(model: TfliteModel, dims: Mapping[str, int] | None) -> TfliteModel:
    """The model with no axis left open.

    Raises
    ------
    InputError
        If an open axis has no extent, a name is none of an open axis, an extent is no positive
        integer, the runtime refuses them, or a shape follows from values. Names the axis or tensor.
    MissingExtraError
        If the package ``ai-edge-litert`` is missing.
    """
    main = model.subgraphs[0]
    opened = {
        f"{main.tensors[k].name}[{axis}]": (k, axis)
        for k in main.inputs
        for axis, extent in enumerate(main.tensors[k].signature)
        if extent == -1
    }
    given = dims or {}
    unknown = next((name for name in given if name not in opened), None)
    if unknown is not None:
        known = ", ".join(map(repr, opened)) or "none"
        raise InputError(f"dims: no axis {unknown!r} is open in this model: expected {known}")
    unbound = next((name for name in opened if name not in given), None)
    if unbound is not None:
        raise InputError(f"axis {unbound!r} is open: bind it with dims, or --dim '{unbound}=8'")
    for name, extent in given.items():
        if isinstance(extent, bool) or not isinstance(extent, int) or not 0 < extent < 2**31:
            raise InputError(f"dims: {name!r} must be a positive integer, not {extent!r}")
    if not opened:
        return model
    shapes = {k: list(main.tensors[k].signature) for k, _ in opened.values()}
    for name, (k, axis) in opened.items():
        shapes[k][axis] = given[name]
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


def _allocated(data: bytes, shapes: Mapping[int, list[int]]) -> Interpreter:
    if find_spec("ai_edge_litert") is None:
        raise MissingExtraError("ai-edge-litert", "tflite", "binding axes of TFLite models")
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    try:
        interpreter = Interpreter(
            model_content=data,
            # Delegates would put ops of their own in the place of the model's.
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
    """Whether the runtime knows a tensor's shape before it runs: then it has a place."""
    try:
        interpreter.get_tensor(number)
    except ValueError:
        return False
    return True
