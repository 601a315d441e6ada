"""Reader of ONNX models with symbolic extents: at the upper bounds, with expressions.

ONNX's inference loses symbols, so rules of our own, one for each operator, carry them from node to
node. Elements of small tensors are carried too, since shapes are computed from shapes. The
resulting expressions are compared with ONNX's inference at the bounds and at sizes between them. A
shape is *lost* if its expression is wrong at any of these sizes, or if there is no rule for it;
each lost shape has a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from cpplan.io.onnx.branches import apply_folds
from cpplan.io.onnx.dims import bound_value, model_inputs
from cpplan.io.onnx.facts import Fact, Shape
from cpplan.io.onnx.model import (
    load_model,
    name_of,
    naming,
    opset_versions,
    prepare_model,
    translate_prepared,
    warn_of,
)
from cpplan.io.onnx.symbolic_check import (
    at_upper,
    check_bounded,
    compare,
    compare_bodies,
    sizes_to_check,
)
from cpplan.io.onnx.symbolic_graph import Reading, with_symbols
from cpplan.io.onnx.symbolic_walk import Walk, types_by_path
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.shapes import Range, variable
from cpplan.model.symbols import parse_ranges

if TYPE_CHECKING:
    import onnx

    from cpplan.io.onnx.facts import Known
    from cpplan.io.onnx.graph import Translation


@dataclass(frozen=True, slots=True)
class SymbolicShapes:
    """The symbolic shapes of an ONNX model's tensors.

    Attributes
    ----------
    ranges
        The variables and their ranges.
    shapes
        Shape of every tensor outside bodies; extents that depend on no variable are integers.
    lost
        Tensors whose shape is not known -> the reason, with the op at fault.
    checked
        The sizes at which ONNX's inference agrees with the shapes.
    """

    ranges: Mapping[str, Range]
    shapes: Mapping[str, Shape]
    lost: Mapping[str, str]
    checked: tuple[Mapping[str, int], ...]


def read_symbolic_onnx(
    source: str | PathLike[str] | onnx.ModelProto,
    dims: Mapping[str, object],
) -> Graph:
    """The graph of an ONNX model at the upper bounds of its variables, with its symbols.

    At every size, in-place pairs have provably equal sizes, and placements are in one piece.

    Parameters
    ----------
    source
        A file, or a model that is already loaded (it is not changed).
    dims
        Ranges of the symbolic dimensions of the model's inputs: an integer, ``(lower, upper)`` or a
        ``Range``. Without an upper bound, the model is read at the lower bound, but at 1 at least.

    Raises
    ------
    InputError
        As :func:`~cpplan.io.onnx.model.read_onnx`; also if a range is empty or holds negative
        numbers, the model is not valid at the lower bounds, or its ops depend on the size.
    """
    with naming(source):
        model = load_model(source, with_weights=False)
        symbolic, reading = _read(model, dims, name_of(source, model))
        warn_of(reading.translation, source)
        graph = with_symbols(reading, symbolic.shapes, symbolic.lost)
        for sizes, other in reading.elsewhere:
            compare_bodies(graph, other, sizes)
        return graph


def symbolic_shapes(model: onnx.ModelProto, dims: Mapping[str, object]) -> SymbolicShapes:
    """The symbolic shape of every tensor of a model, or the reason why it is lost."""
    with naming(model):
        return _read(load_model(model, with_weights=False), dims, model.graph.name)[0]


def read_ranges(dims: Mapping[str, object]) -> dict[str, Range]:
    """Ranges of extents, which are not negative; see :func:`cpplan.model.symbols.parse_ranges`."""
    ranges = {}
    for name, within in parse_ranges(dims).items():
        lower = 0 if within.lower is None else within.lower
        if lower < 0 or (within.upper is not None and within.upper < 0):
            raise InputError(f"dimension {name!r} must not be negative: it may be {lower}")
        ranges[name] = Range(lower, within.upper)
    return ranges


def _read(
    model: onnx.ModelProto, dims: Mapping[str, object], name: str
) -> tuple[SymbolicShapes, Reading]:
    import onnx

    ranges = read_ranges(dims)
    prepared = prepare_model(model, with_weights=False)
    opsets, kept = opset_versions(prepared), set[str]()

    def read_at(sizes: Mapping[str, int]) -> tuple[onnx.ModelProto, Translation]:
        copy = onnx.ModelProto()
        copy.CopyFrom(prepared)
        return translate_prepared(copy, sizes, name, kept)

    most = at_upper(ranges)
    free = {n: r for n, r in ranges.items() if r.lower != r.upper}
    while True:
        inferred, translation = read_at(most)
        folded = onnx.GraphProto()
        folded.CopyFrom(prepared.graph)
        for folds in translation.folds:
            apply_folds(folded, folds)
        known = _input_facts(prepared.graph, most, free)
        walk = Walk(opsets, free, types_by_path(inferred.graph))
        walk.graph(folded, known)
        conditions = {fold.condition for folds in translation.folds for fold in folds.values()}
        varying = {c for c in conditions if not _is_constant(c, known, walk)}
        if not varying:
            break
        kept |= varying  # at other sizes, the If may take the other branch
    graph = translation.graph
    shapes: dict[str, Shape] = {}
    lost: dict[str, str] = {}
    for tensor in graph.tensors:
        fact = known[tensor.name]
        if isinstance(fact, Fact):
            shapes[tensor.name] = fact.shape
        else:
            lost[tensor.name] = fact
    check_bounded(ranges, lost)
    checked: list[Mapping[str, int]] = []
    elsewhere: list[tuple[Mapping[str, int], Graph]] = []
    has_bodies = any(op.bodies for op in graph.ops)
    lowest, *others = sizes_to_check(ranges)
    for sizes in (most, lowest, *others):
        if sizes in checked:
            continue
        other = compare(
            graph,
            shapes,
            lost,
            sizes,
            lambda at: graph if at == most else read_at(at)[1].graph,
            must_hold=sizes in (most, lowest),
        )
        if other is not None:
            checked.append(sizes)
            elsewhere += [(sizes, other)] if has_bodies else []
    symbolic = SymbolicShapes(ranges, shapes, lost, tuple(checked))
    return symbolic, Reading(translation, ranges, most, opsets, known, walk.inner, elsewhere)


def _is_constant(name: str, known: Mapping[str, Known], walk: Walk) -> bool:
    """True if a tensor's elements are known and the same at every size."""
    facts = [facts[name] for facts in (known, *walk.inner.values()) if name in facts]
    return bool(facts) and all(
        isinstance(fact, Fact) and fact.data is not None and fact.data.dtype.kind != "O"
        for fact in facts
    )


def _input_facts(
    graph: onnx.GraphProto, sizes: Mapping[str, int], free: Mapping[str, Range]
) -> dict[str, Known]:
    """The symbolic shapes of the model's inputs."""
    known: dict[str, Known] = {}
    for value in model_inputs(graph):
        if not value.type.HasField("tensor_type"):
            known[value.name] = f"input {value.name!r} is no tensor"
            continue
        extents = [
            variable(d.dim_param) if d.dim_param in free else sizes.get(d.dim_param, d.dim_value)
            for d in value.type.tensor_type.shape.dim
        ]
        varies = any(d.dim_param in free for d in value.type.tensor_type.shape.dim)
        fixed = {name: size for name, size in sizes.items() if name not in free}
        known[value.name] = Fact(tuple(extents), bound_value(value, fixed), varies)
    return known
