"""Answers of other planners for the same buffers, kept with the graph or problem read.

:func:`cpplan.compare` lists each beside cpplan's plan and the bound, and checks it if it says
enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cpplan.model.errors import InputError
from cpplan.model.names import check_name
from cpplan.model.printable import quote
from cpplan.model.tensor import check_count


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of another planner: its peak, and offsets and pools if they are known.

    Attributes
    ----------
    name
        Name of the planner (``"xla"``).
    peak
        Bytes that the planner states; the sum over all pools.
    offset
        Buffer -> byte offset in its pool, or ``None`` if only the peak is known.
    pool
        Buffer -> name of its pool; may be left out if there is one pool.

    Raises
    ------
    InputError
        If the name is empty, or a value is negative or not a number; names the buffer.

    Examples
    --------
    >>> Answer("theirs", peak=12, offset={"a": 0, "b": 4}).offset["b"]
    4
    >>> Answer("theirs", peak=-1)
    Traceback (most recent call last):
    ...
    cpplan.model.errors.InputError: answer 'theirs': peak must be a non-negative integer, not -1
    """

    name: str
    peak: int
    offset: Mapping[str, int] | None = None
    pool: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("an answer's name", self.name)
        here = f"answer {self.name!r}"
        check_count(f"{here}: peak", self.peak)
        for field_name in ("offset", "pool"):
            value = getattr(self, field_name)
            if not (isinstance(value, Mapping) or (field_name == "offset" and value is None)):
                raise InputError(f"{here}: {field_name} must be a mapping, not {quote(value)}")
        for buffer, offset in (self.offset or {}).items():
            check_count(f"{here}: offset of {buffer!r}", offset)
