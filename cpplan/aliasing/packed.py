"""The packing found for a program or a problem, whichever search found it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cpplan.aliasing.solve import SharingSearch
from cpplan.model.plan_data import Relation, RelationKind
from cpplan.model.pool import Objective
from cpplan.model.problem import Ints, Problem
from cpplan.packing.bounds import Bound
from cpplan.packing.incumbent import Incumbent
from cpplan.packing.levels import LevelIncumbent
from cpplan.program.anf import Program

if TYPE_CHECKING:
    from cpplan.packing.pools.solve import PooledPacking


@dataclass(frozen=True, slots=True)
class PooledResult:
    """A layout of the original buffers over several pools, and the relations it uses."""

    packing: PooledPacking
    objective: Objective
    sharing: frozenset[RelationKind] = frozenset()
    relations: tuple[Relation, ...] = ()


@dataclass(frozen=True, slots=True)
class Packed:
    """A packing: an incumbent in one pool, a search for aliases there, or a layout of several."""

    source: Program | Problem
    problem: Problem
    incumbent: Incumbent | None = None
    sharing: SharingSearch | None = None
    pooled: PooledResult | None = None

    @property
    def value(self) -> tuple[int | float, ...]:
        """Value of the objective, level by level; compared as tuples."""
        if self.pooled is None:
            return (self.peak,)
        return self.pooled.packing.objective_value or (float("inf"),)

    @property
    def peak(self) -> int:
        """The peak of the one pool, bytes."""
        return self._state.values[0]

    @property
    def bound(self) -> Bound:
        """Bound on every packing of this program in one pool, whichever candidates it uses."""
        return self._state.bound

    @property
    def good_enough(self) -> bool:
        """True if the peak is at most the target."""
        return self.pooled is None and self._state.good_enough

    @property
    def found_by(self) -> str | None:
        """Name of the algorithm that packed the highest part."""
        return self._packing.found_by

    @property
    def offsets(self) -> Ints:
        """Offsets of all buffers, bytes."""
        if self.sharing is not None:
            return self.sharing.best.offsets
        return self._packing.reduction.restore(self._packing.offsets, self.problem)

    @property
    def relations(self) -> tuple[Relation, ...]:
        """Relations between tensors that share bytes by choice."""
        if self.pooled is not None:
            return self.pooled.relations
        candidates = self.sharing.best.alias_sets.candidates if self.sharing is not None else ()
        return tuple(candidate.relation for candidate in candidates)

    def cannot_be_beaten_by(self, floor: int) -> bool:
        """True if no packing with ``floor`` live bytes at some step can be better."""
        return self.pooled is None and self.peak <= floor

    @property
    def _state(self) -> LevelIncumbent[Any]:
        return self._packing if self.sharing is None else self.sharing

    @property
    def _packing(self) -> Incumbent:
        if self.sharing is not None:
            return self.sharing.best.incumbent
        assert self.incumbent is not None
        return self.incumbent
