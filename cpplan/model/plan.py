"""Plans: an offset for every buffer, the order of ops, and proved bounds.

A :class:`Plan` is plain data. Its JSON form is versioned, round-trips, and holds no clock readings
unless asked for, so that the same input, seed and one worker give the same bytes. Rooms above do
all other work on plans: see :mod:`cpplan.model.doors`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from cpplan.model.certificates import Certificate, MovedCertificate
from cpplan.model.cut_duals import CutDuals
from cpplan.model.doors import open_door
from cpplan.model.errors import InputError
from cpplan.model.moves import Move, count_moved
from cpplan.model.pieces import Pieces
from cpplan.model.pool import Objective, Pool
from cpplan.model.problem import Gap, Ints, Problem, Spans
from cpplan.model.residency import Residency

if TYPE_CHECKING:
    import pandas

    from cpplan.explanation import Explanation, MovesExplanation
    from cpplan.model.graph import Graph
    from cpplan.program.anf import Program
    from cpplan.symbolic.layout import SymbolicLayout
    from cpplan.symbolic.sized import SizedPlan

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
Scope = Literal["given order", "every order", "every splitting"]
RelationKind = Literal["in place", "placement"]


class Progress(NamedTuple):
    """One improvement: the best peak and the best bound known at a time of the run, in seconds."""

    seconds: float
    peak: int | None
    lower_bound: int | None
    source: str


class Relation(NamedTuple):
    """Two tensors that share bytes by choice.

    ``in place``: the op that writes ``tensor`` is the last to read ``other`` and writes over it.
    ``placement``: ``tensor`` lies at byte ``offset`` of ``other``, so that an op need not copy the
    one to or from the other. If ops run again, ``tensor~1`` is the tensor in buffer ``storage~1``,
    the second copy of its storage, and so on.
    """

    kind: RelationKind
    tensor: str
    other: str
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Plan:
    """Offsets of all buffers, the order of the ops, and the proved bounds.

    Attributes
    ----------
    name
        Name of the model or file planned.
    status
        ``optimal``: peak equals the bound. ``feasible``: a plan, not proved smallest.
        ``infeasible``: proved not to fit the capacity. ``unknown``: no plan within the capacity was
        found, but one may exist.
    buffers
        Name of each buffer.
    size, lower, upper
        Bytes and lifespans ``[lower, upper)`` in steps, shape ``(n,)``.
    offset
        Byte addresses, shape ``(n,)``, or ``None`` if there is no plan.
    gaps
        Row -> the gaps in that buffer's lifespan, if the problem has gaps.
    pools
        The memory regions, in order of preference.
    pool
        Position in ``pools`` of each buffer's pool, shape ``(n,)``.
    peak
        ``max(offset + size)`` in bytes, or ``None``; with several pools the sum over them.
    lower_bound
        Proved bound: no plan has a smaller peak.
    objective
        Quantity minimised if there are several pools: the ``total`` of their peaks; the use of
        less preferred pools (``preference``: see ``objective_value``); or the ``cost`` of bytes and
        accesses.
    objective_value, objective_bound
        Value of the objective and a proved lower bound, compared as tuples: ``(total,)``;
        ``(cost,)``; or, for ``preference``, the peaks from the last pool to the second, misplaced
        bytes (the size of each buffer times the number of pools that it prefers to its own), and
        the peak of the first pool. Empty with one pool.
    capacity
        The limit that the peak had to meet, if any.
    scope
        Plans that the bound covers: ``"given order"``; ``"every order"`` that begins with ``first``
        and ends with ``last``; or ``"every splitting"``: every order, with ops in any pieces.
    found_by, bound_by
        Name of the search that found the offsets, and name of the bound.
    order
        Op names in order of execution, repeated where recomputed; empty for a bare problem.
    first, last
        Names of the ops with which all orders had to begin and to end, as asked for.
    certificate
        Proof of the bound: the flow of a minimum cut, the op with the forced live bytes, or the
        duals that prove that no schedule fits into fewer bytes.
    pieces
        Cuts of the ops that run in pieces. ``order`` then names pieces, and ``buffers`` has bands:
        it is a plan for the graph of pieces (:mod:`cpplan.splitting.piece_graph`).
    copied_bytes
        Bytes copied by a runtime whose kernels need each operand in one part: it gathers the bands
        that a run reads and pastes the bands that it writes. ``None`` if ops were not to be split.
        The bands of one tensor that a run accesses are in one part if there is only one, or if they
        follow one another in the arena and differ along one axis only, with extent 1 on every axis
        before it; otherwise all their bytes are copied.
    cost, base_cost
        Sum of op costs with and without recomputation; ``None`` for a bare problem.
    cost_bound, cost_bound_by
        Bound on the cost of every plan within the capacity, and the bound's name; only if ops may
        run again to fit. The plan is then ``optimal`` if its cost meets the bound.
    cost_certificate
        The duals that prove ``cost_bound``, if it comes from a linear program.
    residency
        Residency of the model's inputs, outputs and constants in the arena.
    inputs, outputs
        Names of the graph's inputs and outputs that are in the pools; see :attr:`io_map`.
    views
        Tensor -> (buffer, byte offset in it), for tensors whose latest value is not at the start of
        the buffer of their own name, but within another tensor's storage, or in the buffer of a
        later copy (``y`` in buffer ``y~1``).
    sharing
        The kinds of relations that the planner was free to choose; the bound holds for all of them.
    relations
        Tensors that share bytes by the planner's choice.
    runtime
        Seconds that planning took, or ``None`` if the plan came from a file.
    moves
        Moves between the fast pool (the first) and the slow one, if tensors may move. Spills and
        reloads have a step of their own in ``order``.
    moved_bytes_bound, moved_bytes_bound_by
        Lower bound on the bytes moved by every plan at this order, or at every order if ``scope``
        says so, and the bound's name; ``None`` unless tensors may move. The plan is then
        ``optimal`` if :attr:`moved_bytes` meets the bound.
    moved_certificate
        The prices, or the op, that prove ``moved_bytes_bound`` or ``time_bound``, if any.
    time, time_bound, time_bound_by
        Cycles from begin to end (:func:`~cpplan.program.timeline.run_time`), a proved lower bound
        on them, and the bound's name; only if the objective is ``"time"``. The plan is then
        ``optimal`` if its time meets the bound, and has no bound on the bytes moved.
    history
        Every improvement, in order of time.
    message
        Reason why there is no plan, or empty.
    symbols
        Sizes and offsets that depend on variables, if any; the columns above have their values at
        the bounds. See :meth:`at`.

    Examples
    --------
    >>> from cpplan.solving.pipeline import solve
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> plan = solve(problem)
    >>> plan.status, plan.peak, plan.lower_bound, plan.gap
    ('optimal', 12, 12, 0.0)
    >>> plan.pool_of("b"), plan.offset_of("a") == plan.offset_of("c")
    ('arena', True)
    """

    name: str
    status: Status
    buffers: tuple[str, ...]
    size: Ints
    lower: Ints
    upper: Ints
    offset: Ints | None
    pools: tuple[Pool, ...] = (Pool(),)
    pool: Ints = None  # type: ignore[assignment]  # always an array once the plan exists
    peak: int | None = None
    lower_bound: int | None = None
    capacity: int | None = None
    found_by: str | None = None
    bound_by: str | None = None
    order: tuple[str, ...] = ()
    cost: int | float | None = None
    base_cost: int | float | None = None
    cost_bound: int | float | None = None
    cost_bound_by: str | None = None
    residency: Residency = field(default_factory=Residency)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    views: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    runtime: float | None = field(default=None, compare=False)
    history: tuple[Progress, ...] = field(default=(), compare=False)
    message: str | None = None
    gaps: Mapping[int, Sequence[Gap]] = field(default_factory=dict)
    scope: Scope = "given order"
    sharing: tuple[RelationKind, ...] = ()
    relations: tuple[Relation, ...] = ()
    objective: Objective = "total"
    objective_value: tuple[int | float, ...] = ()
    objective_bound: tuple[int | float, ...] = ()
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    pieces: tuple[Pieces, ...] = ()
    copied_bytes: int | None = None
    certificate: Certificate | None = None
    moves: tuple[Move, ...] = ()
    moved_bytes_bound: int | None = None
    moved_bytes_bound_by: str | None = None
    moved_certificate: MovedCertificate | None = None
    time: int | float | None = None
    time_bound: int | float | None = None
    time_bound_by: str | None = None
    cost_certificate: CutDuals | None = None
    symbols: SymbolicLayout | None = None

    def __post_init__(self) -> None:
        if self.pool is None:
            object.__setattr__(self, "pool", np.zeros(len(self.buffers), np.int64))

    @property
    def pool_peaks(self) -> dict[str, int] | None:
        """Peak of every pool by name, or ``None`` if there is no plan."""
        if self.offset is None:
            return None
        peaks = np.zeros(len(self.pools), np.int64)
        np.maximum.at(peaks, self.pool, self.offset + self.size)
        return {pool.name: int(peak) for pool, peak in zip(self.pools, peaks, strict=True)}

    @cached_property
    def row(self) -> dict[str, int]:
        """Buffer -> its position in the columns."""
        return {name: k for k, name in enumerate(self.buffers)}

    @cached_property
    def sized(self) -> dict[tuple[object, ...], SizedPlan]:
        """Plans at values that :meth:`at` has returned before."""
        return {}

    @cached_property
    def spans(self) -> Spans:
        """The rectangles of steps and bytes that the buffers fill (see ``Problem.spans``)."""
        return Problem(self.buffers, self.lower, self.upper, self.size, gaps=self.gaps).spans

    @property
    def gap(self) -> float | None:
        """Share of the peak that might still be saved: ``(peak - lower_bound) / peak``.

        With several pools, the gap of the objective's first level that does not meet its bound; if
        tensors may move, the gap of the bytes moved or of the time.
        """
        if self.time_bound is not None:
            if self.offset is None or self.time is None:
                return None
            return (self.time - self.time_bound) / self.time if self.time else 0.0
        if self.moved_bytes_bound is not None:
            moved = self.moved_bytes
            if self.offset is None or moved is None:
                return None
            return (moved - self.moved_bytes_bound) / moved if moved else 0.0
        if self.objective_value:
            levels = zip(self.objective_value, self.objective_bound, strict=False)
            unmet = next(((value, bound) for value, bound in levels if value != bound), None)
            if not self.objective_bound or unmet is None:
                return 0.0 if self.objective_bound else None
            return (unmet[0] - unmet[1]) / unmet[0] if unmet[0] else None
        if self.peak is None or self.lower_bound is None:
            return None
        return (self.peak - self.lower_bound) / self.peak if self.peak else 0.0

    @property
    def method(self) -> str | None:
        """Names of the search that found the plan and of the bound, or ``None``."""
        bound_by = self.bound_by or self.moved_bytes_bound_by or self.time_bound_by
        parts = [part for part in (self.found_by, bound_by) if part is not None]
        return " / ".join(parts) or None

    @property
    def spills(self) -> bool:
        """True if tensors were free to move between the pools."""
        bounds = self.moved_bytes_bound, self.time_bound
        return bool(self.moves) or any(bound is not None for bound in bounds)

    @property
    def moved_bytes(self) -> int | None:
        """Bytes that all moves carry, or ``None`` if tensors may not move or there is no plan."""
        return count_moved(self.moves) if self.spills and self.offset is not None else None

    @property
    def io_map(self) -> dict[str, tuple[str, int]] | None:
        """Input or output -> (pool, byte offset in it), or ``None`` if there is no plan.

        The caller writes inputs there before the first step and finds outputs there after the last.
        An output that is computed again lies in its last copy.
        """
        if self.offset is None:
            return None
        names = dict.fromkeys((*self.inputs, *self.outputs))
        return {name: (self.pool_of(name), self.offset_of(name)) for name in names}

    def pool_of(self, tensor: str) -> str:
        """Name of the pool that a tensor's latest value lies in.

        Raises
        ------
        InputError
            If the plan places no such tensor.
        """
        name, _ = self.views.get(tensor, (tensor, 0))
        if name not in self.row:
            raise InputError(f"the plan places no tensor {tensor!r}")
        return self.pools[int(self.pool[self.row[name]])].name

    def offset_of(self, tensor: str) -> int:
        """Byte offset, in its pool, of a buffer or of a tensor that lies within one.

        For a tensor that is computed again, this is the offset of its latest value; ``offset`` has
        the offset of every copy, in the ``row`` of the copy's buffer.

        Raises
        ------
        InputError
            If the plan places no such tensor.
        """
        name, within = self.views.get(tensor, (tensor, 0))
        if self.offset is None or name not in self.row:
            raise InputError(f"the plan places no tensor {tensor!r}")
        return int(self.offset[self.row[name]]) + within

    def at(
        self, values: Mapping[str, int] | None = None, /, *, grow: bool = False, **named: int
    ) -> SizedPlan:
        """The plan at some values of its variables: offsets, shapes, and views into an arena.

        Results are kept for the values asked before; only expressions with a changed variable are
        evaluated again.

        Parameters
        ----------
        values, named
            Value of every variable, by keyword, or in a mapping for names that are not identifiers.
        grow
            If a value is above its bound, plan anew in the same order.

        Raises
        ------
        InputError
            If the plan has no variables, a variable has no value, or a value is out of its bounds;
            the message then names the bytes that would be needed.
        """
        at_values = open_door("Plan.at(grow=True)" if grow else "Plan.at")
        found: SizedPlan = at_values(self, {**(values or {}), **named})
        return found

    def __eq__(self, other: object) -> bool:
        """True if all fields except the clock readings are equal."""
        if not isinstance(other, Plan):
            return NotImplemented
        return all(
            _equal(getattr(self, column.name), getattr(other, column.name))
            for column in fields(self)
            if column.compare
        )

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        from cpplan.model.plan_summary import summarize

        return summarize(self)

    def save(self, path: str | PathLike[str], *, clock: bool = False) -> None:
        """Write the plan as JSON, whole or not at all; ``clock=True`` adds the clock readings."""
        open_door("Plan.save")(self, path, clock=clock)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Plan:
        """Read a plan that :meth:`save` wrote.

        Raises
        ------
        InputError
            If the file cannot be read or is not a plan; names the file.
        """
        found: Plan = open_door("Plan.load")(path)
        return found

    def export(self, path: str | PathLike[str], source: Any = None, **options: Any) -> None:
        """Write the plan in the format that the suffix of ``path`` names, whole or not at all.

        :mod:`cpplan.io.formats` lists the formats: among them ``.onnx`` and ``.tflite`` (the model
        with its ops in the plan's order), ``.h`` (a C header), ``.csv`` (MiniMalloc) and ``.html``
        (a report).

        Parameters
        ----------
        source
            The model that was planned: its file for ``.onnx``, ``.tflite`` and ``.bin``; for others
            a graph, program or problem.
        options
            Options of the format: ``dims`` (extents of symbolic dimensions, as for the plan),
            ``prefix`` and ``alignment`` (C), ``clock`` (JSON), ``notes`` (reports).

        Raises
        ------
        InputError
            If the suffix or an option is not understood, the format cannot hold the plan, the plan
            is for another source, or the file cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import cpplan
        >>> problem = cpplan.Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "plan.csv")
        ...     cpplan.solve(problem).export(path, problem)
        ...     print(path.read_text(), end="")
        id,lower,upper,size,offset
        a,0,2,4,0
        b,1,3,8,4
        """
        open_door("Plan.export")(self, path, source, **options)

    def explain(
        self, source: Graph | Program | Problem | None = None, **options: Any
    ) -> Explanation | MovesExplanation:
        """Explanation of the plan's peak: its fullest step, and the cost of each rule.

        If tensors may move: the tensors that cause the moves, and the moves that more room would
        save (:func:`cpplan.explanation.explain_moves`).

        Parameters
        ----------
        source
            The model that was planned. Without it, only the fullest step is explained.
        options
            ``time_limit``, ``workers``, ``seed``, ``deterministic``, as in
            :func:`cpplan.explanation.explain`, which describes the result.

        Examples
        --------
        The bytes that are live fit below each other only if the output may overwrite its input:

        >>> import cpplan
        >>> tensors = cpplan.Tensor("x", 8, kind="input"), cpplan.Tensor("y", 8, kind="output")
        >>> relu = cpplan.Op("relu", "Relu", ("x",), ("y",), in_place=(("y", "x"),))
        >>> graph = cpplan.Graph("tiny", tensors, (relu,))
        >>> found = cpplan.solve(graph).explain(graph)
        >>> found.fullest.op, [tensor.name for tensor in found.fullest.tensors]
        ('relu', ['x', 'y'])
        >>> [(rule.rule, rule.at_most) for rule in found.relaxations[:1]]
        [('no in place', 8)]
        """
        door = "Plan.explain(moves)" if self.spills else "Plan.explain"
        found: Explanation | MovesExplanation = open_door(door)(self, source, **options)
        return found

    def report(
        self,
        path: str | PathLike[str],
        source: Graph | Program | Problem | None = None,
        *,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        """Write a report of the plan as one HTML file, which needs no network.

        Parameters
        ----------
        path
            The file to write, whole or not at all.
        source
            The model that was planned. With it the report compares the model's own order, and gives
            the cost of the plan's rules.
        notes
            Further notes on the plan, by name.

        Raises
        ------
        InputError
            If the plan is for another model, or the file cannot be written.
        """
        open_door("Plan.report")(self, path, source, notes=notes)

    def to_frame(self) -> pandas.DataFrame:
        """Data frame of one row a buffer: name, size, lower, upper, offset, pool.

        If sizes depend on variables, column ``bytes`` has their expressions as text.
        """
        import pandas

        frame: pandas.DataFrame = pandas.DataFrame(
            {
                "name": list(self.buffers),
                "size": self.size,
                "lower": self.lower,
                "upper": self.upper,
                "offset": [None] * len(self.buffers) if self.offset is None else self.offset,
                "pool": [self.pools[k].name for k in self.pool],
            }
        )
        if self.symbols is not None:
            frame["bytes"] = list(map(str, self.symbols.sizes_of(self.buffers)))
        return frame


def _equal(one: Any, other: Any) -> bool:
    """True if two fields of plans are equal; a list equals a tuple of the same items."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return tuple(one) == tuple(other)
    return bool(one == other)
