"""A plan at some values of its variables: offsets, shapes, and views into an arena."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.errors import InputError

if TYPE_CHECKING:
    from cpplan.model.plan import Plan
    from cpplan.model.problem import Ints
    from cpplan.symbolic.layout import SymbolicLayout


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
