"""Fields of a plan: an offset for every buffer, the order of ops, and proved bounds.

They are plain data. Their JSON form is versioned, round-trips, and holds no clock readings unless
asked for, so that the same input, seed and one worker give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from cpplan.model.certificates import Certificate, CutDuals, MovedCertificate
from cpplan.model.errors import InputError
from cpplan.model.moves import Move, count_moved
from cpplan.model.pieces import Pieces
from cpplan.model.pool import Objective, Pool
from cpplan.model.problem import Gap, Ints, Problem, Spans
from cpplan.model.residency import Residency

if TYPE_CHECKING:
    import pandas

    from cpplan.model.symbolic_layout import SymbolicLayout

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
Scope = Literal["given order", "every order", "every splitting"]
RelationKind = Literal["in place", "placement"]


class Progress(NamedTuple):
    """One step: the peak found, and the best bound known, at a time of the run in seconds."""

    seconds: float
    peak: int | None
    lower_bound: int | None
    source: str


def of_point(
    progress: Callable[[Progress], None] | None, number: int, points: int
) -> Callable[[Progress], None] | None:
    """A callback for one plan of a curve: its events name the point, counted from 0."""
    if progress is None:
        return None
    return lambda event: progress(
        event._replace(source=f"point {number + 1} of {points}: {event.source}")
    )


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


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Decisions that were not asked for, with which a plan of fewer bytes was found.

    Attributes
    ----------
    options
        Keywords of :func:`cpplan.solve` to add: ``{"order": "search", "in_place": True}``.
    peak
        Peak of the plan that was found with them, bytes. It does no more work.
    lacking
        Bytes by which it exceeds the limit, if no plan that was found is within it.
    """

    options: Mapping[str, str | bool]
    peak: int
    lacking: int = 0


@dataclass(frozen=True, eq=False)
class PlanData:
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
        duals that prove that no schedule fits into fewer bytes, or none within ``cost_limit``.
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
    cost_limit
        The most that a plan may cost, if its bytes were minimised within a limit on the cost;
        ``lower_bound`` then holds for all such plans.
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
    suggestions
        Decisions that were not asked for and would need fewer bytes, at no more work; only if they
        were tried (``suggest``). The last one needs the fewest.
    symbols
        Sizes and offsets that depend on variables, if any; the columns above have their values at
        the bounds. See :meth:`at`.
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
    cost_limit: int | float | None = None
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
    suggestions: tuple[Suggestion, ...] = field(default=(), compare=False)

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

    def __eq__(self, other: object) -> bool:
        """True if all fields except the clock readings are equal."""
        if not isinstance(other, PlanData):
            return NotImplemented
        return all(
            _equal(getattr(self, column.name), getattr(other, column.name))
            for column in fields(self)
            if column.compare
        )

    __hash__ = None  # type: ignore[assignment]

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
