"""Plans for TVM: a pass of Relax, and TVM's default pipeline with it.

``tvm.compile(module, target="llvm", relax_pipeline=cpplan.tvm.pipeline(order="search"))`` compiles
a module whose tensors lie at offsets in one storage for each memory. The pipeline without options
is registered by the name ``"cpplan"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cpplan.model.errors import MissingExtraError

if TYPE_CHECKING:
    from cpplan.io.tvm.passes import PlannedFunction

__all__ = ["PlanMemory", "last_plans", "pipeline"]


def PlanMemory(
    *,
    ranges: Mapping[str, object] | None = None,
    steps: int = 1,
    outputs: str = "outside",
    **options: Any,
) -> Any:
    """A pass that gives tensors of Relax functions offsets in one storage for each memory.

    It stands where TVM's ``StaticPlanBlockMemory`` stands, after ``CallTIRRewrite``. Tensors that
    it leaves are allocated one by one when the function runs, as TVM does without a plan.

    Parameters
    ----------
    ranges
        Variable of shapes -> its bounds, ``(lower, upper)``, beside those that the attributes
        ``tir_var_lower_bound`` and ``tir_var_upper_bound`` of a function give. Storages are as
        large as the upper bounds need.
    steps
        With more than one, sizes of storages and offsets are expressions of the variables: a run
        takes the smallest of this many storages that holds its values, whose limits halve from
        step to step. Order and tensors in place are those of the plan at the upper bounds. Storages
        of a branch that grow stay with the branch.
    outputs
        ``"outside"``: results of a function are allocated one by one, as TVM does; ``"keep"``: they
        lie in the function's storage too, which then lives as long as any of them.
    options
        Options of :func:`cpplan.solve`: ``order``, ``in_place``, ``remat``, ``memory_limit``,
        ``cost_limit``, ``time_limit``, ``workers``, ``seed``, ``deterministic``, ``tuning`` and
        ``progress``. Limits hold for each function, with its branches.

    Raises
    ------
    InputError
        If an option is not one of these. The pass raises it too, for an option's value, and for a
        module that it cannot read: names the function.
    InfeasibleError
        From the pass, if a function needs more than the memory limit.
    """
    _need_tvm()
    from cpplan.io.tvm.passes import planning_pass

    return planning_pass(dict(ranges or {}), steps, outputs, options)


def pipeline(**options: Any) -> Any:
    """TVM's default pipeline for a target, with :func:`PlanMemory` for its planner.

    Parameters
    ----------
    options
        Options of :func:`PlanMemory`.
    """
    planning = PlanMemory(**options)
    from cpplan.io.tvm.passes import pipeline_with

    return pipeline_with(planning)


def last_plans() -> tuple[PlannedFunction, ...]:
    """The functions that :func:`PlanMemory` planned when it ran last, with their branches.

    Each has its ``name``, the ``graph`` and the ``plan``, and the tensors that are ``left`` to the
    runtime, each with the reason.
    """
    _need_tvm()
    from cpplan.io.tvm.passes import last_plans as latest

    return latest()


def _need_tvm() -> None:
    if find_spec("tvm") is None:
        raise MissingExtraError("tvm", "tvm", "planning TVM modules")


if find_spec("tvm") is not None:
    from tvm import relax

    relax.register_pipeline("cpplan")(pipeline)
