"""Plans, with what can be asked of one, and plans at values of their variables.

Rooms above save, bind, export, explain and draw plans: see :mod:`cpplan.model.methods`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.explained import Explanation, MovesExplanation
from cpplan.model.methods import method
from cpplan.model.plan_data import PlanData
from cpplan.model.plan_summary import summarize
from cpplan.model.problem import Ints
from cpplan.model.symbolic_layout import SymbolicLayout


@dataclass(frozen=True, eq=False)
class Plan(PlanData):
    """Offsets of all buffers, the order of the ops, and the proved bounds.

    Its fields are those of :class:`~cpplan.model.plan_data.PlanData`.

    Examples
    --------
    >>> from cpplan.solving.pipeline import solve
    >>> from cpplan.model.problem import Problem
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> plan = solve(problem)
    >>> plan.status, plan.peak, plan.lower_bound, plan.gap
    ('optimal', 12, 12, 0.0)
    >>> plan.pool_of("b"), plan.offset_of("a") == plan.offset_of("c")
    ('arena', True)
    """

    @cached_property
    def sized(self) -> dict[tuple[object, ...], SizedPlan]:
        """Plans at values that :meth:`at` has returned before."""
        return {}

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
        at_values = method("Plan.at(grow=True)" if grow else "Plan.at")
        found: SizedPlan = at_values(self, {**(values or {}), **named})
        return found

    def __str__(self) -> str:
        return summarize(self)

    def save(self, path: str | PathLike[str], *, clock: bool = False) -> None:
        """Write the plan as JSON, whole or not at all; ``clock=True`` adds the clock readings."""
        method("Plan.save")(self, path, clock=clock)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Plan:
        """Read a plan that :meth:`save` wrote.

        Raises
        ------
        InputError
            If the file cannot be read or is not a plan; names the file.
        """
        found: Plan = method("Plan.load")(path)
        return found

    def export(self, path: Any, source: Any = None, **options: Any) -> Any:
        """Write the plan in the format that the suffix of ``path`` names, whole or not at all.

        :mod:`cpplan.io.formats` lists the formats: among them ``.onnx`` and ``.tflite`` (the model
        with its ops in the plan's order), ``.h`` (a C header), ``.csv`` (MiniMalloc) and ``.html``
        (a report).

        Parameters
        ----------
        path
            The file to write; or the ``tvm.IRModule`` that was planned: then the module with the
            plan is returned, and no file is written.
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
        return method("Plan.export")(self, path, source, **options)

    def explain(self, source: Any = None, **options: Any) -> Explanation | MovesExplanation:
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
        found: Explanation | MovesExplanation = method(door)(self, source, **options)
        return found

    def report(
        self,
        path: str | PathLike[str],
        source: Any = None,
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
        method("Plan.report")(self, path, source, notes=notes)


@dataclass(frozen=True, eq=False)
class SizedPlan:
    """A plan at some values of its variables: sizes, shapes and offsets of tensors.

    Attributes
    ----------
    plan
        The plan at the bounds, or a new one if it had to grow.
    values
        Values of the variables.
    numbers
        Bytes, offsets within buffers, and extents of all tensors.
    grown
        True if the offsets were planned again.
    """

    plan: Plan
    values: Mapping[str, int]
    numbers: Ints
    grown: bool = False

    def nbytes(self, tensor: str) -> int:
        """Bytes of a tensor, including one that no arena holds."""
        unbounded = self.layout.unbounded.get(tensor)
        if unbounded is not None:
            size = unbounded.nbytes
            return size if isinstance(size, int) else size.evaluate(self.values)
        return int(self.numbers[self._row(tensor)])

    def shape(self, tensor: str) -> tuple[int, ...] | None:
        """Extents of a tensor, if known."""
        layout, row = self.layout, self._row(tensor)
        if layout.tensors[tensor].shape is None:
            return None
        return tuple(self.numbers[layout.extents[row] : layout.extents[row + 1]].tolist())

    def offset(self, tensor: str) -> int:
        """Byte offset of a tensor in its pool."""
        row, plan = self._row(tensor), self.plan
        assert plan.offset is not None
        start = plan.offset[plan.row[self.layout.tensors[tensor].buffer]]
        return int(start + self.numbers[len(self.layout.tensors) + row])

    @property
    def peak(self) -> int:
        """Bytes used at these values, in all pools together."""
        return int(sum(self.plan_at.pool_peaks.values()))  # type: ignore[union-attr]

    def view(self, arena: np.ndarray, tensor: str) -> np.ndarray:
        """The tensor's elements within an arena of bytes, as a NumPy view.

        Raises
        ------
        InputError
            If the arena is not a flat array of bytes or is too small, or if shape or dtype are not
            known or have no NumPy equivalent.
        """
        shape, dtype = self.shape(tensor), self.layout.tensors[tensor].dtype
        if arena.dtype != np.uint8 or arena.ndim != 1:
            raise InputError("the arena must be a flat NumPy array of uint8")
        try:
            kind = np.dtype(dtype) if dtype is not None else None
        except TypeError:
            kind = None
        if shape is None or kind is None:
            raise InputError(f"tensor {tensor!r}: no NumPy view of {dtype}{list(shape or ())}")
        begin = self.offset(tensor)
        end = begin + kind.itemsize * math.prod(shape)
        if end - begin > self.nbytes(tensor):
            raise InputError(f"tensor {tensor!r}: its elements do not lie one after another")
        if end > len(arena):
            raise InputError(
                f"tensor {tensor!r} ends at byte {end}: the arena has {len(arena)} bytes"
            )
        elements: np.ndarray = arena[begin:end].view(kind).reshape(shape)
        return elements

    @property
    def plan_at(self) -> Plan:
        """The plan at these values as a plan of fixed sizes, for ``verify`` or ``simulate``."""
        plan, layout = self.plan, self.layout
        assert plan.offset is not None
        size, offset = plan.size.copy(), plan.offset.copy()
        for name, row in plan.row.items():
            if name in layout.rows:
                size[row] = self.numbers[layout.rows[name]]
        for name in layout.moving:
            offset[plan.row[name]] = self.offset(name)
        views = {
            name: (buffer, self.offset(name) - int(offset[plan.row[buffer]]))
            if name in layout.rows
            else (buffer, within)
            for name, (buffer, within) in plan.views.items()
        }
        # Leave out relations of tensors without bytes.
        relations = tuple(
            relation._replace(offset=self.offset(relation.tensor) - self.offset(relation.other))
            if layout.moving & {relation.tensor, relation.other}
            else relation
            for relation in plan.relations
            if self._copy_bytes(relation.tensor) and self._copy_bytes(relation.other)
        )
        tops = np.zeros(len(plan.pools), np.int64)
        np.maximum.at(tops, plan.pool, offset + size)
        return replace(
            plan, size=size, offset=offset, views=views, relations=relations,
            peak=int(tops.sum()), status="feasible",
            lower_bound=None, bound_by=None, certificate=None,
            cost_bound=None, cost_bound_by=None, cost_certificate=None, symbols=None,
            objective_value=(), objective_bound=(), history=(),
        )  # fmt: skip

    @property
    def layout(self) -> SymbolicLayout:
        """The symbolic layout of the plan."""
        assert self.plan.symbols is not None
        return self.plan.symbols

    def _copy_bytes(self, name: str) -> int:
        """Bytes of a tensor or of a copy of one."""
        rows = self.layout.rows
        return int(self.numbers[rows[name if name in rows else name.rpartition("~")[0]]])

    def _row(self, tensor: str) -> int:
        row = self.layout.rows.get(tensor)
        if row is None:
            if tensor in self.layout.unbounded:
                raise InputError(f"tensor {tensor!r} is unbounded: no arena holds it")
            raise InputError(f"the plan places no tensor {tensor!r}")
        return int(row)
