"""Limits for running a node on tensors without data, where huge extents cost no memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cpplan.model.errors import InputError

MOST_PARTS = 10_000
MOST_CALLS = 100_000


def check_growth(kind: str, args: Mapping[str, Any], calls: int) -> None:
    """Raise if an op is about to return too many tensors, or too many ops have run before it.

    Parameters
    ----------
    kind
        The op's name without its overload.
    args
        Its arguments, by name.
    calls
        Number of ops that the node has called so far.

    Raises
    ------
    InputError
        Names the number and the limit.
    """
    parts = _parts(kind.removeprefix("unsafe_"), args)
    if isinstance(parts, int) and parts > MOST_PARTS:
        raise InputError(f"returns {parts} tensors: expected at most {MOST_PARTS}")
    if calls >= MOST_CALLS:
        raise InputError(f"calls more than {MOST_CALLS} ops: expected fewer")


def _parts(kind: str, args: Mapping[str, Any]) -> Any:
    if kind in ("unbind", "split"):
        extent = args["self"].shape[args["dim"] or 0]
        size = 1 if kind == "unbind" else args.get("split_size", 0)
        return -(-extent // size) if isinstance(size, int) and size > 0 else 0
    if kind in ("chunk", "tensor_split"):
        return args.get("chunks", args.get("sections"))
    return 0
