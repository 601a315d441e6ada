"""Regions: ops that follow one another, run together in pieces along one or two axes.

Along the *inner* axis a region runs depth first: each op makes its next positions when a reader
needs them, and the halo (positions that neighbouring pieces both need) is kept until its last
reader has run. Along the *outer* axis, if there is one, the region runs strip after strip, and each
strip recomputes its halo. So tiles keep the halo along one axis and recompute it along the other.
They may also keep it along both axes: then each step along the inner axis runs strip by strip.
"""

from __future__ import annotations

from cpplan.splitting.cascade import Cascade
from cpplan.splitting.grid import Line, Rows
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.region_ops import RegionOps
from cpplan.splitting.strips import StripMaker, Strips
from cpplan.splitting.styles import Estimate, Family, Run, Style


class Region(RegionOps):
    """Ops that run together in pieces: what each style needs."""

    def __init__(self, problem: SplitProblem, start: int, stop: int):
        super().__init__(problem, start, stop)
        self._whole = Family([None] * len(self.ops), {})
        self._cascades: dict[str | None, Cascade] = {}
        self._makers: dict[str | None, StripMaker] = {}
        self._strips: dict[tuple[str | None, int], Strips | None] = {}

    def estimate(self, style: Style, runs: list[Run] | None = None) -> Estimate | None:
        """Peak and work of the region in a style, or ``None`` if the style does not apply.

        ``runs`` receives the runs in their order.
        """
        if not self.in_turn and len(self.ops) > 1:
            return None
        inner = self._whole if style.inner is None else self.family(style.inner)
        if inner is None:
            return None
        outer: Family | None = None
        if style.outer is not None:
            outer = self.family(style.outer)
            if outer is None or not self._apart(inner, outer):
                return None
        strips = self.strips(style.outer, style.strips)
        if strips is None:
            return None
        if style.both:
            return self._tiled(style, inner, outer, strips, runs)
        if style.inner not in self._cascades:
            self._cascades[style.inner] = Cascade(self, self._line(inner), inner)
        return self._cascades[style.inner].run(style, strips, runs)

    def strips(self, outer: str | None, count: int) -> Strips | None:
        """``count`` strips along an axis of the last op, or ``None`` if they are impossible."""
        key = outer, count if outer is not None else 1
        if key not in self._strips:
            if outer not in self._makers:
                family = None if outer is None else self.family(outer)
                self._makers[outer] = StripMaker(self, family)
            self._strips[key] = self._makers[outer].make(key[1])
        return self._strips[key]

    def forget_strips(self) -> None:
        """Forget all strips, which take much memory."""
        self._strips.clear()

    def _line(self, family: Family) -> Line:
        return Line(self.problem, family.axes, lambda *place: self.window(family, *place))

    def _tiled(
        self,
        style: Style,
        inner: Family,
        outer: Family | None,
        strips: Strips,
        runs: list[Run] | None,
    ) -> Estimate | None:
        """Estimate with halos kept along both axes, or ``None`` if an op lacks one of the axes."""
        along = inner.axes[-1]
        if outer is None or strips.steps is None or along is None:
            return None
        groups = self.strips(style.inner, along.extent)
        if groups is None or groups.steps is None:
            return None
        rows = Rows(
            self._line(inner),
            self._line(outer),
            groups.steps,
            strips.steps,
            shape=lambda m: (
                self.positions(inner, self.local[m]), self.positions(outer, self.local[m])
            ),
            writer=self._written,
        )  # fmt: skip
        if not rows.is_whole:
            return None
        found: list[Run] | None = None if runs is None else []
        one = self.strips(None, 1)
        assert one is not None
        estimate = Cascade(self, rows, inner, outer).run(Style(), one, found)
        for step, _, flat in found or ():
            assert flat is not None
            row, column = rows.intervals(step - self.start, flat[0])
            runs.append(Run(step, column, row))  # type: ignore[union-attr]
        return estimate

    def _written(self, storage: int) -> tuple[int, str] | None:
        """Op of the region that writes a storage, and the tensor that it writes; or ``None``."""
        k = self.writers[self.local[storage]]
        names = self.ops[k].outputs if k >= 0 else ()
        found = [name for name in names if self.problem.storage(name) == storage]
        return (k, found[0]) if found else None

    def _apart(self, inner: Family, outer: Family) -> bool:
        """True if all ops have an outer axis, and no axis of an op or a tensor is cut twice."""
        for one, other in zip(inner.axes, outer.axes, strict=True):
            if other is None or (one is not None and one.name == other.name):
                return False
        return not any(outer.at.get(m) == place for m, place in inner.at.items())
