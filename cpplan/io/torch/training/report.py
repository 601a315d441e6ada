"""Report of a planned step: limits, predicted and measured peak, extra work, and its bound."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from cpplan.io.torch.training.origins import (
    Origin,
    backend_of,
    belongs,
    newest_backend,
    titled,
)
from cpplan.io.torch.training.settings import OTHER_SIZES, is_missed
from cpplan.model.byte_sizes import format_bytes
from cpplan.program.anf import Program

if TYPE_CHECKING:
    from cpplan.io.torch.training.joint_graph import JointGraph
    from cpplan.io.torch.training.planning import Schedule
    from cpplan.io.torch.training.settings import Settings
    from cpplan.model.plan import Plan


@dataclass(eq=False)
class TrainingReport:
    """Report of a planned step: of one graph of a compiled module, at one shape of its inputs.

    Attributes
    ----------
    name
        The graph's name: ``"step"``, or ``"inference"`` without gradients.
    origin
        The part of a module that the graph was traced from, with the shapes of its inputs; ``None``
        if dynamo did not trace it.
    memory_limit, cost_limit
        The limits, a share in bytes; each is ``None`` if it was not set.
    share
        The limit as it was given, if it is a share; else ``None``.
    resident
        Bytes of parameters, buffers and inputs.
    counts_resident
        True if the peaks count them.
    predicted_peak
        Peak of the live bytes by the plan.
    measured_peak
        Peak of the bytes that torch's allocator gave in the first step, comparable to
        ``predicted_peak``; ``None`` if the step has not run or is not measured.
    schedule
        The schedule, with its work and bounds.
    saved_bytes
        Bytes that the forward pass saves for the backward pass, resident bytes excluded.
    extra_operations
        Floating-point operations of the ops that run again.
    operations
        Floating-point operations of running every op once.
    """

    name: str
    origin: Origin | None
    memory_limit: int | None
    cost_limit: float | None
    share: str | None
    resident: int
    counts_resident: bool
    predicted_peak: int
    schedule: Schedule
    saved_bytes: int
    extra_operations: int
    operations: int
    joint: JointGraph = field(repr=False)
    measured_peak: int | None = None

    @property
    def missed(self) -> int | None:
        """Bytes by which the larger of both peaks exceeds the limit; ``None`` without a limit."""
        if self.memory_limit is None:
            return None
        return max(
            0,
            self.predicted_peak - self.memory_limit,
            (self.measured_peak or 0) - self.memory_limit,
        )

    @property
    def title(self) -> str:
        """The graph's name and origin."""
        return titled(self.name, self.origin)

    def __str__(self) -> str:
        schedule = self.schedule
        limits = []
        if self.memory_limit is not None:
            limits.append(f"limit {self._limit}")
        if self.cost_limit is not None:
            limits.append(f"work at most {self.cost_limit:g} times")
        measured = "not measured"
        if self.measured_peak is not None:
            measured = f"measured {format_bytes(self.measured_peak)}"
        source = "from the cache" if schedule.cached else f"planned in {schedule.seconds:.1f} s"
        if schedule.found_by == OTHER_SIZES:
            source = OTHER_SIZES
        missed = f"limit missed by {format_bytes(self.missed)}, " if self.missed else ""
        return (
            f"{self.title}: {', '.join(limits) or 'no limit'}: predicted peak "
            f"{format_bytes(self.predicted_peak)} (unplanned {format_bytes(schedule.unplanned)}), "
            f"{measured}, {missed}extra work {schedule.extra_work:.2%} "
            f"(bound {schedule.extra_bound:.2%}), {source}"
        )

    @property
    def _limit(self) -> str:
        assert self.memory_limit is not None
        text = format_bytes(self.memory_limit)
        return text if self.share is None else f"{text} ({self.share})"

    def warn_of_missed(self) -> None:
        """Warn if a peak misses the limit by more than a hundredth of it, the predicted one first.

        Once the peak is measured, only a miss that was not predicted is worth another warning.
        """
        predicted, measured = self.predicted_peak, self.measured_peak
        if is_missed(self.memory_limit, predicted):
            if measured is None:
                self._warn("predicted", predicted, self._reason())
        elif is_missed(self.memory_limit, measured):
            self._warn("measured", measured, f"{format_bytes(predicted)} were predicted")

    def _warn(self, kind: str, peak: int | None, reason: str) -> None:
        warnings.warn(
            f"{self.title}: the {kind} peak of {format_bytes(peak)} misses the limit of "
            f"{self._limit} by {format_bytes(self.missed)}: {reason}",
            stacklevel=3,
        )

    def _reason(self) -> str:
        """Reason for which the plan misses the limit."""
        schedule, limit = self.schedule, self.memory_limit
        if limit is not None and schedule.least > limit:
            return f"every schedule needs at least {format_bytes(schedule.least)}"
        if schedule.found_by == OTHER_SIZES:
            return OTHER_SIZES
        return "no schedule within it was found in time"

    @cached_property
    def program(self) -> Program:
        """The schedule as a program of the step's graph."""
        position = {op.name: k for k, op in enumerate(self.joint.graph.ops)}
        return Program(self.joint.graph, tuple(position[name] for name in self.schedule.order))

    @cached_property
    def plan(self) -> Plan:
        """The schedule as a plan, with offsets for an arena."""
        from cpplan.solving.pipeline import solve

        return solve(self.program, time_limit=5, inputs="outside")

    def html(self) -> str:
        """The report as one HTML page."""
        with TemporaryDirectory() as folder:
            page = Path(folder) / "step.html"
            self.save(page)
            return page.read_text(encoding="utf-8")

    def save(self, path: str | PathLike[str]) -> None:
        """Write the report as one HTML page.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        self.plan.report(path, self.program, notes={"training step": str(self)})


# Reports with the newest backend of ``torch.compile`` when each was made.
_reports: list[tuple[TrainingReport, Any]] = []
_MOST_REPORTS = 64


def make_report(
    joint: JointGraph,
    schedule: Schedule,
    settings: Settings,
    origin: Origin | None,
) -> TrainingReport:
    """Make the report of a schedule, and add it to the reports of this process."""
    runs: dict[str, int] = {}
    for name in schedule.order:
        runs[name] = runs.get(name, 0) + 1
    again = sum((runs[name] - 1) * count for name, count in joint.operations.items())
    share = settings.memory_limit if schedule.memory_limit is not None else None
    found = TrainingReport(
        joint.graph.name,
        origin,
        schedule.memory_limit,
        settings.cost_limit,
        share if isinstance(share, str) else None,
        joint.resident,
        settings.resident == "count",
        schedule.peak,
        schedule,
        _saved(joint, schedule),
        again,
        sum(joint.operations.values()),
        joint,
    )
    _reports.append((found, newest_backend()))
    del _reports[:-_MOST_REPORTS]
    found.warn_of_missed()
    return found


def reports_of(compiled: Any | None = None) -> list[TrainingReport]:
    """Reports of a compiled module or function, or of this process, the latest last; at most 64.

    Those of a module are the reports of its own call of ``torch.compile``. If there are none, since
    dynamo runs what it compiled in an earlier call, they are the reports of that call.

    Raises
    ------
    InputError
        If the argument is neither a module nor compiled.
    """
    found = [report for report, _ in _reports]
    if compiled is None:
        return found
    traced = [(report, report.origin) for report in found if report.origin is not None]
    backend = backend_of(compiled)
    own = [report for report, origin in traced if origin.backend is backend]
    if own:
        return own
    calls = [
        origin.backend
        for _, origin in traced
        if belongs(origin, compiled) and (backend is None or origin.backend == backend)
    ]
    return [report for report, origin in traced if any(origin.backend is call for call in calls)]


def latest_report(compiled: Any | None = None) -> TrainingReport | None:
    """The latest report of a compiled module or function, or since the last ``torch.compile``."""
    if compiled is not None:
        found = reports_of(compiled)
        return found[-1] if found else None
    if not _reports:
        return None
    report, backend = _reports[-1]
    newest = newest_backend()
    return report if newest is None or newest is backend else None


def _saved(joint: JointGraph, schedule: Schedule) -> int:
    """Bytes written before the turn and read after it, before they are written again."""
    from cpplan.io.torch.training.joint_graph import TURN

    if TURN not in schedule.order:
        return 0
    turn = schedule.order.index(TURN)
    tensor, op = joint.graph.tensor, joint.graph.op
    written = {name for given in schedule.order[:turn] for name in op[given].outputs}
    saved: set[str] = set()
    for name in schedule.order[turn + 1 :]:
        saved |= written.intersection(op[name].inputs)
        written -= set(op[name].outputs)
    return sum(tensor[name].nbytes for name in saved)
