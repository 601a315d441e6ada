"""Shapes of every tensor of an ONNX model: inference, and folded shape arithmetic.

ONNX's own inference does most of the work, of the whole model and then node by node. Four additions
complete it: shape arithmetic, which has small constant operands, is computed; most loops keep the
shapes of the tensors that they carry; an If whose condition is known is replaced by its branch; and
ONNX Runtime's operators have rules of their own.
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
from cpplan.io.onnx.constants import SMALL, stored_tensor
from cpplan.io.onnx.contrib import infer_contrib
from cpplan.io.onnx.counted import counted_types, most_results
from cpplan.io.onnx.declarations import (
    check_declarations,
    hand_through,
    take_declarations,
    use_declarations,
)
from cpplan.io.onnx.dims import EVERY_COUNT, OpenDimsError, count_name
from cpplan.io.onnx.kernels import KernelError, make_kernel, to_numpy
from cpplan.io.onnx.loops import open_turns, settle_loop
from cpplan.io.onnx.types import bodies_of, set_types, static_shape, types_of
from cpplan.io.onnx.views import RANDOM, is_standard
from cpplan.model.errors import InputError

# Operators whose operands state the extents of their results.
GROWING = frozenset(
    ["ConstantOfShape", "EyeLike", "Expand", "OneHot", "Pad", "Range", "Resize", "Tile", "Upsample"]
)

# Turns that a loop is assumed to make, to find all that is unknown.
_TURNS = 8
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
    given: Mapping[str, int] | None = None,
    kept: Collection[str] = (),
    labelled: Mapping[str, Mapping[int, str]] | None = None,
) -> Inferred:
    """The model with the types of its tensors filled in, as far as they can be derived.

    Parameters
    ----------
    given
        Numbers that are only known at run time, by name: turns of loops, and counts of results.
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
        If a shape depends on a number of turns or of results that is not given.
    """
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    opset = opsets.get("", 1)
    _state_defaults(model.graph)
    pass_ = _Pass(opsets, given or {})
    folds: list[Folds] = []
    declared = take_declarations(model.graph)
    use_declarations(model.graph, declared, "foreign")
    while True:
        model = _infer(model)
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
        if use_declarations(model.graph, declared, "all"):
            continue
        pass_.assumes = True
        if not pass_.complete(model.graph):
            break
    if pass_.assumed:
        asked = _in_short(pass_.assumed)
        raise OpenDimsError(tuple(asked), asked)
    contradictions = check_declarations(model.graph, declared, labelled or {})
    typed = model
    if _all_typed(model.graph):
        typed = _infer(model, strict=True)
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


def _infer(model: onnx.ModelProto, *, strict: bool = False) -> onnx.ModelProto:
    """Run ONNX's own inference."""
    import onnx
    from onnx.shape_inference import InferenceError

    infer, checker = onnx.shape_inference.infer_shapes, onnx.checker
    # Operators reject the type that inference gives to a constant stored as a sparse tensor, and
    # before opset 9, constants of integers, which stand for known shapes.
    old = any(e.version < 9 for e in model.opset_import if not e.domain)
    check_type = strict and not old and not model.graph.sparse_initializer
    try:
        return infer(model, check_type=check_type, strict_mode=strict)
    except (InferenceError, checker.ValidationError, RuntimeError, ValueError, TypeError) as error:
        raise InputError(f"not a valid ONNX model: {' '.join(str(error).split())}") from error


def _answer_shapes(graph: onnx.GraphProto, types: ChainMap[str, onnx.TypeProto]) -> None:
    """Replace nodes that only ask for a tensor's shape by constants, so that it can be freed."""
    import onnx

    types.update(types_of(graph))
    for node in graph.node:
        for body in bodies_of(node):
            _answer_shapes(body, types.new_child())
        answer = _asked(node, types)
        if answer is not None:
            value = onnx.numpy_helper.from_array(answer)
            node.CopyFrom(
                onnx.helper.make_node("Constant", [], node.output, node.name, value=value)
            )


def _asked(node: onnx.NodeProto, types: Types) -> Array | None:
    """The result of a Shape or a Size, if the shape is known; ``None`` for other nodes."""
    if not is_standard(node) or node.op_type not in ("Shape", "Size") or len(node.output) != 1:
        return None
    shape = static_shape(types.get(node.input[0])) if len(node.input) == 1 else None
    if shape is None:
        return None
    if node.op_type == "Size":
        return np.array(math.prod(shape), np.int64)
    bounds = {a.name: a.i for a in node.attribute}
    return np.array(shape[bounds.get("start") : bounds.get("end")], np.int64)


def _all_known(graph: onnx.GraphProto) -> bool:
    types = types_of(graph)
    return all(
        _all_static(node.output, types) and all(_all_known(body) for body in bodies_of(node))
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
    given
        Numbers of turns and of results that are only known at run time, by name.
    assumes, assumed
        True if other numbers may be assumed, and those that are.
    settled
        Shapes set for loops, so that none is set twice.
    """

    opsets: Mapping[str, int]
    given: Mapping[str, int]
    assumes: bool = False
    assumed: dict[str, int] = field(default_factory=dict)
    settled: set[tuple[str, str]] = field(default_factory=set)

    def complete(self, graph: onnx.GraphProto) -> bool:
        """Make one pass; returns True if it found what inference of the whole model did not."""
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
        found: dict[str, onnx.TypeProto] = {}
        for node in graph.node:
            for body in bodies_of(node):
                progress |= self._graph(body, values.new_child(), types.new_child())
            if is_standard(node) and node.op_type == "Loop":
                unknown = open_turns(node, values, types) if self.assumes else []
                self.assumed |= dict.fromkeys(unknown, _TURNS)
                turns = {**self.assumed, **self.given}
                progress |= settle_loop(graph, node, values, types, self.settled, turns)
            asked = _asked(node, types)
            if asked is None:
                results = _small_results(node, values, types, self.opsets)
            else:
                results = {node.output[0]: asked}
            values.update(results)
            if results and node.op_type not in ("Constant", "Identity"):
                progress = True
                for name, value in results.items():
                    tensor = onnx.numpy_helper.from_array(value, name)
                    nodes.append(
                        onnx.helper.make_node("Constant", [], [name], node.name, value=tensor)
                    )
                continue
            inferred = _types_of_results(node, values, types, self.opsets)
            inferred = inferred or self._counted(node, types)
            types.update(inferred)
            found.update(inferred)
            nodes.append(node)
        set_types(graph, found)
        if progress:
            nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
            del graph.node[:]
            graph.node.extend(nodes)
        return progress or bool(found)

    def _counted(self, node: onnx.NodeProto, types: Types) -> dict[str, onnx.TypeProto]:
        """Types of a node's outputs, if their extents are a number that only values decide."""
        most, name = most_results(node, types), count_name(node)
        if most is None or _all_static(node.output, types):
            return {}
        if name in self.given:
            count = self.given[name]
        elif EVERY_COUNT in self.given:
            count = min(most, self.given[EVERY_COUNT])
        elif self.assumes:
            count = self.assumed[name] = most
        else:
            return {}
        return counted_types(node, types, count)


def _in_short(assumed: Mapping[str, int]) -> dict[str, int]:
    """Names and numbers to ask for: several counts under the name of all."""
    counts = [number for name, number in assumed.items() if name.endswith(EVERY_COUNT)]
    if len(counts) < 2:
        return dict(assumed)
    others = {name: n for name, n in assumed.items() if not name.endswith(EVERY_COUNT)}
    return {**others, EVERY_COUNT: max(counts)}


def _all_static(names: Iterable[str], types: Types) -> bool:
    """True if the shapes of these tensors are known; an empty name is none."""
    return all(static_shape(types.get(name)) is not None for name in names if name)


def _types_of_results(
    node: onnx.NodeProto, values: Values, types: Types, opsets: Mapping[str, int]
) -> dict[str, onnx.TypeProto]:
    """Types of a node's outputs that follow from values and types found in this pass.

    The next inference of the whole model finds them too, but if it were left to that, every Reshape
    to a computed shape would take a pass of its own.
    """
    import onnx

    version, names = opsets.get("", 1), [name for name in node.input if name]
    if not is_standard(node) or bodies_of(node) or not _all_static(names, types):
        return {}
    open_ = [name for name in node.output if not _all_static([name], types)]
    if not open_:
        return {}
    try:
        found = onnx.shape_inference.infer_node_outputs(
            onnx.defs.get_schema(node.op_type, version, ""),
            node,
            {name: types[name] for name in names},
            {name: onnx.numpy_helper.from_array(values[name]) for name in names if name in values},
            opset_imports=[onnx.helper.make_opsetid("", version)],
        )
    except (onnx.shape_inference.InferenceError, onnx.defs.SchemaError):
        return {}  # inference of the whole model says what is wrong
    return {name: found[name] for name in open_ if static_shape(found.get(name)) is not None}


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
    stored = stored_tensor(node)
    if stored is not None:
        return {} if stored.external_data else {node.output[0]: to_numpy(stored)}
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
