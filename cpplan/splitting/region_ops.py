"""Ops of a program that follow one another, with their storages and their corresponding axes."""

from __future__ import annotations

from cpplan.model.axes import Axis, Window
from cpplan.splitting.piece_graph import reads_from
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.styles import Family


class RegionOps:
    """Steps ``[start, stop)`` of a program, and the storages that they access.

    Parameters
    ----------
    problem
        The program's ops and storages.
    start, stop
        The steps.
    """

    def __init__(self, problem: SplitProblem, start: int, stop: int):
        self.problem, self.start, self.stop = problem, start, stop
        self.ops = problem.ops[start:stop]
        accessed: dict[int, None] = {}
        for read, written in problem.accessed[start:stop]:
            accessed.update(dict.fromkeys((*read, *written)))
        self.storages = list(accessed)
        self.local = {m: k for k, m in enumerate(self.storages)}
        first, last = problem.lives
        self.kept = [last[m] > stop for m in self.storages]
        # Bytes that are live throughout the region, but not accessed in it.
        live = problem.boundary[start]
        live -= sum(
            problem.size[m]
            for m in self.storages
            if (first[m] < start or (first[m] == start and problem.given[m])) and last[m] > start
        )
        self.base = live
        self.readers: list[list[tuple[int, str]]] = [[] for _ in self.storages]
        self.writers: list[int] = [-1] * len(self.storages)
        # True if each storage is written by one op at most, before it is read. The bytes of a
        # constant are there before: whoever makes a view of one writes nothing.
        self.in_turn = True
        for k, op in enumerate(self.ops):
            for name in op.inputs:
                for m in problem.stored(name):
                    self.readers[self.local[m]].append((k, name))
            for m in problem.accessed[start + k][1]:
                here = self.local[m]
                if self.writers[here] >= 0 or (
                    (self.readers[here] or first[m] < start) and m not in problem.constants
                ):
                    self.in_turn = False
                self.writers[here] = k
        names = {op.name: op for op in self.ops}
        # Pieces change the order, so no op may wait for another one that it does not read from.
        self.in_turn &= not any(
            other in names and not reads_from(problem.graph, op, names[other])
            for op in self.ops
            for other in op.after
        )
        self._families: dict[str, Family | None] = {}

    def axis_names(self) -> tuple[str, ...]:
        """Names of the axes along which the last op may be cut."""
        return tuple(self.problem.axes(self.ops[-1]))

    def family(self, name: str) -> Family | None:
        """Axes of all ops that correspond to this axis of the last op, or ``None`` without it."""
        if name not in self._families:
            self._families[name] = self._find_family(name)
        return self._families[name]

    def _find_family(self, name: str) -> Family | None:
        problem, local = self.problem, self.local
        at: dict[int, int] = {}
        axes: list[Axis | None] = [None] * len(self.ops)
        for k in range(len(self.ops) - 1, -1, -1):
            op, known = self.ops[k], problem.axes(self.ops[k])
            wanted = [
                (output, at[local[problem.storage(output)]])
                for output in op.outputs
                if local[problem.storage(output)] in at
            ]
            if wanted:
                fits = [
                    axis
                    for axis in known.values()
                    if not axis.accumulates
                    and all(axis.window[output].axis == place for output, place in wanted)
                ]
                axes[k] = fits[0] if fits else None
            elif not any(self.readers[local[problem.storage(output)]] for output in op.outputs):
                axes[k] = known.get(name)
            found = axes[k]
            if found is None:
                continue
            for window in found.windows:
                if problem.cuts(window):
                    for m in problem.stored(window.tensor):
                        if m in local:
                            at.setdefault(local[m], problem.axis_of(m, window))
        if axes[-1] is None:
            return None
        return Family(axes, at)

    def window(self, family: Family, k: int, name: str, storage: int) -> Window | None:
        """Window of an op of the region for a tensor, along the axes of a family.

        ``storage`` is one of those that hold the tensor's bytes.
        """
        axis = family.axes[k]
        found = None if axis is None else self.problem.window(axis, name, storage)
        return found[0] if found and family.at.get(self.local[storage]) == found[1] else None

    def positions(self, family: Family, m: int) -> int:
        """Positions of a storage along the axes of a family; 1 if they do not cut it."""
        if m not in family.at:
            return 1
        return self.problem.extent(self.problem.names[self.storages[m]], family.at[m])
