"""ONNX nodes that move no bytes, since their first output is a view of their first input."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from cpplan.io.onnx.types import bodies_of, static_shape

if TYPE_CHECKING:
    import onnx

RESHAPES = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "BitCast"})
RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)


# Kinds that ONNX Runtime defines in ONNX's domain -> ONNX's kind for the same work, and the opset
# that has it.
OF_RUNTIME = {
    "LayerNormalization": ("LayerNormalization", 17),
    "SimplifiedLayerNormalization": ("RMSNormalization", 23),
}


def is_standard(node: onnx.NodeProto) -> bool:
    """True if the node's operator is one of ONNX's own."""
    return not node.domain


def is_view(
    node: onnx.NodeProto,
    type_of: Callable[[str], onnx.TypeProto | None],
    false: Collection[str],
    opset: int,
) -> bool:
    """True if the node's first output has the bytes of its first input, in the same order.

    Parameters
    ----------
    type_of
        The type of a tensor that the node accesses.
    false
        Names of constants known to be ``False``.
    opset
        Version of ONNX's own operators that the model uses.
    """
    if not is_standard(node) or not any(node.input[:1]) or not any(node.output[:1]):
        return False
    if node.op_type in RESHAPES:
        return True
    if node.op_type == "Dropout":
        return not _drops(node, false, opset)
    before = type_of(node.input[0])
    if node.op_type == "Cast":
        target = next((a.i for a in node.attribute if a.name == "to"), None)
        return before is not None and before.tensor_type.elem_type == target
    if node.op_type == "CastLike":
        like = type_of(node.input[1])
        if before is None or like is None:
            return False
        return before.tensor_type.elem_type == like.tensor_type.elem_type
    if node.op_type == "Transpose":
        shape = static_shape(before)
        return shape is not None and _keeps_order(node, shape)
    return False


def is_random(node: onnx.NodeProto, false: Collection[str], opset: int) -> bool:
    """True if running the node, or a node of its bodies, twice may give different values."""
    return any(_draws(node, false, opset))


def draws_in_turn(node: onnx.NodeProto, false: Collection[str], opset: int) -> bool:
    """True if the node, or a node of its bodies, draws from the random state that nodes share.

    A node with its own seed draws the same numbers whatever ran before.
    """
    drawing = _draws(node, false, opset)
    return any(all(a.name != "seed" for a in inner.attribute) for inner in drawing)


def _draws(node: onnx.NodeProto, false: Collection[str], opset: int) -> Iterator[onnx.NodeProto]:
    """The node, and the nodes of its bodies, that draw random numbers."""
    if is_standard(node) and (
        node.op_type in RANDOM or (node.op_type == "Dropout" and _drops(node, false, opset))
    ):
        yield node
    for body in bodies_of(node):
        for inner in body.node:
            yield from _draws(inner, false, opset)


def _drops(node: onnx.NodeProto, false: Collection[str], opset: int) -> bool:
    """True if a Dropout is, or may be, in training mode."""
    if opset < 7:
        return not any(a.name == "is_test" and a.i for a in node.attribute)
    has_mode = opset >= 12 and len(node.input) > 2 and node.input[2] != ""
    return has_mode and node.input[2] not in false


def _keeps_order(node: onnx.NodeProto, shape: tuple[int, ...]) -> bool:
    """True if a Transpose leaves the axes longer than one in their order."""
    permutation = next((tuple(a.ints) for a in node.attribute if a.name == "perm"), None)
    if permutation is None:
        permutation = tuple(reversed(range(len(shape))))
    if sorted(permutation) != list(range(len(shape))):
        return False
    moved = [axis for axis in permutation if shape[axis] != 1]
    return moved == sorted(moved)
