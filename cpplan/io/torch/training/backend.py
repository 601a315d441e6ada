"""The backend ``cpplan`` of ``torch.compile``: both halves of a step run in the plan's order.

A graph is planned at the sizes with which it is traced, and dynamo runs it at all others too. At
each new size, the plan's peak and the limit are computed anew. If the plan misses the limit there,
the graph is planned again for this size alone, unless no plan can keep the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import le
from typing import Any

from torch._dynamo.utils import preserve_rng_state
from torch.fx import GraphModule

from cpplan.io.torch.training.compiled_graph import CompiledGraph
from cpplan.io.torch.training.joint_graph import joint_at
from cpplan.io.torch.training.origins import find_origin
from cpplan.io.torch.training.planning import Schedule, schedule_at
from cpplan.io.torch.training.report import TrainingReport, make_report
from cpplan.io.torch.training.settings import breaks_limit, read_settings, work_in
from cpplan.io.torch.training.symbolic_sizes import SizeReader, hints_of, sizes_of

# Sizes that have a report of their own at most, where a limit need not be kept.
_MOST_SIZES = 16
# Sizes that are planned on their own at most, where a limit need not be kept.
_MOST_PLANS = 8


def cpplan(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    **others: Any,
) -> Callable[..., Any]:
    """Compiled function of a graph that dynamo traced; the backend named ``cpplan``.

    Parameters
    ----------
    module, example_inputs
        As dynamo passes them to every backend.
    options
        See :class:`cpplan.io.torch.training.settings.Settings`.

    Raises
    ------
    InputError
        If an option is not understood.
    UnsupportedError
        If the graph cannot be planned, and ``fallback`` is ``"error"``.
    InfeasibleError, NotFoundError
        If no schedule within the limits exists, or none is found in time.
    """
    compiled = CompiledGraph(module, read_settings(options), find_origin())
    run = compiled.compile(example_inputs)
    report = compiled.report
    if report is None or report.memory_limit is None:
        return run
    return many_sizes(compiled, report, run) or run


Sizes = tuple[int, ...]


def many_sizes(
    compiled: CompiledGraph, report: TrainingReport, run: Callable[..., Any]
) -> Callable[..., Any] | None:
    """Function that looks at the sizes of every call; ``None`` for a graph of fixed sizes."""
    names = sizes_of(report.joint.module)
    read = SizeReader(compiled.module.graph.find_nodes(op="placeholder"), names)
    hints = hints_of(report.joint.module)
    if not names or not read.tells_all:
        return None
    steps = _Steps(compiled, report, run, tuple(hints[name] for name in names))

    def at_sizes(*arguments: Any) -> Any:
        return steps.of(read.all(arguments), arguments)(*arguments)

    return at_sizes


class _Steps:
    """The functions that run a graph at each size."""

    def __init__(
        self,
        compiled: CompiledGraph,
        report: TrainingReport,
        run: Callable[..., Any],
        traced: Sizes,
    ):
        self.compiled, self.report, self.run = compiled, report, run
        self.names = sizes_of(report.joint.module)
        self.runs = {traced: run}
        # Sizes at which the first plan keeps the limit.
        self.covered = [] if self._is_missed(report.schedule) else [traced]
        self.plans = 0

    def of(self, sizes: Sizes, arguments: Sequence[Any]) -> Callable[..., Any]:
        if sizes not in self.runs and self._is_due(sizes):
            with preserve_rng_state():
                self.runs[sizes] = self._add(sizes, arguments)
        return self.runs.get(sizes, self.run)

    def _is_due(self, sizes: Sizes) -> bool:
        """True if new sizes get a report of their own.

        A limit in bytes that is kept at some sizes is kept at smaller ones.
        """
        if len(self.runs) < _MOST_SIZES:
            return True
        smaller = any(all(map(le, sizes, larger)) for larger in self.covered)
        share = isinstance(self.compiled.settings.memory_limit, str)
        return self._must_keep and (share or not smaller)

    def _add(self, sizes: Sizes, arguments: Sequence[Any]) -> Callable[..., Any]:
        settings, origin = self.compiled.settings, self.compiled.origin
        origin = None if origin is None else origin.at(arguments)
        joint = joint_at(
            self.report.joint,
            dict(zip(self.names, sizes, strict=True)),
            work=work_in(settings),
            workspaces=self.compiled.workspaces,
        )
        schedule = schedule_at(joint, settings, self.report.schedule.order)
        if not self._is_missed(schedule):
            self.covered.append(sizes)
        elif self._must_keep or (self._is_open(schedule) and self.plans < _MOST_PLANS):
            self.plans += 1
            return CompiledGraph(self.compiled.module, settings, origin).compile(arguments)
        report = make_report(joint, schedule, settings, origin)
        if self.compiled.step is not None:
            self.compiled.step.add(sizes, report)
        return self.run

    @property
    def _must_keep(self) -> bool:
        return self.compiled.settings.on_infeasible == "error"

    @staticmethod
    def _is_open(schedule: Schedule) -> bool:
        """True if it is not proved that every schedule misses the limit."""
        return schedule.memory_limit is None or schedule.least <= schedule.memory_limit

    def _is_missed(self, schedule: Schedule) -> bool:
        return breaks_limit(self.compiled.settings, schedule.memory_limit, schedule.peak)
