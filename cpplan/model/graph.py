"""Graph of a model: tensors, ops, and the dependencies between them.

A :class:`Graph` is immutable and checked when it is made, so that all other code can rely on it:
names are unique, every tensor an op names exists, each tensor has at most one producer, there is no
cycle, and every view lies within its base.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from cpplan.model.answers import Answer
from cpplan.model.axes import Axis
from cpplan.model.columns import GraphColumns
from cpplan.model.dependencies import check_acyclic, find_predecessors
from cpplan.model.errors import InputError
from cpplan.model.graph_checks import (
    check_axes,
    check_producers,
    check_references,
    check_unique,
    check_views,
)
from cpplan.model.methods import method
from cpplan.model.names import check_name, tuple_of
from cpplan.model.overhead import Overhead
from cpplan.model.printable import quote
from cpplan.model.tensor import LIMIT, Placement, Tensor, read_count

if TYPE_CHECKING:
    from cpplan.model.symbols import Symbols

__all__ = ["Graph", "Op", "Placement", "Tensor"]

# Largest cost of an op: sums of a million such numbers are still finite.
_MOST_COST = 1e300
_NAMES = frozenset({str})
# Number of in-place pairs above which they are looked up in sets.
_MANY_PAIRS = 8


@dataclass(frozen=True, slots=True)
class Op:
    """One operator: reads its inputs, writes its outputs, and uses workspaces as scratch memory.

    Attributes
    ----------
    name
        Unique within the graph.
    kind
        Kind of computation (``"Conv"``); cpplan gives no meaning to it.
    inputs, outputs, workspaces
        Tensor names. All of them are live during the op's step.
    cost
        Cost of running it once, in any unit, the same for the whole graph.
    recomputable
        True if running it again gives the same values.
    in_place
        ``(output, input)`` pairs of equal size: the kernel may write this output over that input,
        since it reads each byte before it writes the byte at the same address. If pairs name an
        input's bytes under two names, the op may read them under both.
    placements
        Copies that the op makes, and that are saved if one tensor lies within the other (see
        :class:`Placement`).
    bodies
        Graphs that run inside the op's step, one after another: the body of a call or a loop, the
        branches of an ``if`` (which exclude each other, so they share their bytes). An input of a
        body with the name of one of the op's tensors is that tensor; any other input has storage of
        its own for as long as the body runs. An output likewise, but only from the step that writes
        it to the body's end: the values that a loop carries are then copied into the body's inputs.
    after
        Names of ops that must have run before: control dependencies, which carry no bytes.
    sequence
        Ops of one sequence (side effects, random state) run in the order in which the graph lists
        them, each once.

    Examples
    --------
    >>> Op("relu1", "Relu", inputs=("x",), outputs=("y",)).recomputable
    True
    """

    name: str
    kind: str = "op"
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    workspaces: tuple[str, ...] = ()
    cost: int | float = 1
    recomputable: bool = True
    in_place: tuple[tuple[str, str], ...] = ()
    placements: tuple[Placement, ...] = ()
    bodies: tuple[Graph, ...] = ()
    after: tuple[str, ...] = ()
    sequence: str | None = None
    axes: tuple[Axis, ...] = ()

    def __post_init__(self) -> None:
        if self._is_plain():
            return
        check_name("an op's name", self.name)
        check_name(f"op {self.name!r}: kind", self.kind, empty=True)
        for field in ("inputs", "outputs", "workspaces", "bodies", "after"):
            kind: type = Graph if field == "bodies" else str
            values: tuple[object, ...] = tuple_of(
                kind, f"op {self.name!r}: {field}", getattr(self, field)
            )
            object.__setattr__(self, field, values)
        object.__setattr__(self, "after", tuple(dict.fromkeys(self.after)))
        if self.sequence is not None and not (isinstance(self.sequence, str) and self.sequence):
            raise InputError(
                f"op {self.name!r}: sequence must be a non-empty string or None, "
                f"not {self.sequence!r}"
            )
        check_name(f"op {self.name!r}: sequence", self.sequence or "", empty=True)
        object.__setattr__(self, "axes", tuple_of(Axis, f"op {self.name!r}: axes", self.axes))
        check_unique("axes", (axis.name for axis in self.axes), f"op {self.name!r}: ")
        for field, length in (("in_place", 2), ("placements", 3)):
            for relation in tuple_of(object, f"op {self.name!r}: {field}", getattr(self, field)):
                if not isinstance(relation, (tuple, list)) or len(relation) != length:
                    raise InputError(
                        f"op {self.name!r}: {field} must hold tuples of {length}, not {relation!r}"
                    )
        object.__setattr__(self, "in_place", tuple((o, i) for o, i in self.in_place))
        placements = []
        for part, whole, *rest in self.placements:
            here = f"op {self.name!r}: placement of {part!r} within {whole!r}: offset"
            offset = read_count(here, *rest)
            placements.append(Placement(part, whole, offset))  # type: ignore[arg-type]
        object.__setattr__(self, "placements", tuple(placements))
        if (
            isinstance(self.cost, bool)
            or not isinstance(self.cost, (int, float))
            or not (0 <= self.cost < _MOST_COST)
        ):
            raise InputError(
                f"op {self.name!r}: cost must be a number >= 0 below 1e300, not {quote(self.cost)}"
            )
        read, written = frozenset(self.inputs), frozenset(self.outputs)
        for output, source in self.in_place:
            if not (_is_among(output, written) and _is_among(source, read)):
                raise InputError(
                    f"op {self.name!r}: in_place pair ({output!r}, {source!r}) must name one of "
                    "its outputs and one of its inputs"
                )
        for part, whole, _ in self.placements:
            here = f"op {self.name!r}: placement of {part!r} within {whole!r}"
            joined = _is_among(part, read) and _is_among(whole, written)
            if not (joined or (_is_among(part, written) and _is_among(whole, read))):
                raise InputError(f"{here} must name one of its inputs and one of its outputs")

    def _is_plain(self) -> bool:
        """True if a quick check finds all fields right, as for most ops; graphs have many."""
        inputs, outputs = self.inputs, self.outputs
        if len(self.in_place) > _MANY_PAIRS:
            return False
        return (
            type(self.name) is type(self.kind) is str
            and self.name != ""
            and self.name.isascii()
            and self.kind.isascii()
            and set(map(type, (inputs, outputs, self.workspaces, self.in_place))) == {tuple}
            and set(map(type, inputs + outputs + self.workspaces)) <= _NAMES
            and type(self.cost) is int
            and 0 <= self.cost < LIMIT
            and set(map(type, (self.placements, self.bodies, self.after))) == {tuple}
            and not (self.bodies or self.after)
            and (not self.placements or self._has_plain_placements())
            and self.sequence is None
            and self.axes == ()
            and all(
                type(pair) is tuple and len(pair) == 2 and pair[0] in outputs and pair[1] in inputs
                for pair in self.in_place
            )
        )

    def _has_plain_placements(self) -> bool:
        """True for a few placements between the op's inputs and outputs."""
        inputs, outputs = self.inputs, self.outputs
        return len(self.placements) <= _MANY_PAIRS and all(
            type(placement) is Placement
            and type(placement.offset) is int
            and 0 <= placement.offset < LIMIT
            and (
                (placement.part in inputs and placement.whole in outputs)
                or (placement.part in outputs and placement.whole in inputs)
            )
            for placement in self.placements
        )

    @property
    def tensors(self) -> tuple[str, ...]:
        """Tensors that the op accesses, in the order inputs, outputs, workspaces."""
        return self.inputs + self.outputs + self.workspaces


@dataclass(frozen=True)
class Graph:
    """Tensors and the ops between them; ``ops`` are listed in the order the source gives.

    Sizes that depend on variables are the sizes at the bounds in ``symbols``; tensors of symbolic
    shape get them when the graph is made (see ``cpplan.model.symbols``). ``answers`` are other
    planners' answers for this graph in its listed order, for ``cpplan.compare``. In a graph made
    from a symbolic one, ``resizable`` names the tensors that may have another size at other values:
    they are never :attr:`empty`, so that the same storages serve all sizes. ``overhead`` is what a
    runtime needs of an arena beside the tensors: limits of ``solve`` include it.

    A tensor of zero bytes keeps no storage alive and shares no bytes: a view of zero bytes does not
    lie in its base's storage, but in an empty storage of its own.

    Raises
    ------
    InputError
        If names clash, an op names an unknown tensor or op, a tensor has two producers or none, a
        view leaves its base, the ops form a cycle (the message lists it), or a variable has no
        bounds.

    Examples
    --------
    >>> graph = Graph(
    ...     "tiny",
    ...     tensors=(Tensor("x", 8, kind="input"), Tensor("y", 8, kind="output")),
    ...     ops=(Op("relu", inputs=("x",), outputs=("y",)),),
    ... )
    >>> graph.producer["y"].name
    'relu'
    """

    name: str
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    symbols: Symbols | None = None
    answers: tuple[Answer, ...] = dataclasses.field(default=(), compare=False, repr=False)
    resizable: frozenset[str] = dataclasses.field(default=frozenset(), compare=False, repr=False)
    overhead: Overhead | None = dataclasses.field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "answers", tuple_of(Answer, "answers", self.answers))
        check_name("a graph's name", self.name, empty=True)
        object.__setattr__(self, "tensors", tuple_of(Tensor, "tensors", self.tensors))
        object.__setattr__(self, "ops", tuple_of(Op, "ops", self.ops))
        if len(self.columns.number) < len(self.tensors):
            check_unique("tensors", self.columns.names)
        if len(self.columns.op_number) < len(self.ops):
            check_unique("ops", map(attrgetter("name"), self.ops))
        if not (self.symbols is None or hasattr(self.symbols, "dims")):
            raise InputError(f"symbols must be Symbols, not {type(self.symbols).__name__}")
        if self.symbols is not None or _depends_on_variables(self.tensors, self.ops):
            from cpplan.model.resolving import resolve

            tensors, ops, symbols = resolve(self.tensors, self.ops, self.symbols)
            for field, value in (("tensors", tensors), ("ops", ops), ("symbols", symbols)):
                object.__setattr__(self, field, value)
            self.__dict__.pop("columns")  # of the tensors and ops before
        check_references(self)
        check_producers(self)
        check_views(self)
        check_axes(self)
        check_acyclic(self)

    @cached_property
    def columns(self) -> GraphColumns:
        """The tensors and the accesses of the ops as arrays."""
        return GraphColumns(self)

    @cached_property
    def tensor(self) -> dict[str, Tensor]:
        """Tensors by name."""
        return {t.name: t for t in self.tensors}

    @cached_property
    def op(self) -> dict[str, Op]:
        """Ops by name."""
        return {op.name: op for op in self.ops}

    @cached_property
    def producer(self) -> dict[str, Op]:
        """The op that writes each produced tensor."""
        return {name: op for op in self.ops for name in op.outputs}

    @cached_property
    def empty(self) -> frozenset[str]:
        """Names of the tensors of zero bytes, except those whose size depends on variables."""
        sized = self.resizable if self.symbols is None else self.symbols.resizable
        found = (self.tensors[k].name for k in (self.columns.size == 0).nonzero()[0].tolist())
        return frozenset(name for name in found if name not in sized)

    def is_storage(self, name: str) -> bool:
        """True if a tensor lies in no other tensor: it is no view, or it is empty."""
        return self.tensor[name].view_of is None or name in self.empty

    @cached_property
    def root(self) -> dict[str, tuple[str, int]]:
        """Tensor -> the tensor whose storage it lies in, and its byte offset in that storage.

        An empty view is a storage of its own.
        """
        empty = self.empty
        roots: dict[str, tuple[str, int]] = {
            t.name: (t.name, 0) for t in self.tensors if t.view_of is None or t.name in empty
        }
        for tensor in self.tensors:
            if tensor.name in roots:
                continue
            chain = [tensor]
            while chain[-1].view_of is not None and chain[-1].name not in roots:
                chain.append(self.tensor[chain[-1].view_of[0]])
            base, offset = roots.get(chain[-1].name, (chain[-1].name, 0))
            roots[chain[-1].name] = (base, offset)
            for view in reversed(chain[:-1]):
                assert view.view_of is not None
                offset += view.view_of[1]
                roots[view.name] = (base, offset)
        return roots

    @cached_property
    def holder(self) -> dict[str, str]:
        """Tensor -> itself or the nearest of its bases that has bytes of its own.

        A tensor has bytes of its own if an op writes it, if it is no view, or if it is empty.
        O(tensors), also for long chains of views.
        """
        written = {name for op in self.ops for name in op.outputs + op.workspaces}
        empty = self.empty
        holders: dict[str, str] = {
            t.name: t.name
            for t in self.tensors
            if t.view_of is None or t.name in written or t.name in empty
        }
        for tensor in self.tensors:
            if tensor.name in holders:
                continue
            chain, base = [], tensor
            while base.name not in holders:
                chain.append(base.name)
                assert base.view_of is not None
                base = self.tensor[base.view_of[0]]
            holders.update(dict.fromkeys(chain, holders[base.name]))
        return holders

    def source(self, name: str) -> Op | None:
        """The op after which a tensor's bytes (for a bare view, its base's) are valid, if any."""
        name = self.holder[name]
        while name not in self.producer:
            view_of = self.tensor[name].view_of
            if view_of is None:
                return None
            name = self.holder[view_of[0]]
        return self.producer[name]

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """Positions of the ops that each op waits for, each once.

        First come the ops whose results it reads, in argument order, then the ops in its ``after``,
        then the op before it in its ``sequence``.
        """
        return find_predecessors(self)

    @cached_property
    def in_order(self) -> bool:
        """True if the ops are listed in an order in which they may run."""
        if self.columns.ordered:
            return self.columns.runs_in(range(len(self.ops)))
        return all(max(before) < k for k, before in enumerate(self.predecessors) if before)

    def at(self, values: Mapping[str, int] | None = None, /, **named: int) -> Graph:
        """The graph at some values of its variables (see ``cpplan.model.symbols``).

        Values are given by keyword, or in a mapping for names that are not identifiers.

        Raises
        ------
        InputError
            If a variable has no value, or a value out of its bounds.
        """
        found: Graph = method("Graph.at")(self, {**(values or {}), **named})
        return found


def _is_among(name: object, names: frozenset[str]) -> bool:
    """True if a value of any type is one of these names."""
    return isinstance(name, str) and name in names


def _depends_on_variables(tensors: Sequence[Tensor], ops: Sequence[Op]) -> bool:
    views = [view_of for view_of in map(attrgetter("view_of"), tensors) if view_of is not None]
    placing = [placements for placements in map(attrgetter("placements"), ops) if placements]
    calling = [bodies for bodies in map(attrgetter("bodies"), ops) if bodies]
    shaped = not set(map(type, map(attrgetter("shape"), tensors))) <= {type(None)}
    return (
        (shaped and any(tensor.symbolic for tensor in tensors))
        or not all(issubclass(kind, int) for kind in set(map(type, map(itemgetter(1), views))))
        or any(not isinstance(p.offset, int) for placements in placing for p in placements)
        or any(body.symbols is not None for bodies in calling for body in bodies)
    )
