"""Symbolic shapes of ONNX's products, norms, reductions and recurrences."""

from __future__ import annotations

from cpplan.io.onnx.facts import Call, Extent, Lost, Shape, broadcast, checked_axis

_SECOND = {"QLinearMatMul": 3}


def elementwise(call: Call) -> list[Shape]:
    """All inputs broadcast to one another; before opset 7, the other inputs to the first."""
    shapes = [call.shape(k) for k in range(len(call.inputs)) if call.has(k)]
    if call.opset < 7:
        return shapes[:1]
    return [broadcast(call, shapes)]


def like_first(call: Call) -> list[Shape]:
    """Every output has the shape of the first input."""
    return [call.shape()] * len(call.node.output)


def batch_norm(call: Call) -> list[Shape]:
    """BatchNormalization: the first input's shape; also the statistics, if they are outputs."""
    return [call.shape(), *(call.shape(3) for _ in call.node.output[1:])]


def layer_norm(call: Call) -> list[Shape]:
    """LayerNormalization: also the mean and the deviation of every row."""
    shape = call.shape()
    axis = call.axis(-1, len(shape))
    rows = (*shape[:axis], *(1 for _ in shape[axis:]))
    return [shape, *(rows for _ in call.node.output[1:])]


def quantized(call: Call) -> list[Shape]:
    """DynamicQuantizeLinear: the elements, a scale and a zero point."""
    return [call.shape(), (), ()]


def matmul(call: Call) -> list[Shape]:
    """MatMul: the rules of NumPy's ``matmul``."""
    one, other = call.shape(), call.shape(_SECOND.get(call.node.op_type, 1))
    if not one or not other:
        raise Lost("a product of a single number")
    rows, columns = one[-2:-1], other[-1:] if len(other) > 1 else ()
    return [(*broadcast(call, [one[:-2], other[:-2]]), *rows, *columns)]


def gemm(call: Call) -> list[Shape]:
    """Gemm: a product of two matrices, transposed or not."""
    one, other = call.shape(), call.shape(1)
    row = one[1 if call.attributes.get("transA") else 0]
    return [(row, other[0 if call.attributes.get("transB") else 1])]


def einsum(call: Call) -> list[Shape]:
    """Einsum: by the equation; different extents of one letter are broadcast."""
    equation = call.attributes["equation"].replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(call.inputs):
        raise Lost("its equation has not as many terms as it has inputs")
    extents: dict[str, Extent] = {}
    hidden: list[Shape] = []
    for k, term in enumerate(terms):
        shape = call.shape(k)
        before, dots, after = term.partition("...")
        inner = len(shape) - len(before) - len(after)
        if inner < 0 or (inner and not dots):
            raise Lost(f"its term {term!r} does not fit its input")
        if dots:
            hidden.append(shape[len(before) : len(before) + inner])
        named = (*shape[: len(before)], *shape[len(before) + inner :])
        for letter, extent in zip(before + after, named, strict=True):
            known = extents.get(letter, 1)
            extents[letter] = broadcast(call, [(known,), (extent,)])[0]
    common = broadcast(call, hidden)
    if not arrow:
        letters = sorted(letter for letter in extents if left.count(letter) == 1)
        return [(*common, *(extents[letter] for letter in letters))]
    before, dots, after = right.partition("...")
    middle = common if dots else ()
    return [(*(extents[c] for c in before), *middle, *(extents[c] for c in after))]


def reduction(call: Call) -> list[Shape]:
    """Reductions: axes are an attribute or, since later opsets, an input."""
    shape = call.shape()
    axes = call.integers("axes", 1, ())
    if not axes:
        if call.attributes.get("noop_with_empty_axes"):
            return [shape]
        axes = list(range(len(shape)))
    return [_without(shape, axes, call.attributes.get("keepdims", 1))]


def arg_reduction(call: Call) -> list[Shape]:
    """ArgMax and ArgMin: without the axis, or with extent 1 there."""
    shape = call.shape()
    return [_without(shape, [call.attributes.get("axis", 0)], call.attributes.get("keepdims", 1))]


def _without(shape: Shape, axes: list[int], keep: int) -> Shape:
    gone = {checked_axis(axis, len(shape)) for axis in axes}
    kept: list[Extent] = []
    for axis, extent in enumerate(shape):
        if axis not in gone:
            kept.append(extent)
        elif keep:
            kept.append(1)
    return tuple(kept)


def top_k(call: Call) -> list[Shape]:
    """TopK: values and indices; their number is an attribute or, since opset 10, an input."""
    shape = list(call.shape())
    k = call.attributes.get("k")
    shape[call.axis(-1, len(shape))] = call.numbers(1)[0] if k is None else k
    return [tuple(shape)] * 2


def recurrence(call: Call) -> list[Shape]:
    """LSTM, GRU and RNN: the results at every step, and the final states."""
    steps, batch = call.shape()[:2]
    directions = 2 if call.attributes.get("direction") == "bidirectional" else 1
    hidden = call.attributes.get("hidden_size", call.shape(2)[-1])
    if call.attributes.get("layout"):
        steps, batch = batch, steps
        last: Shape = (batch, directions, hidden)
        return [(batch, steps, directions, hidden), last, last]
    last = (directions, batch, hidden)
    return [(steps, directions, batch, hidden), last, last]


def attention(call: Call) -> list[Shape]:
    """Attention: results, keys and values including past ones, and scores."""
    query, key, value = (call.shape(k) for k in range(3))
    if len(query) == 4:
        batch, heads, length = query[:3]
        result: Shape = (batch, heads, length, value[3])
        keys, values = key, value
    else:
        batch, length = query[:2]
        heads, shared = call.attributes["q_num_heads"], call.attributes["kv_num_heads"]
        keys = (key[0], shared, key[1], key[2] // shared)
        values = (value[0], shared, value[1], value[2] // shared)
        result = (batch, length, values[3] * heads)
    total = keys[2]
    present = [keys, values]
    if call.has(4):
        total = call.shape(4)[2] + total
        present = [(*past[:2], total, past[3]) for past in (call.shape(4), call.shape(5))]
    return [result, *present, (batch, heads, length, total)]


def loss(call: Call) -> list[Shape]:
    """Losses of classifications, and the logarithms that are an output of one of them."""
    reduced = call.attributes.get("reduction", "mean") != "none"
    return [() if reduced else call.shape(1), *(call.shape() for _ in call.node.output[1:])]


def determinant(call: Call) -> list[Shape]:
    """Det: one number for each matrix."""
    return [call.shape()[:-2]]


def draws(call: Call) -> list[Shape]:
    """Multinomial: ``sample_size`` samples for each row."""
    return [(call.shape()[0], call.attributes.get("sample_size", 1))]
