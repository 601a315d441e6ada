"""Shapes of every tensor of an ONNX model: inference, and folded shape arithmetic.

ONNX's own inference does most of the work. Four additions complete it: shape arithmetic, which has
small constant operands, is computed; most loops keep the shapes of the tensors that they carry; an
If whose condition is known is replaced by its branch; and ONNX Runtime's operators have rules of
their own.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from cpplan.io.onnx.branches import Folds, apply_folds, known_folds
from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.constants import SMALL
from cpplan.io.onnx.contrib import infer_contrib
from cpplan.io.onnx.declarations import (
    check_declarations,
    hand_through,
    take_declarations,
    use_declarations,
)
from cpplan.io.onnx.dims import OpenDimsError
from cpplan.io.onnx.kernels import KernelError, make_kernel, to_numpy
from cpplan.io.onnx.loops import open_turns, settle_loop
from cpplan.io.onnx.types import bodies_of, static_shape, types_of
from cpplan.io.onnx.views import RANDOM, is_standard
from cpplan.model.errors import InputError
from cpplan.runtime.limits import MOST_PROPAGATED

# Operators whose operands state the extents of their results.
GROWING = frozenset(
    ["ConstantOfShape", "EyeLike", "Expand", "OneHot", "Pad", "Range", "Resize", "Tile", "Upsample"]
)

# Defaults of attributes that ONNX's inference does not see, or takes for 0.
_UNSEEN_DEFAULTS = {"MeanVarianceNormalization": ("axes", [0, 2, 3]), "STFT": ("onesided", 1)}

if TYPE_CHECKING:
    import onnx

    Types = MutableMapping[str, onnx.TypeProto]
    Values = MutableMapping[str, Array]


@dataclass(frozen=True, slots=True)
class Inferred:
    """A model with the types of its tensors, and the Ifs that were replaced by a branch.

    ``contradictions`` says which outputs of the model have other shapes than it declares.
    """

    model: onnx.ModelProto
    folds: tuple[Folds, ...]
    contradictions: tuple[str, ...]


def infer_shapes(
    model: onnx.ModelProto,
    turns: Mapping[str, int] | None = None,
    kept: Collection[str] = (),
    labelled: Mapping[str, Mapping[int, str]] | None = None,
) -> Inferred:
    """The model with the types of its tensors filled in, as far as they can be derived.

    Parameters
    ----------
    turns
        Numbers of turns of loops that are only known at run time, by :func:`turns_name`.
    kept
        Conditions of Ifs that are not folded.
    labelled
        Axes of the model's outputs that it declares by names, with these names; they are not
        checked.

    Raises
    ------
    InputError
        If ONNX's inference rejects the model, an output is declared with elements of a wrong type,
        or a loop carries a tensor whose shape changes.
    OpenDimsError
        If a shape depends on an unknown number of turns of a loop.
    """
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    opset = opsets.get("", 1)
    _state_defaults(model.graph)
    pass_ = _Pass(opsets, turns or {})
    folds: list[Folds] = []
    declared = take_declarations(model.graph)
    use_declarations(model.graph, declared, "foreign")
    propagates = not _has_long_vectors(_infer(model, propagates=False).graph)
    while True:
        model = _infer(model, propagates=propagates)
        propagates = propagates and not _has_long_vectors(model.graph)
        if hand_through(model.graph) or infer_contrib(model.graph, opset):
            continue
        _answer_shapes(model.graph, ChainMap())
        found = known_folds(model.graph, opset, kept)
        if found:
            apply_folds(model.graph, found)
            folds.append(found)
            continue
        if _all_known(model.graph):
            break
        if pass_.complete(model.graph):
            continue
        if use_declarations(model.graph, declared, "ready"):
            continue
        if not use_declarations(model.graph, declared, "all"):
            break
    if pass_.open_loops and not _all_known(model.graph):
        raise OpenDimsError(tuple(pass_.open_loops), dict.fromkeys(pass_.open_loops, 1))
    contradictions = check_declarations(model.graph, declared, labelled or {})
    typed = model
    if _all_typed(model.graph):
        typed = _infer(model, propagates=propagates, strict=True)
    return Inferred(typed, tuple(folds), tuple(contradictions))


def _state_defaults(graph: onnx.GraphProto) -> None:
    """Give nodes the default of an attribute that ONNX's inference does not see."""
    import onnx

    for node in graph.node:
        for body in bodies_of(node):
            _state_defaults(body)
        default = _UNSEEN_DEFAULTS.get(node.op_type)
        if default is None or not is_standard(node):
            continue
        name, value = default
        if all(attribute.name != name for attribute in node.attribute):
            node.attribute.append(onnx.helper.make_attribute(name, value))


def _infer(model: onnx.ModelProto, *, propagates: bool, strict: bool = False) -> onnx.ModelProto:
    """Run ONNX's own inference."""
    import onnx
    from onnx.shape_inference import InferenceError

    infer, checker = onnx.shape_inference.infer_shapes, onnx.checker
    # Operators reject the type that inference gives to a constant stored as a sparse tensor, and
    # before opset 9, constants of integers, which stand for known shapes.
    old = any(e.version < 9 for e in model.opset_import if not e.domain)
    check_type = strict and not old and not model.graph.sparse_initializer
    try:
        return infer(model, check_type=check_type, strict_mode=strict, data_prop=propagates)
    except (InferenceError, checker.ValidationError, RuntimeError, ValueError, TypeError) as error:
        raise InputError(f"not a valid ONNX model: {' '.join(str(error).split())}") from error


def _has_long_vectors(graph: onnx.GraphProto) -> bool:
    """True if a vector is too long to be part of a shape: propagating it would take much memory."""
    shapes = map(static_shape, types_of(graph).values())
    return any(
        shape is not None and len(shape) == 1 and shape[0] > MOST_PROPAGATED for shape in shapes
    ) or any(_has_long_vectors(body) for node in graph.node for body in bodies_of(node))


def _answer_shapes(graph: onnx.GraphProto, types: ChainMap[str, onnx.TypeProto]) -> None:
    """Replace nodes that only ask for a tensor's shape by constants, so that it can be freed."""
    import onnx

    types.update(types_of(graph))
    for node in graph.node:
        for body in bodies_of(node):
            _answer_shapes(body, types.new_child())
        shape = static_shape(types.get(node.input[0])) if len(node.input) == 1 else None
        if shape is None or not is_standard(node) or len(node.output) != 1:
            continue
        if node.op_type == "Shape":
            bounds = {a.name: a.i for a in node.attribute}
            answer = np.array(shape[bounds.get("start") : bounds.get("end")], np.int64)
        elif node.op_type == "Size":
            answer = np.array(math.prod(shape), np.int64)
        else:
            continue
        value = onnx.numpy_helper.from_array(answer)
        node.CopyFrom(onnx.helper.make_node("Constant", [], node.output, node.name, value=value))


def _all_known(graph: onnx.GraphProto) -> bool:
    types = types_of(graph)
    return all(
        all(static_shape(types.get(name)) is not None for name in node.output if name)
        and all(_all_known(body) for body in bodies_of(node))
        for node in graph.node
    )


def _all_typed(graph: onnx.GraphProto) -> bool:
    """True if every tensor has a type; strict inference would blame readers of an untyped one."""
    types = types_of(graph)
    return all(
        all(name in types for name in node.output if name)
        and all(_all_typed(body) for body in bodies_of(node))
        for node in graph.node
    )


@dataclass
class _Pass:
    """Passes over a model's nodes that find types which inference does not.

    Attributes
    ----------
    settled
        Shapes set for loops, so that none is set twice.
    open_loops
        Names for the numbers of turns of loops that collect rows, if not known.
    """

    opsets: Mapping[str, int]
    turns: Mapping[str, int]
    settled: set[tuple[str, str]] = field(default_factory=set)
    open_loops: dict[str, None] = field(default_factory=dict)

    def complete(self, graph: onnx.GraphProto) -> bool:
        """Make one pass; returns True if it found a type that inference did not know."""
        self.open_loops.clear()
        return self._graph(graph, ChainMap(), ChainMap())

    def _graph(
        self,
        graph: onnx.GraphProto,
        values: ChainMap[str, Array],
        types: ChainMap[str, onnx.TypeProto],
    ) -> bool:
        import onnx

        types.update(types_of(graph))
        for tensor in graph.initializer:
            if np.prod(tensor.dims, dtype=float) <= SMALL and not tensor.external_data:
                values[tensor.name] = to_numpy(tensor)
        progress, nodes = False, []
        for node in graph.node:
            for body in bodies_of(node):
                progress |= self._graph(body, values.new_child(), types.new_child())
            if is_standard(node) and node.op_type == "Loop":
                progress |= settle_loop(graph, node, values, types, self.settled, self.turns)
                self.open_loops.update(dict.fromkeys(open_turns(node, values, self.turns)))
            results = _small_results(node, values, types, self.opsets)
            values.update(results)
            if results and node.op_type != "Constant":
                progress = True
                for name, value in results.items():
                    tensor = onnx.numpy_helper.from_array(value, name)
                    nodes.append(
                        onnx.helper.make_node("Constant", [], [name], node.name, value=tensor)
                    )
                continue
            taken_in = _captured_constants(node, values, types)
            progress |= bool(taken_in)
            nodes += [*taken_in, node]
        if progress:
            nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
            del graph.node[:]
            graph.node.extend(nodes)
        return progress


def _captured_constants(
    node: onnx.NodeProto, values: ChainMap[str, Array], types: ChainMap[str, onnx.TypeProto]
) -> list[onnx.NodeProto]:
    """Constants of enclosing graphs as the node's own, in place, if its shapes are not known.

    Inference does not see the values of captured constants in a body: a Pad whose pads are defined
    in an enclosing graph, for example, gets no shape.
    """
    import onnx

    def known(names: Iterable[str]) -> bool:
        return all(static_shape(types.get(name)) is not None for name in names if name)

    if not is_standard(node) or known(node.output) or not known(node.input):
        return []
    captured = dict.fromkeys(n for n in node.input if n in values and n not in values.maps[0])
    own = {name: f"{name}~{node.output[0]}" for name in captured}
    node.input[:] = [own.get(name, name) for name in node.input]
    return [
        onnx.helper.make_node(
            "Constant", [], [new], new, value=onnx.numpy_helper.from_array(values[name], new)
        )
        for name, new in own.items()
    ]


def _small_results(
    node: onnx.NodeProto, values: Values, types: Types, opsets: Mapping[str, int]
) -> dict[str, Array]:
    """Name -> value of the node's outputs, if its inputs are known and the results small."""
    if not is_standard(node) or node.op_type in RANDOM or bodies_of(node):
        return {}
    inputs = [name for name in node.input if name]
    if any(name not in values for name in inputs):
        return {}
    shapes = [static_shape(types.get(name)) for name in node.output]
    if any(shape is not None and np.prod(shape, dtype=float) > SMALL for shape in shapes):
        return {}
    if None in shapes and _may_be_large(node, [values[name] for name in inputs]):
        return {}
    try:
        results = make_kernel(node, {}, opsets)({name: values[name] for name in inputs})
    except KernelError:
        return {}  # the values stay unknown, and so do shapes that need them
    sound = all(
        a.dtype.kind != "O" and a.size <= SMALL and _fits(a, types.get(name))
        for name, a in results.items()
    )
    return results if sound else {}


def _may_be_large(node: onnx.NodeProto, operands: Sequence[Array]) -> bool:
    """True if the results may be far larger than small: by values of operands, or by broadcasting.

    Such a node is computed once inference knows its shapes.
    """
    return node.op_type in GROWING or math.prod(a.size for a in operands) > SMALL**2


def _fits(value: Array, type_: onnx.TypeProto | None) -> bool:
    """True if a kernel's result has the type that inference found, or if it found none."""
    import onnx

    if type_ is None or type_.WhichOneof("value") is None:
        return True
    if not type_.tensor_type.elem_type:
        return False  # a sequence, say
    dtype = onnx.helper.tensor_dtype_to_np_dtype(type_.tensor_type.elem_type)
    return bool(value.dtype == dtype) and static_shape(type_) in (None, value.shape)
