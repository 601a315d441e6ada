"""``cpplan verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cpplan.errors import InputError
from cpplan.printable import printable
from cpplan.terminal.options import KINDS, MODEL, READING, parse_dims, parse_kinds, with_options
from cpplan.terminal.plan_files import read_plan
from cpplan.terminal.printing import naming, print_out

if TYPE_CHECKING:
    from cpplan.plan import Plan

    Dims = dict[str, int | tuple[int, int | None]]


@click.command()
@MODEL
@click.argument("plan_file", metavar="PLAN", type=click.Path())
@with_options(READING)
@with_options(KINDS)
@click.option("--simulate/--no-simulate", default=True, help="Also run patterns through an arena.")
@click.option("--execute", "run", is_flag=True, help="Also run the ONNX model in the arena.")
def verify(
    model: str, plan_file: str, dims: tuple[str, ...], kinds: tuple[str, ...], simulate: bool,
    run: bool,
) -> None:  # fmt: skip
    """Check that PLAN is a correct plan of MODEL, without trusting whoever made it."""
    import cpplan
    from cpplan.checks.claims import RECOMPUTED

    if run and not model.lower().endswith(".onnx"):
        raise InputError(f"{model}: --execute needs an ONNX model")
    bound_dims = parse_dims(dims)
    source = cpplan.load(model, dims=bound_dims, in_place=parse_kinds(kinds))
    result = read_plan(plan_file)
    with naming(model, plan_file):
        result = _at_values(result, bound_dims)
        cpplan.verify(source, result)
        print_out(f"geometry   ok: {len(result.buffers)} buffers within {result.peak} B\n")
        known = all(part in RECOMPUTED for part in str(result.bound_by).split("; "))
        proof = "recomputed" if known else "not recomputed"
        bound = f"{result.lower_bound} B"
        if result.objective_bound:
            bound = f"{result.objective} {', '.join(map(str, result.objective_bound))}"
        by = printable(str(result.bound_by))
        print_out(f"bound      ok: {bound} by {by}, {proof}\n")
        if simulate:
            ran = cpplan.simulate(source, result)
            print_out(f"simulation ok: {ran.ops} ops, {ran.bytes_checked} B checked\n")
        if run:
            done = cpplan.execute(model, result, dims=_most(bound_dims))
            print_out(
                f"execution  ok: {done.steps} steps, {done.bytes_checked} B equal bit for bit\n"
            )


def _at_values(plan: Plan, dims: Dims | None) -> Plan:
    """The plan at the values given, if all are; at its bounds if they are bounded instead."""
    if plan.symbols is None:
        return plan
    values = {name: given for name, given in (dims or {}).items() if name in plan.symbols.dims}
    fixed = {name: given for name, given in values.items() if isinstance(given, int)}
    return plan.at(fixed).plan_at if len(fixed) == len(values) > 0 else plan


def _most(dims: Dims | None) -> dict[str, int]:
    """One value a dimension: its upper bound where it is bounded."""
    return {
        name: given if isinstance(given, int) else given[1] or given[0]
        for name, given in (dims or {}).items()
    }
