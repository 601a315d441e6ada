"""The pass that plans a TVM module's memory, and TVM's default pipeline with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import pipeline as pipelines

from cpplan.io.tvm.regions import Allocation, Region, RegionReader
from cpplan.io.tvm.steps import Step, steps_of
from cpplan.io.tvm.writing import PlannedRegion, write_module
from cpplan.model.errors import (
    InfeasibleError,
    InputError,
    NotFoundError,
    error_without_plan,
    first_line,
    located,
)
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.pool import Pool
from cpplan.model.residency import Residency
from cpplan.model.shapes import Range
from cpplan.model.symbols import parse_ranges
from cpplan.solving.pipeline import solve

# Objects of TVM's IR; TVM has no type hints.
Expr: TypeAlias = Any
Module: TypeAlias = Any
Pass: TypeAlias = Any

# Options of ``solve`` that have a meaning for a module.
_OPTIONS = (
    "time_limit", "order", "in_place", "remat", "cost_limit", "memory_limit", "workers", "seed",
    "deterministic", "tuning", "progress",
)  # fmt: skip
# Most sizes of a storage: limits halve from one to the next.
MOST_STEPS = 32
# Attributes by which TVM's own planner takes bounds of variables.
_UPPER, _LOWER = "tir_var_upper_bound", "tir_var_lower_bound"
_PLANNER = "StaticPlanBlockMemory"
# Passes of TVM's default pipeline for CPUs, up to its planner and after it.
_BEFORE = (
    "LegalizeOps", "RewriteDataflowReshape", "ToNonDataflow", "RemovePurityChecking",
    "CallTIRRewrite",
)  # fmt: skip
_AFTER = (
    "LowerAllocTensor", "KillAfterLastUse", "LowerRuntimeBuiltin", "ComputePrimValue",
    "VMShapeLower", "AttachGlobalSymbol",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class PlannedFunction:
    """A function, or a branch of one, as it was planned.

    Attributes
    ----------
    name
        Name of the function; of a branch, the function's with ``/1``, ``/2`` and so on.
    graph, plan
        What was planned, and how; ``plan`` is ``None`` if there was nothing to plan.
    left
        Tensors that are left to TVM -> the reason.
    left_bytes
        Bytes of these tensors, as far as their shapes are fixed.
    steps
        Limits on the variables of shapes, and the bytes of the storages for values up to them, the
        smallest first; one step if no shape has variables.
    """

    name: str
    graph: Graph
    plan: Plan | None
    left: Mapping[str, str]
    left_bytes: int
    steps: tuple[Step, ...]


_latest: list[PlannedFunction] = []

# Errors keep their class on their way through TVM, which calls the pass.
for _error in (InfeasibleError, InputError, NotFoundError):
    tvm_ffi.register_error(_error.__name__, _error)


def last_plans() -> tuple[PlannedFunction, ...]:
    """The functions that a pass planned when one ran last, with their branches."""
    return tuple(_latest)


def planning_pass(
    ranges: Mapping[str, object], steps: int, outputs: str, options: Mapping[str, Any]
) -> Pass:
    """The pass :func:`cpplan.tvm.PlanMemory`."""
    unknown = next((name for name in options if name not in _OPTIONS), None)
    if unknown is not None:
        raise InputError(
            f"PlanMemory: no option {unknown!r}: expected one of ranges, steps, outputs, "
            f"{', '.join(_OPTIONS)}"
        )
    if not isinstance(steps, int) or isinstance(steps, bool) or not 1 <= steps <= MOST_STEPS:
        raise InputError(f"PlanMemory: steps must be 1 to {MOST_STEPS}, not {steps!r}")
    keep = Residency(outputs=outputs).outputs == "keep"

    def plan_memory(module: Module, _: object) -> Module:
        return plan_module(module, ranges, steps, options, keep=keep)

    return tvm.transform.module_pass(plan_memory, opt_level=0, name="cpplan.PlanMemory")


def pipeline_with(planning: Pass) -> Pass:
    """TVM's default pipeline for the target that it runs for, with a pass for its planner."""

    def pipeline(module: Module, _: object) -> Module:
        passes = [*_lowering(), planning, *_finishing()]
        return tvm.transform.Sequential(passes)(module)

    return tvm.transform.module_pass(pipeline, opt_level=0, name="cpplan.pipeline")


def read_module(module: Module) -> Graph:
    """The graph of the function ``main`` of a module, or of its only Relax function.

    The module is lowered first, if it is not yet: then every call of a kernel is an op, and every
    tensor that a plan may place is a tensor. Inputs, outputs and constants have no place in it.

    Raises
    ------
    InputError
        If there is no such function, or its tensors cannot be read.
    """
    module = _lowered(module)
    return _main(module, RegionReader(module)).graph


def apply_plan(plan: Plan, module: Module) -> Module:
    """The lowered module with a plan of the graph that :func:`read_module` returns.

    Raises
    ------
    InputError
        If the plan is for another module, or has no offsets.
    """
    module = _lowered(module)
    reader = RegionReader(module)
    region = _main(module, reader)
    functions: dict[str, Any] = {}
    planned: list[PlannedRegion] = []
    if (
        plan.offset is None
        or set(plan.row).isdisjoint(region.graph.tensor)
        or (plan.order is not None and set(plan.order) != set(region.graph.op))
    ):
        raise InputError(f"plan {plan.name!r} is for another module, or has no offsets")
    for variable, function in _functions(module):
        if region.graph.name == variable.name_hint:
            functions[region.graph.name] = function
            branches = list(_sequences(function.body))[1:]
            regions = [(reader.read("branch", branch, {}), None) for branch in branches]
            planned = [PlannedRegion(region, plan, steps_of(plan, 1))]
            planned += [PlannedRegion(*each) for each in regions]
    return write_module(module, functions, planned)


def _lowering() -> list[Pass]:
    """The passes of TVM's default pipeline before its planner."""
    if (target := _gpu()) is not None:
        # TVM 0.27 does not find the passes of CUDA and ROCm that rewrite calls; they are the same.
        rewriting = relax.backend.gpu_generic.dataflow_lower_passes
        stages = pipelines.library_dispatch_passes, pipelines.legalize_passes, rewriting
        return [each for stage in stages for each in stage(target)]
    dispatch = [relax.backend.DispatchSampling(), relax.backend.DispatchSortScan()]
    return dispatch + [getattr(relax.transform, name)() for name in _BEFORE]


def _finishing() -> list[Pass]:
    """The passes of TVM's default pipeline after its planner."""
    if (target := _gpu()) is not None:
        return [each for each in pipelines.finalize_passes(target) if each.info.name != _PLANNER]
    return [getattr(relax.transform, name)() for name in _AFTER]


def _gpu() -> Any:
    """The target that a pass runs for, if it is a GPU: TVM has a pipeline for each kind of them."""
    target = tvm.target.Target.current()
    return target if target is not None and "gpu" in target.keys else None


def _lowered(module: Module) -> Module:
    try:
        with tvm.target.Target.current() or tvm.target.Target("llvm"):
            return tvm.transform.Sequential(_lowering())(module)
    except Exception as error:  # whatever TVM raises for a module that is not well formed
        raise InputError(f"TVM does not lower the module: {first_line(error)}") from error


def _functions(module: Module) -> list[tuple[Any, Any]]:
    """The Relax functions of a module, with their global variables."""
    return [
        (variable, function)
        for variable, function in module.functions_items()
        if isinstance(function, relax.Function)
    ]


def _main(module: Module, reader: RegionReader) -> Region:
    """The body of the function ``main``, or of the only one."""
    functions = {str(variable.name_hint): function for variable, function in _functions(module)}
    if not functions or (len(functions) > 1 and "main" not in functions):
        names = ", ".join(functions) or "none"
        raise InputError(f"TVM module: expected a Relax function 'main', found {names}")
    name = "main" if "main" in functions else next(iter(functions))
    function = functions[name]
    return reader.read(name, function.body, _bounds(name, function, {}))


def plan_module(
    module: Module,
    ranges: Mapping[str, object],
    steps: int,
    options: Mapping[str, Any],
    *,
    keep: bool = False,
) -> Module:
    """The module with its functions planned, with their results if ``keep``.

    See :func:`cpplan.tvm.PlanMemory`.
    """
    reader = RegionReader(module)
    planned: list[PlannedRegion] = []
    functions: dict[str, Any] = {}
    _latest.clear()
    for variable, function in _functions(module):
        name = str(variable.name_hint)
        functions[name] = function
        bounds = _bounds(name, function, ranges)
        parts: list[PlannedRegion] = []
        # Branches come before what they are in, which has their storages in its own.
        for number, sequence in reversed(list(enumerate(_sequences(function.body)))):
            region = reader.read(
                f"{name}/{number}" if number else name,
                sequence,
                bounds,
                outputs=keep and not number,
                storages=partial(_storages_of, parts),
            )
            plan = _solve(region.graph, options)
            found = () if plan is None else steps_of(plan, steps)
            parts.append(PlannedRegion(region, plan, found))
        planned += parts
        _latest.extend(map(_described, reversed(parts)))
    return write_module(module, functions, planned)


def _storages_of(planned: Sequence[PlannedRegion], choice: Expr) -> list[Allocation]:
    """The storages that the branches of an ``if`` share, one for each memory.

    Storages that grow in steps stay with their branch.
    """
    found: dict[str, Allocation] = {}
    for branch in (choice.true_branch, choice.false_branch):
        part = next(each for each in planned if each.region.sequence.same_as(branch))
        for tensor, sizes in part.storages() if len(part.steps) == 1 else ():
            most = max(sizes[0], found[tensor.pool].nbytes or 0 if tensor.pool in found else 0)
            shape = relax.ShapeExpr([most])
            found[tensor.pool] = replace(tensor, var=None, shape=shape, dtype="uint8")
    return list(found.values())


def _described(part: PlannedRegion) -> PlannedFunction:
    region = part.region
    left = sum(region.allocations[each].nbytes or 0 for each in region.left)
    return PlannedFunction(
        region.graph.name, region.graph, part.plan, region.left, left, part.steps
    )


def _solve(graph: Graph, options: Mapping[str, Any]) -> Plan | None:
    """A plan with offsets, or ``None`` if there are no tensors."""
    if not graph.tensors:
        return None
    pools = dict.fromkeys(pool for tensor in graph.tensors for pool in tensor.pools or ())
    with located(f"function {graph.name!r}"):
        plan = solve(graph, pools=[Pool(name) for name in pools] or None, **options)
    if plan.offset is None:
        raise error_without_plan(plan.status, f"function {graph.name!r}: {plan.message}")
    return plan


def _bounds(name: str, function: Any, ranges: Mapping[str, object]) -> dict[str, Range]:
    """Bounds of the variables of a function's shapes."""
    found: dict[str, Range] = {}
    with located(f"function {name!r}"):
        lower = _integers(function, _LOWER)
        for key, value in _integers(function, _UPPER).items():
            found[key] = Range(lower.get(key, 0), value)
        found |= parse_ranges(ranges)
        for key, range_ in found.items():
            if range_.upper is not None and range_.upper < (range_.lower or 0):
                raise InputError(
                    f"variable {key!r}: upper bound {range_.upper} is below the lower bound "
                    f"{range_.lower}"
                )
    return {key: range_ for key, range_ in found.items() if range_.upper is not None}


def _integers(function: Any, attribute: str) -> dict[str, int]:
    """Variable -> its integer, as an attribute of a function gives it."""
    given = (function.attrs or {}).get(attribute, {})
    try:
        return {str(key): int(value) for key, value in dict(given).items()}
    except (TypeError, ValueError) as error:
        raise InputError(
            f"attribute {attribute!r}: expected integers by name, not {given!r}"
        ) from error


def _sequences(body: Any) -> Iterator[Any]:
    """A function's body, and the branches in it."""
    yield body
    for block in body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, relax.If):
                yield from _sequences(binding.value.true_branch)
                yield from _sequences(binding.value.false_branch)
