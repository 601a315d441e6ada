"""Certificates that a plan carries, so that its bound can be proved again without a search.

Duals of a linear program over storages retained at cuts, as a certificate that a plan carries.

The linear program is the one of :mod:`formulations.retained_at_cuts`: each row is cited by the name
of its rule and by its indices, and the checker derives it again from the graph. The sum of rows
with any non-negative multipliers bounds the cost of every schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from cpplan.model.errors import InputError
from cpplan.model.tensor import LIMIT

# Rule of a row -> its indices: an interval or a cut (j), an op (v), a storage (s) or a number of
# bytes (d); the last may be any number of them (*). A range of intervals is its first and its last.
RULES: Mapping[str, str] = {
    "stays done": "jv",
    "waits": "jvv",
    "run done": "jv",
    "first run": "jjv",
    "once": "v",
    "read": "jjvs",
    "retained": "jjs",
    "either": "jjjv",
    "at cut": "j",
    "rounded": "jds*",
    "throughout": "js",
    "held": "j",
    "between": "jv",
}
# Largest certificate: rows, terms of all rows, and columns of the terms; digits of a number, and
# binary places; bits of the unit of costs, which may be a tiny fraction.
MOST_ROWS, MOST_TERMS, MOST_COLUMNS = 1 << 20, 1 << 24, 1 << 21
MOST_DIGITS, MOST_PLACES, MOST_BITS = 80, 128, 2200
_KEYS = ("kind", "cuts", "given_order", "cost_unit", "places", "ops", "storages", "rows")


def kinds_of(rule: str, count: int) -> str:
    """The kind of each of ``count`` indices of a rule; of fewer or more if it has not as many.

    Examples
    --------
    >>> kinds_of("waits", 3), kinds_of("waits", 1), kinds_of("rounded", 4)
    ('jvv', 'jvv', 'jdss')
    """
    kinds, any_number, _ = RULES.get(rule, "").partition("*")
    return kinds[:-1] + kinds[-1] * (1 + count - len(kinds)) if any_number else kinds


class DualRow(NamedTuple):
    """A row of the linear program and its multiplier.

    Attributes
    ----------
    rule
        Rule that the row follows, a key of ``RULES``.
    indices
        Indices that the rule asks for: intervals and bytes by number; ops and storages by their
        positions in the certificate's ``ops`` and ``storages``.
    multiplier
        Its multiplier, positive.
    """

    rule: str
    indices: tuple[int, ...]
    multiplier: int


class CutDuals(NamedTuple):
    """Multipliers of rows that prove a bound on every schedule's cost, or that no schedule fits.

    Attributes
    ----------
    cuts
        Ops whose first runs divide a schedule into intervals, in order.
    given_order
        True if the proof covers only schedules whose first runs come in the plan's order.
    cost_unit
        Numerator and denominator of the cost that counts as 1; costs of ops are rounded down.
    places
        Multipliers are in units of ``2**-places``.
    ops, storages
        Names that the rows cite, each by its position here.
    rows
        Rows and multipliers.
    """

    cuts: tuple[str, ...]
    given_order: bool
    cost_unit: tuple[int, int]
    places: int
    ops: tuple[str, ...]
    storages: tuple[str, ...]
    rows: tuple[DualRow, ...]

    def to_dict(self) -> dict[str, Any]:
        """The certificate as values that JSON can hold; a row is a text of numbers."""
        rows: dict[str, list[str]] = {}
        for rule, indices, multiplier in self.rows:
            rows.setdefault(rule, []).append(" ".join(map(str, (*indices, multiplier))))
        return {
            "kind": "cut duals",
            "cuts": list(self.cuts),
            "given_order": self.given_order,
            "cost_unit": list(self.cost_unit),
            "places": self.places,
            "ops": list(self.ops),
            "storages": list(self.storages),
            "rows": rows,
        }


def read_cut_duals(values: object, field: str) -> CutDuals:
    """The certificate that ``to_dict`` described.

    Parameters
    ----------
    values
        Values read from JSON.
    field
        Name of the plan's field, for messages.

    Raises
    ------
    InputError
        If the values are not such a certificate; names the fault.
    """
    here = f"not a valid plan: {field}"
    if not isinstance(values, dict) or values.get("kind") != "cut duals":
        raise InputError(f"{here} must be an object of kind 'cut duals'")
    if set(values) != set(_KEYS):
        raise InputError(f"{here} must hold {', '.join(_KEYS)} and nothing else")
    names: dict[str, tuple[str, ...]] = {}
    for key in ("cuts", "ops", "storages"):
        found = values[key]
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise InputError(f"{here}: {key} must be a list of names")
        names[key] = tuple(found)
    given, unit, places = values["given_order"], values["cost_unit"], values["places"]
    if type(given) is not bool:
        raise InputError(f"{here}: given_order must be true or false")
    whole = isinstance(unit, list) and len(unit) == 2 and all(type(n) is int for n in unit)
    if not whole or not all(0 < n < 1 << MOST_BITS for n in unit):
        raise InputError(f"{here}: cost_unit must be two positive numbers, above and below a line")
    if type(places) is not int or not 0 <= places <= MOST_PLACES:
        raise InputError(f"{here}: places must be a number of binary places up to {MOST_PLACES}")
    most = {"j": len(names["cuts"]) + 2, "v": len(names["ops"]), "s": len(names["storages"])}
    most["d"] = LIMIT
    rows = tuple(_read_rows(values["rows"], most, here))
    unit = (unit[0], unit[1])
    return CutDuals(names["cuts"], given, unit, places, names["ops"], names["storages"], rows)


def _read_rows(rows: object, most: Mapping[str, int], here: str) -> Iterator[DualRow]:
    """Yield the rows of all rules; ``most`` has a limit on each kind of index."""
    if not isinstance(rows, dict) or not all(isinstance(texts, list) for texts in rows.values()):
        raise InputError(f"{here}: rows must be an object of lists of rows, by rule")
    if sum(map(len, rows.values())) > MOST_ROWS:
        raise InputError(f"{here} has more than {MOST_ROWS} rows")
    for rule, texts in rows.items():
        if rule not in RULES:
            raise InputError(f"{here}: no rows have the rule {rule!r}")
        for text in texts:
            numbers = _numbers(text, most["s"])
            kinds = kinds_of(rule, len(numbers) - 1)
            if len(numbers) != len(kinds) + 1 or not all(
                number < most[kind] for number, kind in zip(numbers, kinds, strict=False)
            ):
                shown = f"{text:.80}" if isinstance(text, str) else text
                raise InputError(
                    f"{here}: a row {rule!r} must be the text of {len(kinds)} indices and a "
                    f"multiplier, not {shown!r:.120}"
                )
            yield DualRow(rule, numbers[:-1], numbers[-1])


def _numbers(text: object, storages: int) -> tuple[int, ...]:
    """The numbers of a row, or an empty tuple if the text is not a row."""
    parts = text.split(" ", storages + 5) if isinstance(text, str) and text.isascii() else []
    if not all(part.isdigit() and len(part) <= MOST_DIGITS for part in parts):
        return ()
    return tuple(map(int, parts))


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
    """The op at which the bytes that are live in every order prove a bound.

    Attributes
    ----------
    op
        Name of the op.
    """

    op: str


class Reading(NamedTuple):
    """An op that reads a tensor, or what other ops hand on of it.

    Attributes
    ----------
    path
        The tensor, and the tensors through which its values come, one by one.
    op
        The op that reads the last of them, or ``None`` for an output, which is kept.
    """

    path: tuple[str, ...]
    op: str | None


class LiveBetween(NamedTuple):
    """A moment at which bytes are live in every splitting that runs each step of an op once.

    Attributes
    ----------
    op
        The op that has done a share of its steps.
    interval
        Number of the interval of shares: it ends at ``interval / parts``, or is 0 itself.
    parts
        Number of intervals from 0 to 1.
    readings
        For each tensor that counts, one or two ops that read it.
    """

    op: str
    interval: int
    parts: int
    readings: tuple[Reading, ...]


Certificate = CutFlow | ForcedAt | CutDuals | LiveBetween


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


class ForcedMoves(NamedTuple):
    """Ops that leave too little room in every order, which proves a bound on the bytes moved.

    Attributes
    ----------
    at
        The ops: each with the flow that proves the bytes live while it runs, or alone if these are
        live in every order.
    """

    at: tuple[ForcedAt | CutFlow, ...]


MovedCertificate = RoomPrices | ForcedMoves


# Kinds of certificates by their names in files.
KINDS: Mapping[str, type] = {
    "cut flow": CutFlow,
    "forced at": ForcedAt,
    "cut duals": CutDuals,
    "live between pieces": LiveBetween,
    "room prices": RoomPrices,
    "forced moves": ForcedMoves,
}
