"""A plan at some values of its variables: offsets, shapes, and views into an arena."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cpplan.errors import InputError

if TYPE_CHECKING:
    from cpplan.plan import Plan
    from cpplan.problem import Ints
    from cpplan.symbolic.layout import SymbolicLayout


@dataclass(frozen=True, eq=False)
class SizedPlan:
    """What a run needs to know.

    Attributes
    ----------
    plan
        At the bounds, or made anew where it had to grow.
    values
        Of the variables.
    numbers
        Bytes, offsets within buffers, and extents of all tensors.
    grown
        Whether the offsets were planned anew.
    """

    plan: Plan
    values: Mapping[str, int]
    numbers: Ints
    grown: bool = False

    def nbytes(self, tensor: str) -> int:
        """What a tensor occupies, bytes."""
        return int(self.numbers[self._row(tensor)])

    def shape(self, tensor: str) -> tuple[int, ...] | None:
        """Extents of a tensor, if known."""
        layout, row = self._layout, self._row(tensor)
        if layout.tensors[tensor].shape is None:
            return None
        return tuple(self.numbers[layout.extents[row] : layout.extents[row + 1]].tolist())

    def offset(self, tensor: str) -> int:
        """Byte offset of a tensor in its pool."""
        row, plan = self._row(tensor), self.plan
        assert plan.offset is not None
        start = plan.offset[plan.row[self._layout.tensors[tensor].buffer]]
        return int(start + self.numbers[len(self._layout.tensors) + row])

    @property
    def peak(self) -> int:
        """Bytes of the arena that are used at these values; of several pools, together."""
        return int(sum(self.plan_at.pool_peaks.values()))  # type: ignore[union-attr]

    def view(self, arena: np.ndarray, tensor: str) -> np.ndarray:
        """The tensor's elements within an arena of bytes, as a NumPy view.

        Raises
        ------
        InputError
            If the arena is no flat array of bytes or too small, or shape or dtype are not known or
            have no NumPy equivalent.
        """
        shape, dtype = self.shape(tensor), self._layout.tensors[tensor].dtype
        if arena.dtype != np.uint8 or arena.ndim != 1:
            raise InputError("the arena must be a flat NumPy array of uint8")
        try:
            kind = np.dtype(dtype) if dtype is not None else None
        except TypeError:
            kind = None
        if shape is None or kind is None:
            raise InputError(f"tensor {tensor!r}: no NumPy view of {dtype}{list(shape or ())}")
        begin = self.offset(tensor)
        end = begin + self.nbytes(tensor)
        if end > len(arena):
            raise InputError(
                f"tensor {tensor!r} ends at byte {end}: the arena has {len(arena)} bytes"
            )
        elements: np.ndarray = arena[begin:end].view(kind).reshape(shape)
        return elements

    @property
    def plan_at(self) -> Plan:
        """A plan of these sizes alone, to be verified or simulated like any other."""
        plan, layout = self.plan, self._layout
        count = len(layout.tensors)
        size = plan.size.copy()
        for name, row in plan.row.items():
            base = name.rpartition("~")[0] if name not in layout.rows else name
            if base in layout.rows:
                size[row] = self.numbers[layout.rows[base]]
        within = self.numbers[count : 2 * count]
        views = {
            name: (buffer, int(within[layout.rows[name]]) if name in layout.rows else offset)
            for name, (buffer, offset) in plan.views.items()
        }
        assert plan.offset is not None
        offset = plan.offset.copy()
        for name in layout.moving:
            offset[plan.row[name]] = self.offset(name)
        relations = tuple(
            relation._replace(offset=self.offset(relation.tensor) - self.offset(relation.other))
            if layout.moving & {relation.tensor, relation.other}
            else relation
            for relation in plan.relations
        )
        tops = np.zeros(len(plan.pools), np.int64)
        np.maximum.at(tops, plan.pool, offset + size)
        return replace(
            plan, size=size, offset=offset, views=views, relations=relations,
            peak=int(tops.sum()), status="feasible",
            lower_bound=None, bound_by=None, cost_bound=None, cost_bound_by=None, symbols=None,
            objective_value=(), objective_bound=(), history=(),
        )  # fmt: skip

    @property
    def _layout(self) -> SymbolicLayout:
        assert self.plan.symbols is not None
        return self.plan.symbols

    def _row(self, tensor: str) -> int:
        row = self._layout.rows.get(tensor)
        if row is None:
            raise InputError(f"the plan places no tensor {tensor!r}")
        return int(row)
