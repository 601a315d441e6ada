"""Output types of ONNX Runtime's own operators (domain ``com.microsoft``).

ONNX's inference does not know these operators. Most of them have the shape rule of some ONNX
operator, which is inferred in their place: ``Sum`` of the inputs 0 and 3 for ``QLinearAdd``. Names,
positions of inputs and attributes follow ONNX Runtime's ``ContribOperators.md``.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from cpplan.io.onnx.types import bodies_of, set_types, static_shape, types_of
from cpplan.io.onnx.views import is_standard

if TYPE_CHECKING:
    import onnx

DOMAIN = "com.microsoft"
_OPSET = 13  # of the operators inferred in their place: the last with all axes as attributes

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class _Call:
    """A node, and the types of its inputs; ``None`` for inputs left out."""

    node: onnx.NodeProto
    types: Sequence[onnx.TypeProto | None]

    @property
    def attributes(self) -> dict[str, Any]:
        import onnx

        return {a.name: onnx.helper.get_attribute_value(a) for a in self.node.attribute}

    def element(self, k: int, default: int = 0) -> int:
        """The element type of input ``k``, or the default if it is left out."""
        type_ = self.types[k] if k < len(self.types) else None
        return default if type_ is None else type_.tensor_type.elem_type

    def shape(self, k: int) -> Shape:
        shape = static_shape(self.types[k])
        assert shape is not None  # rules run only once all input types are known
        return shape

    def as_standard(self, kind: str, inputs: Sequence[int], **attributes: Any) -> Shape:
        """The shape that ONNX's inference gives for an operator of ONNX on some of the inputs."""
        import onnx

        names = [f"input{k}" for k in inputs]
        types = {
            name: onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, self.shape(k))
            for name, k in zip(names, inputs, strict=True)
        }
        given = {name: value for name, value in attributes.items() if value is not None}
        node = onnx.helper.make_node(kind, names, ["output"], **given)
        schema = onnx.defs.get_schema(kind, _OPSET)
        opset = onnx.helper.make_opsetid("", _OPSET)
        found = onnx.shape_inference.infer_node_outputs(schema, node, types, opset_imports=[opset])
        shape = static_shape(found.get("output"))
        if shape is None:
            raise ValueError(f"{kind} gives no shape")
        return shape


# Rule: element type and shape of each output; outputs that the node leaves out are skipped.
_Rule: TypeAlias = Callable[[_Call], "list[tuple[int, Shape]]"]


def infer_contrib(
    graph: onnx.GraphProto, opset: int, types: ChainMap[str, onnx.TypeProto] | None = None
) -> bool:
    """Type the outputs of ONNX Runtime's operators, in place, once their inputs are typed.

    ONNX's operators between them are typed one by one, so that the whole graph need not be inferred
    anew for each of ONNX Runtime's. Returns True if any output was typed.
    """
    here = (types or ChainMap()).new_child(types_of(graph))
    constants = {tensor.name: tensor for tensor in graph.initializer}
    found: dict[str, onnx.TypeProto] = {}
    progress = False
    for node in graph.node:
        for body in bodies_of(node):
            progress |= infer_contrib(body, opset, here)
        unknown = [n for n in node.output if n and static_shape(here.get(n)) is None]
        if not unknown or any(static_shape(here.get(n)) is None for n in node.input if n):
            continue
        made: Mapping[str, onnx.TypeProto] = {}
        if rule_of(node) is not None:
            made = _contrib_types(node, here)
        elif found and is_standard(node) and not bodies_of(node):
            made = _standard_types(node, opset, here, constants)
        for name in unknown:
            if static_shape(made.get(name)) is not None:
                here[name] = found[name] = made[name]
    set_types(graph, found)
    return progress or bool(found)


def _contrib_types(
    node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]
) -> dict[str, onnx.TypeProto]:
    import onnx

    rule = rule_of(node)
    assert rule is not None
    try:
        found = rule(_Call(node, [types[name] if name else None for name in node.input]))
    except (IndexError, KeyError, TypeError, ValueError, RuntimeError):
        return {}  # malformed, or of an unknown form: the type that the file declares is used
    return {
        name: onnx.helper.make_tensor_type_proto(element, shape)
        for name, (element, shape) in zip(node.output, found, strict=False)
    }


def _standard_types(
    node: onnx.NodeProto,
    opset: int,
    types: Mapping[str, onnx.TypeProto],
    constants: dict[str, onnx.TensorProto],
) -> dict[str, onnx.TypeProto]:
    import onnx

    read = {name: types[name] for name in node.input if name}
    opsets = [onnx.helper.make_opsetid("", opset)]
    try:
        schema = onnx.defs.get_schema(node.op_type, opset)
        return onnx.shape_inference.infer_node_outputs(
            schema, node, read, constants, opset_imports=opsets
        )
    except (onnx.defs.SchemaError, onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return {}  # inference of the whole graph says what is wrong


def rule_of(node: onnx.NodeProto) -> _Rule | None:
    """The rule for the types of a node of ONNX Runtime's operators; ``None`` for other nodes."""
    return _RULES.get(node.op_type) if node.domain == DOMAIN else None


def _like_first(call: _Call) -> list[tuple[int, Shape]]:
    return [(call.element(0), call.shape(0))]


def _normalized(call: _Call) -> list[tuple[int, Shape]]:
    """Types of a normalization; its sum is the fourth output, mean and deviation are one a row."""
    rows = (*call.shape(0)[:-1], 1)
    like = (call.element(0), call.shape(0))
    return [like, (1, rows), (1, rows), like]


def _broadcast(*inputs: int) -> _Rule:
    def rule(call: _Call) -> list[tuple[int, Shape]]:
        given = [k for k in inputs if k < len(call.types) and call.types[k] is not None]
        return [(call.element(given[0]), call.as_standard("Sum", given))]

    return rule


def _where(call: _Call) -> list[tuple[int, Shape]]:
    return [(call.element(1), call.as_standard("Sum", (0, 1, 4)))]


def _matmul(right: int, element: Callable[[_Call], int]) -> _Rule:
    return lambda call: [(element(call), call.as_standard("MatMul", (0, right)))]


def _fused_matmul(call: _Call) -> list[tuple[int, Shape]]:
    sides = [list(call.shape(k)) for k in (0, 1)]
    flags = call.attributes
    for side, name in zip(sides, "AB", strict=True):
        if flags.get(f"transBatch{name}"):
            side[:-1] = [*side[1:-1], side[0]]
        if flags.get(f"trans{name}") and len(side) > 1:
            side[-2:] = side[:-3:-1]
    import onnx

    types = [onnx.helper.make_tensor_type_proto(1, side) for side in sides]
    return [(call.element(0), _Call(call.node, types).as_standard("MatMul", (0, 1)))]


def _gemm(right: int, element: Callable[[_Call], int]) -> _Rule:
    def rule(call: _Call) -> list[tuple[int, Shape]]:
        flags = {name: call.attributes.get(name) for name in ("transA", "transB")}
        return [(element(call), call.as_standard("Gemm", (0, right), **flags))]

    return rule


def _packed_matmul(call: _Call) -> list[tuple[int, Shape]]:
    return [(call.element(0), (*call.shape(0)[:-1], call.attributes["N"]))]


_WINDOW = ("auto_pad", "ceil_mode", "dilations", "group", "kernel_shape", "pads", "strides")


def _channels_last(shape: Shape) -> Shape:
    return (shape[0], *shape[2:], shape[1])


def _window(kind: str, inputs: Sequence[int], last: bool | None = None) -> _Rule:
    """Shape rule of a convolution or pooling; ``last``: channels last, ``None``: by attribute."""

    def rule(call: _Call) -> list[tuple[int, Shape]]:
        import onnx

        given = call.attributes
        is_last = bool(given.get("channels_last")) if last is None else last
        image = call.shape(0)
        if is_last:
            image = (image[0], image[-1], *image[1:-1])
        types = list(call.types)
        types[0] = onnx.helper.make_tensor_type_proto(1, image)
        known = onnx.defs.get_schema(kind, _OPSET).attributes
        window = {name: given.get(name) for name in _WINDOW if name in known}
        shape = _Call(call.node, types).as_standard(kind, inputs, **window)
        return [(call.element(0), _channels_last(shape) if is_last else shape)]

    return rule


def _quantized_conv(call: _Call) -> list[tuple[int, Shape]]:
    (_, shape), *_rest = _window("Conv", (0, 3))(call)
    return [(call.element(7), shape)]


def _concat(call: _Call) -> list[tuple[int, Shape]]:
    parts = range(2, len(call.types), 3)
    return [(call.element(2), call.as_standard("Concat", parts, axis=call.attributes["axis"]))]


def _reduce_mean(call: _Call) -> list[tuple[int, Shape]]:
    flags = {name: call.attributes.get(name) for name in ("axes", "keepdims")}
    return [(call.element(0), call.as_standard("ReduceMean", (0,), **flags))]


def _attention(element_of: int, past: int) -> _Rule:
    """Rule of an attention whose weights make queries, keys and values, a third each, at once.

    ``element_of`` is the input whose element type the output has.
    """

    def rule(call: _Call) -> list[tuple[int, Shape]]:
        batch, sequence = call.shape(0)[:2]
        sizes = call.attributes.get("qkv_hidden_sizes")
        hidden = sizes[2] if sizes else call.shape(1)[-1] // 3
        element = call.element(element_of)
        heads = call.attributes["num_heads"]
        has_past = past < len(call.types) and call.types[past] is not None
        before = call.shape(past)[3] if has_past else 0
        present = (2, batch, heads, before + sequence, hidden // heads)
        return [(element, (batch, sequence, hidden)), (element, present)]

    return rule


def _multi_head_attention(call: _Call) -> list[tuple[int, Shape]]:
    query = call.shape(0)
    if len(query) == 5:  # packed: batch, sequence, heads, 3 (query, key, value), elements of a head
        return [(call.element(0), (query[0], query[1], query[2] * query[4]))]
    value = call.shape(2) if len(call.types) > 2 and call.types[2] is not None else None
    if value is None:
        return [(call.element(0), query)]
    hidden = value[2] if len(value) == 3 else value[1] * value[3]
    return [(call.element(0), (query[0], query[1], hidden))]


def _embedding(call: _Call) -> list[tuple[int, Shape]]:
    batch, sequence = call.shape(0)
    element, hidden = call.element(2), call.shape(2)[1]
    whole = (element, (batch, sequence, hidden))
    return [whole, (6, (batch,)), whole]


def _recurrence(call: _Call) -> list[tuple[int, Shape]]:
    sequence, batch, _ = call.shape(0)
    hidden = call.attributes["hidden_size"]
    directions = 2 if call.attributes.get("direction") == b"bidirectional" else 1
    state = (call.element(0), (directions, batch, hidden))
    return [(call.element(0), (sequence, directions, batch, hidden)), state, state]


_FLOAT, _UINT8 = 1, 2
_LIKE_FIRST = """
    BiasGelu BiasSoftmax FastGelu Gelu GroupNorm Inverse QLinearLeakyRelu QLinearSigmoid
    QLinearSoftmax QuickGelu RotaryEmbedding
""".split()  # noqa: SIM905

_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(_LIKE_FIRST, _like_first),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _normalized),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), _broadcast(0, 3)),
    "BiasAdd": _broadcast(0, 1, 2),
    "QLinearWhere": _where,
    "QuantizeLinear": lambda call: [(call.element(2, _UINT8), call.shape(0))],
    "DequantizeLinear": lambda call: [(call.element(1), call.shape(0))],
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul"), _fused_matmul),
    "DynamicQuantizeMatMul": _matmul(1, lambda call: call.element(0)),
    "MatMulIntegerToFloat": _matmul(1, lambda call: call.element(2)),
    "MatMulNBits": _packed_matmul,
    "FusedGemm": _gemm(1, lambda call: call.element(0)),
    "QGemm": _gemm(3, lambda call: call.element(8, _FLOAT)),
    "FusedConv": _window("Conv", (0, 1), last=False),
    "NhwcMaxPool": _window("MaxPool", (0,), last=True),
    "QLinearConv": _quantized_conv,
    "QLinearAveragePool": _window("AveragePool", (0,)),
    "QLinearGlobalAveragePool": _window("GlobalAveragePool", (0,)),
    "QLinearConcat": _concat,
    "QLinearReduceMean": _reduce_mean,
    "Attention": _attention(0, 4),
    "QAttention": _attention(3, 8),
    "MultiHeadAttention": _multi_head_attention,
    "EmbedLayerNormalization": _embedding,
    "DynamicQuantizeLSTM": _recurrence,
}
