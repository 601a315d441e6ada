"""Certificates that a plan carries, so that its bound can be proved again without a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cpplan.model.cut_duals import CutDuals


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
    """

    op: str
    begun: tuple[tuple[str, str | None, int], ...]
    ended: tuple[tuple[str, str | None, int], ...]
    waits: tuple[tuple[str, str, int], ...]


class ForcedAt(NamedTuple):
    """The op at which the bytes that are live in every order prove a bound on peak or moves.

    Attributes
    ----------
    op
        Name of the op.
    """

    op: str


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
    """

    places: int
    prices: tuple[tuple[str, int], ...]


MovedCertificate = RoomPrices | ForcedAt

# Kinds of certificates by their names in files.
KINDS: Mapping[str, type] = {
    "cut flow": CutFlow,
    "forced at": ForcedAt,
    "cut duals": CutDuals,
    "room prices": RoomPrices,
}
