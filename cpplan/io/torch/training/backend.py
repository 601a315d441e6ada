"""The backend ``cpplan`` of ``torch.compile``: both halves of a step run in the plan's order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.fx import GraphModule

from cpplan.io.torch.training.halves import inference_module
from cpplan.io.torch.training.joint_graph import UnsupportedError, read_joint, tangents_of
from cpplan.io.torch.training.partitioner import partition, plan_joint
from cpplan.io.torch.training.report import TrainingReport
from cpplan.io.torch.training.running import Boxed, FirstStep, boxed
from cpplan.io.torch.training.settings import Settings, read_settings, work_in
from cpplan.io.torch.workspaces import workspace_of

_log = logging.getLogger("cpplan.torch")


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
    from torch._dynamo.backends.common import aot_autograd

    settings = read_settings(options)
    compiled = _Compiled(settings)
    backend = aot_autograd(
        fw_compiler=compiled.forward,
        bw_compiler=compiled.backward,
        inference_compiler=compiled.inference,
        partition_fn=compiled.partition,
    )
    try:
        found: Callable[..., Any] = backend(module, example_inputs)
    except UnsupportedError as error:
        if settings.fallback != "eager":
            raise
        _log.warning("%s: the graph runs without a plan", error)
        found = module.forward
    return found


class _Compiled:
    """The compilers of one graph that dynamo traced, which share the report of its plan."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.workspaces = None if settings.workspaces is False else workspace_of
        self.step: FirstStep | None = None

    def partition(
        self, module: GraphModule, inputs: Any, *, num_fwd_outputs: int, **others: Any
    ) -> tuple[GraphModule, GraphModule]:
        halves, report = partition(module, num_fwd_outputs, self.settings, self.workspaces)
        self._begin(report)
        return halves

    def forward(self, module: GraphModule, inputs: Any) -> Boxed:
        run = boxed(module)
        return run if self.step is None else self.step.first(run)

    def backward(self, module: GraphModule, inputs: Any) -> Boxed:
        tangents = len(tangents_of(module))
        run = boxed(module)
        return run if self.step is None else self.step.second(run, tangents)

    def inference(self, module: GraphModule, inputs: Any) -> Boxed:
        [output] = module.graph.find_nodes(op="output")
        joint = read_joint(
            module,
            len(output.args[0]),
            name="inference",
            work=work_in(self.settings),
            workspaces=self.workspaces,
        )
        report = plan_joint(joint, self.settings)
        self._begin(report)
        run = boxed(inference_module(joint, report.schedule.order))
        return run if self.step is None else self.step.first(run, alone=True)

    def _begin(self, report: TrainingReport) -> None:
        if self.settings.measure:
            self.step = FirstStep(report, _tell)
        else:
            _log.info("%s", report)


def _tell(report: TrainingReport) -> None:
    """Log the report of a step whose peak was measured, and warn if it misses the limit."""
    _log.info("%s", report)
    report.warn_of_missed()
