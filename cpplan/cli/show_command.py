"""``cpplan show``."""

from __future__ import annotations

import click

from cpplan.cli.options import check_outputs, parse_dims, request_options, with_options
from cpplan.cli.plan_files import read_plan, read_planned
from cpplan.cli.printing import describe, naming, print_out
from cpplan.model.errors import InputError


@click.command(short_help="Print a saved plan, or why it is not smaller.")
@click.argument("plan_file", metavar="PLAN", type=click.Path())
@click.option("--all", "everything", is_flag=True, help="List all buffers, not only the largest.")
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="N=8",
    help="Show the plan at this value; with --model, bind or bound a dimension of that.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Say why the plan is not smaller: list the tensors of its fullest step.",
)
@click.option(
    "--model",
    metavar="MODEL",
    help="With --explain: the model that was planned, which shows what each rule costs.",
)
@with_options(
    request_options(
        "time_limit",
        time_limit={
            "help": "With --model: seconds for plans without the rules; only bounds if left out.",
            "default": None,
        },
    )
)
@click.option("--report", "report_path", metavar="FILE", help="Write the plan as an HTML page.")
def show(
    plan_file: str,
    everything: bool,
    dims: tuple[str, ...],
    explain: bool,
    model: str | None,
    time_limit: float | None,
    report_path: str | None,
) -> None:
    """Print a saved PLAN: its summary, its buffers, and a map of the arena if it is small."""
    if model is not None and not explain:
        raise InputError("--model is what --explain needs: give that too")
    if time_limit is not None and model is None:
        raise InputError("--time-limit is for plans without a rule: give --explain and --model too")
    if report_path is not None:
        check_outputs(plan_file, None, {"--report": report_path})
    if explain:
        text = _explain(plan_file, everything, dims, model, time_limit)
    else:
        text = _summary(plan_file, everything, dims)
    if report_path is not None:
        read_plan(plan_file).report(report_path)
    print_out(text)


def _summary(plan_file: str, everything: bool, dims: tuple[str, ...]) -> str:
    """Text of a saved plan, at given values or as a whole."""
    from cpplan.model.plan import Plan
    from cpplan.report.symbols_text import MOST, format_sized
    from cpplan.report.tables import format_buffers

    values = parse_dims(dims)
    planned = read_planned(plan_file)
    result = planned if isinstance(planned, Plan) else planned.plan
    most = None if everything else MOST
    with naming(plan_file):
        if values is None:
            # A plan for several sizes is explained over all sizes.
            head = describe(result) if planned is result else f"{planned}\n"
            return head + format_buffers(result, most=most)
        bounds = next((name for name, value in values.items() if type(value) is not int), None)
        if bounds is not None:
            raise InputError(f"--dim {bounds}: expected a value, e.g. {bounds}=8")
        return format_sized(result.at(values), most)  # type: ignore[arg-type]


def _explain(
    plan_file: str,
    everything: bool,
    dims: tuple[str, ...],
    model: str | None,
    time_limit: float | None,
) -> str:
    """Text that explains a saved plan's peak."""
    from cpplan.explanation.explanation_text import MOST, format_explanation
    from cpplan.model.explained import Explanation

    values = parse_dims(dims)
    if model is None and values is not None:
        raise InputError("--dim with --explain says how --model is read: give that too")
    result, source = read_plan(plan_file), None
    if model is not None:
        from cpplan.io import load

        source = load(model, dims=values)
    paths = (plan_file,) if model is None else (plan_file, model)
    with naming(*paths):
        if result.spills:
            if time_limit is not None:
                raise InputError("--time-limit is of no use where tensors move: leave it out")
            return str(result.explain(source))
        found = result.explain(source, time_limit=time_limit)
    assert isinstance(found, Explanation)
    return format_explanation(found, most=None if everything else MOST)
