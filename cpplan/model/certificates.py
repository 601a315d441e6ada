"""Certificates that a plan carries, so that its bound can be proved again without a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cpplan.model.cut_duals import CutDuals, read_cut_duals
from cpplan.model.errors import InputError


class CutFlow(NamedTuple):
    """A flow that proves a lower bound on the bytes live while one op runs, in every order.

    For any set of ops that have run before, each unit of flow passes a storage that has begun and
    not ended. Names are names of ops and storages of the graph; amounts are bytes.

    Attributes
    ----------
    op
        The op that runs.
    begun
        ``(storage, op, bytes)``: flow from an op that accesses the storage, or from the start
        (``None``) if the caller brings it, into the storage.
    ended
        ``(storage, op, bytes)``: flow from the storage to an op that accesses it, or to the end
        (``None``) if it is kept.
    waits
        ``(op, earlier, bytes)``: flow from an op to one that must run before it.

    Examples
    --------
    >>> flow = CutFlow("u", (("t", "a", 4),), (("t", "b", 4),), ())
    >>> read_certificate(flow.to_dict()) == flow
    True
    """

    op: str
    begun: tuple[tuple[str, str | None, int], ...]
    ended: tuple[tuple[str, str | None, int], ...]
    waits: tuple[tuple[str, str, int], ...]

    def to_dict(self) -> dict[str, Any]:
        """The flow as values that JSON can hold."""
        rows = {key: [list(row) for row in getattr(self, key)] for key in _ROWS}
        return {"kind": "cut flow", "op": self.op, **rows}


class ForcedAt(NamedTuple):
    """The op at which the bytes that are live in every order prove a bound on peak or moves.

    Attributes
    ----------
    op
        Name of the op.

    Examples
    --------
    >>> read_certificate(ForcedAt("u").to_dict())
    ForcedAt(op='u')
    """

    op: str

    def to_dict(self) -> dict[str, Any]:
        """The certificate as values that JSON can hold."""
        return {"kind": "forced at", "op": self.op}


Certificate = CutFlow | ForcedAt | CutDuals


class RoomPrices(NamedTuple):
    """Prices of room that prove a lower bound on the bytes moved at the plan's order.

    Every storage pays for the room that it takes in the fast pool and for the bytes that it moves.
    The least sum of all payments, less the price of the pool's capacity, bounds the bytes that
    every plan moves.

    Attributes
    ----------
    places
        Prices are in units of ``2**-places`` bytes moved.
    prices
        ``(op, price)``: price of each byte of room while the op runs; 0 for ops left out.

    Examples
    --------
    >>> prices = RoomPrices(24, (("conv", 1 << 24),))
    >>> read_moved_certificate(prices.to_dict()) == prices
    True
    """

    places: int
    prices: tuple[tuple[str, int], ...]

    def to_dict(self) -> dict[str, Any]:
        """The prices as values that JSON can hold."""
        rows = [list(row) for row in self.prices]
        return {"kind": "room prices", "places": self.places, "prices": rows}


MovedCertificate = RoomPrices | ForcedAt


def read_moved_certificate(values: object) -> MovedCertificate:
    """The certificate of a bound on moves that ``to_dict`` described.

    Raises
    ------
    InputError
        If the values are not such a certificate; names the fault.

    Examples
    --------
    >>> read_moved_certificate({"kind": "trust me"})
    Traceback (most recent call last):
    ...
    cpplan.model.errors.InputError: not a valid plan: moved_certificate must be an object of kind \
'room prices' or 'forced at'
    """
    here = "not a valid plan: moved_certificate"
    kind = values.get("kind") if isinstance(values, dict) else None
    if not isinstance(values, dict) or kind not in ("room prices", "forced at"):
        raise InputError(f"{here} must be an object of kind 'room prices' or 'forced at'")
    if kind == "forced at":
        if set(values) != {"kind", "op"} or not isinstance(values["op"], str):
            raise InputError(f"{here} must hold kind, op and nothing else")
        return ForcedAt(values["op"])
    if set(values) != {"kind", "places", "prices"}:
        raise InputError(f"{here} must hold kind, places, prices and nothing else")
    places, rows = values["places"], values["prices"]
    if type(places) is not int or not 0 <= places <= 64:
        raise InputError(f"{here}: places must be a number of binary places up to 64")
    if not isinstance(rows, list) or not all(
        isinstance(row, list)
        and len(row) == 2
        and isinstance(row[0], str)
        and type(row[1]) is int
        and 0 <= row[1] < 2**62
        for row in rows
    ):
        raise InputError(f"{here}: prices must be a list of [op, price]")
    return RoomPrices(places, tuple((op, price) for op, price in rows))


_ROWS = ("begun", "ended", "waits")
_KEYS: Mapping[str, tuple[str, ...]] = {"cut flow": ("op", *_ROWS), "forced at": ("op",)}


def read_certificate(values: object) -> Certificate:
    """The certificate that ``to_dict`` described.

    Raises
    ------
    InputError
        If the values are not a certificate; names the fault.

    Examples
    --------
    >>> read_certificate({"kind": "trust me"})
    Traceback (most recent call last):
    ...
    cpplan.model.errors.InputError: not a valid plan: certificate must be an object of kind 'cut \
flow', 'forced at' or 'cut duals'
    """
    kind = values.get("kind") if isinstance(values, dict) else None
    if kind == "cut duals":
        return read_cut_duals(values, "certificate")
    keys = _KEYS.get(kind) if isinstance(kind, str) else None
    if not isinstance(values, dict) or keys is None:
        kinds = ", ".join(map(repr, _KEYS))
        raise InputError(
            f"not a valid plan: certificate must be an object of kind {kinds} or 'cut duals'"
        )
    if set(values) != {"kind", *keys} or not isinstance(values["op"], str):
        raise InputError(
            f"not a valid plan: certificate must hold kind, {', '.join(keys)} and nothing else"
        )
    if kind == "forced at":
        return ForcedAt(values["op"])
    return CutFlow(values["op"], *(_rows(key, values[key]) for key in _ROWS))


def _rows(key: str, rows: object) -> tuple[Any, ...]:
    if not isinstance(rows, list) or not all(_is_row(row, key == "waits") for row in rows):
        raise InputError(
            f"not a valid plan: certificate: {key} must be a list of [name, name, bytes]"
        )
    return tuple(map(tuple, rows))


def _is_row(row: object, named: bool) -> bool:
    if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != 3:
        return False
    one, other, amount = row
    ends = isinstance(one, str) and (isinstance(other, str) or (other is None and not named))
    return ends and type(amount) is int and 0 < amount < 2**62
