"""The Program: a Graph in A-normal form, one let-binding a step.

The order of the bindings is the order of execution. An op may be bound more than once
(rematerialization): later readers then use its latest copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.costs import sum_costs
from cpplan.model.dependencies import explain
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op
from cpplan.model.methods import method
from cpplan.model.names import tuple_of
from cpplan.model.problem import Ints

if TYPE_CHECKING:
    from cpplan.model.problem import Ints
    from cpplan.program.expression import Expression


@dataclass(frozen=True)
class Program:
    """Ops of a graph in the order they run.

    Attributes
    ----------
    graph
        The graph that is computed.
    order
        Positions in ``graph.ops``, each at least once; more often if the op is recomputed.

    Raises
    ------
    InputError
        If an op is missing, runs before an op that it waits for, or runs again although it is not
        ``recomputable`` or belongs to a sequence.

    Examples
    --------
    >>> from cpplan.model.graph import Graph, Op, Tensor
    >>> graph = Graph(
    ...     "tiny",
    ...     (Tensor("x", 8, kind="input"), Tensor("t", 16), Tensor("y", 4, kind="output")),
    ...     (Op("a", "conv", ("x",), ("t",)), Op("b", "pool", ("t",), ("y",))),
    ... )
    >>> print(Program(graph, (0, 1)))  # doctest: +ELLIPSIS
    program tiny
    ...
    %t = conv(%x) : 16 {name = a}  # 16 B, live 24 B
    %y = pool(%t) : 4 {name = b}  # 4 B, live 20 B
    return %y
    """

    graph: Graph
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.graph, Graph):
            raise InputError(f"a program is of a Graph, not {type(self.graph).__name__}")
        object.__setattr__(self, "order", tuple_of(int, "order", self.order))
        ops, done = self.graph.ops, set[int]()
        if self.graph.columns.runs_in(self.order):
            return
        predecessors = self.graph.predecessors
        for k in self.order:
            if not 0 <= k < len(ops):
                raise InputError(f"order names op number {k}, but there are {len(ops)}")
            for before in predecessors[k]:
                if before not in done:
                    raise InputError(
                        f"op {ops[k].name!r} runs before {explain(self.graph, before, k)}"
                    )
            if k in done and not ops[k].recomputable:
                raise InputError(
                    f"op {ops[k].name!r} runs twice, but may not: it gives other values each time"
                )
            if k in done and ops[k].sequence is not None:
                raise InputError(
                    f"op {ops[k].name!r} runs twice, but the ops of sequence "
                    f"{ops[k].sequence!r} run once each"
                )
            done.add(k)
        if len(done) < len(ops):
            missing = next(op.name for k, op in enumerate(ops) if k not in done)
            raise InputError(f"op {missing!r} is missing from the order")

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """The op bound at every step."""
        return tuple(map(self.graph.ops.__getitem__, self.order))

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the op bound at every step, repeated if the op is recomputed."""
        return tuple(map(attrgetter("name"), self.ops))

    @property
    def may_reorder(self) -> bool:
        """True if neighbouring ops may change places, so that there is another order."""
        before = self.graph.predecessors
        return any(one not in before[two] for one, two in pairwise(self.order))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First step of every binding, and the end; an op takes all steps of its bodies."""
        if runs_once(self):
            return tuple(range(len(self.order) + 1))
        return tuple(accumulate((op_steps(op) for op in self.ops), initial=0))

    @property
    def cost(self) -> int | float:
        """Sum of the costs of all bindings, recomputations included."""
        return sum_costs(map(attrgetter("cost"), self.ops))

    def live_bytes(self) -> Ints:
        """Bytes live at every step, boundary tensors included (see ``Residency``)."""
        live: Ints = method("Program.live_bytes")(self)
        return live

    def used_memory(self, *, workspaces: bool = False) -> UsedMemory:
        """Bytes live at every binding, and the bytes of the graph's inputs and outputs.

        Workspaces and bodies count if asked for (see
        :func:`cpplan.program.anf.find_used_memory`).

        Examples
        --------
        >>> from cpplan.model.graph import Graph, Op, Tensor
        >>> tensors = (Tensor("x", 8, kind="input"), Tensor("y", 4, kind="output"))
        >>> used = to_anf(Graph("g", tensors, (Op("a", "relu", ("x",), ("y",)),))).used_memory()
        >>> used.per_op, used.io
        ({'a': (12,)}, 12)
        """
        used: UsedMemory = method("Program.used_memory")(self, workspaces=workspaces)
        return used

    def __str__(self) -> str:
        return str(method("Program.__str__")(self))

    @classmethod
    def parse(cls, text: str) -> Program:
        """The program that ``str(program)`` printed.

        Raises
        ------
        InputError
            Names the line and what was expected there.
        """
        program: Program = method("Program.parse")(text)
        return program


def runs_once(program: Program) -> bool:
    """True if every op runs once, and none has bodies."""
    ops = program.graph.ops
    return len(program.order) == len(ops) and not any(map(attrgetter("bodies"), ops))


def op_steps(op: Op) -> int:
    """Number of steps of an op: the sum over its bodies, at least one each; one if it has none."""
    return sum(max(1, to_anf(body).starts[-1]) for body in op.bodies) or 1


def to_anf(source: Graph | Expression, order: Iterable[str] | None = None) -> Program:
    """Normalise to a sequence of let-bindings, one op each.

    A graph keeps the order in which its ops are listed, if that is an execution order; otherwise
    its ops are ordered in depth-first post-order, from the ops that no other op waits for,
    arguments left to right. A nested expression is bound in post-order. A shared sub-expression is
    bound once, in the innermost scope common to all its uses; the result does not depend on the
    order in which the expression was built.

    Parameters
    ----------
    source
        A graph, or an expression made with ``cpplan.expression``.
    order
        Names of ops in the order wanted, repeated if recomputed; only with a graph.

    Raises
    ------
    InputError
        If ``order`` names an unknown op, leaves an op out, or runs it before an op it waits for.

    Examples
    --------
    >>> from cpplan.program.expression import Call, Var
    >>> x = Var("x", shape=(4,), dtype="float32")
    >>> y = Call("exp", [x], shape=(4,), dtype="float32")
    >>> to_anf(Call("add", [y, y], shape=(4,), dtype="float32")).names
    ('exp_0', 'add_1')
    """
    if not isinstance(source, Graph):
        from cpplan.program.normal_form import normalise

        source = normalise(source)
    if order is not None:
        names, number = tuple(order), source.columns.op_number
        try:
            return Program(source, tuple(map(number.__getitem__, names)))
        except KeyError:
            unknown = next(name for name in names if name not in number)
            raise InputError(f"order names unknown op {unknown!r}") from None
    if source.in_order:
        return Program(source, tuple(range(len(source.ops))))
    return Program(source, _post_order(source))


def _post_order(graph: Graph) -> tuple[int, ...]:
    """Ops in depth-first post-order from the ops without readers, predecessors left to right."""
    read = {before for predecessors in graph.predecessors for before in predecessors}
    order: dict[int, None] = {}
    for sink in (k for k in range(len(graph.ops)) if k not in read):
        stack = [(sink, iter(graph.predecessors[sink]))]
        while stack:
            k, rest = stack[-1]
            before = next((p for p in rest if p not in order), None)
            if before is None:
                order[k] = None
                stack.pop()
            else:
                stack.append((before, iter(graph.predecessors[before])))
    return tuple(order)


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
