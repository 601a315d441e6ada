"""Types that an ONNX model declares for its tensors, kept apart from inferred types.

The types that a file records for inner tensors are caches of an earlier inference, perhaps for
other extents. So they are put aside before inference and used only if inference fails: for
operators that it does not know, and for shapes that depend on values. The types that a graph or a
body declares for its outputs are compared with the derived ones.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from cpplan.io.onnx.contrib import rule_of
from cpplan.io.onnx.types import bodies_of, dtype_name, set_types, static_shape, types_of
from cpplan.model.errors import InputError

if TYPE_CHECKING:
    import onnx

# Names are unique within a graph; a scope names the graph by the outputs of its enclosing nodes.
Scope = tuple[str, ...]
Which = Literal["foreign", "ready", "all"]
Declared = Mapping[tuple[Scope, str], "onnx.TypeProto"]


def take_declarations(graph: onnx.GraphProto, scope: Scope = ()) -> Declared:
    """Remove, in place, and return the types of all tensors that inference may derive.

    Inputs keep their types, but parameters of a loop's or a scan's body lose their shapes, since
    these follow from the node's inputs.
    """
    import onnx

    declared = {}
    for value in (*graph.value_info, *graph.output):
        if _is_typed(value.type):
            type_ = onnx.TypeProto()
            type_.CopyFrom(value.type)
            declared[scope, value.name] = type_
    del graph.value_info[:]
    for value in graph.output:
        value.ClearField("type")
    for node, body, inner in _bodies(graph, scope):
        skipped = {"Loop": 2, "Scan": 0}.get(node.op_type, len(body.input))
        for parameter in body.input[skipped:]:
            if parameter.type.HasField("tensor_type"):
                parameter.type.tensor_type.ClearField("shape")
        declared.update(take_declarations(body, inner))
    return declared


def use_declarations(graph: onnx.GraphProto, declared: Declared, which: Which) -> bool:
    """Give tensors without a known shape their declared types, in place; True if any got a type."""
    return _use(graph, declared, which, ChainMap(types_of(graph)), ())


def hand_through(
    graph: onnx.GraphProto, types: ChainMap[str, onnx.TypeProto] | None = None
) -> bool:
    """Give outputs that no node of their graph computes their type elsewhere, in place.

    Inference does not do this: a branch may return a captured tensor, or one tensor twice. Returns
    True if any output was given a type.
    """
    here = (types or ChainMap()).new_child(types_of(graph))
    changed = False
    for node in graph.node:
        for body in bodies_of(node):
            changed |= hand_through(body, here)
    for output in graph.output:
        # The empty type of the output itself hides the type of the captured tensor.
        known = [outer[output.name] for outer in here.maps if output.name in outer]
        source = next(filter(_is_typed, known), None)
        if source is None or static_shape(output.type) is not None:
            continue
        if static_shape(source) is not None or not _is_typed(output.type):
            output.type.CopyFrom(source)
            changed = True
    return changed


def check_declarations(
    graph: onnx.GraphProto, declared: Declared, labelled: Mapping[str, Mapping[int, str]]
) -> list[str]:
    """Compare the declared types of outputs, also of bodies, with the derived ones.

    Returns
    -------
    Outputs of the model declared with another shape than the derived one, which holds, as runtimes
    have it; each as a sentence.

    Raises
    ------
    InputError
        If an output's elements are of another type, or a body's output is not as declared.
    """
    promised = dict(declared)
    for name, axes in labelled.items():
        type_ = promised.get(((), name))
        if type_ is not None:
            for axis, label in axes.items():
                type_.tensor_type.shape.dim[axis].dim_param = label
    return list(_check(graph, promised, ChainMap(types_of(graph)), ()))


def _use(
    graph: onnx.GraphProto,
    declared: Declared,
    which: Which,
    types: ChainMap[str, onnx.TypeProto],
    scope: Scope,
) -> bool:
    inside = False
    taken: dict[str, onnx.TypeProto] = {}
    for node in graph.node:
        for body, inner in _bodies_of(node, scope):
            inside |= _use(body, declared, which, types.new_child(types_of(body)), inner)
        known = all(static_shape(types.get(name)) is not None for name in node.input if name)
        if (which == "foreign" and (_is_defined(node) or rule_of(node))) or (
            which == "ready" and not known
        ):
            continue
        for name in node.output:
            type_ = declared.get((scope, name))
            if type_ is None or (static_shape(types.get(name)) is not None):
                continue
            if not _is_typed(types.get(name)) or static_shape(type_) is not None:
                taken[name] = type_
    set_types(graph, taken)
    return inside or bool(taken)


def _is_typed(type_: onnx.TypeProto | None) -> bool:
    return type_ is not None and type_.WhichOneof("value") is not None


def _check(
    graph: onnx.GraphProto,
    declared: Declared,
    types: ChainMap[str, onnx.TypeProto],
    scope: Scope,
) -> Iterator[str]:
    for value in graph.output:
        promised, derived = declared.get((scope, value.name)), types.get(value.name)
        if promised is None or derived is None or not _is_typed(derived):
            continue
        if not _agree(promised, derived):
            where = f" of the body {graph.name!r}" if scope else ""
            writer = next((node.name for node in graph.node if value.name in node.output), None)
            text = (
                f"output {value.name!r}{where} is declared as {_text(promised)}, "
                f"but it is {_text(derived)}{f' by op {writer!r}' if writer else ''}"
            )
            if scope or not _same_elements(promised, derived):
                raise InputError(text)
            yield text
    for node, body, inner in _bodies(graph, scope):
        known = types.new_child(types_of(body))
        if node.op_type == "If":
            _check_branch(node, body, known)
        yield from _check(body, declared, known, inner)


def _check_branch(
    node: onnx.NodeProto, body: onnx.GraphProto, types: ChainMap[str, onnx.TypeProto]
) -> None:
    """Raise if a branch's result has another type than the declared output of its If.

    If the branches differ, inference leaves an extent open; a declaration must not fill it in.
    """
    for output, result in zip(node.output, body.output, strict=False):
        whole, part = types.get(output), types.get(result.name)
        if whole is None or part is None or not (_is_typed(whole) and _is_typed(part)):
            continue
        if not _agree(whole, part):
            raise InputError(
                f"tensor {output!r} is declared as {_text(whole)}, but the branch {body.name!r} of "
                f"op {node.name!r} gives it {_text(part)}"
            )


def _agree(promised: onnx.TypeProto, derived: onnx.TypeProto) -> bool:
    """True if two types agree in everything that both specify."""
    if not _same_elements(promised, derived):
        return False
    if promised.WhichOneof("value") != "tensor_type":
        return True
    one, other = promised.tensor_type, derived.tensor_type
    if not one.HasField("shape") or not other.HasField("shape"):
        return True
    if len(one.shape.dim) != len(other.shape.dim):
        return False
    return all(
        a.dim_value < 0
        or not (a.HasField("dim_value") and b.HasField("dim_value"))
        or a.dim_value == b.dim_value
        for a, b in zip(one.shape.dim, other.shape.dim, strict=True)
    )


def _same_elements(promised: onnx.TypeProto, derived: onnx.TypeProto) -> bool:
    """True if two types agree but for their shapes."""
    if promised.WhichOneof("value") != derived.WhichOneof("value"):
        return False
    one, other = promised.tensor_type.elem_type, derived.tensor_type.elem_type
    return not one or not other or one == other


def _text(type_: onnx.TypeProto) -> str:
    form = type_.WhichOneof("value")
    if form != "tensor_type":
        return str(form).removesuffix("_type").replace("_", " ")
    tensor = type_.tensor_type
    element = dtype_name(tensor.elem_type) or "string"
    if not tensor.HasField("shape"):
        return element
    extents = (
        str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"
        for dim in tensor.shape.dim
    )
    return f"{element}[{', '.join(extents)}]"


def _bodies(
    graph: onnx.GraphProto, scope: Scope
) -> Iterator[tuple[onnx.NodeProto, onnx.GraphProto, Scope]]:
    for node in graph.node:
        for body, inner in _bodies_of(node, scope):
            yield node, body, inner


def _bodies_of(node: onnx.NodeProto, scope: Scope) -> Iterator[tuple[onnx.GraphProto, Scope]]:
    for k, body in enumerate(bodies_of(node)):
        yield body, (*scope, *node.output, str(k))


def _is_defined(node: onnx.NodeProto) -> bool:
    import onnx

    return bool(onnx.defs.has(node.op_type, node.domain))
