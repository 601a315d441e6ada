"""The formats that are read and written: one table, for files, commands, batches and errors.

Each row says what the files of a format are called, and which function reads models from them or
writes plans to them. Functions are named as ``"module:function"`` and imported on first use, so
that a format costs nothing unless it is used.

* A reader is called with a path, or with an object of the row's ``package``, and with those
  keywords of :func:`cpplan.load` that ``takes`` lists; it returns a graph or a problem.
* A writer is called with the plan, the path, and what was planned: the model's file where the row
  says ``model``, else a graph, program or problem. Its keywords are the options of
  :meth:`cpplan.Plan.export`. A row's ``apply`` is called with the plan and an object of the row's
  ``package``, and returns that object with the plan.

A new format is a file with these functions and a row here.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from cpplan.model.errors import InputError
from cpplan.model.methods import find_function
from cpplan.zoo.source import SCHEME, is_named

if TYPE_CHECKING:
    from cpplan.model.plan import Plan
    from cpplan.solving.request import Freedom


@dataclass(frozen=True, slots=True)
class Format:
    """A row of the table.

    Attributes
    ----------
    name
        Of the format; of one that is written, also the option of ``cpplan plan``.
    suffixes
        Ends of file names, in small letters, the one to be written first.
    what
        Description of the files in a few words.
    read, write, apply
        Functions, as ``"module:function"``; ``None`` if there is none.
    takes
        Keywords of :func:`cpplan.load` that the reader has.
    package
        Python package whose objects the reader takes, too.
    help
        Description of what the option of ``cpplan plan`` writes.
    model
        Suffix of the model's file that the writer needs; ``None`` if it needs none.
    placed
        True if only a plan with offsets can be written.
    moves
        True if a plan in which tensors move can be written.
    decisions
        Decisions at no more work that runtimes of these files can carry out.
    extra
        Optional dependencies of cpplan that are needed, as in ``pip install '.[extra]'``.
    """

    name: str
    suffixes: tuple[str, ...]
    what: str
    read: str | None = None
    takes: tuple[str, ...] = ()
    package: str | None = None
    write: str | None = None
    apply: str | None = None
    help: str | None = None
    model: str | None = None
    placed: bool = True
    extra: str | None = None
    moves: bool = False
    decisions: tuple[Freedom, ...] = ("order", "in place", "split")

    @property
    def options(self) -> tuple[str, ...]:
        """Keywords of the writer."""
        assert self.write is not None
        parameters = inspect.signature(find_function(self.write)).parameters.values()
        return tuple(each.name for each in parameters if each.kind is each.KEYWORD_ONLY)


_TVM = Format(
    "tvm",
    (),
    "TVM",
    read="cpplan.io.tvm.passes:read_module",
    package="tvm",
    apply="cpplan.io.tvm.passes:apply_plan",
    extra="tvm",
    decisions=("order", "in place"),
)
FORMATS = (
    Format(
        "plan",
        (".json",),
        "cpplan.plan",
        write="cpplan.io.plan_json:save_plan",
        moves=True,
        help="Write the plan as JSON, equal for equal runs.",
        placed=False,
    ),
    Format(
        "onnx",
        (".onnx",),
        "ONNX",
        read="cpplan.io.onnx:read_model",
        takes=("dims",),
        package="onnx",
        write="cpplan.io.onnx.reorder:write_onnx",
        help="Write MODEL with its nodes in the plan's order, repeated if they run again.",
        model=".onnx",
        extra="onnx",
    ),
    Format(
        "torch",
        (".pt2",),
        "torch",
        read="cpplan.io.torch:read_model",
        takes=("dims", "kernels"),
        package="torch",
        extra="torch",
        decisions=("order", "in place"),
    ),
    Format(
        "tflite",
        (".tflite",),
        "TFLite",
        read="cpplan.io.tflite:read_tflite",
        takes=("dims", "workspaces", "kernels"),
        write="cpplan.io.tflite.write:write_tflite",
        help="Write MODEL with its operators in the plan's order, and offsets for TFLite Micro.",
        model=".tflite",
        extra="tflite",
    ),
    Format(
        "graph",
        (".json", ".json.gz"),
        "cpplan.graph",
        read="cpplan.io.graph_json:read_graph",
    ),
    Format(
        "csv",
        (".csv",),
        "MiniMalloc",
        read="cpplan.io.minimalloc_csv:read_problem",
        write="cpplan.io.minimalloc_csv:write_csv",
        help="Write the offsets as MiniMalloc CSV.",
    ),
    Format(
        "listing",
        (".txt",),
        "a listing",
        read="cpplan.comparison.rivals.listings:read_listing",
    ),
    Format(
        "networkx",
        (),
        "networkx",
        read="cpplan.io.networkx_graph:from_networkx",
        takes=("name",),
        package="networkx",
    ),
    _TVM,
    Format(
        "program",
        (".anf",),
        "the ops in order, as text",
        write="cpplan.io.program_text:write_program",
        help="Write the ops in order, as text.",
    ),
    Format(
        "constants-image",
        (".bin",),
        "the constants' bytes",
        write="cpplan.io.constants_image:write_constants_image",
        help="Write the constants' bytes at their offsets.",
        model=".onnx",
        extra="onnx",
    ),
    Format(
        "c-header",
        (".h",),
        "a C header",
        write="cpplan.io.c_header:write_c_header",
        moves=True,
        help="Write arena and offsets as a C header.",
    ),
    Format(
        "report",
        (".html",),
        "a report to look at",
        write="cpplan.io.formats:write_report",
        moves=True,
        help="Write the plan as an HTML page.",
        placed=False,
    ),
)
_ZOO = Format(
    "zoo",
    (SCHEME,),
    "a model by name",
    read="cpplan.io.zoo_names:read_named",
    takes=("kernels",),
)


def readers() -> tuple[Format, ...]:
    """Formats that are read from files."""
    return tuple(each for each in FORMATS if each.read is not None and each.suffixes)


def writers() -> tuple[Format, ...]:
    """Formats in which plans are written."""
    return tuple(each for each in FORMATS if each.write is not None)


def read_suffixes() -> tuple[str, ...]:
    """Suffixes of all files that are read, in small letters."""
    return tuple(suffix for each in readers() for suffix in each.suffixes)


def find_reader(source: object) -> Format | None:
    """The format of a file by its name, or of an object by its class; ``None`` if there is none."""
    if is_named(source):
        return _ZOO
    if isinstance(source, (str, PathLike)):
        return _by_suffix(source, readers())
    packages = {cls.__module__.partition(".")[0] for cls in type(source).__mro__}
    return next((each for each in FORMATS if each.package in packages), None)


def decisions_of(path: str, through: str | None = None) -> tuple[Freedom, ...]:
    """Decisions at no more work that runtimes of a file's format can carry out.

    Of a model read ``through`` TVM, those of its virtual machine.
    """
    form = find_reader(path) if through is None else _TVM
    return () if form is None else form.decisions


def describe_suffixes(formats: Iterable[Format]) -> str:
    """Suffixes of formats with what each is, for errors and help."""
    *most, last = (f"{' or '.join(each.suffixes)} ({each.what})" for each in formats)
    return f"{', '.join(most)} or {last}" if most else last


def export_plan(plan: Plan, path: Any, source: object = None, **options: Any) -> Any:
    """Write a plan in the format that a path's suffix names: see :meth:`cpplan.Plan.export`."""
    if not isinstance(path, (str, PathLike)):
        return _applied(plan, path)
    found = _by_suffix(path, writers())
    if found is None:
        expected = describe_suffixes(writers())
        raise InputError(f"{fspath(path)}: plans are not written so: expected {expected}")
    write_plan(plan, found, path, source, **options)
    return None


def _applied(plan: Plan, target: object) -> Any:
    """An object of another library with a plan."""
    found = find_reader(target)
    if found is None or found.apply is None:
        raise InputError(
            f"plans are not written into {type(target).__name__}: expected a path or a tvm.IRModule"
        )
    return find_function(found.apply)(plan, target)


def write_plan(
    plan: Plan, form: Format, path: str | PathLike[str], source: object = None, **options: Any
) -> None:
    """Write a plan in a format, whatever the path's suffix."""
    assert form.write is not None
    unknown = next((name for name in options if name not in form.options), None)
    if unknown is not None:
        expected = ", ".join(form.options) or "none"
        raise InputError(f"{form.suffixes[0]}: no option {unknown!r}: expected {expected}")
    if form.placed and plan.offset is None:
        reason = plan.message or plan.status
        raise InputError(f"{fspath(path)}: plan {plan.name!r} has no offsets: {reason}")
    if plan.moves and not form.moves:
        raise InputError(
            f"{fspath(path)}: {form.name} has no place for the moves of plan {plan.name!r}"
        )
    if form.model is not None and source is None:
        raise InputError(f"{fspath(path)}: source must be the {form.model} model that was planned")
    find_function(form.write)(plan, path, source, **options)


def write_report(
    plan: Plan, path: str | PathLike[str], source: Any = None, *, notes: Any = None
) -> None:
    """Write a report, which a room above makes; see :meth:`cpplan.Plan.report`."""
    plan.report(path, source, notes=notes)


def _by_suffix(path: str | PathLike[str], formats: Iterable[Format]) -> Format | None:
    name = fspath(path).lower()
    return next((each for each in formats if name.endswith(each.suffixes)), None)
