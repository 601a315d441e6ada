"""Options that several commands share, and their checks before any work."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from cpplan.model.errors import InputError, located
from cpplan.solving import request
from cpplan.solving.option import Option

# Most digits of an extent, which like all counts is below 2**62.
_MOST_DIGITS = 18

MODEL = click.argument("model", type=click.Path())


_Command = TypeVar("_Command", bound=Callable[..., Any])


def with_options(options: Sequence[Callable[[Any], Any]]) -> Callable[[_Command], _Command]:
    """One decorator for several options."""

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def parse_limit(_: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """Byte count given as an option; an error names the option."""
    from cpplan.model.byte_sizes import parse_bytes

    with located(option.opts[0]):
        return None if text is None else parse_bytes(text)


def request_options(*fields: str, **changes: Mapping[str, Any]) -> tuple[Callable[[Any], Any], ...]:
    """Options for fields of a request, as in its table; for all fields if none is named."""
    return tuple(
        _request_option(field, **changes.get(field, {})) for field in fields or request.OPTIONS
    )


def _request_option(field: str, **changes: Any) -> Callable[[Any], Any]:
    option = request.OPTIONS[field]
    default = request.Request.__dataclass_fields__[field].default
    if option.many:
        default = None
    values: dict[str, Any] = {"help": option.help, "metavar": option.metavar, "default": default}
    if option.many:
        values["multiple"] = True
    elif option.kind == "flag":
        values["is_flag"] = True
    elif option.kind != "switch":
        values["type"] = _type(option)
        values["show_default"] = changes.get("default", default) is not None
    if option.read is not None:
        values["callback"] = _reading(option)
    return click.option(option.names, field, **{**values, **changes})


def _type(option: Option) -> Any:
    if option.choices:
        return click.Choice(option.choices)
    if option.between is not None:
        return click.IntRange(*option.between)
    if option.kind == "seconds":
        return click.FloatRange(min=0, min_open=True)
    return float if option.kind == "number" else str


def _reading(option: Option) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Function that makes an option's value from its text; an error names the option."""
    read = option.read
    assert read is not None

    def callback(_: click.Context, parameter: click.Parameter, given: Any) -> Any:
        if option.many:
            return read(given)  # whose error names the value that it could not read
        with located(parameter.opts[0]):
            return None if given is None else read(given)

    return callback


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """A request's options that are on the command line, in the order of the table."""
    context = click.get_current_context()
    source = click.core.ParameterSource.COMMANDLINE
    given = [key for key in request.OPTIONS if context.get_parameter_source(key) == source]
    return {key: options[key] for key in given}


def parse_kinds(kinds: tuple[str, ...], *, used: bool = True) -> dict[str, bool] | None:
    """Kinds of op -> True if they may be done in place, or ``None`` if no kind is given."""
    if kinds and not used:
        raise InputError("--in-place-kind says what --in-place may do: give that too")
    chosen: dict[str, bool] = {}
    for text in kinds:
        kind, _, switch = text.rpartition("=")
        if not kind or switch not in ("on", "off"):
            raise InputError(f"--in-place-kind {text!r} is not understood: expected e.g. Add=off")
        if kind in chosen:
            raise InputError(f"--in-place-kind {text!r}: {kind!r} is switched already")
        chosen[kind] = switch == "on"
    return chosen or None


def parse_workspaces(texts: tuple[str, ...]) -> dict[str, int] | None:
    """Bytes of scratch memory by name or kind of op, or ``None`` if none are stated."""
    from cpplan.model.byte_sizes import parse_bytes

    stated: dict[str, int] = {}
    for text in texts:
        key, _, size = text.rpartition("=")
        if not key:
            raise InputError(f"--workspace {text!r} is not understood: expected e.g. CONV_2D=2KiB")
        if key in stated:
            raise InputError(f"--workspace {text!r}: {key!r} is stated already")
        with located(f"--workspace {text!r}"):
            stated[key] = parse_bytes(size)
    return stated or None


READING = (
    click.option(
        "--dim",
        "dims",
        multiple=True,
        metavar="N=8|N=1..128|N=1..",
        help="Bind a symbolic dimension, or bound it for a plan of all its values.",
    ),
)
THROUGH = (
    click.option(
        "--through",
        type=click.Choice(("tvm",)),
        help="Read an ONNX model through TVM: its ops are the kernels that TVM fuses.",
    ),
)
KINDS = (
    click.option(
        "--in-place-kind",
        "kinds",
        multiple=True,
        metavar="KIND=on|off",
        help="Let ops of this kind write over their inputs or not, whatever MODEL says.",
    ),
)
WORKSPACES = (
    click.option(
        "--workspace",
        "workspaces",
        multiple=True,
        metavar="OP=BYTES",
        help="Scratch memory that kernels ask for: of one op, or of all ops of a kind "
        "(CONV_2D=2KiB).",
    ),
    click.option(
        "--kernels",
        metavar="NAME",
        help="Kernels whose scratch memory is planned: of TFLite models reference (the default), "
        "cmsis-nn, cmsis-nn-dsp or cmsis-nn-mve; of torch models measured.",
    ),
)
BOUNDARY = request_options("inputs", "outputs", "constants")
SEARCHING = request_options("workers", "seed")
SHARING = request_options("in_place", "placement")
PLANNING = (*BOUNDARY, *SHARING, *request_options("pools", "objective"), *SEARCHING)


def begin_of_command() -> float:
    """Time on the monotonic clock when the command began, seconds."""
    begun = click.get_current_context().obj
    return time.monotonic() if begun is None else float(begun)


def parse_dims(dims: tuple[str, ...]) -> dict[str, int | tuple[int, int | None]] | None:
    """Extents or bounds of symbolic dimensions by name; ``:`` may stand for ``..``."""
    bound: dict[str, int | tuple[int, int | None]] = {}
    for dim in dims:
        name, equals, value = dim.partition("=")
        lower, dots, upper = value.partition(".." if ".." in value else ":")
        if not (name and equals):
            raise InputError(f"--dim {dim!r} is not understood: expected e.g. N=8 or N=1..128")
        if name in bound:
            raise InputError(f"--dim {dim!r}: {name!r} is bound to {bound[name]} already")
        least = _parse_extent(dim, lower)
        bound[name] = (least, _parse_extent(dim, upper) if upper else None) if dots else least
    return bound or None


def _parse_extent(dim: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and text.strip("0")):
        raise InputError(f"--dim {dim!r} is not understood: expected e.g. N=8 or N=1..128")
    if len(text.lstrip("0")) > _MOST_DIGITS:
        raise InputError(f"--dim {dim!r}: expected at most {_MOST_DIGITS} digits")
    return int(text.lstrip("0"))


def check_outputs(model: str, json_path: str | None, others: Mapping[str, str | None]) -> None:
    """Raise, before planning, for files that could not be written after it."""
    from cpplan.runtime.regular_file import check_targets

    if json_path == "-":
        if sys.stdout is None:
            raise InputError("cannot write to standard output: it is closed")
        json_path = None
    given = {"--json": json_path, **others}
    check_targets(model, {option: path for option, path in given.items() if path is not None})
