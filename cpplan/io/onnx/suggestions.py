"""Suggested extents for a model's open dimensions, at which its shapes fit together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from cpplan.io.onnx.dims import OpenDimsError, loop_names, open_dims
from cpplan.io.onnx.types import bodies_of, static_shape, types_of
from cpplan.io.onnx.window_fit import unfit_windows
from cpplan.model.errors import InputError

if TYPE_CHECKING:
    import onnx

# Extents tried in turn for dimensions other than batches: images, sequences and sound need large
# ones.
_EXTENTS = (64, 128, 256, 512, 1024, 4096, 16384)
_TURNS = 8


def suggest_extents(
    graph: onnx.GraphProto,
    names: Sequence[str],
    attempt: Callable[[Mapping[str, int]], onnx.GraphProto],
) -> dict[str, int]:
    """Extents of open dimensions at which the model can be read; if none fit, the first tried.

    Batches are 1, all other extents are equal, and loops turn a few times.

    Parameters
    ----------
    names
        The dimensions to bind.
    attempt
        Function from extents to the model's typed graph; raises ``InputError`` if they do not fit.
    """
    fixed = dict.fromkeys(loop_names(graph), _TURNS) | dict.fromkeys(_batches(graph), 1)
    first: dict[str, int] | None = None
    for extent in _EXTENTS if any(name not in fixed for name in names) else _EXTENTS[:1]:
        extents = {name: fixed.get(name, extent) for name in names}
        first = first or extents
        try:
            try:
                found = attempt(extents)
            except OpenDimsError as error:
                extents.update(dict.fromkeys(error.names, _TURNS))
                found = attempt(extents)
        except InputError:
            continue
        if not _has_empty(found):
            return extents
    return first or {}


def _has_empty(graph: onnx.GraphProto) -> bool:
    """True if an op writes no elements, or has a window larger than its input."""
    types = types_of(graph)
    written = (name for node in graph.node for name in node.output if name)
    return (
        any(0 in (static_shape(types.get(name)) or ()) for name in written)
        or any(_has_empty(body) for node in graph.node for body in bodies_of(node))
        or any(unfit_windows(graph))
    )


def _batches(graph: onnx.GraphProto) -> set[str]:
    """Dimensions that seem to count samples: a first axis, or the middle one of a hidden state."""
    found = set()
    for name, places in open_dims(graph).items():
        for value, axis in places:
            extents = value.type.tensor_type.shape.dim
            state = len(extents) == 3 and axis == 1
            alone = all(dim.HasField("dim_value") for k, dim in enumerate(extents) if k != axis)
            if axis == 0 or (state and alone):
                found.add(name)
    return found
