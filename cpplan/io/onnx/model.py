"""Reader of ONNX models as graphs.

Constants are the initializers, all tensors computed from constants alone, and shapes of tensors.
Reshape, Flatten, Squeeze, Unsqueeze, Identity, Dropout at inference, Cast to the same type and
Transpose that moves only axes of extent one make views of their inputs: they move no bytes.
CastLike makes a view if Cast would, and BitCast if elements keep their width. Element-wise ops may
write over inputs of their output's size; a part that Concat, Split, Slice, Gather, Pad, Expand or
Tile copies in one piece is a placement. Random ops without a seed are one sequence: they keep their
order. The branches of an If and the bodies of Loop and Scan are bodies of their op. An If whose
condition is known is replaced by the branch that it takes. Local functions are inlined. Weights in
other files are not read.

An op's cost is the number of its floating-point operations (see :mod:`cpplan.io.onnx.costs`), and
views cost nothing. Random ops, and the rare ops that update state in place, are not recomputable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from cpplan.io.onnx.dims import OpenDimsError, open_dims, run_time_names
from cpplan.io.onnx.external import load_external_data
from cpplan.io.onnx.functions import inline_functions
from cpplan.io.onnx.names import sort_nodes
from cpplan.io.onnx.types import bodies_of, static_shape, types_of
from cpplan.io.onnx.window_fit import unfit_windows
from cpplan.model.errors import InputError, MissingExtraError
from cpplan.model.graph import Graph
from cpplan.model.names import name_of_file

if TYPE_CHECKING:
    import onnx
    from google.protobuf.message import Message  # type: ignore[import-untyped]

    from cpplan.io.onnx.graph import Translation

_logger = logging.getLogger(__name__)

# Extents tried in turn for dimensions other than batches: images, sequences and sound need large
# ones.
_EXTENTS = (64, 128, 256, 512, 1024, 4096, 16384)


def read_onnx(
    source: str | PathLike[str] | onnx.ModelProto,
    dims: Mapping[str, int] | None = None,
    *,
    name: str | None = None,
) -> Graph:
    """The graph of an ONNX model; its ops are listed in the order of the file.

    Nodes that the file lists before what they read come as soon as they can run.

    Parameters
    ----------
    source
        A file, or a model that is already loaded (it is not changed).
    dims
        Extents of the open dimensions of the model's inputs: by name, or as ``input[axis]`` for an
        axis without a name. Also values of inputs of one integer, by name; and what is only known
        at run time: as ``op[turns]``, the most turns of a loop that collects rows; as
        ``op[count]``, the most results of a NonZero, NonMaxSuppression, Compress or Unique, and as
        ``[count]``, the most of each of these.
    name
        The graph's name; if left out, the file's name without its suffix, or the model's own name.

    Raises
    ------
    InputError
        If the file cannot be read or is not an ONNX model, a dimension is unbound or unknown, or a
        tensor has no known shape or is not a dense tensor of numbers; names the file and the item
        at fault.
    MissingExtraError
        If the package ``onnx`` is missing.
    """
    translation = translate_model(source, dims, name=name)[1]
    warn_of(translation, source)
    return translation.graph


def warn_of(translation: Translation, source: str | PathLike[str] | onnx.ModelProto) -> None:
    """Log what a model says of its outputs and is not so."""
    where = fspath(source) if isinstance(source, (str, PathLike)) else translation.graph.name
    for text in translation.contradictions:
        _logger.warning("%s: %s; that is planned", where, text)


def translate_model(
    source: str | PathLike[str] | onnx.ModelProto,
    dims: Mapping[str, int] | None = None,
    *,
    name: str | None = None,
    with_weights: bool = False,
) -> tuple[onnx.ModelProto, Translation]:
    """The model as it was translated, and its translation; see :func:`read_onnx`."""
    with naming(source):
        model = load_model(source, with_weights=with_weights)
        name = name or name_of(source, model)
        model = prepare_model(model, with_weights=with_weights)
        return translate_prepared(model, dims or {}, name)


def name_of(source: str | PathLike[str] | onnx.ModelProto, model: onnx.ModelProto) -> str:
    """Name of a model's graph: the file's name without its suffix, or the model's own name."""
    if isinstance(source, (str, PathLike)):
        return name_of_file(source)
    return model.graph.name or "main"


def load_model(
    source: str | PathLike[str] | onnx.ModelProto, *, with_weights: bool
) -> onnx.ModelProto:
    """The model in a file, or a copy of one that is already loaded; its nodes are sorted."""
    if find_spec("onnx") is None:
        raise MissingExtraError("onnx", "onnx", "reading ONNX models")
    import onnx

    if isinstance(source, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(source)
        sort_nodes(model.graph)
        return model
    if not isinstance(source, (str, PathLike)):
        raise InputError(f"expected an ONNX file or ModelProto, not {type(source).__name__}")
    model = _parse(Path(source))
    sort_nodes(model.graph)
    if with_weights:
        load_external_data(model, Path(source).parent)
    return model


@contextmanager
def naming(source: str | PathLike[str] | onnx.ModelProto) -> Iterator[None]:
    """Add the model's name to every ``InputError`` raised in this context."""
    try:
        yield
    except InputError as error:
        if isinstance(source, (str, PathLike)):
            where = fspath(source)
        else:
            where = f"ONNX model {source.graph.name!r}"
        raise InputError(f"{where}: {error}") from error


def opset_versions(model: onnx.ModelProto) -> dict[str, int]:
    """Versions of the operator sets that a model uses, by domain."""
    return {entry.domain: entry.version for entry in model.opset_import}


def prepare_model(model: onnx.ModelProto, *, with_weights: bool) -> onnx.ModelProto:
    """The model, checked, with its functions inlined and its nodes named, dimensions not bound.

    Parameters
    ----------
    model
        The model; it is changed in place and must not be used afterwards.
    with_weights
        True if the model returned holds the values of its large constants.

    Raises
    ------
    InputError
        If it is not an ONNX model, or is malformed.
    """
    from cpplan.io.onnx.check import check_constants
    from cpplan.io.onnx.dims import name_open_axes
    from cpplan.io.onnx.names import name_nodes

    if not model.HasField("graph") or not model.opset_import or not model.ir_version:
        raise InputError("not an ONNX model: expected a graph, an opset and an IR version")
    _check_text(model)
    for entry in (*model.opset_import, *(e for f in model.functions for e in f.opset_import)):
        entry.domain = _short(entry.domain)
    for owner in (model.graph, *model.functions):
        _shorten_domains(owner)
    check_constants(model.graph)
    if not with_weights:
        _drop_weights(model.graph)
    model = inline_functions(model)
    name_nodes(model.graph)
    name_open_axes(model.graph)
    return model


def translate_prepared(
    model: onnx.ModelProto, dims: Mapping[str, int], name: str, kept: Collection[str] = ()
) -> tuple[onnx.ModelProto, Translation]:
    """A model of :func:`prepare_model` at these extents, changed in place, and its translation.

    ``kept`` are conditions of Ifs that are kept although they are known at these extents.

    Raises
    ------
    OpenDimsError
        If dimensions are unbound; suggests extents at which the model can be read.
    InputError
        If the model is not valid, in general or at these extents.
    """
    import onnx

    def attempt(extents: Mapping[str, int]) -> onnx.GraphProto:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        _drop_weights(copy.graph)
        return _translate(copy, {**dims, **extents}, name, kept)[0].graph

    try:
        return _translate(model, dims, name, kept)
    except OpenDimsError as error:
        extents = suggest_extents(model.graph, error, attempt)
        raise OpenDimsError(tuple(extents), extents) from None


def _translate(
    model: onnx.ModelProto, dims: Mapping[str, int], name: str, kept: Collection[str]
) -> tuple[onnx.ModelProto, Translation]:
    from cpplan.io.onnx.check import check_nodes
    from cpplan.io.onnx.dims import bind_dims
    from cpplan.io.onnx.graph import translate
    from cpplan.io.onnx.shapes import infer_shapes
    from cpplan.io.onnx.window_fit import check_windows

    labelled = bind_dims(model, dims)
    versions = opset_versions(model)
    check_nodes(model.graph, versions, model.ir_version)
    inferred = infer_shapes(model, dims, kept, labelled)
    check_windows(inferred.model.graph)
    translation = translate(inferred.model.graph, versions.get("", 1), name)
    found = replace(translation, folds=inferred.folds, contradictions=inferred.contradictions)
    return inferred.model, found


def _parse(path: Path) -> onnx.ModelProto:
    import onnx
    from google.protobuf.message import DecodeError

    model = onnx.ModelProto()
    if path.exists() and not path.is_file():  # reading a pipe could wait for ever
        raise InputError("is not a regular file")
    try:
        model.ParseFromString(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from error
    except ValueError as error:  # a NUL in the name
        raise InputError(f"cannot be read: {error}") from error
    except DecodeError as error:
        raise InputError("not an ONNX model, or cut short: it cannot be decoded") from error
    return model


def _shorten_domains(owner: onnx.GraphProto | onnx.FunctionProto) -> None:
    """Give nodes of ONNX's own domain, also in bodies, its short name: checks know no other."""
    from cpplan.io.onnx.types import bodies_of

    for node in owner.node:
        node.domain = _short(node.domain)
        for body in bodies_of(node):
            _shorten_domains(body)


def _short(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _check_text(message: Message) -> None:
    """Raise for names that are not UTF-8: protobuf returns them as bytes."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            if isinstance(value, bytes) or (
                not isinstance(value, str) and any(isinstance(text, bytes) for text in value)
            ):
                raise InputError(f"not a valid ONNX model: {field.full_name} is not UTF-8 text")
        elif field.type == field.TYPE_MESSAGE:
            for inner in [value] if hasattr(value, "ListFields") else value:
                _check_text(inner)


def _drop_weights(graph: onnx.GraphProto) -> None:
    """Remove the values of large initializers, which inference would copy but does not need."""
    from cpplan.io.onnx.check import DATA
    from cpplan.io.onnx.constants import SMALL

    for tensor in graph.initializer:
        count = 1
        for extent in tensor.dims:
            count *= extent
        if count > SMALL:
            for field in DATA:
                tensor.ClearField(field)


def suggest_extents(
    graph: onnx.GraphProto,
    asked: OpenDimsError,
    attempt: Callable[[Mapping[str, int]], onnx.GraphProto],
) -> dict[str, int]:
    """Extents of open dimensions at which the model can be read; if none fit, the first tried.

    Batches are 1, all other extents are equal, loops turn a few times, and operators that count
    their results give all that they can.

    Parameters
    ----------
    asked
        The dimensions to bind.
    attempt
        Function from extents to the model's typed graph; raises ``InputError`` if they do not fit.
    """
    names, at_run_time = asked.names, set(run_time_names(graph))
    fixed = {name: asked.extents[name] for name in names if name in at_run_time}
    fixed |= dict.fromkeys(_batches(graph), 1)
    first: dict[str, int] | None = None
    for extent in _EXTENTS if any(name not in fixed for name in names) else _EXTENTS[:1]:
        extents = {name: fixed.get(name, extent) for name in names}
        first = first or extents
        try:
            try:
                found = attempt(extents)
            except OpenDimsError as error:
                extents.update(error.extents)
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
