"""Elements of small ONNX tensors with symbolic sizes: shapes and values computed from them.

Operators that only move elements run unchanged, on numbers that stand for the elements. The few
operators that compute with sizes have rules of their own. Their arithmetic, on expressions and on
ratios of them, raises :exc:`Unknown` if no single result holds for all sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.constants import SMALL
from cpplan.io.onnx.facts import Call, Extent, Fact, Shape
from cpplan.io.onnx.kernels import KernelError, make_kernel
from cpplan.io.onnx.types import bodies_of
from cpplan.io.onnx.views import RANDOM, is_standard
from cpplan.model.shapes import divide_exactly

# Operators that only move elements -> positions of the inputs that hold the elements.
_MOVED: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(
        ("Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity"), (0,)
    ),
    **dict.fromkeys(("Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose"), (0,)),
    "Unsqueeze": (0,),
    "ScatterElements": (0, 2),
    "ScatterND": (0, 2),
    "Where": (1, 2),
}


def known_data(call: Call, shapes: list[Shape] | None) -> list[Array | None]:
    """The elements of each output of a node; ``None`` if they are many or unknown."""
    node = call.node
    nothing: list[Array | None] = [None] * len(node.output)
    if not is_standard(node) or bodies_of(node) or node.op_type in RANDOM or not node.output:
        return nothing
    if node.op_type in ("Shape", "Size"):
        return [_asked(call)]
    arrays = []
    for k, fact in enumerate(call.inputs):
        if call.has(k) and (not isinstance(fact, Fact) or fact.data is None):
            return nothing
        arrays.append(fact.data if isinstance(fact, Fact) else None)
    for shape in shapes or ():
        count = math.prod(shape)
        if not isinstance(count, int) or count > SMALL:
            return nothing
    symbolic = [k for k, a in enumerate(arrays) if a is not None and a.dtype.kind == "O"]
    try:
        if not symbolic:
            return _run(call, arrays)
        if node.op_type == "Concat" or set(symbolic) <= set(_MOVED.get(node.op_type, ())):
            return _move(call, arrays)
        return [_compute(call, [a for a in arrays if a is not None])]
    except (KernelError, Unknown):
        return nothing


def _asked(call: Call) -> Array | None:
    fact = call.inputs[0]
    if not isinstance(fact, Fact):
        return None
    if call.node.op_type == "Size":
        return _compact(np.array(math.prod(fact.shape), object))
    bounds = call.attributes
    return _compact(np.array(fact.shape[bounds.get("start") : bounds.get("end")], object))


def _run(call: Call, arrays: list[Array | None]) -> list[Array | None]:
    given = zip(call.node.input, arrays, strict=True)
    values = {name: array for name, array in given if array is not None}
    results = make_kernel(call.node, {}, call.opsets)(values)
    found = [results.get(name) for name in call.node.output]
    return [
        a if a is not None and a.size <= SMALL and a.dtype.kind in "biuf" else None for a in found
    ]


def _move(call: Call, arrays: list[Array | None]) -> list[Array | None]:
    """Run the node on numbers that stand for the elements, and replace these by the elements."""
    positions = _MOVED.get(call.node.op_type, range(len(arrays)))
    elements: list[Any] = [0]  # elements that a kernel itself adds are integer zeros
    stand_in = list(arrays)
    for k in positions:
        array = arrays[k] if k < len(arrays) else None
        if array is not None:
            numbers = np.arange(len(elements), len(elements) + array.size, dtype=np.int64)
            stand_in[k] = numbers.reshape(array.shape)
            elements.extend(array.reshape(-1).tolist())
    table = np.empty(len(elements), object)
    table[:] = elements
    return [None if moved is None else _compact(table[moved]) for moved in _run(call, stand_in)]


def _compact(array: Array) -> Array:
    """The array with a plain dtype if all its elements are plain integers."""
    objects = np.asarray(array, object)
    flat = objects.reshape(-1).tolist()
    if all(isinstance(element, int) and not isinstance(element, bool) for element in flat):
        return objects.astype(np.int64)
    if flat and all(isinstance(element, bool) for element in flat):
        return objects.astype(bool)
    return objects


def _compute(call: Call, arrays: list[Array]) -> Array:
    kind = call.node.op_type
    if kind in ("ReduceProd", "ReduceSum"):
        if arrays[0].ndim != 1:
            raise Unknown
        function = multiply if kind == "ReduceProd" else add
        total: Any = 1 if kind == "ReduceProd" else 0
        for element in arrays[0].reshape(-1).tolist():
            total = function(call, total, element)
        keep = call.attributes.get("keepdims", 1)
        result = np.empty((1,) if keep else (), object)
        result[...] = total
        return _compact(result)
    if kind == "Cast":
        return _cast(call, arrays[0])
    if kind not in OPERATIONS:
        raise Unknown
    exact = [a if a.dtype.kind == "O" else _exact(a) for a in arrays]
    apply = np.frompyfunc(lambda *values: OPERATIONS[kind](call, *values), len(exact), 1)
    result = np.empty(np.broadcast_shapes(*(a.shape for a in exact)), object)
    result[...] = apply(*exact)
    return _compact(result)


def _exact(array: Array) -> Array:
    """The elements as integers; real numbers as ratios."""
    result = np.empty(array.shape, object)
    for at, element in np.ndenumerate(array):
        value = element.item()
        if isinstance(value, float):
            if not math.isfinite(value):
                raise Unknown
            fraction = Fraction(value)
            value = Ratio(fraction.numerator, fraction.denominator)
        result[at] = value
    return result


def _cast(call: Call, array: Array) -> Array:
    import onnx

    dtype = onnx.helper.tensor_dtype_to_np_dtype(call.attributes["to"])
    result = np.empty(array.shape, object)
    for at, element in np.ndenumerate(array):
        if dtype.kind == "f" and dtype.itemsize >= 4:
            result[at] = element if isinstance(element, Ratio) else Ratio(element, 1)
        elif dtype.kind in "iu" and dtype.itemsize >= 4:
            result[at] = round_down(call, element)
        else:
            raise Unknown
    return _compact(result)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A real number: an expression divided by a positive integer."""

    numerator: Extent
    denominator: int


class Unknown(Exception):
    """Raised for an element that has no single value for all sizes."""


def add(call: Call, one: Any, other: Any) -> Any:
    if isinstance(one, Ratio) and isinstance(other, Ratio):
        common = one.denominator * other.denominator
        top = one.numerator * other.denominator + other.numerator * one.denominator
        return _ratio(top, common)
    return one + other


def _subtract(call: Call, one: Any, other: Any) -> Any:
    return add(call, one, _negate(call, other))


def multiply(call: Call, one: Any, other: Any) -> Any:
    if isinstance(one, Ratio) and isinstance(other, Ratio):
        return _ratio(one.numerator * other.numerator, one.denominator * other.denominator)
    return one * other


def _divide(call: Call, one: Any, other: Any) -> Any:
    if isinstance(one, Ratio) and isinstance(other, Ratio):
        if not isinstance(other.numerator, int) or other.numerator <= 0:
            raise Unknown
        return _ratio(one.numerator * other.denominator, one.denominator * other.numerator)
    # ONNX rounds towards zero, floor division down: equal if no operand is negative.
    if not (call.at_least(one, 0) and call.at_least(other, 1)):
        raise Unknown
    exact = divide_exactly(one, other)
    return one // other if exact is None else exact


def _remainder(call: Call, one: Any, other: Any) -> Any:
    if isinstance(one, Ratio) or not (call.at_least(one, 0) and call.at_least(other, 1)):
        raise Unknown
    return one % other


def _negate(call: Call, one: Any) -> Any:
    return Ratio(-one.numerator, one.denominator) if isinstance(one, Ratio) else -one


def _absolute(call: Call, one: Any) -> Any:
    if isinstance(one, Ratio) or not call.at_least(one, 0):
        raise Unknown
    return one


def _ratio(top: Extent, bottom: int) -> Ratio:
    """The reduced ratio; raises if single precision might round a value that is exact here."""
    factor = math.gcd(top, bottom) if isinstance(top, int) else 1
    if bottom // factor > 2**8:
        raise Unknown
    return Ratio(top // factor if factor > 1 else top, bottom // factor)


def round_down(call: Call, one: Any) -> Any:
    if not isinstance(one, Ratio):
        return one
    if not call.at_least(one.numerator, 0):
        raise Unknown
    return one.numerator // one.denominator


def _floor(call: Call, one: Any) -> Any:
    return Ratio(round_down(call, one), 1)


def _ceil(call: Call, one: Any) -> Any:
    return Ratio(-(-one.numerator // one.denominator), 1)


def _largest(call: Call, *values: Any) -> Any:
    return _extreme(call.larger, values)


def _smallest(call: Call, *values: Any) -> Any:
    return _extreme(call.smaller, values)


def _extreme(choose: Callable[[Extent, Extent], Extent], values: tuple[Any, ...]) -> Any:
    result = values[0]
    for value in values:
        if isinstance(value, Ratio):
            raise Unknown
        result = choose(result, value)
    return result


def _equal(call: Call, one: Any, other: Any) -> bool:
    if isinstance(one, Ratio) or isinstance(other, Ratio):
        raise Unknown
    if one == other:
        return True
    if call.at_least(one - 1, other) or call.at_least(other - 1, one):
        return False
    raise Unknown


def _less(call: Call, one: Any, other: Any) -> bool:
    if isinstance(one, Ratio) or isinstance(other, Ratio):
        raise Unknown
    if call.at_least(other - 1, one):
        return True
    if call.at_least(one, other):
        return False
    raise Unknown


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "Abs": _absolute,
    "Add": add,
    "Ceil": _ceil,
    "Div": _divide,
    "Equal": _equal,
    "Floor": _floor,
    "Greater": lambda call, one, other: _less(call, other, one),
    "GreaterOrEqual": lambda call, one, other: not _less(call, one, other),
    "Less": _less,
    "LessOrEqual": lambda call, one, other: not _less(call, other, one),
    "Max": _largest,
    "Min": _smallest,
    "Mod": _remainder,
    "Mul": multiply,
    "Neg": _negate,
    "Sub": _subtract,
}
