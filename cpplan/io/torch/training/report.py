"""Report of a planned step: limits, predicted and measured peak, extra work, and its bound."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cpplan.model.byte_sizes import format_bytes
from cpplan.program.anf import Program

if TYPE_CHECKING:
    from cpplan.io.torch.training.joint_graph import JointGraph
    from cpplan.io.torch.training.planning import Schedule
    from cpplan.model.plan import Plan


@dataclass
class TrainingReport:
    """Report of a planned step.

    Attributes
    ----------
    name
        The graph's name.
    memory_limit, cost_limit
        The limits; each is ``None`` if it was not set.
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
    memory_limit: int | None
    cost_limit: float | None
    resident: int
    counts_resident: bool
    predicted_peak: int
    schedule: Schedule
    saved_bytes: int
    extra_operations: int
    operations: int
    joint: JointGraph = field(repr=False)
    measured_peak: int | None = None

    def __str__(self) -> str:
        schedule = self.schedule
        limits = []
        if self.memory_limit is not None:
            limits.append(f"limit {format_bytes(self.memory_limit)}")
        if self.cost_limit is not None:
            limits.append(f"work at most {self.cost_limit:g} times")
        measured = "not measured"
        if self.measured_peak is not None:
            measured = f"measured {format_bytes(self.measured_peak)}"
        source = "from the cache" if schedule.cached else f"planned in {schedule.seconds:.1f} s"
        return (
            f"{self.name}: {', '.join(limits) or 'no limit'}: predicted peak "
            f"{format_bytes(self.predicted_peak)} (unplanned {format_bytes(schedule.unplanned)}), "
            f"{measured}, extra work {schedule.extra_work:.2%} "
            f"(bound {schedule.extra_bound:.2%}), {source}"
        )

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


_reports: list[TrainingReport] = []
_MOST_REPORTS = 64


def make_report(
    joint: JointGraph, schedule: Schedule, limits: tuple[int | None, float | None], counts: bool
) -> TrainingReport:
    """Make the report of a schedule, and add it to the reports of this process."""
    runs: dict[str, int] = {}
    for name in schedule.order:
        runs[name] = runs.get(name, 0) + 1
    again = sum((runs[name] - 1) * count for name, count in joint.operations.items())
    found = TrainingReport(
        joint.graph.name,
        *limits,
        joint.resident,
        counts,
        schedule.peak,
        schedule,
        _saved(joint, schedule),
        again,
        sum(joint.operations.values()),
        joint,
    )
    _reports.append(found)
    del _reports[:-_MOST_REPORTS]
    return found


def all_reports() -> list[TrainingReport]:
    """Reports of the graphs planned in this process, the latest last; at most 64."""
    return list(_reports)


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
