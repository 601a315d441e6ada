"""A graph compiled by a plan: both halves of a step run in the plan's order.

Values are freed at their last use, and the peak of the first runs is measured.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.graph import _BoxedCodeGen

from cpplan.io.torch.training.halves import inference_module
from cpplan.io.torch.training.joint_graph import UnsupportedError, read_joint, tangents_of
from cpplan.io.torch.training.origins import Origin
from cpplan.io.torch.training.partitioner import partition, plan_joint
from cpplan.io.torch.training.report import TrainingReport
from cpplan.io.torch.training.settings import Settings, work_in
from cpplan.io.torch.training.symbolic_sizes import SizeReader, hints_of, sizes_of
from cpplan.io.torch.workspaces import count_allocated, workspace_of

_log = logging.getLogger("cpplan.torch")
# Runs of the first half that are measured at most while no second half has run.
_MOST_RUNS = 256


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


Boxed = Callable[[list[Any]], Any]


def boxed(module: GraphModule) -> Boxed:
    """Function that runs a graph module on a list of inputs, which it empties.

    The code that torch generates frees each value after its last use. Inputs in a list can be
    freed, too.
    """
    module.graph.set_codegen(_BoxedCodeGen())
    module.recompile()

    def run(args: list[Any]) -> Any:
        return module.forward(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


@dataclass
class _Unmeasured:
    """A step of some sizes whose peak is not measured yet.

    Attributes
    ----------
    report
        Report that receives the peak.
    most, left
        Most bytes in the last run of the first half, and those that it left.
    runs
        Runs of the first half so far.
    """

    report: TrainingReport
    most: int = 0
    left: int = 0
    runs: int = 0


class FirstStep:
    """Measures the peak of the first step of each size, from the allocator's events in both halves.

    The runs are the first run of the second half and the last run of the first half before it:
    layers that share one graph run its first half several times before. Bytes that the first half
    leaves are assumed to be live when the second half begins.

    Parameters
    ----------
    names
        Names of the symbolic sizes that are told apart.
    done
        Function that is called with each report that has received its peak.
    """

    def __init__(self, names: Sequence[str], done: Callable[[TrainingReport], None]):
        self._names, self._done = names, done
        self._waiting: dict[tuple[int | None, ...], _Unmeasured] = {}
        # Sizes of the last run of the first half that was measured.
        self._last: tuple[int | None, ...] | None = None

    def add(self, sizes: tuple[int | None, ...], report: TrainingReport) -> None:
        """Measure the first step of these sizes, for a report."""
        self._waiting[sizes] = _Unmeasured(report)

    def first(self, module: GraphModule, *, alone: bool = False) -> Boxed:
        """The first half, whose runs are measured until the second half runs."""
        read, run = self._reader(module), boxed(module)

        def measured(args: list[Any]) -> Any:
            sizes = read(args)
            step = self._waiting.get(sizes)
            if step is None or step.runs == _MOST_RUNS or not _may_measure(args):
                return run(args)
            # The allocator reports that bytes are freed only if it has reported their allocation:
            # so each run is measured whose results the second half may free.
            step.runs += 1
            result, step.most, step.left = count_allocated(lambda: run(args))
            self._last = sizes
            if alone:
                self._tell(sizes, step.most)
            return result

        measured._boxed_call = True  # type: ignore[attr-defined]
        return measured

    def second(self, module: GraphModule, tangents: int) -> Boxed:
        """The second half, whose first run after a measured first half is measured.

        Parameters
        ----------
        tangents
            Number of gradients, which are the last inputs.
        """
        read, run = self._reader(module), boxed(module)

        def measured(args: list[Any]) -> Any:
            sizes = self._last
            step = None if sizes is None else self._waiting.get(sizes)
            if step is None or sizes is None or not _may_measure(args):
                return run(args)
            if any(n is not None and n != m for n, m in zip(read(args), sizes, strict=True)):
                return run(args)  # the second half of another step
            given = args[len(args) - tangents :]
            before = step.left + sum(
                given.untyped_storage().nbytes()
                for given in given
                if isinstance(given, torch.Tensor)
            )
            del given
            result, most, _ = count_allocated(lambda: run(args))
            self._tell(sizes, max(step.most, before + most))
            return result

        measured._boxed_call = True  # type: ignore[attr-defined]
        return measured

    def _reader(self, module: GraphModule) -> SizeReader:
        return SizeReader(module.graph.find_nodes(op="placeholder"), self._names)

    def _tell(self, sizes: tuple[int | None, ...], peak: int) -> None:
        step = self._waiting.pop(sizes, None)
        if step is not None:  # no other thread was first
            report = step.report
            report.measured_peak = peak + (report.resident if report.counts_resident else 0)
            self._done(report)


def _may_measure(args: list[Any]) -> bool:
    """True if the inputs are on the CPU, and no other profiler is active."""
    tensors = [given for given in args if isinstance(given, torch.Tensor)]
    return not torch.autograd._profiler_enabled() and all(t.device.type == "cpu" for t in tensors)
