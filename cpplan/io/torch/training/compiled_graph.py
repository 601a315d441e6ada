"""A graph compiled by a plan: both halves of a step run in the plan's order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule

from cpplan.io.torch.training.halves import inference_module
from cpplan.io.torch.training.joint_graph import UnsupportedError, read_joint, tangents_of
from cpplan.io.torch.training.origins import Origin
from cpplan.io.torch.training.partitioner import partition, plan_joint
from cpplan.io.torch.training.report import TrainingReport
from cpplan.io.torch.training.running import Boxed, FirstStep, boxed
from cpplan.io.torch.training.settings import Settings, work_in
from cpplan.io.torch.training.symbolic_sizes import hints_of, sizes_of
from cpplan.io.torch.workspaces import workspace_of

_log = logging.getLogger("cpplan.torch")


class CompiledGraph:
    """A graph that dynamo traced, compiled by a plan for the sizes of example inputs.

    Parameters
    ----------
    module
        The graph.
    settings
        Limits and other settings.
    origin
        The part of a module that the graph was traced from.

    Attributes
    ----------
    report
        The plan's report; ``None`` until it is compiled, or if the graph cannot be planned.
    step
        Measures the first step; ``None`` until it is compiled, or if nothing is measured.
    """

    def __init__(self, module: GraphModule, settings: Settings, origin: Origin | None):
        self.module, self.settings, self.origin = module, settings, origin
        self.workspaces = None if settings.workspaces is False else workspace_of
        self.report: TrainingReport | None = None
        self.step: FirstStep | None = None

    def compile(self, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Function of the graph's inputs that runs the plan, or the graph if ``fallback`` says so.

        Raises
        ------
        UnsupportedError, InfeasibleError, NotFoundError
            As :func:`cpplan.io.torch.training.backend.cpplan`.
        """
        from torch._dynamo.backends.common import aot_autograd

        backend = aot_autograd(
            fw_compiler=self._forward,
            bw_compiler=self._backward,
            inference_compiler=self._inference,
            partition_fn=self._partition,
        )
        try:
            run: Callable[..., Any] = backend(self.module, example_inputs)
        except UnsupportedError as error:
            if self.settings.fallback != "eager":
                raise
            _log.warning("%s: the graph runs without a plan", error)
            run = self.module.forward
        return run

    def _partition(
        self, module: GraphModule, inputs: Any, *, num_fwd_outputs: int, **others: Any
    ) -> tuple[GraphModule, GraphModule]:
        halves, report = partition(
            module, num_fwd_outputs, self.settings, self.workspaces, self.origin
        )
        self._begin(report)
        return halves

    def _forward(self, module: GraphModule, inputs: Any) -> Boxed:
        return boxed(module) if self.step is None else self.step.first(module)

    def _backward(self, module: GraphModule, inputs: Any) -> Boxed:
        tangents = len(tangents_of(module))
        return boxed(module) if self.step is None else self.step.second(module, tangents)

    def _inference(self, module: GraphModule, inputs: Any) -> Boxed:
        [output] = module.graph.find_nodes(op="output")
        joint = read_joint(
            module,
            len(output.args[0]),
            name="inference",
            work=work_in(self.settings),
            workspaces=self.workspaces,
        )
        report = plan_joint(joint, self.settings, self.origin)
        self._begin(report)
        planned = inference_module(joint, report.schedule.order)
        return boxed(planned) if self.step is None else self.step.first(planned, alone=True)

    def _begin(self, report: TrainingReport) -> None:
        self.report = report
        if self.settings.measure:
            module = report.joint.module
            names, hints = sizes_of(module), hints_of(module)
            self.step = FirstStep(names, _tell)
            self.step.add(tuple(hints.get(name) for name in names), report)
        else:
            _log.info("%s", report)


def _tell(report: TrainingReport) -> None:
    """Log the report of a step whose peak was measured, and warn if it misses the limit."""
    _log.info("%s", report)
    report.warn_of_missed()
