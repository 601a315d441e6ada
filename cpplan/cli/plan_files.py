"""The files that ``cpplan plan`` writes: refused early, written whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cpplan.cli.options import check_outputs
from cpplan.model.errors import InputError, located

if TYPE_CHECKING:
    from cpplan.model.graph import Graph
    from cpplan.model.plan import Plan
    from cpplan.model.problem import Problem
    from cpplan.solving.sizes.sizes_plan import SizesPlan


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where what goes; ``None`` if it is not wanted. ``json`` may be ``-``, for standard output."""

    model: str
    json: str | None
    plan: str | None
    csv: str | None
    program: str | None
    onnx: str | None
    image: str | None
    header: str | None
    tflite: str | None
    report: str | None

    def check_paths(self) -> None:
        """Refuse, before anything is read, what could not be written.

        Raises
        ------
        InputError
            Names the option or the file.
        """
        others = {
            "-o": self.plan,
            "--csv": self.csv,
            "--program": self.program,
            "--onnx": self.onnx,
            "--constants-image": self.image,
            "--c-header": self.header,
            "--tflite": self.tflite,
            "--report": self.report,
        }
        check_outputs(self.model, self.json, others)
        for option, path in (("--onnx", self.onnx), ("--constants-image", self.image)):
            if path is not None and not self.model.lower().endswith(".onnx"):
                raise InputError(f"{self.model}: {option} needs an ONNX model")
        if self.tflite is not None and not self.model.lower().endswith(".tflite"):
            raise InputError(f"{self.model}: --tflite needs a TFLite model")

    def check_source(self, source: Graph | Problem, options: Mapping[str, Any]) -> None:
        """Refuse, before planning, what could not say what the plan will.

        Raises
        ------
        InputError
            Names the option.
        """
        from cpplan.model.problem import Problem
        from cpplan.model.residency import choose_residency

        where = choose_residency(
            options["inputs"], options["outputs"], options["constants"], options["pools"] or ()
        )
        if self.program is not None and isinstance(source, Problem):
            raise InputError("--program needs a graph, and this is a bare packing problem")
        if self.image is not None and where.constants == "outside":
            raise InputError("--constants-image needs constants in a pool (--constants keep)")
        if self.header is not None and getattr(source, "symbols", None) is not None:
            raise InputError("--c-header needs extents of dimensions, not bounds")
        if self.csv is None:
            return
        pools = source.pools if isinstance(source, Problem) else options["pools"] or ()
        if len(pools) > 1:
            raise InputError("--csv holds one pool only")
        if options["in_place"] or options["placement"]:
            raise InputError("--csv cannot say which buffers share bytes (--in-place, --placement)")
        from cpplan.io.minimalloc_csv import check_ids
        from cpplan.packing.problem import as_problem

        check_ids(as_problem(source, where).names, self.csv)

    def write(
        self,
        source: Graph | Problem,
        result: Plan,
        dims: Mapping[str, int] | None,
        notes: Mapping[str, str],
    ) -> None:
        """Write the files wanted; those that follow a plan only where there is one, with offsets.

        Plans as JSON, and reports, are written in any case: they say why there are no offsets.
        ``notes`` are what reports say besides.
        """
        from cpplan.model.graph import Graph
        from cpplan.program.anf import to_anf
        from cpplan.runtime.atomic import write_bytes, write_text

        if self.plan is not None:
            result.save(self.plan)
        if self.json not in (None, "-"):
            result.save(self.json, clock=True)
        if self.report is not None:
            result.report(self.report, source, notes=notes)
        if result.offset is None:
            return
        if self.csv is not None:
            from cpplan.io.minimalloc_csv import write_problem

            write_problem(_planned(source, result), self.csv, result.offset)
        if self.program is not None and isinstance(source, Graph):
            write_text(self.program, str(to_anf(source, result.order)))
        if self.onnx is not None:
            from cpplan.io.onnx.reorder import write_reordered

            write_reordered(self.model, result.order, self.onnx, dims)
        if self.image is not None:
            from cpplan.io.constants_image import constants_image

            write_bytes(self.image, constants_image(self.model, result, dims=dims))
        if self.header is not None:
            write_text(self.header, result.to_c_header(source))
        if self.tflite is not None:
            result.to_tflite(self.model, self.tflite, dims)


def read_plan(path: str) -> Plan:
    """The plan in a file of ``cpplan plan``, or in one of ``cpplan sizes``.

    Raises
    ------
    InputError
        If the file cannot be read or holds neither; names the file.
    """
    from cpplan.model.plan import Plan

    found = read_planned(path)
    return found if isinstance(found, Plan) else found.plan


def read_planned(path: str) -> Plan | SizesPlan:
    """What a file of ``cpplan plan`` or ``cpplan sizes`` holds; refuses as :func:`read_plan`."""
    from cpplan.io.sizes_json import FORMAT, sizes_from_dict
    from cpplan.model.plan import Plan
    from cpplan.runtime.json_file import read_json

    values = read_json(path)
    with located(path):
        if isinstance(values, Mapping) and values.get("format") == FORMAT:
            return sizes_from_dict(values)
        return Plan.from_dict(values)


def _planned(source: Graph | Problem, result: Plan) -> Problem:
    """The packing problem that the plan solves, which depends on the plan's order."""
    from cpplan.model.graph import Graph
    from cpplan.packing.problem import as_problem
    from cpplan.program.anf import to_anf

    ordered = to_anf(source, result.order) if isinstance(source, Graph) else source
    return as_problem(ordered, result.residency)
