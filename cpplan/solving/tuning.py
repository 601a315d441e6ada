"""Thresholds and shares of the budget of ``solve``, and the table of all rooms with tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from cpplan.aliasing.tuning import AliasingTuning
from cpplan.model.errors import InputError
from cpplan.ordering.tuning import OrderingTuning
from cpplan.packing.tuning import PackingTuning
from cpplan.remat.tuning import RematTuning
from cpplan.runtime.budget import Tuning
from cpplan.spilling.tuning import SpillingTuning
from cpplan.splitting.tuning import SplittingTuning


@dataclass(frozen=True, slots=True)
class SolvingTuning:
    """Shares of the time of the stages of ``solve``.

    Attributes
    ----------
    order_share
        Share of the time left for a turn of the search for orders.
    rival
        Live bytes of the given order, as a multiple of those of the order found, above which it is
        not packed: packing loses a few percent at most.
    grace
        Seconds: an order found with less than a moment left, or after Ctrl-C, is packed within this
        grace.
    joint_ops, joint_ops_in_the_end
        Ops up to which CP-SAT decides order and offsets together: before the other searches for
        orders continue, and after they have ended. The model has a rectangle with variable sides
        for every storage. For more ops it only costs time, unless all other searches have ended.
    sharing_reading
        Time for finding alias candidates, as a multiple of the time for building the packing
        problem. If less time is left, no aliases are used.
    order_reading_shared
        Time to begin a search for orders, as a multiple of the time for building the order problem,
        without and with aliases. If less time is left, the given order is used.
    spill_seconds_an_op, spill_grace
        Least seconds for each op to plan moves, and to check the plan; seconds by which these may
        exceed the time left, since no plan is worse than a late one.
    smaller_ops
        Share of the time kept for searches with fewer freedoms; most ops of programs for which they
        are made.
    """

    order_share: float = 0.5
    rival: float = 1.05
    grace: float = 1.0
    joint_ops: int = 40
    joint_ops_in_the_end: int = 150
    sharing_reading: float = 6.0
    order_reading_shared: float = 8.0
    spill_seconds_an_op: float = 90e-6
    spill_grace: float = 0.6
    smaller_ops: int = 1000


# One line a room: its name in ``solve(tuning={...})``, and its dataclass.
ROOMS: Mapping[str, type] = {
    "packing": PackingTuning,
    "ordering": OrderingTuning,
    "aliasing": AliasingTuning,
    "remat": RematTuning,
    "spilling": SpillingTuning,
    "splitting": SplittingTuning,
    "solving": SolvingTuning,
}


def make_tuning(given: Mapping[str, Any] | None, known: Tuning | None = None) -> Tuning:
    """Tuning of every room from mappings of fields, or from the dataclasses themselves."""
    known = Tuning() if known is None else known
    if given is None:
        return known
    if not isinstance(given, Mapping):
        raise InputError(f"tuning must be a mapping of rooms, not {given!r}")
    rooms = dict(known.rooms)
    for name, values in given.items():
        room = ROOMS.get(name)
        if room is None:
            raise InputError(f"tuning: unknown room {name!r}: expected one of {', '.join(ROOMS)}")
        rooms[room] = _room(name, room, values)
    return Tuning(rooms)


def _room(name: str, room: type, values: Any) -> Any:
    if isinstance(values, room):
        values = {known.name: getattr(values, known.name) for known in fields(room)}
    if not isinstance(values, Mapping):
        raise InputError(f"tuning of {name} must be a mapping of fields, not {values!r}")
    default = room()
    known = [field.name for field in fields(room)]
    checked = {}
    for key, value in values.items():
        if key not in known:
            expected = f"expected one of {', '.join(known)}"
            raise InputError(f"tuning of {name}: unknown field {key!r}: {expected}")
        checked[key] = _checked(f"tuning of {name}: {key}", value, getattr(default, key))
    return replace(default, **checked)


def _checked(where: str, value: Any, default: Any) -> Any:
    """A value of the type of its default; a list may stand for a tuple, an integer for a float."""
    if isinstance(default, tuple) and isinstance(value, list):
        value = tuple(value)
    if type(default) is float and type(value) is int:
        value = float(value)
    if type(value) is not type(default) or value != value:
        raise InputError(f"{where} must be like {default!r}, not {value!r}")
    if where.endswith("_share") and not 0 < value <= 1:
        raise InputError(f"{where} must be more than 0 and at most 1, not {value!r}")
    if isinstance(value, int | float) and value < 0:
        raise InputError(f"{where} must not be negative, not {value!r}")
    return value
