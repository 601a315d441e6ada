"""Retention intervals of storages whose units may run again, and the runs that they serve.

``formulations.rematerialization`` has the sets, variables and constraints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ortools.sat.python import cp_model

from formulations.runs import Runs, readers_of

if TYPE_CHECKING:
    from cpplan.model.remat_problem import RematProblem

# A writing unit, a reading unit and its run.
Need: TypeAlias = "tuple[int, int, int]"


@dataclass(eq=False)
class Retention:
    """The retention intervals of storages that the same unit writes and the same units read.

    Attributes
    ----------
    writer, readers
        The unit that writes the storages, and the units that read them.
    kept
        True if the last interval lasts to the end.
    demand
        Bytes of the storages, in units.
    end, length
        For every run of the writer, e_ic and the interval's length, ``None`` if that follows.
    """

    writer: int
    readers: tuple[int, ...]
    kept: bool
    demand: int = 0
    end: list[cp_model.IntVar] = field(default_factory=list)
    length: list[cp_model.IntVar | None] = field(default_factory=list)


@dataclass(eq=False)
class SoleRetention:
    """The one retention interval of a storage in X, from ``begin`` to ``end``."""

    storage: int
    accessed_by: tuple[int, ...]
    begin: cp_model.IntVar | int = 0
    end: cp_model.IntVar | int = 0
    length: cp_model.IntVar | None = None


class RetentionModel:
    """The retention intervals of a problem's storages as variables of a model.

    Attributes
    ----------
    retentions
        Retention intervals of the storages that a single unit writes.
    sole_retentions
        Retention intervals of the storages in X.
    serves
        For every need, the variables y, by run of the writer.
    during
        For every unit, x_v plus the storages that it alone accesses, in units of bytes.
    """

    def __init__(self, problem: RematProblem, model: cp_model.CpModel, runs: Runs, unit: int):
        self.problem, self.model, self.runs, self.unit = problem, model, runs, unit
        self.during = [extra // unit for extra in problem.ordering.extra.tolist()]
        self.retentions: list[Retention] = []
        self.sole_retentions: list[SoleRetention] = []
        self.serves: dict[Need, dict[int, cp_model.IntVar]] = {}

    def add_retentions(self) -> None:
        """Add the retention intervals, one for all storages with the same writer and readers."""
        problem, ordering, readers = self.problem, self.problem.ordering, readers_of(self.problem)
        writers: list[list[int]] = [[] for _ in ordering.size]
        for unit, written in enumerate(problem.writes):
            for storage in written:
                writers[storage].append(unit)
        together: dict[tuple[int, tuple[int, ...], bool], Retention] = {}
        for storage, size in enumerate((ordering.size // self.unit).tolist()):
            there, kept = bool(ordering.present[storage]), bool(ordering.kept[storage])
            if there or len(writers[storage]) != 1:
                self.sole_retentions.append(SoleRetention(storage, ordering.accessed_by[storage]))
            elif not readers[storage] and not kept:
                self.during[writers[storage][0]] += size
            else:
                key = writers[storage][0], tuple(readers[storage]), kept
                together.setdefault(key, Retention(*key)).demand += size
        self.retentions = list(together.values())
        for retention in self.retentions:
            for copy in range(self.runs.copies[retention.writer]):
                self._add_retention(retention, copy)

    def _add_retention(self, retention: Retention, copy: int) -> None:
        runs, model = self.runs, self.model
        start, first = runs.at[retention.writer][copy], runs.earliest[retention.writer][copy]
        end = model.new_int_var(first + 1, runs.end, "e")
        length = None if isinstance(start, int) else model.new_int_var(1, runs.end - first, "l")
        retention.end.append(end)
        retention.length.append(length)
        if copy:
            absent = ~runs.active[retention.writer][copy]
            model.add(end == first + 1).only_enforce_if(absent)
            model.add(length == 1).only_enforce_if(absent)

    def add_service(self) -> None:
        """An earlier run of the writer, still retained, serves every run of a reader."""
        for retention in self.retentions:
            for reader in retention.readers:
                for run in range(self.runs.copies[reader]):
                    served = self._served_by(retention, reader, run)
                    at = self.runs.at[reader][run]
                    for copy, end in enumerate(retention.end):
                        if copy in served:
                            self.model.add(at + 1 <= end).only_enforce_if(served[copy])

    def _served_by(self, retention: Retention, reader: int, run: int) -> dict[int, cp_model.IntVar]:
        """The variables y_wcrj of one run of a reader, by the run of the writer."""
        need = retention.writer, reader, run
        if need in self.serves:
            return self.serves[need]
        model, runs = self.model, self.runs
        active, at = runs.active[retention.writer], runs.at[retention.writer]
        served: dict[int, cp_model.IntVar] = {}
        for copy in range(len(retention.end)):
            if runs.earliest[retention.writer][copy] >= runs.latest[reader][run]:
                continue
            serving = served[copy] = model.new_bool_var("y")
            if copy:
                model.add_implication(serving, active[copy])
                model.add(at[copy] + 1 <= runs.at[reader][run]).only_enforce_if(serving)
        model.add(sum(served.values()) == runs.active[reader][run])
        self.serves[need] = served
        return served

    def add_kept(self) -> None:
        """The last run's retention interval of a kept storage lasts to the end."""
        for retention in self.retentions:
            if not retention.kept:
                continue
            active = self.runs.active[retention.writer]
            for copy, end in enumerate(retention.end):
                last = [] if copy + 1 == len(active) else [~active[copy + 1]]
                lasts = [*last, active[copy]] if copy else last
                self.model.add(end == self.runs.end).only_enforce_if(lasts)

    def add_used(self) -> None:
        """a_vc implies that run c > 0 serves a reader, unless v writes a kept storage."""
        keeping = {retention.writer for retention in self.retentions if retention.kept}
        served: dict[tuple[int, int], list[cp_model.IntVar]] = {}
        for (writer, _, _), by in self.serves.items():
            for copy, serving in by.items():
                served.setdefault((writer, copy), []).append(serving)
        for unit, active in enumerate(self.runs.active):
            for copy in range(1, len(active)):
                if unit not in keeping:
                    self.model.add_bool_or([*served.get((unit, copy), ()), ~active[copy]])

    def add_sole_retentions(self) -> None:
        """b_i <= p and e_i >= p + 1 for every run that accesses storage i."""
        ordering, runs, model = self.problem.ordering, self.runs, self.model
        for retention in self.sole_retentions:
            present, kept = ordering.present[retention.storage], ordering.kept[retention.storage]
            retention.begin = 0 if present else model.new_int_var(0, max(0, runs.end - 1), "b")
            retention.end = runs.end if kept else model.new_int_var(1, runs.end, "e")
            if not present and not kept:
                retention.length = model.new_int_var(1, runs.end, "l")
            for unit in retention.accessed_by:
                for copy, at in enumerate(runs.at[unit]):
                    active = [runs.active[unit][copy]] if copy else []
                    if not present and copy == 0:
                        model.add(retention.begin <= at)
                    if not kept:
                        model.add(retention.end >= at + 1).only_enforce_if(active)

    def pressure(self) -> tuple[list[cp_model.IntervalVar], list[int]]:
        """The intervals during which storages and units' own bytes are live, and their sizes."""
        model, runs, ordering = self.model, self.runs, self.problem.ordering
        intervals, demands = [], []
        for retention in self.retentions:
            for copy, end in enumerate(retention.end):
                start = runs.at[retention.writer][copy]
                own_length = retention.length[copy]
                length = end - start if own_length is None else own_length
                active = runs.active[retention.writer][copy]
                intervals.append(_interval(model, start, length, end, active))
                demands.append(retention.demand)
        for one in self.sole_retentions:
            whole = one.end - one.begin if one.length is None else one.length
            intervals.append(model.new_interval_var(one.begin, whole, one.end, ""))
            demands.append(int(ordering.size[one.storage]) // self.unit)
        for unit, demand in enumerate(self.during):
            for copy, at in enumerate(runs.at[unit]):
                if demand:
                    active = runs.active[unit][copy]
                    intervals.append(_interval(model, at, 1, at + 1, active))
                    demands.append(demand)
        return intervals, demands

    def hint(self, times: Sequence[Sequence[int]]) -> None:
        """Hint every variable with its value in a schedule, given as the times of its runs."""
        last_served: dict[Need, int] = {}
        for need, by in self.serves.items():
            writer, reader, run = need
            serving = -1
            if run < len(times[reader]):
                at = times[reader][run]
                serving = max(c for c, time in enumerate(times[writer]) if c in by and time < at)
                served = writer, reader, serving
                last_served[served] = max(at, last_served.get(served, at))
            for copy, variable in by.items():
                self.model.add_hint(variable, copy == serving)
        for retention in self.retentions:
            self._hint_retention(retention, times[retention.writer], last_served)
        for one in self.sole_retentions:
            self._hint_sole_retention(one, times)

    def _hint_retention(
        self,
        retention: Retention,
        times: Sequence[int],
        last_served: dict[Need, int],
    ) -> None:
        for copy, (end, length) in enumerate(zip(retention.end, retention.length, strict=True)):
            start = times[copy] if copy < len(times) else self.runs.earliest[retention.writer][copy]
            until = start
            if copy < len(times):
                served = ((retention.writer, reader, copy) for reader in retention.readers)
                until = max((last_served.get(key, until) for key in served), default=until)
            stop = self.runs.end if retention.kept and copy + 1 == len(times) else until + 1
            self.model.add_hint(end, stop)
            if length is not None:
                self.model.add_hint(length, stop - start)

    def _hint_sole_retention(self, one: SoleRetention, times: Sequence[Sequence[int]]) -> None:
        accessed = [t for unit in one.accessed_by for t in times[unit]]
        begin, end = min(accessed, default=0), max(accessed, default=0) + 1
        if not isinstance(one.begin, int):
            self.model.add_hint(one.begin, begin)
        if not isinstance(one.end, int):
            self.model.add_hint(one.end, end)
        if one.length is not None:
            self.model.add_hint(one.length, end - begin)


def _interval(
    model: cp_model.CpModel,
    start: cp_model.LinearExprT,
    length: cp_model.LinearExprT,
    end: cp_model.LinearExprT,
    active: cp_model.IntVar | int,
) -> cp_model.IntervalVar:
    """The interval [start, end), present if ``active``: a variable, or 1."""
    if isinstance(active, int):
        return model.new_interval_var(start, length, end, "")
    return model.new_optional_interval_var(start, length, end, active, "")
