"""Options that several commands share, and what is checked of them before any work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cpplan.model.errors import InputError, located

if TYPE_CHECKING:
    from cpplan.model.pool import Pool

# Of an extent: below 2**62, as all counts are.
_MOST_DIGITS = 18

MODEL = click.argument("model", type=click.Path())


_Command = TypeVar("_Command", bound=Callable[..., Any])


def with_options(options: Sequence[Callable[[Any], Any]]) -> Callable[[_Command], _Command]:
    """Several options as one decorator, for what commands share."""

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def time_limit_option(purpose: str, default: float | None = 60.0) -> Callable[[_Command], _Command]:
    """``--time-limit`` of a command that says what its seconds are for."""
    return click.option(
        "--time-limit",
        type=click.FloatRange(min=0, min_open=True),
        default=default,
        show_default=default is not None,
        metavar="S",
        help=purpose,
    )


def parse_limit(_: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """A byte count given as an option; an error names the option."""
    from cpplan.model.byte_sizes import parse_bytes

    with located(option.opts[0]):
        return None if text is None else parse_bytes(text)


def parse_limit_or_share(
    context: click.Context, option: click.Parameter, text: str | None
) -> int | str | None:
    """A byte count, or a share as it was written once it is known to be one."""
    from cpplan.solving.shares import is_share

    with located(option.opts[0]):
        if is_share(text):
            return text
    return parse_limit(context, option, text)


def parse_pool_options(
    _: click.Context, __: click.Parameter, texts: tuple[str, ...]
) -> tuple[Pool, ...] | None:
    """Pools given as options; see ``cpplan.cli.pool_option``."""
    if not texts:
        return None
    from cpplan.cli.pool_option import parse_pools

    return parse_pools(texts)


def parse_kinds(kinds: tuple[str, ...], *, used: bool = True) -> dict[str, bool] | None:
    """Kinds of op and whether they may be done in place, each once; none if nothing may be.

    Examples
    --------
    >>> parse_kinds(("Softmax=on", "Add=off"))
    {'Softmax': True, 'Add': False}
    """
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
    """Scratch memory stated for ops or kinds of them, each once; none if nothing is stated.

    Examples
    --------
    >>> parse_workspaces(("CONV_2D=2KiB", "a=b/conv=0"))
    {'CONV_2D': 2048, 'a=b/conv': 0}
    """
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
        help="Bind a symbolic dimension, or bound it: for a plan that holds at any.",
    ),
)
KINDS = (
    click.option(
        "--in-place-kind",
        "kinds",
        multiple=True,
        metavar="KIND=on|off",
        help="Whether ops of this kind may write over their inputs, whatever MODEL says.",
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
)
BOUNDARY = (
    click.option(
        "--inputs",
        type=click.Choice(["reuse", "keep", "outside"]),
        default="reuse",
        show_default=True,
        help="Graph inputs: bytes free after their last use, kept, or not in the arena.",
    ),
    click.option(
        "--outputs",
        type=click.Choice(["keep", "outside"]),
        default="keep",
        show_default=True,
        help="Graph outputs: in the arena to the end, or not at all.",
    ),
    click.option(
        "--constants",
        type=click.Choice(["outside", "keep"]),
        help="Constants: in memory of their own (default), or in a pool throughout.",
    ),
)
SEARCHING = (
    click.option(
        "--workers",
        type=click.IntRange(1, 1024),
        help="Threads; as many as there are cores by default.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**31 - 1),
        default=0,
        show_default=True,
        help="For random choices.",
    ),
)
SHARING = (
    click.option(
        "--in-place/--no-in-place",
        default=False,
        help="Let ops write over what they are the last to read.",
    ),
    click.option(
        "--placement/--no-placement",
        default=None,
        help="Let tensors lie within those they are only copied to or from (as --in-place).",
    ),
)
PLANNING = (
    *BOUNDARY,
    *SHARING,
    click.option(
        "--pool",
        "pools",
        multiple=True,
        metavar="NAME[=SIZE][,key=value]",
        callback=parse_pool_options,
        help="A memory region; several in order of preference (sram=256KiB). Keys: alignment, "
        "base, kind, cost_per_byte, read_bandwidth, write_bandwidth, read_latency, write_latency.",
    ),
    click.option(
        "--objective",
        type=click.Choice(["preference", "total", "cost"]),
        default="preference",
        show_default=True,
        help="With several pools: fill the first first, fewest bytes in all, or least cost.",
    ),
    *SEARCHING,
)


def parse_dims(dims: tuple[str, ...]) -> dict[str, int | tuple[int, int | None]] | None:
    """Extents of symbolic dimensions, or their bounds, each once; ``:`` may stand for ``..``.

    Examples
    --------
    >>> parse_dims(("N=8", "H=32..224", "W=1..", "D=1:4"))
    {'N': 8, 'H': (32, 224), 'W': (1, None), 'D': (1, 4)}
    """
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
    """Refuse before planning what could not be written after it."""
    from cpplan.runtime.regular_file import check_targets

    if json_path == "-":
        if sys.stdout is None:
            raise InputError("cannot write to standard output: it is closed")
        json_path = None
    given = {"--json": json_path, **others}
    check_targets(model, {option: path for option, path in given.items() if path is not None})
