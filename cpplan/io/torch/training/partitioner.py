"""Partition of a joint graph into forward and backward graph by a plan."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch.fx import GraphModule

from cpplan.io.torch.training.halves import split_halves
from cpplan.io.torch.training.inductor import NAME as INDUCTOR
from cpplan.io.torch.training.inductor import keep_saved_inputs, workspace_by_inductor
from cpplan.io.torch.training.joint_graph import (
    JointGraph,
    UnsupportedError,
    Workspaces,
    read_joint,
)
from cpplan.io.torch.training.origins import Origin, find_origin, titled
from cpplan.io.torch.training.planning import plan_schedule
from cpplan.io.torch.training.report import TrainingReport, make_report
from cpplan.io.torch.training.settings import Settings, work_in
from cpplan.io.torch.workspaces import workspace_of
from cpplan.model.version import __version__

_log = logging.getLogger("cpplan.torch")


class Partitioner(CustomPartitionerFn):  # type: ignore[misc]
    """Partitioner of joint graphs into forward and backward graph, by a plan for each.

    Pass it to inductor as ``custom_partitioner_fn``, or to AOTAutograd as ``partition_fn``; see
    :func:`cpplan.io.torch.partitioner`.

    Parameters
    ----------
    settings
        Limits and other settings.
    """

    def __init__(self, settings: Settings):
        self.settings = settings

    def __call__(
        self,
        gm: GraphModule,
        joint_inputs: Sequence[object],
        *,
        num_fwd_outputs: int,
        compiler: str | None = None,
        **others: Any,
    ) -> tuple[GraphModule, GraphModule]:
        """Forward and backward graph module of a joint graph module.

        Parameters
        ----------
        compiler
            ``"inductor"`` if that compiles both.

        Raises
        ------
        UnsupportedError
            If the graph cannot be planned, and ``fallback`` is ``"error"``; names the nodes.
        InfeasibleError, NotFoundError
            If no schedule within the limits exists, or none is found in time.
        """
        by_inductor = compiler == INDUCTOR
        counts = by_inductor if self.settings.workspaces is None else self.settings.workspaces
        workspaces = workspace_by_inductor if by_inductor else workspace_of
        try:
            halves, report = partition(
                gm, num_fwd_outputs, self.settings, workspaces if counts else None, find_origin()
            )
        except UnsupportedError as error:
            if self.settings.fallback != "eager":
                raise
            _log.warning("%s: the graph runs without a plan", error)
            from torch._functorch.partitioners import default_partition

            found: tuple[GraphModule, GraphModule] = default_partition(
                gm, joint_inputs, num_fwd_outputs=num_fwd_outputs
            )
            return found
        _log.info("%s", report)
        if by_inductor:
            keep_saved_inputs(halves[0])
        return halves

    def uuid(self) -> str | None:
        """Text that is equal for equal settings, or ``None`` if the cost is a function."""
        if callable(self.settings.cost):
            return None
        return f"cpplan {__version__} {self.settings!r}"


def partition(
    module: GraphModule,
    num_fwd_outputs: int,
    settings: Settings,
    workspaces: Workspaces | None,
    origin: Origin | None,
) -> tuple[tuple[GraphModule, GraphModule], TrainingReport]:
    """Forward and backward graph module of a plan, and its report."""
    module.graph.eliminate_dead_code()
    joint = read_joint(module, num_fwd_outputs, work=work_in(settings), workspaces=workspaces)
    report = plan_joint(joint, settings, origin)
    return split_halves(joint, report.schedule.order), report


def plan_joint(joint: JointGraph, settings: Settings, origin: Origin | None) -> TrainingReport:
    """The report of a schedule within the settings' limits."""
    schedule = plan_schedule(joint, settings, titled(joint.graph.name, origin))
    return make_report(joint, schedule, settings, origin)
