"""Covering arrays: rows of option values in which every possible combination of a few occurs.

A row begins with the first combination that no row has yet; every further option takes the value
with which the row has the most new combinations. Combinations that may not be are clauses, as in
satisfiability: a value that would complete one is ruled out as soon as the rest of it is there, and
an option without values left makes the search go one option back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product
from typing import Any, NamedTuple

Row = dict[str, Any]
Combination = tuple[tuple[str, Any], ...]
Domains = dict[str, tuple[Any, ...]]


class Covering(NamedTuple):
    """Rows, the number of combinations that they have, and those that no row may have."""

    rows: list[Row]
    covered: int
    impossible: list[Combination]


def cover(
    options: Mapping[str, tuple[Any, ...]], strength: int, forbidden: Iterable[Row] = ()
) -> Covering:
    """Rows that have every possible combination of values of ``strength`` options.

    Parameters
    ----------
    forbidden
        Values of some options that no row may have together.

    Examples
    --------
    >>> switches = {name: (False, True) for name in "abc"}
    >>> found = cover(switches, 2, [{"a": True, "b": True}])
    >>> len(found.rows), found.covered, found.impossible
    (5, 11, [(('a', True), ('b', True))])
    """
    clauses = _by_item(forbidden)
    missing = dict.fromkeys(
        combination
        for names in combinations(options, strength)
        for combination in product(*([(name, value) for value in options[name]] for name in names))
    )
    total, rows, impossible = len(missing), list[Row](), list[Combination]()
    while missing:
        first = next(iter(missing))
        row = _completed(options, dict(first), strength, missing, clauses)
        if row is None:
            impossible.append(first)
            del missing[first]
            continue
        rows.append(row)
        for combination in combinations(row.items(), strength):
            missing.pop(combination, None)
    return Covering(rows, total - len(impossible), impossible)


def complete(
    options: Mapping[str, tuple[Any, ...]], part: Row, forbidden: Iterable[Row] = ()
) -> Row | None:
    """A row that has these values, with the first ones of other options where it may.

    Examples
    --------
    >>> complete({"a": (0, 1), "b": (0, 1)}, {"a": 1}, [{"a": 1, "b": 0}])
    {'a': 1, 'b': 1}
    """
    return _completed(options, part, 1, {}, _by_item(forbidden))


def _by_item(forbidden: Iterable[Row]) -> dict[tuple[str, Any], list[Row]]:
    """The clauses that have each value."""
    clauses: dict[tuple[str, Any], list[Row]] = {}
    for clause in forbidden:
        for item in clause.items():
            clauses.setdefault(item, []).append(clause)
    return clauses


def _completed(
    options: Mapping[str, tuple[Any, ...]],
    part: Row,
    strength: int,
    missing: Mapping[Combination, None],
    clauses: Mapping[tuple[str, Any], list[Row]],
) -> Row | None:
    domains: Domains | None = dict(options)
    for item in part.items():
        domains = domains and _given(domains, *item, clauses)
    return None if domains is None else next(_rows(domains, {}, strength, missing, clauses), None)


def _rows(
    domains: Domains,
    row: Row,
    strength: int,
    missing: Mapping[Combination, None],
    clauses: Mapping[tuple[str, Any], list[Row]],
) -> Iterator[Row]:
    """Rows within the domains that begin with ``row``, the one of many new combinations first.

    Options follow one another in their order, so that combinations are in order, too.
    """
    if len(row) == len(domains):
        yield row
        return
    name = list(domains)[len(row)]
    fixed = {
        n: values[0] for n, values in list(domains.items())[len(row) + 1 :] if len(values) == 1
    }

    def new(value: Any) -> int:
        given = ((*others, (name, value)) for others in combinations(row.items(), strength - 1))
        return sum(combination in missing for combination in given) + sum(
            ((name, value), later) in missing for later in fixed.items()
        )

    for value in sorted(domains[name], key=new, reverse=True):
        narrowed = _given(domains, name, value, clauses)
        if narrowed is not None:
            yield from _rows(narrowed, {**row, name: value}, strength, missing, clauses)


def _given(
    domains: Domains, name: str, value: Any, clauses: Mapping[tuple[str, Any], list[Row]]
) -> Domains | None:
    """The values left if an option has one; ``None`` if some option has none left."""
    if value not in domains[name]:
        return None
    domains = {**domains, name: (value,)}
    decided = [(name, value)]
    while decided:
        for clause in clauses.get(decided.pop(), ()):
            if any(v not in domains[n] for n, v in clause.items()):
                continue
            loose = [item for item in clause.items() if len(domains[item[0]]) > 1]
            if not loose:
                return None
            if len(loose) == 1:
                (other, last), *_ = loose
                domains[other] = tuple(v for v in domains[other] if v != last)
                if len(domains[other]) == 1:
                    decided.append((other, domains[other][0]))
    return domains
