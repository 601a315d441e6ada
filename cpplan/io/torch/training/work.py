"""Work of an op: its operations, or its bytes where moving them takes longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.fx import Node

# Operations that a machine does while it moves one byte: between processors and accelerators.
OPERATIONS_PER_BYTE = 16

Work = Callable[["Node", int, int], "int | float"]


def work_of(node: Node, operations: int, nbytes: int) -> int:
    """Work of a node: the larger of its operations and those done while its bytes move.

    Parameters
    ----------
    node
        The node; any function of the same arguments can be given as ``cost``.
    operations
        Floating-point operations as ``torch.utils.flop_counter`` counts them, else elements.
    nbytes
        Bytes of all storages that it reads and writes.

    Examples
    --------
    >>> work_of(None, 10**6, 1000), work_of(None, 100, 1000)
    (1000000, 16000)
    """
    return max(operations, OPERATIONS_PER_BYTE * nbytes)


def operations_of(node: Node, operations: int, nbytes: int) -> int:
    """Work of a node: its operations alone."""
    return operations


def flops_of(node: Node, operations: int, nbytes: int) -> int:
    """Work of a node: its operations if they have a formula, else nothing.

    Those are matrix products, convolutions and attention; all others run again for nothing, as
    they do where a compiler fuses them, and in the count of ``torch.utils.flop_counter``.
    """
    from torch._ops import HigherOrderOperator

    from cpplan.io.torch.costs import formula_of

    counted = isinstance(node.target, HigherOrderOperator) or formula_of(node.target) is not None
    return operations if counted else 0


# By the names that settings take.
WORKS: dict[str, Work] = {"time": work_of, "operations": operations_of, "flops": flops_of}
