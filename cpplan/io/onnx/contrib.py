"""Output types of ONNX Runtime's own operators (domain ``com.microsoft``), also symbolic ones.

ONNX's inference does not know these operators. Most of them have the shape rule of some ONNX
operator: that of ``Sum`` on the inputs 0 and 3 for ``QLinearAdd``. Names, positions of inputs and
attributes follow ONNX Runtime's ``ContribOperators.md``.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from cpplan.io.onnx.constants import stored_constant
from cpplan.io.onnx.facts import Call, Fact, Lost, Shape
from cpplan.io.onnx.shape_rules import RULES
from cpplan.io.onnx.types import bodies_of, set_types, static_shape, types_of
from cpplan.io.onnx.views import OF_RUNTIME, is_standard
from cpplan.model.errors import InputError

if TYPE_CHECKING:
    import onnx

    from cpplan.io.onnx.facts import Known

DOMAIN = "com.microsoft"
_OPSET = 13  # of the operators with the same rules: the last with all axes as attributes
_FLOAT, _UINT8, _INT32 = 1, 2, 6


class _Output(NamedTuple):
    """Shape and element type of an output.

    Attributes
    ----------
    shape
        Its extents.
    like
        Position of the input whose element type it has.
    element
        The element type if that input is left out.
    """

    shape: Shape
    like: int | None = 0
    element: int = _FLOAT


# Rule: the outputs by position; outputs that the node leaves out are skipped.
_Rule: TypeAlias = Callable[[Call], "list[_Output]"]


def _as_standard(call: Call, kind: str, inputs: Sequence[int], **attributes: Any) -> Shape:
    """The shape that an operator of ONNX gives for some of the inputs."""
    facts = [call.inputs[k] for k in inputs]
    return _shape_of(call, kind, facts, [call.node.input[k] for k in inputs], **attributes)


def _shape_of(
    call: Call, kind: str, facts: Sequence[Known | None], names: Sequence[str], **attributes: Any
) -> Shape:
    import onnx

    given = {name: value for name, value in attributes.items() if value is not None}
    node = onnx.helper.make_node(kind, names, ["output"], **given)
    return RULES[kind](Call(node, facts, {"": _OPSET}, call.ranges))[0]


def infer_contrib(
    graph: onnx.GraphProto, opset: int, types: ChainMap[str, onnx.TypeProto] | None = None
) -> bool:
    """Type the outputs of ONNX Runtime's operators, in place, once their inputs are typed.

    ONNX's operators between them are typed one by one, so that the whole graph need not be inferred
    anew for each of ONNX Runtime's. Returns True if any output was typed.
    """
    here = (types or ChainMap()).new_child(types_of(graph))
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            constants.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
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
            made = _contrib_types(node, here, constants)
        elif found and is_standard(node) and not bodies_of(node):
            made = _standard_types(node, opset, here, constants)
        for name in unknown:
            if static_shape(made.get(name)) is not None:
                here[name] = found[name] = made[name]
    set_types(graph, found)
    return progress or bool(found)


def _contrib_types(
    node: onnx.NodeProto,
    types: Mapping[str, onnx.TypeProto],
    constants: Mapping[str, onnx.TensorProto],
) -> dict[str, onnx.TypeProto]:
    import onnx

    rule = rule_of(node)
    assert rule is not None

    def fact(name: str) -> Fact:
        shape = static_shape(types[name])
        assert shape is not None  # rules run only once all input types are known
        small = stored_constant(constants[name]) if name in constants else None
        return Fact(shape, None if small is None else small.value(), False)

    made = {}
    try:
        facts = [fact(name) if name else None for name in node.input]
        found = rule(Call(node, facts, {}, {}))
    except (LookupError, TypeError, ValueError, ArithmeticError, Lost, InputError):
        return {}  # malformed, or of an unknown form: the type that the file declares is used
    for name, (shape, like, element) in zip(node.output, found, strict=False):
        if like is not None and like < len(node.input) and node.input[like]:
            element = types[node.input[like]].tensor_type.elem_type
        made[name] = onnx.helper.make_tensor_type_proto(element, cast("tuple[int, ...]", shape))
    return made


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
    if not node.domain and node.op_type in OF_RUNTIME:
        return _layer_norm
    return _RULES.get(node.op_type) if node.domain == DOMAIN else None


def _like_first(call: Call) -> list[_Output]:
    return [_Output(call.shape())]


def _layer_norm(call: Call) -> list[_Output]:
    whole, *rows = RULES["LayerNormalization"](call)
    return [_Output(whole), *(_Output(shape, None) for shape in rows)]


def _normalized(call: Call) -> list[_Output]:
    """Types of a normalization; its sum is the fourth output, mean and deviation are one a row."""
    whole = _Output(call.shape())
    row = _Output((*call.shape()[:-1], 1), None)
    return [whole, row, row, whole]


def _broadcast(*inputs: int) -> _Rule:
    def rule(call: Call) -> list[_Output]:
        given = [k for k in inputs if call.has(k)]
        return [_Output(_as_standard(call, "Sum", given), given[0])]

    return rule


def _where(call: Call) -> list[_Output]:
    return [_Output(_as_standard(call, "Sum", (0, 1, 4)), 1)]


def _matmul(right: int, like: int) -> _Rule:
    return lambda call: [_Output(_as_standard(call, "MatMul", (0, right)), like)]


def _fused_matmul(call: Call) -> list[_Output]:
    sides = [list(call.shape(k)) for k in (0, 1)]
    flags = call.attributes
    for side, name in zip(sides, "AB", strict=True):
        if flags.get(f"transBatch{name}"):
            side[:-1] = [*side[1:-1], side[0]]
        if flags.get(f"trans{name}") and len(side) > 1:
            side[-2:] = side[:-3:-1]
    facts = [Fact(tuple(side)) for side in sides]
    return [_Output(_shape_of(call, "MatMul", facts, call.node.input[:2]))]


def _gemm(right: int, like: int) -> _Rule:
    def rule(call: Call) -> list[_Output]:
        flags = {name: call.attributes.get(name) for name in ("transA", "transB")}
        return [_Output(_as_standard(call, "Gemm", (0, right), **flags), like)]

    return rule


def _packed_matmul(call: Call) -> list[_Output]:
    return [_Output((*call.shape()[:-1], call.attributes["N"]))]


_WINDOW = ("auto_pad", "ceil_mode", "dilations", "group", "kernel_shape", "pads", "strides")


def _window(kind: str, *weight: int, last: bool | None = None, like: int = 0) -> _Rule:
    """Shape rule of a convolution or pooling; ``last``: channels last, ``None``: by attribute."""

    def rule(call: Call) -> list[_Output]:
        given = call.attributes
        is_last = bool(given.get("channels_last")) if last is None else last
        image = call.shape()
        if is_last:
            image = (image[0], image[-1], *image[1:-1])
        facts = [Fact(image), *(call.fact(k) for k in weight)]
        names = [call.node.input[k] for k in (0, *weight)]
        window = {name: given.get(name) for name in _WINDOW}
        shape = _shape_of(call, kind, facts, names, **window)
        shape = (shape[0], *shape[2:], shape[1]) if is_last else shape
        return [_Output(shape, like)]

    return rule


def _concat(call: Call) -> list[_Output]:
    parts = range(2, len(call.inputs), 3)
    return [_Output(_as_standard(call, "Concat", parts, axis=call.attributes["axis"]), 2)]


def _reduce_mean(call: Call) -> list[_Output]:
    flags = {name: call.attributes.get(name) for name in ("axes", "keepdims")}
    return [_Output(_as_standard(call, "ReduceMean", (0,), **flags))]


def _attention(like: int, past: int) -> _Rule:
    """Rule of an attention whose weights make queries, keys and values, a third each, at once.

    ``like`` is the input whose element type the output has.
    """

    def rule(call: Call) -> list[_Output]:
        batch, sequence = call.shape()[:2]
        sizes = call.attributes.get("qkv_hidden_sizes")
        hidden = sizes[2] if sizes else call.shape(1)[-1] // 3
        heads = call.attributes["num_heads"]
        before = call.shape(past)[3] if call.has(past) else 0
        present = (2, batch, heads, before + sequence, hidden // heads)
        return [_Output((batch, sequence, hidden), like), _Output(present, like)]

    return rule


def _multi_head_attention(call: Call) -> list[_Output]:
    query = call.shape()
    if len(query) == 5:  # packed: batch, sequence, heads, 3 (query, key, value), elements of a head
        return [_Output((query[0], query[1], query[2] * query[4]))]
    if not call.has(2):
        return [_Output(query)]
    value = call.shape(2)
    hidden = value[2] if len(value) == 3 else value[1] * value[3]
    return [_Output((query[0], query[1], hidden))]


def _grouped_attention(call: Call) -> list[_Output]:
    """Types of an attention whose heads share keys and values; these are also outputs.

    They are as long as the whole sequence, or as the buffer of the past ones if that is longer.
    """
    batch, sequence, width = call.shape()
    heads, shared = call.attributes["num_heads"], call.attributes["kv_num_heads"]
    head = width // (heads if call.has(1) else heads + 2 * shared)
    result = _Output((batch, sequence, heads * head))
    try:
        length = call.larger(call.numbers(6)[0], call.shape(3)[2] if call.has(3) else 0)
    except Lost:
        return [result]  # the file declares the others
    present = _Output((batch, shared, length, head))
    return [result, present, present]


def _embedding(call: Call) -> list[_Output]:
    batch, sequence = call.shape()
    whole = _Output((batch, sequence, call.shape(2)[1]), 2)
    return [whole, _Output((batch,), None, _INT32), whole]


def _recurrence(call: Call) -> list[_Output]:
    sequence, batch, _ = call.shape()
    hidden = call.attributes["hidden_size"]
    directions = 2 if call.attributes.get("direction") == "bidirectional" else 1
    state = _Output((directions, batch, hidden))
    return [_Output((sequence, directions, batch, hidden)), state, state]


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
    "QuantizeLinear": lambda call: [_Output(call.shape(), 2, _UINT8)],
    "DequantizeLinear": lambda call: [_Output(call.shape(), 1)],
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul"), _fused_matmul),
    "DynamicQuantizeMatMul": _matmul(1, 0),
    "MatMulIntegerToFloat": _matmul(1, 2),
    "MatMulNBits": _packed_matmul,
    "FusedGemm": _gemm(1, 0),
    "QGemm": _gemm(3, 8),
    "FusedConv": _window("Conv", 1, last=False),
    "NhwcMaxPool": _window("MaxPool", last=True),
    "QLinearConv": _window("Conv", 3, like=7),
    "QLinearAveragePool": _window("AveragePool"),
    "QLinearGlobalAveragePool": _window("GlobalAveragePool"),
    "QLinearConcat": _concat,
    "QLinearReduceMean": _reduce_mean,
    "Attention": _attention(0, 4),
    "QAttention": _attention(3, 8),
    "MultiHeadAttention": _multi_head_attention,
    "GroupQueryAttention": _grouped_attention,
    "EmbedLayerNormalization": _embedding,
    "DynamicQuantizeLSTM": _recurrence,
}
