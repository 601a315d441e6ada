"""``cpplan verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from cpplan.cli.options import (
    KINDS,
    MODEL,
    READING,
    THROUGH,
    WORKSPACES,
    parse_dims,
    parse_kinds,
    parse_workspaces,
    with_options,
)
from cpplan.cli.plan_files import read_plan
from cpplan.cli.printing import naming, print_out
from cpplan.model.errors import InputError
from cpplan.model.printable import printable

if TYPE_CHECKING:
    from cpplan.model.graph import Graph
    from cpplan.model.plan import Plan
    from cpplan.model.problem import Problem
    from cpplan.verification.claims import Proofs

    Dims = dict[str, int | tuple[int, int | None]]

_SAID = {
    "recomputed": "recomputed",
    "certificate": "recomputed from its certificate",
    "searched": "searched, not recomputed",
    None: "not recomputed",
}


@click.command(short_help="Check a plan, without trusting its planner.")
@MODEL
@click.argument("plan_file", metavar="[PLAN]", type=click.Path(), required=False)
@with_options(READING)
@with_options(THROUGH)
@with_options(KINDS)
@with_options(WORKSPACES)
@click.option(
    "--simulate/--no-simulate",
    default=True,
    help="Also run all reads and writes of the plan in an arena.",
)
@click.option(
    "--execute",
    "run",
    is_flag=True,
    help="Also run the kernels of an ONNX, TFLite or torch model in an arena.",
)
def verify(
    model: str, plan_file: str | None, dims: tuple[str, ...], kinds: tuple[str, ...],
    workspaces: tuple[str, ...], kernels: str | None, through: Literal["tvm"] | None,
    simulate: bool, run: bool,
) -> None:  # fmt: skip
    """Check that PLAN is a correct plan of MODEL, without trusting whoever made it.

    Without PLAN, check the one that a TFLite model carries in its metadata.
    """
    from cpplan.io import load
    from cpplan.io.execution import execute
    from cpplan.verification.arena import simulate as simulate_plan
    from cpplan.verification.verifier import check_plan

    if run and not model.lower().endswith((".onnx", ".tflite", ".pt2")):
        raise InputError(f"{model}: --execute needs an ONNX, TFLite or torch model")
    if through is not None and (run or plan_file is None):
        raise InputError("--through is for PLAN, which TVM executes: not with --execute")
    if run and plan_file is None:
        raise InputError("--execute needs PLAN")
    if (workspaces or kernels) and plan_file is None:
        raise InputError(
            "--workspace and --kernels need PLAN: the plan in a TFLite file places no workspaces"
        )
    source: Graph | Problem
    if plan_file is None:
        bounds = parse_dims(dims)
        values: dict[str, int] = {}
        source, result = _carried(model, bounds, parse_kinds(kinds))
        asked: dict[str, Any] = {}
    else:
        result = read_plan(plan_file)
        bounds, values = _bounds_and_values(model, result, parse_dims(dims))
        asked = {"workspaces": parse_workspaces(workspaces), "kernels": kernels}
        source = load(model, dims=bounds, in_place=parse_kinds(kinds), through=through, **asked)
    with naming(*filter(None, (model, plan_file))):
        proofs = check_plan(source, result, dims=values)
        planned = result
        if values:
            result = planned.at(values).plan_at
        print_out(f"geometry   ok: {len(result.buffers)} buffers within {result.peak} B\n")
        _print_bounds(result, proofs)
        if simulate:
            ran = simulate_plan(source, planned, dims=values)
            print_out(f"simulation ok: {ran.ops} ops, {ran.bytes_checked} B checked\n")
        if run:
            done = execute(model, planned, dims={**_most(bounds), **values}, **asked)
            print_out(
                f"execution  ok: {done.steps} steps, {done.bytes_checked} B equal bit for bit\n"
            )


def _print_bounds(result: Plan, proofs: Proofs) -> None:
    """Print the bounds that a plan claims, and how each was checked."""
    bound = f"{result.lower_bound} B"
    if result.objective_bound:
        bound = f"{result.objective} {', '.join(map(str, result.objective_bound))}"
    by = printable(str(result.bound_by))
    if result.time_bound is not None:
        by, said = printable(str(result.time_bound_by)), _SAID[proofs.moved_bound]
        print_out(f"moved      ok: {result.moved_bytes} B by {len(result.moves)} moves\n")
        print_out(f"time       ok: {result.time:.10g} cycles\n")
        print_out(f"bound      ok: {result.time_bound:.10g} cycles by {by}, {said}\n")
    elif result.moved_bytes_bound is not None:
        by, said = printable(str(result.moved_bytes_bound_by)), _SAID[proofs.moved_bound]
        print_out(f"moved      ok: {result.moved_bytes} B by {len(result.moves)} moves\n")
        print_out(f"bound      ok: {result.moved_bytes_bound} B moved by {by}, {said}\n")
    elif result.lower_bound is None and not result.objective_bound:
        print_out("bound      none claimed\n")
    else:
        print_out(f"bound      ok: {bound} by {by}, {_SAID[proofs.bound]}\n")
    if result.cost_bound is not None:
        by = printable(str(result.cost_bound_by))
        print_out(f"cost bound ok: {result.cost_bound:g} by {by}, {_SAID[proofs.cost_bound]}\n")


def _carried(model: str, dims: Dims | None, kinds: dict[str, bool] | None) -> tuple[Graph, Plan]:
    """The graph and the plan that a TFLite model carries in its own file."""
    if not model.lower().endswith(".tflite"):
        raise InputError(f"{model}: carries no plan, as TFLite models can: give PLAN")
    from cpplan.io.tflite import read_carried_plan

    found = read_carried_plan(model, dims=dims, in_place=kinds)  # type: ignore[arg-type]
    print_out(f"carried    {len(found.left)} tensors are left to the runtime\n")
    return found.graph, found.plan


def _bounds_and_values(
    model: str, plan: Plan, given: Dims | None
) -> tuple[Dims | None, dict[str, int]]:
    """Bounds or values at which to read the model, and values at which to check the plan.

    A plan of symbolic sizes has the bounds that it was made for. Its costs are the costs at the
    bounds, so the model is read at the bounds for all values.
    """
    if plan.symbols is None:
        return given, {}
    # An extent without bounds is at least 0.
    ranges: Dims = {name: (b.lower or 0, b.upper) for name, b in plan.symbols.dims.items()}
    values = {
        name: value
        for name, value in (given or {}).items()
        if name in ranges and isinstance(value, int)
    }
    rest = {name: value for name, value in (given or {}).items() if name not in values}
    onnx = model.lower().endswith(".onnx")
    return ({**ranges, **rest} if onnx else rest or None), values


def _most(dims: Dims | None) -> dict[str, int]:
    """Dimension -> its value, or its upper bound if it has bounds."""
    return {
        name: given if isinstance(given, int) else given[1] or given[0]
        for name, given in (dims or {}).items()
    }
