"""``cpplan summary``."""

from __future__ import annotations

import click

from cpplan.cli.options import check_outputs
from cpplan.cli.printing import naming, print_out


@click.command(short_help="Compare the settings of a batch.")
@click.argument("results", metavar="RESULTS", type=click.Path())
@click.option(
    "--measure",
    type=click.Choice(["bytes", "cost", "seconds"]),
    default="bytes",
    show_default=True,
    help="Quantity to compare; smaller is better.",
)
@click.option(
    "--factor",
    "factors",
    multiple=True,
    type=click.FloatRange(min=1),
    help="Factor at which to read the performance profile.",
)
@click.option(
    "--models", is_flag=True, help="Print the bytes of each model as a Markdown table instead."
)
@click.option("--json", "json_path", metavar="FILE|-", help="Write the summary as JSON.")
@click.option(
    "--report",
    metavar="FILE",
    help="Write rows and a summary of their bytes as an HTML page.",
)
def summary(
    results: str,
    measure: str,
    factors: tuple[float, ...],
    models: bool,
    json_path: str | None,
    report: str | None,
) -> None:
    """Compare the settings of RESULTS, a table that batch wrote (.parquet, or as .csv)."""
    check_outputs(results, json_path, {"--report": report})
    import json
    from dataclasses import asdict

    from cpplan.batches.summary import FACTORS, RATIO, summarize
    from cpplan.batches.table import read_rows, to_frame
    from cpplan.report.summary_text import format_models, format_summary
    from cpplan.runtime.atomic import write_text

    rows = read_rows(results)
    with naming(results):
        found = summarize(rows, measure=measure, factors=factors or FACTORS)
    if report is not None:
        from cpplan.model.names import name_of_file
        from cpplan.report.html import batch_report

        frame = to_frame(
            rows, [name.removeprefix(RATIO) for name in rows[0] if name.startswith(RATIO)]
        )
        write_text(report, batch_report(frame, name_of_file(results)))
    if json_path is not None:
        text = json.dumps(asdict(found), indent=1, ensure_ascii=False) + "\n"
        if json_path == "-":
            print_out(text)
            return
        write_text(json_path, text)
    print_out(format_models(rows) if models else format_summary(found))
