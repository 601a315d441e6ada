"""The files that ``cpplan plan`` writes, checked before planning and written whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from cpplan.cli.options import check_outputs
from cpplan.io.formats import readers, write_plan, writers
from cpplan.model.errors import InputError, located

if TYPE_CHECKING:
    from cpplan.model.graph import Graph
    from cpplan.model.plan import Plan
    from cpplan.model.problem import Problem
    from cpplan.solving.request import Request
    from cpplan.solving.sizes.sizes_plan import SizesPlan


# The format of ``-o``.
_PLAN = "plan"


def export_options() -> list[Callable[[Any], Any]]:
    """An option for each format in which plans are written, ``-o`` for plans as JSON."""
    options = []
    for form in writers():
        names = ("-o", "--output") if form.name == _PLAN else (f"--{form.name}",)
        options.append(click.option(*names, metavar="FILE", help=form.help))
    return options


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files to write: ``json`` (``-`` is standard output), and one for each format.

    Attributes
    ----------
    exports
        Name of a format -> path.
    """

    model: str
    json: str | None
    exports: Mapping[str, str]

    @classmethod
    def of(cls, model: str, json: str | None, options: dict[str, Any]) -> Outputs:
        """Outputs named by options of :func:`export_options`; removes these from ``options``."""
        exports = {}
        for form in writers():
            option = "output" if form.name == _PLAN else form.name.replace("-", "_")
            path = options.pop(option)
            if path is not None:
                exports[form.name] = path
        return cls(model, json, exports)

    def check_paths(self, through: str | None = None) -> None:
        """Raise for files that cannot be written, before any file is read.

        Plans of a model read ``through`` another compiler are not for the nodes of its file.
        """
        others = {_option(name): path for name, path in self.exports.items()}
        check_outputs(self.model, self.json, others)
        for form in writers():
            needs = form.model
            if form.name not in self.exports or needs is None:
                continue
            if through is not None:
                raise InputError(
                    f"{_option(form.name)} writes nodes of {self.model}, not the kernels of "
                    f"--through {through}"
                )
            if not self.model.lower().endswith(needs):
                kind = next(each.what for each in readers() if needs in each.suffixes)
                article = "an" if kind.startswith("O") else "a"
                raise InputError(f"{self.model}: {_option(form.name)} needs {article} {kind} model")

    def check_source(self, source: Graph | Problem, request: Request) -> None:
        """Raise, before planning, for a format that cannot hold such a plan."""
        from cpplan.io.refused_exports import check_exports

        check_exports(self.exports, request, source)
        if "csv" not in self.exports:
            return
        from cpplan.io.minimalloc_csv import check_ids
        from cpplan.model.residency import choose_residency
        from cpplan.packing.problem import as_problem

        where = choose_residency(
            request.inputs, request.outputs, request.constants, request.pools or ()
        )
        check_ids(as_problem(source, where).names, self.exports["csv"])

    def write(
        self,
        source: Graph | Problem,
        result: Plan,
        dims: Mapping[str, int] | None,
        notes: Mapping[str, str],
    ) -> None:
        """Write the files; formats that need offsets are written only if the plan has offsets.

        JSON and reports are written in any case: they tell why there are no offsets. ``notes`` are
        further lines of a report.
        """
        if self.json not in (None, "-"):
            result.save(self.json, clock=True)
        given = {"dims": dims, "notes": notes}
        for form in writers():
            if form.name not in self.exports or (form.placed and result.offset is None):
                continue
            planned = source if form.model is None else self.model
            options = {name: given[name] for name in form.options if name in given}
            write_plan(result, form, self.exports[form.name], planned, **options)


def _option(name: str) -> str:
    return "-o" if name == _PLAN else f"--{name}"


def read_plan(path: str) -> Plan:
    """The plan in a file of ``cpplan plan``, or in one of ``cpplan sizes``."""
    from cpplan.model.plan import Plan

    found = read_planned(path)
    return found if isinstance(found, Plan) else found.plan


def read_planned(path: str) -> Plan | SizesPlan:
    """Plan or plans for several sizes in a file of either command; raises as :func:`read_plan`."""
    from cpplan.io.plan_json import plan_from_dict
    from cpplan.io.plan_rows import read_rows
    from cpplan.io.sizes_json import FORMAT, sizes_from_dict

    values, buffers = read_rows(path)
    with located(path):
        if isinstance(values, Mapping) and values.get("format") == FORMAT:
            return sizes_from_dict(values)
        return plan_from_dict(values, buffers)
