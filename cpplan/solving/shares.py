"""Limits given as shares: ``"60%"`` of the most bytes live at one step in the given order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from cpplan.model.byte_sizes import parse_bytes
from cpplan.model.errors import InputError
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.packing.problem import as_problem
from cpplan.program.anf import Program


def is_share(limit: object) -> bool:
    """True if a limit is written as a share."""
    if not (isinstance(limit, str) and limit.rstrip().endswith("%")):
        return False
    parse_share(limit)
    return True


def parse_share(text: str) -> Fraction:
    """Fraction for a share written as ``"60%"``."""
    number = text.strip().removesuffix("%").strip()
    if not (number.isascii() and number.replace(".", "", 1).isdigit() and Fraction(number)):
        raise InputError(f"{text!r} is not a share: expected e.g. '60%'")
    return Fraction(number) / 100


def bytes_of(
    limit: int | str,
    source: Program | Problem,
    residency: Residency,
    pools: Sequence[Pool] | None = None,
) -> int:
    """A limit in bytes.

    A share refers to the most bytes live at one step in the given order, without aliases.
    """
    if not (isinstance(limit, str) and is_share(limit)):
        return parse_bytes(limit)
    _, live = as_problem(source, residency, pools).live_profile()
    return math.floor(parse_share(limit) * int(live.max(initial=0)))
