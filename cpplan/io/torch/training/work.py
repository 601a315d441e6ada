"""Work of an op: its operations, or the time to move its bytes if that is longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import Node

# Operations done while one byte moves: a value between those of processors and accelerators.
OPERATIONS_PER_BYTE = 16

Work = Callable[["Node", int, int], "int | float"]


def work_of(node: Node, operations: int, nbytes: int) -> int:
    """Work of a node: its operations, or more if its bytes take longer to move."""
    return max(operations, OPERATIONS_PER_BYTE * nbytes)


def operations_of(node: Node, operations: int, nbytes: int) -> int:
    """Work of a node: its operations alone."""
    return operations


def flops_of(node: Node, operations: int, nbytes: int) -> int:
    """Work of a node: its operations if there is a formula for them, else 0.

    There are formulas for matrix products, convolutions and attention. Other ops cost nothing, as
    if a compiler fused them, and as ``torch.utils.flop_counter`` counts.
    """
    from torch._ops import HigherOrderOperator

    from cpplan.io.torch.costs import formula_of

    counted = isinstance(node.target, HigherOrderOperator) or formula_of(node.target) is not None
    return operations if counted else 0


def fused_of(node: Node, operations: int, nbytes: int) -> int:
    """Work of a node where a compiler fuses element-wise ops into their readers.

    An element-wise op that no matrix product, convolution or attention reads costs the time to move
    the bytes that it reads: its result is not written. All other nodes cost as :func:`work_of`.
    """
    import torch

    from cpplan.io.torch.costs import formula_of

    pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
    if not pointwise or any(formula_of(reader.target) for reader in _readers(node)):
        return work_of(node, operations, nbytes)
    value = node.meta["val"]
    written = int(_size_of(value.numel()) * value.element_size())
    return OPERATIONS_PER_BYTE * max(nbytes - written, 0)


def _size_of(size: Any) -> int:
    """The size, or that which a symbolic one had when the graph was traced."""
    return size if isinstance(size, int) else int(size.node.hint)


def _readers(node: Node) -> set[Node]:
    """Nodes that read a node's result, also through views."""
    found: set[Node] = set()
    waiting = [node]
    while waiting:
        for user in waiting.pop().users:
            if user not in found:
                found.add(user)
                schema = getattr(user.target, "_schema", None)
                if schema is not None and any(made.alias_info for made in schema.returns):
                    waiting.append(user)
    return found


# Name in the settings -> function.
WORKS: dict[str, Work] = {
    "time": work_of,
    "operations": operations_of,
    "flops": flops_of,
    "fused": fused_of,
}
