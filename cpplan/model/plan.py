"""What a planner answers: an offset for every buffer, and how far that is from the smallest peak.

A :class:`Plan` is plain data. Its JSON form is versioned, round-trips, and holds no clock readings
unless asked for, so that the same input, seed and one worker give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from cpplan.model.errors import InputError, located
from cpplan.model.pool import Pool
from cpplan.model.problem import Gap, Problem, Spans
from cpplan.model.residency import Residency

if TYPE_CHECKING:
    import onnx
    import pandas
    from torch.export import ExportedProgram
    from torch.fx import GraphModule

    from cpplan.explanation import Explanation
    from cpplan.model.certificates import CutFlow
    from cpplan.model.graph import Graph
    from cpplan.model.problem import Ints
    from cpplan.program.anf import Program
    from cpplan.symbolic.layout import SymbolicLayout
    from cpplan.symbolic.sized import SizedPlan

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
Scope = Literal["given order", "every order"]
Objective = Literal["total", "preference", "cost"]
RelationKind = Literal["in place", "placement"]


class Progress(NamedTuple):
    """One improvement: the best peak and the best bound known after so many seconds."""

    seconds: float
    peak: int | None
    lower_bound: int | None
    source: str


class Relation(NamedTuple):
    """Two tensors that share bytes by choice.

    ``in place``: the op that writes ``tensor`` writes it over ``other``, which it is the last to
    read. ``placement``: ``tensor`` lies at byte ``offset`` of ``other``, so that an op need not
    copy the one to or from the other. Where ops run again, ``tensor~1`` is the tensor as it lies in
    buffer ``storage~1``, the second copy of its storage, and so on.
    """

    kind: RelationKind
    tensor: str
    other: str
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Plan:
    """Where every buffer lies, in which order the ops run, and what was proved.

    Attributes
    ----------
    name
        Of the model or file planned.
    status
        ``optimal``: peak equals the bound. ``feasible``: a plan, not proved smallest.
        ``infeasible``: proved not to fit the capacity. ``unknown``: no plan within the capacity
        was found, and none was ruled out.
    buffers
        Names, one a buffer.
    size, lower, upper
        Bytes and lifespans ``[lower, upper)`` in steps, shape ``(n,)``.
    offset
        Byte addresses, shape ``(n,)``, or ``None`` if there is no plan.
    gaps
        Row -> the gaps in that buffer's lifespan, for a problem that has some.
    pools
        The memory regions, in order of preference.
    pool
        Position in ``pools`` of each buffer's, shape ``(n,)``.
    peak
        ``max(offset + size)`` in bytes, or ``None``; with several pools the sum over them.
    lower_bound
        No plan has a smaller peak.
    objective
        What was minimised where there are several pools: the ``total`` of their peaks; the use of
        less preferred pools (``preference``: see ``objective_value``); or the ``cost`` of bytes and
        accesses.
    objective_value, objective_bound
        Its value and a proved lower bound, compared as tuples: ``(total,)``; ``(cost,)``; or, for
        ``preference``, the peaks from the last pool to the second, misplaced bytes (the size of
        each buffer times the pools that it prefers to its own), and the peak of the first pool.
        Empty with one pool.
    capacity
        The limit asked for, if any.
    scope
        What the bound holds for: ``"given order"`` or ``"every order"`` (which begins and ends as
        ``first`` and ``last`` say).
    found_by, bound_by
        What found the offsets; what proves the bound.
    order
        Op names in order of execution, repeated where recomputed; empty for a bare problem.
    first, last
        Names of the ops with which all orders had to begin and to end, as asked for.
    certificate
        What proves the bound, where that is a minimum cut: a flow.
    cost, base_cost
        Sum of op costs with and without recomputation; ``None`` for a bare problem.
    cost_bound, cost_bound_by
        No plan within the capacity costs less, and what proves it; only where ops may run again to
        fit. The plan is then ``optimal`` if its cost meets that.
    residency
        What of the model's boundary is in the arena.
    inputs, outputs
        Names of the graph's inputs and outputs that are in the pools; see :attr:`io_map`.
    views
        Tensor -> (buffer, byte offset in it), for tensors whose latest value lies elsewhere than at
        the start of the buffer of their name: within another's storage, or where it was computed
        again (``y`` in buffer ``y~1``).
    sharing
        The kinds of relations that the planner was free to choose; the bound holds for all of them.
    relations
        Which tensors share bytes by the planner's choice.
    runtime
        Seconds, or ``None`` if the plan came from a file.
    history
        Every improvement, in time.
    message
        Why there is no plan, where there is none.
    symbols
        What depends on variables, where sizes do: the columns above are those at the bounds. See
        :meth:`at`.

    Examples
    --------
    >>> from cpplan.solving.pipeline import solve
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> plan = solve(problem)
    >>> plan.status, plan.peak, plan.lower_bound, plan.gap
    ('optimal', 12, 12, 0.0)
    >>> plan.pool_of("b"), plan.offset_of("a") == plan.offset_of("c")
    ('arena', True)
    >>> Plan.from_dict(plan.to_dict()) == plan
    True
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
    runtime: float | None = None
    history: tuple[Progress, ...] = ()
    message: str | None = None
    gaps: Mapping[int, Sequence[Gap]] = field(default_factory=dict)
    scope: Scope = "given order"
    sharing: tuple[RelationKind, ...] = ()
    relations: tuple[Relation, ...] = ()
    objective: Objective = "total"
    objective_value: tuple[int | float, ...] = ()
    objective_bound: tuple[int | float, ...] = ()
    symbols: SymbolicLayout | None = None
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    certificate: CutFlow | None = None

    def __post_init__(self) -> None:
        if self.pool is None:
            object.__setattr__(self, "pool", np.zeros(len(self.buffers), np.int64))

    @property
    def pool_peaks(self) -> dict[str, int] | None:
        """Bytes used of every pool, or ``None`` if there is no plan."""
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
        """What :meth:`at` was asked for before."""
        return {}

    @cached_property
    def spans(self) -> Spans:
        """The rectangles of steps and bytes that the buffers fill (see ``Problem.spans``)."""
        return Problem(self.buffers, self.lower, self.upper, self.size, gaps=self.gaps).spans

    @property
    def gap(self) -> float | None:
        """Share of the peak that might still be saved: ``(peak - lower_bound) / peak``.

        With several pools, of the objective's first level that does not meet its bound.
        """
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
        """Who found the plan, and who proved the bound."""
        parts = [part for part in (self.found_by, self.bound_by) if part is not None]
        return " / ".join(parts) or None

    @property
    def io_map(self) -> dict[str, tuple[str, int]] | None:
        """Input or output -> (pool, byte offset in it), or ``None`` if there is no plan.

        Where the caller writes inputs before the first step and finds outputs after the last one:
        of an output that is computed again, the last copy.
        """
        if self.offset is None:
            return None
        names = dict.fromkeys((*self.inputs, *self.outputs))
        return {name: (self.pool_of(name), self.offset_of(name)) for name in names}

    def pool_of(self, tensor: str) -> str:
        """Name of the pool a tensor lies in; of one computed again, its latest value.

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
        """Byte offset of a tensor in its pool: a buffer's own, or where it lies within one.

        Of a tensor computed again, where its latest value lies; where each copy of its storage
        lies, ``offset`` says, in the ``row`` of that buffer.

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

        Remembered by value; only expressions with a changed variable are evaluated again.

        Parameters
        ----------
        values, named
            Of every variable: by name, or where a name is no identifier in a mapping.
        grow
            Where a value is above its bound, plan anew in the same order.

        Raises
        ------
        InputError
            If the plan has no variables, one has no value, or one is out of its bounds: names the
            bytes that would be needed.
        """
        from cpplan.symbolic.at_values import at_values

        return at_values(self, {**(values or {}), **named}, grow=grow)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        from cpplan.model.plan_summary import summarize

        return summarize(self)

    def to_dict(self, *, clock: bool = False) -> dict[str, Any]:
        """The plan as JSON-ready values; ``clock=True`` adds ``runtime`` and ``history``."""
        from cpplan.io.plan_json import plan_to_dict

        return plan_to_dict(self, clock=clock)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Plan:
        """The plan that :meth:`to_dict` described.

        Raises
        ------
        InputError
            If the values are not a plan of this version; names what is wrong.
        """
        from cpplan.io.plan_json import plan_from_dict

        return plan_from_dict(values)

    def to_json(self, *, clock: bool = False) -> str:
        """The plan as JSON text, one buffer a line."""
        from cpplan.io.plan_json import format_plan

        return format_plan(self.to_dict(clock=clock))

    def save(self, path: str | PathLike[str], *, clock: bool = False) -> None:
        """Write the plan as JSON, whole or not at all; ``clock=True`` adds the clock readings."""
        from cpplan.io.plan_json import plan_text
        from cpplan.runtime.atomic import write_pieces

        write_pieces(path, plan_text(self, clock=clock))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Plan:
        """Read a plan that :meth:`save` wrote.

        Raises
        ------
        InputError
            If the file cannot be read or is no plan; names the file.
        """
        from cpplan.runtime.json_file import read_json

        values = read_json(path)
        with located(path):
            return cls.from_dict(values)

    def to_onnx(
        self,
        model: str | PathLike[str] | onnx.ModelProto,
        dims: Mapping[str, int] | None = None,
    ) -> onnx.ModelProto:
        """The ONNX model planned: its nodes in the plan's order, and a copy for each further run.

        :func:`~cpplan.io.onnx.reorder.reorder_onnx` says how copies are named, and its module which
        optimisers merge them again.

        Parameters
        ----------
        model
            A file, or a model that is already loaded (it is not changed).
        dims
            Extents of symbolic dimensions, the same as for the plan.

        Raises
        ------
        InputError
            If the plan has no order, or is for another model.
        """
        from cpplan.io.onnx.reorder import reorder_onnx

        if self.base_cost is None:
            raise InputError(f"plan {self.name!r} is for a bare problem: it has no order")
        return reorder_onnx(model, self.order, dims)

    def to_fx(
        self,
        module: GraphModule | ExportedProgram,
        example_inputs: Sequence[Any] | None = None,
    ) -> GraphModule:
        """The torch model planned: its nodes in the plan's order, and a copy for each further run.

        It frees each result after its last use, as graph modules do: the bytes of its tensors at
        every step are those of the plan, unless that makes use of sharing.

        Parameters
        ----------
        module
            An FX graph module, or an exported program, whose graph module then takes parameters and
            buffers before the inputs. It is not changed; weights are shared with it.
        example_inputs
            Inputs of a graph module that was traced without shapes.

        Raises
        ------
        InputError
            If the plan has no order, or is for another model.

        Examples
        --------
        >>> import torch
        >>> import cpplan
        >>> class Sums(torch.nn.Module):
        ...     def forward(self, x):
        ...         sine, cosine = x.sin(), x.cos()
        ...         return sine.sum() + cosine.sum()
        >>> program = torch.export.export(Sums(), (torch.zeros(100),))
        >>> planned = cpplan.solve(cpplan.load(program), order="search").to_fx(program)
        >>> [node.name for node in planned.graph.nodes]
        ['x', 'sin', 'sum_1', 'cos', 'sum_2', 'add', 'output']
        >>> planned(torch.zeros(100))
        (tensor(100.),)
        """
        from cpplan.io.torch import reorder_graph_module

        if self.base_cost is None:
            raise InputError(f"plan {self.name!r} is for a bare problem: it has no order")
        return reorder_graph_module(module, self.order, example_inputs=example_inputs)

    def to_c_header(
        self,
        source: Graph | Program | Problem | None = None,
        *,
        prefix: str | None = None,
        alignment: int = 64,
    ) -> str:
        """The plan as a C header: arrays for the pools, and macros for where each buffer lies.

        ``PREFIX_ARENA_ARRAY(name)`` declares pool ``arena``, ``PREFIX_X_OFFSET`` and
        ``PREFIX_X_SIZE`` are of tensor ``x``; :mod:`cpplan.io.c_header` says how names become C's.

        Parameters
        ----------
        source
            What was planned. The header then asserts each buffer's own alignment, which a plan
            alone does not know, beside its pool's.
        prefix
            What all macros begin with; from the plan's name if left out.
        alignment
            Of the arrays, bytes, a power of two; that of a pool or of a buffer in it if larger.

        Raises
        ------
        InputError
            If the plan has no offsets or depends on variables, the prefix is no C identifier, or an
            alignment is no power of two.
        """
        from cpplan.io.c_header import format_c_header

        return format_c_header(self, source, prefix=prefix, alignment=alignment)

    def to_tflite(
        self,
        model: str | PathLike[str],
        path: str | PathLike[str],
        dims: Mapping[str, int] | None = None,
    ) -> None:
        """Write the TFLite model planned: its operators in the plan's order, offsets as metadata.

        TFLite Micro places tensors there (see :mod:`cpplan.io.tflite.offsets`); the rest of the
        file is as it was. See :func:`~cpplan.io.tflite.write.planned_tflite`.

        Parameters
        ----------
        model
            The file planned.
        path
            The file to write, whole or not at all.
        dims
            Extents of axes that the file leaves open, the same as for the plan.

        Raises
        ------
        InputError
            If the plan has no offsets, several arenas or ops that run again, or is for another
            model; or a file cannot be read or written.
        """
        from cpplan.io.tflite.write import write_tflite

        write_tflite(model, self, path, dims)

    def explain(
        self,
        source: Graph | Program | Problem | None = None,
        *,
        time_limit: float | None = None,
        workers: int | None = None,
        seed: int = 0,
        deterministic: bool = False,
    ) -> Explanation:
        """Why the plan is not smaller: what fills its fullest step, and what each rule costs.

        Rules are dropped one at a time, with all others kept, the plan's own order of ops included:
        alignment, fixed offsets, pools, sharing that was not allowed, the order, what of the
        boundary is in the arena, and that every op runs once. Dropping one saves at most what a
        bound leaves (``at_most``), and at least what a plan without it saves (``saved``); of that,
        ``at_least`` cannot be had with the rule. Where the plan is not proved smallest, or a limit
        was asked for, further rows say what a better layout, a better order, or a smaller limit may
        save. Beyond 2000 ops, bounds on orders and on running ops again are what one op touches.

        Parameters
        ----------
        source
            What was planned. From the plan alone, only its fullest step can be told.
        time_limit
            Seconds for plans without the rules, all together; only bounds, which need no search, if
            left out. Where a bound is the plan's own peak, the rule costs nothing, and no plan is
            sought.
        workers, seed, deterministic
            As of :func:`cpplan.solve`.

        Returns
        -------
        Explanation
            Prints as text; ``to_frame()`` has one row a rule.

        Raises
        ------
        InputError
            If the plan is for another model, or an option is not understood.

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
        from cpplan.explanation import explain

        return explain(
            self,
            source,
            time_limit=time_limit,
            workers=workers,
            seed=seed,
            deterministic=deterministic,
        )

    def report(
        self,
        path: str | PathLike[str],
        source: Graph | Program | Problem | None = None,
        *,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        """Write the plan as one HTML file to look at: it asks nothing of a network.

        See :func:`cpplan.report.html.plan_report`.

        Parameters
        ----------
        path
            The file to write, whole or not at all.
        source
            What was planned. With it the report compares the model's own order, and says what the
            plan's rules cost.
        notes
            What else is known of the plan, each under a name of its own.

        Raises
        ------
        InputError
            If the plan is for another model, or the file cannot be written.
        """
        from cpplan.report.html import plan_report
        from cpplan.runtime.atomic import write_text

        write_text(path, plan_report(self, source, notes=notes))

    def to_frame(self) -> pandas.DataFrame:
        """One row a buffer: name, size, lower, upper, offset, pool.

        And where sizes depend on variables, what they are at any values: ``bytes``, as text.
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
