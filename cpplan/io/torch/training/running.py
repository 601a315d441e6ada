"""Graph modules run with values freed at their last use, and the peak of the first run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.graph import _BoxedCodeGen

from cpplan.io.torch.training.report import TrainingReport
from cpplan.io.torch.workspaces import count_allocated

Boxed = Callable[[list[Any]], Any]
# Runs of the first half that are measured at most while no second half has run.
_MOST_RUNS = 256


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


class FirstStep:
    """Measures the peak of a step, from the allocator's events in a run of each half.

    The runs are the first run of the second half and the last run of the first half before it:
    layers that share one graph run its first half several times before. Bytes that the first half
    leaves are assumed to be live when the second half begins.

    Parameters
    ----------
    report
        Report that receives the peak after the second half or, without one, after the first.
    done
        Function that is then called with the report.
    """

    def __init__(self, report: TrainingReport, done: Callable[[TrainingReport], None]):
        self._report, self._done = report, done
        self._most: int | None = None
        self._left = self._runs = 0
        self._measured = False

    def first(self, run: Boxed, *, alone: bool = False) -> Boxed:
        """The first half, whose runs are measured until the second half runs."""

        def measured(args: list[Any]) -> Any:
            if self._measured or self._runs == _MOST_RUNS or not _may_measure(args):
                return run(args)
            # The allocator reports that bytes are freed only if it has reported their allocation:
            # so each run is measured whose results the second half may free.
            self._runs += 1
            result, self._most, self._left = count_allocated(lambda: run(args))
            if alone:
                self._tell(self._most)
            return result

        measured._boxed_call = True  # type: ignore[attr-defined]
        return measured

    def second(self, run: Boxed, tangents: int) -> Boxed:
        """The second half, whose first run after a measured first half is measured.

        Parameters
        ----------
        tangents
            Number of gradients, which are the last inputs.
        """

        def measured(args: list[Any]) -> Any:
            if self._measured or self._most is None or not _may_measure(args):
                return run(args)
            given = args[len(args) - tangents :]
            before = self._left + sum(
                given.untyped_storage().nbytes()
                for given in given
                if isinstance(given, torch.Tensor)
            )
            del given
            result, most, _ = count_allocated(lambda: run(args))
            self._tell(max(self._most, before + most))
            return result

        measured._boxed_call = True  # type: ignore[attr-defined]
        return measured

    def _tell(self, peak: int) -> None:
        self._measured = True
        outside = self._report.resident if self._report.counts_resident else 0
        self._report.measured_peak = peak + outside
        self._done(self._report)


def _may_measure(args: list[Any]) -> bool:
    """True if the inputs are on the CPU, and no other profiler is active."""
    tensors = [given for given in args if isinstance(given, torch.Tensor)]
    return not torch.autograd._profiler_enabled() and all(t.device.type == "cpu" for t in tensors)
