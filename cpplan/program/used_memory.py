"""Bytes live at every binding of a Program, as TVM's pass ``AnnotateUsedMemory`` counts them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cpplan.model.graph import Graph
from cpplan.model.problem import Ints
from cpplan.program.anf import Program


@dataclass(frozen=True, slots=True, eq=False)
class UsedMemory:
    """Live bytes of a program, binding by binding.

    Attributes
    ----------
    ops
        Name of the op of every binding, repeated if it is recomputed.
    per_binding
        Bytes live at every binding, shape ``(bindings,)``.
    io
        Bytes of the graph's inputs and outputs; a tensor that is both counts once.
    """

    ops: tuple[str, ...]
    per_binding: Ints
    io: int

    @property
    def per_op(self) -> dict[str, tuple[int, ...]]:
        """Op name -> the bytes live at each of its bindings, in the order in which they run."""
        found: dict[str, tuple[int, ...]] = {}
        for name, live in zip(self.ops, self.per_binding.tolist(), strict=True):
            found[name] = (*found.get(name, ()), live)
        return found


def find_used_memory(program: Program, *, workspaces: bool = False) -> UsedMemory:
    """The bytes of all tensors live at each binding. O(ops + tensors).

    These tensors are live at a binding: the op's inputs and outputs, every tensor that a later
    binding still reads, the graph's outputs once they are computed, and its inputs from the first
    binding to their last reader (an input that no op reads is live at the first binding only).
    Tensors that share storage count once. Constants and padding do not count, and no output is
    written in place.

    Source: TVM's pass ``AnnotateUsedMemory`` (apache/tvm #11091, #11208), which sees the tensors
    between ops only.

    Parameters
    ----------
    program
        Program whose order counts, recomputations included.
    workspaces
        True to count the op's own bytes too: its workspaces, and the most bytes that are live at
        once in its bodies.

    Examples
    --------
    >>> from cpplan.model.graph import Op, Tensor
    >>> graph = Graph(
    ...     "tiny",
    ...     (
    ...         *(Tensor("x", 8, kind="input"), Tensor("t", 16), Tensor("y", 4, kind="output")),
    ...         Tensor("scratch", 2, kind="workspace"),
    ...     ),
    ...     (Op("a", "conv", ("x",), ("t",), ("scratch",)), Op("b", "pool", ("t",), ("y",))),
    ... )
    >>> used = find_used_memory(Program(graph, (0, 0, 1)))
    >>> used.per_binding.tolist(), used.per_op, used.io
    ([24, 24, 20], {'a': (24, 24), 'b': (20,)}, 12)
    >>> find_used_memory(Program(graph, (0, 0, 1)), workspaces=True).per_op["a"]
    (26, 26)
    """
    counted = program if workspaces else Program(_between_ops(program.graph), program.order)
    starts = np.array(counted.starts, np.int64)
    # The profile ends with the last buffer; later ops may hold no bytes.
    live, profile = np.zeros(starts[-1], np.int64), counted.live_bytes()
    live[: len(profile)] = profile
    per_binding: Ints = np.maximum.reduceat(live, starts[:-1])
    boundary = (t for t in program.graph.tensors if t.kind in ("input", "output"))
    return UsedMemory(program.names, per_binding, sum(tensor.nbytes for tensor in boundary))


def _between_ops(graph: Graph) -> Graph:
    """The graph without bodies, and without storages that hold only workspaces."""
    holding = {graph.root[t.name][0] for t in graph.tensors if t.kind != "workspace"}
    kept = {t.name for t in graph.tensors if graph.root[t.name][0] in holding}
    ops = (
        replace(op, workspaces=tuple(name for name in op.workspaces if name in kept), bodies=())
        for op in graph.ops
    )
    return Graph(graph.name, tuple(t for t in graph.tensors if t.name in kept), tuple(ops))
