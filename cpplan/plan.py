"""What a planner answers: an offset for every buffer, and how far that is from the smallest peak.

A :class:`Plan` is plain data. Its JSON form is versioned, round-trips, and holds no clock readings
unless asked for, so that the same input, seed and one worker give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from cpplan.byte_sizes import format_bytes
from cpplan.errors import InputError
from cpplan.plan_fields import check_fields
from cpplan.residency import Residency

if TYPE_CHECKING:
    import pandas

    from cpplan.problem import Ints

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
STATUSES = ("optimal", "feasible", "infeasible", "unknown")
FORMAT, VERSION = "cpplan.plan", 1


class Progress(NamedTuple):
    """One improvement: the best peak and the best bound known after so many seconds."""

    seconds: float
    peak: int | None
    lower_bound: int | None
    source: str


@dataclass(frozen=True, eq=False)
class Plan:
    """Where every buffer lies, in which order the ops run, and what was proved.

    Attributes
    ----------
    name
        Of the model or file planned.
    status
        ``optimal``: peak equals the bound. ``feasible``: a plan, not proved smallest.
        ``infeasible``: proved not to fit the capacity. ``unknown``: no plan within the capacity
        was found, and none was ruled out.
    buffers
        Names, one a buffer.
    size, lower, upper
        Bytes and lifespans ``[lower, upper)`` in steps, shape ``(n,)``.
    offset
        Byte addresses, shape ``(n,)``, or ``None`` if there is no plan.
    pool
        The pool the buffers lie in.
    peak
        ``max(offset + size)`` in bytes, or ``None``.
    lower_bound
        No plan has a smaller peak.
    capacity
        The limit asked for, if any.
    found_by, bound_by
        What found the offsets; what proves the bound.
    order
        Op names in order of execution, repeated where recomputed; empty for a bare problem.
    cost, base_cost
        Sum of op costs with and without recomputation; ``None`` for a bare problem.
    residency
        What of the model's boundary is in the arena.
    views
        Tensor -> (buffer, byte offset in it), for tensors that share another's storage.
    runtime
        Seconds, or ``None`` if the plan came from a file.
    history
        Every improvement, in time.
    message
        Why there is no plan, where there is none.
    """

    name: str
    status: Status
    buffers: tuple[str, ...]
    size: Ints
    lower: Ints
    upper: Ints
    offset: Ints | None
    pool: str = "arena"
    peak: int | None = None
    lower_bound: int | None = None
    capacity: int | None = None
    found_by: str | None = None
    bound_by: str | None = None
    order: tuple[str, ...] = ()
    cost: int | float | None = None
    base_cost: int | float | None = None
    residency: Residency = field(default_factory=Residency)
    views: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    runtime: float | None = None
    history: tuple[Progress, ...] = ()
    message: str | None = None

    @property
    def gap(self) -> float | None:
        """Share of the peak that might still be saved: ``(peak - lower_bound) / peak``."""
        if self.peak is None or self.lower_bound is None:
            return None
        return (self.peak - self.lower_bound) / self.peak if self.peak else 0.0

    @property
    def method(self) -> str | None:
        """Who found the plan, and who proved the bound."""
        parts = [part for part in (self.found_by, self.bound_by) if part is not None]
        return " / ".join(parts) or None

    def offset_of(self, tensor: str) -> int:
        """Byte address of a tensor: a buffer's own, or where its view lies within one.

        Raises
        ------
        InputError
            If the plan places no such tensor.
        """
        name, within = self.views.get(tensor, (tensor, 0))
        if self.offset is None or name not in self.buffers:
            raise InputError(f"the plan places no tensor {tensor!r}")
        return int(self.offset[self.buffers.index(name)]) + within

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        exact = "" if self.peak is None or self.peak < 10240 else f" ({self.peak} B)"
        rows = {
            "plan": self.name,
            "status": self.status,
            "peak": f"{format_bytes(self.peak)}{exact}",
            "lower bound": format_bytes(self.lower_bound),
            "gap": "unknown" if self.gap is None else f"{self.gap:.2%}",
            "capacity": format_bytes(self.capacity) if self.capacity is not None else None,
            "buffers": f"{len(self.buffers)}",
            "steps": f"{int(np.max(self.upper, initial=0))}",
            "method": self.method,
            "runtime": f"{self.runtime:.3f} s" if self.runtime is not None else None,
            "reason": self.message,
        }
        return "\n".join(f"{key:<12} {value}" for key, value in rows.items() if value is not None)

    def to_dict(self, *, clock: bool = False) -> dict[str, Any]:
        """The plan as JSON-ready values; ``clock=True`` adds ``runtime`` and ``history``."""
        offsets = [None] * len(self.buffers) if self.offset is None else self.offset.tolist()
        columns = (self.buffers, self.size.tolist(), self.lower.tolist(), self.upper.tolist())
        values: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "status": self.status,
            "peak": self.peak,
            "lower_bound": self.lower_bound,
            "gap": self.gap,
            "capacity": self.capacity,
            "method": self.method,
            "found_by": self.found_by,
            "bound_by": self.bound_by,
            "message": self.message,
            "residency": asdict(self.residency),
            "order": list(self.order),
            "cost": self.cost,
            "base_cost": self.base_cost,
            "buffers": [
                {"name": n, "size": s, "lower": lo, "upper": up, "offset": o, "pool": self.pool}
                for n, s, lo, up, o in zip(*columns, offsets, strict=True)
            ],
            "views": {name: list(place) for name, place in self.views.items()},
        }
        if clock:
            values["runtime"] = self.runtime
            values["history"] = [list(event) for event in self.history]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Plan:
        """The plan that :meth:`to_dict` described.

        Raises
        ------
        InputError
            If the values are not a plan of this version; names what is wrong.
        """
        if not isinstance(values, Mapping) or values.get("format") != FORMAT:
            raise InputError(f'not a plan: expected a JSON object with "format": {FORMAT!r}')
        if values.get("version") != VERSION:
            raise InputError(
                f"plan version {values.get('version')!r} is not understood: expected {VERSION}"
            )
        if values.get("status") not in STATUSES:
            raise InputError(f"status {values.get('status')!r}: expected one of {STATUSES}")
        check_fields(values)
        rows = values["buffers"]
        pools = {row["pool"] for row in rows} or {"arena"}
        if len(pools) > 1:
            raise InputError(f"buffers in several pools: {', '.join(sorted(pools))}")
        placed = all(row["offset"] is not None for row in rows)
        try:
            residency = Residency(**values["residency"])
        except TypeError as error:
            raise InputError(
                f"not a valid plan: residency {values['residency']} is not understood"
            ) from error
        return cls(
            name=values["name"],
            status=values["status"],
            buffers=tuple(row["name"] for row in rows),
            size=_column(rows, "size"),
            lower=_column(rows, "lower"),
            upper=_column(rows, "upper"),
            offset=_column(rows, "offset") if placed else None,
            pool=pools.pop(),
            peak=values["peak"],
            lower_bound=values["lower_bound"],
            capacity=values["capacity"],
            found_by=values["found_by"],
            bound_by=values["bound_by"],
            order=tuple(values["order"]),
            cost=values["cost"],
            base_cost=values["base_cost"],
            residency=residency,
            views={name: (base, at) for name, (base, at) in values["views"].items()},
            runtime=values.get("runtime"),
            history=tuple(Progress(*event) for event in values.get("history", ())),
            message=values["message"],
        )

    def to_json(self, *, clock: bool = False) -> str:
        """The plan as JSON text, one buffer a line."""
        values = self.to_dict(clock=clock)
        rows = ",\n".join(f"  {json.dumps(row)}" for row in values.pop("buffers"))
        head = json.dumps(values, indent=1)
        return f'{head[:-2]},\n "buffers": [\n{rows}\n ]\n}}\n'

    def save(self, path: str | PathLike[str], *, clock: bool = False) -> None:
        """Write the plan as JSON, whole or not at all; ``clock=True`` adds the clock readings."""
        from cpplan.io.atomic import write_text

        write_text(path, self.to_json(clock=clock))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Plan:
        """Read a plan that :meth:`save` wrote.

        Raises
        ------
        InputError
            If the file cannot be read or is no plan; names the file.
        """
        from cpplan.io.json_file import read_json

        values = read_json(path)
        try:
            return cls.from_dict(values)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    def to_frame(self) -> pandas.DataFrame:
        """One row a buffer: name, size, lower, upper, offset, pool."""
        import pandas

        frame: pandas.DataFrame = pandas.DataFrame(
            {
                "name": list(self.buffers),
                "size": self.size,
                "lower": self.lower,
                "upper": self.upper,
                "offset": [None] * len(self.buffers) if self.offset is None else self.offset,
                "pool": self.pool,
            }
        )
        return frame


def _column(rows: list[dict[str, Any]], key: str) -> Ints:
    try:
        return np.array([row[key] for row in rows], np.int64)
    except OverflowError as error:
        raise InputError(f"not a valid plan: buffers: a {key} is beyond 64 bits") from error
