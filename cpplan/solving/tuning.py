"""Thresholds and shares of the budget of ``solve``, and the table of all rooms that have some."""

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
        Of the time left, for a turn of the search for orders.
    shared_order_share, unshared_order_share
        Of the first turn, for the search for orders if tensors may share bytes, and of what it
        leaves for the one that knows nothing of it, whose order is tried too.
    first_packing_share
        Of the time left, for packing an order where the given one may pack better.
    bound_share
        Of what the search for orders leaves, for a bound on all orders and relations, where its
        own proves nothing.
    rival
        Live bytes of the given order, as a multiple of those of the order found, above which it is
        not packed: packing loses a few percent at most.
    last_turn
        Share of all time; a turn of the search for orders that would leave less takes it too.
    moment, grace
        Seconds: an order that is found when less than a moment is left, or after Ctrl-C, is packed
        within this grace.
    joint_ops, joint_ops_in_the_end
        Ops up to which CP-SAT decides order and offsets together: before the other searches for
        orders go on, and after they have ended. The model has a rectangle with variable sides for
        every storage: beyond this it only costs time, unless nothing else is left to try.
    checked, sharing_checked, order_checked
        Times that plan, checker and writer take for what the packing problem took to build, without
        sharing and with, or the order problem.
    sharing_reading
        Times that it takes to learn which tensors may share bytes for what the packing problem took
        to build. Without so much time, nothing shares.
    order_reading, order_reading_shared
        Times that it takes to begin a search for orders for what the order problem took to build,
        without sharing and with. Without so much time, the given order is all there is.
    order_seconds
        Seconds that the order problem takes to build for each op, at the least.
    sharing_reading_share
        Of the time left, to learn which tensors may share bytes.
    growth_seconds
        To plan a plan of symbolic sizes anew where a value is beyond its bound.
    choice_share
        With several sizes: of the time, for the order and for what is done in place.
    spill_schedules
        Numbers of bytes, from the fast pool's capacity up, within which ops run again alone before
        recomputation and moves are planned together.
    spill_first_share, spill_schedule_share
        Of the time left, for the first of them, and for each other.
    spill_split_share, spill_pieces_share
        Of the time left, for each search for pieces, and for the moves of their bands.
    spill_unsplit_share
        Of the time left after the first such search, for the moves of the model without pieces.
    spill_pieces_checked
        Time kept to check bands that move, as a multiple of that to derive the pieces.
    """

    order_share: float = 0.5
    shared_order_share: float = 0.5
    unshared_order_share: float = 0.6
    first_packing_share: float = 0.7
    bound_share: float = 0.3
    rival: float = 1.05
    last_turn: float = 0.02
    moment: float = 0.05
    grace: float = 1.0
    joint_ops: int = 40
    joint_ops_in_the_end: int = 150
    checked: float = 5.0
    sharing_checked: float = 8.0
    order_checked: float = 5.0
    sharing_reading: float = 6.0
    order_reading: float = 2.0
    order_reading_shared: float = 8.0
    order_seconds: float = 2e-6
    sharing_reading_share: float = 0.6
    growth_seconds: float = 10.0
    choice_share: float = 0.4
    spill_schedules: int = 3
    spill_first_share: float = 0.6
    spill_schedule_share: float = 0.1
    spill_unsplit_share: float = 0.2
    spill_split_share: float = 0.4
    spill_pieces_share: float = 0.5
    spill_pieces_checked: float = 9.0


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
    """Tuning of every room from mappings of fields, or from the dataclasses themselves.

    Parameters
    ----------
    given
        Name of a room -> its fields that are changed.
    known
        The tuning of the rooms that are left out; their defaults without it.

    Raises
    ------
    InputError
        If a room or a field is unknown, or a value is not of the type of its default.

    Examples
    --------
    >>> tuning = make_tuning({"solving": {"order_share": 0.25}})
    >>> tuning.of(SolvingTuning).order_share, tuning.of(SolvingTuning).rival
    (0.25, 1.05)
    """
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
