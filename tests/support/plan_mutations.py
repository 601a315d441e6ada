"""Every change of one value of a plan's JSON, and a table of those that ``verify`` may accept."""

from __future__ import annotations

import copy
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from support.plan_kinds import Source

from cpplan import Plan, verify
from cpplan.io.plan_json import plan_from_dict, plan_to_dict
from cpplan.model.errors import CpplanError
from cpplan.verification.bound_table import COST_BOUNDS, MOVED_BOUNDS, PEAK_BOUNDS, POOL_BOUNDS

Path = tuple[str | int, ...]


class Mutation(NamedTuple):
    """The JSON of a plan with the value at a path changed."""

    path: Path
    how: str
    values: dict[str, Any]

    @property
    def label(self) -> str:
        return f"{self.how} at {self.path}"

    def is_at(self, place: str, how: str) -> bool:
        """True if the path and the change are among some.

        Parameters
        ----------
        place, how
            Texts parted by ``|``, with ``*`` for anything, and ``#`` for positions in lists:
            ``"buffers.#.offset"``.
        """
        here = ".".join("#" if isinstance(part, int) else part for part in self.path)
        return _matches(place, here) and _matches(how, self.how)


# Values of fields that hold one of some words.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "status": ("optimal", "feasible", "infeasible", "unknown"),
    "scope": ("given order", "every order", "every splitting"),
    "objective": ("preference", "total", "cost", "time"),
    "residency.inputs": ("reuse", "keep", "outside"),
    "residency.outputs": ("keep", "outside"),
    "residency.constants": ("outside", "keep"),
    "moves.kind": ("spill", "reload", "read", "write"),
    "bound_by": tuple(bound.name for bound in (*PEAK_BOUNDS, *POOL_BOUNDS)),
    "cost_bound_by": tuple(bound.name for bound in COST_BOUNDS),
    "moved_bytes_bound_by": tuple(bound.name for bound in MOVED_BOUNDS),
    "time_bound_by": tuple(bound.name for bound in MOVED_BOUNDS),
}


def mutations(plan: Plan) -> Iterator[Mutation]:
    """The plan's JSON with one value deleted, repeated, swapped with the next, or changed."""
    text = json.dumps(plan_to_dict(plan))
    root = json.loads(text)
    seen = defaultdict(set)
    for path, value in _walk(root):
        if isinstance(value, str):
            seen[_place(path)].add(value)
    for path, value in _walk(root):
        for how, change in _changes(path, value, seen[_place(path)]):
            values = json.loads(text)
            holder = values
            for part in path[:-1]:
                holder = holder[part]
            change(holder, path[-1])
            if values != root:
                yield Mutation(path, how, values)


def _walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if path:
        yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if isinstance(inner, (dict, list)):
            yield from _walk(inner, (*path, key))
        else:
            yield (*path, key), inner


def _place(path: Path) -> str:
    return ".".join(part for part in path if isinstance(part, str))


def _changes(
    path: Path, value: Any, alike: set[str]
) -> Iterator[tuple[str, Callable[[Any, Any], None]]]:
    """Ways to change the value that a holder has at a key."""

    def put(new: Any) -> Callable[[Any, Any], None]:
        return lambda holder, key: holder.__setitem__(key, new)

    yield "delete", lambda holder, key: holder.__delitem__(key)
    if isinstance(path[-1], int):
        yield "repeat", lambda holder, key: holder.insert(key, copy.deepcopy(holder[key]))
        yield "swap", lambda holder, key: holder.insert(key + 1, holder.pop(key))
    if isinstance(value, bool):
        yield "not", put(not value)
    elif isinstance(value, (int, float)):
        for what, new in (("+1", value + 1), ("-1", value - 1), ("0", 0), ("+1000", value + 1000)):
            yield what, put(new)
        yield "null", put(None)
    elif isinstance(value, str):
        words = _WORDS.get(_place(path), ()) if isinstance(path[-1], str) else ()
        for word in sorted({*words, *(alike if len(path) > 1 else ()), "other"} - {value}):
            yield f"={word}", put(word)
        yield "null", put(None)
    elif value is None:
        for new in (0, 1, 8, "other"):
            yield f"={new}", put(new)
        for word in _WORDS.get(_place(path), ()):
            yield f"={word}", put(word)
    else:
        yield "empty", put(type(value)())
        yield "more", lambda holder, key: _extend(holder[key])


def _extend(value: Any) -> None:
    if isinstance(value, dict):
        value["other"] = 1
    else:
        value.append("other")


def _matches(pattern: str, text: str) -> bool:
    parts = (re.escape(word).replace(r"\*", ".*") for word in pattern.split("|"))
    return re.fullmatch("|".join(parts), text) is not None


def _sorted(value: object) -> object:
    """A JSON value with all its lists sorted."""
    if isinstance(value, dict):
        return {key: _sorted(inner) for key, inner in value.items()}
    return sorted(map(_sorted, value), key=repr) if isinstance(value, list) else value


def _reordered(plan: Plan, changed: Plan) -> bool:
    return _sorted(plan_to_dict(plan)) == _sorted(plan_to_dict(changed))


def _always(plan: Plan, changed: Plan) -> bool:
    return True


def _searched(plan: Plan, changed: Plan) -> bool:
    """True if the plan has a bound that rests on a search."""
    tables = (*PEAK_BOUNDS, *POOL_BOUNDS, *COST_BOUNDS, *MOVED_BOUNDS)
    names = plan.bound_by, plan.cost_bound_by, plan.moved_bytes_bound_by, plan.time_bound_by
    return any(bound.proof == "searched" for bound in tables if bound.name in names)


def _proved(plan: Plan, changed: Plan) -> bool:
    return not _searched(plan, changed)


_SCOPES = ("given order", "every order", "every splitting")


class Harmless(NamedTuple):
    """Changes that ``verify`` accepts, what then holds of the two plans, and why that is right."""

    place: str
    how: str
    holds: Callable[[Plan, Plan], bool]
    why: str


HARMLESS = [
    Harmless("name|message", "*", _always, "text for people"),
    Harmless("*", "swap", _reordered, "lists whose order says nothing"),
    Harmless(
        "pools.#",
        "swap",
        lambda plan, changed: plan.objective in ("total", "cost"),
        "sums over all pools, in any order",
    ),
    Harmless(
        "buffers.#.offset",
        "*",
        lambda plan, changed: changed.peak == plan.peak,
        "another layout of the same peak, checked as such",
    ),
    Harmless(
        "capacity",
        "*",
        lambda plan, changed: changed.peak <= (changed.capacity or changed.peak),
        "a limit that the plan keeps; a bound on the cost within it is proved again",
    ),
    Harmless(
        "lower_bound",
        "*",
        lambda plan, changed: (changed.lower_bound or 0) <= plan.lower_bound,
        "a smaller bound claims less",
    ),
    Harmless(
        "scope",
        "*",
        lambda plan, changed: _SCOPES.index(changed.scope) < _SCOPES.index(plan.scope),
        "fewer orders claim less",
    ),
    Harmless(
        "scope",
        "*",
        lambda plan, changed: changed.moved_bytes_bound == 0,
        "no plan at all moves fewer than 0 bytes",
    ),
    Harmless(
        "sharing|sharing.#",
        "*",
        lambda plan, changed: {*changed.sharing} < {*plan.sharing},
        "a bound for fewer freedoms claims less",
    ),
    Harmless(
        "certificate.*|moved_certificate.*|cost_certificate.*",
        "*",
        _always,
        "a witness: whatever it says, the bound is proved again from it",
    ),
    Harmless(
        "objective",
        "*",
        lambda plan, changed: len(plan.pools) == 1 or plan.spills,
        "of one pool, or with moves, it says nothing",
    ),
    Harmless(
        "objective",
        "*",
        lambda plan, changed: changed.objective_value == plan.objective_value,
        "value and bound are computed again for the other objective",
    ),
    Harmless(
        "pools.#.*",
        "*",
        _proved,
        "the pools that the plan is for, which no model has: all that follows is computed again",
    ),
    Harmless(
        "residency.*",
        "*",
        _always,
        "the buffers needed are derived again for the residency that the plan says",
    ),
    Harmless(
        "symbols",
        "delete",
        lambda plan, changed: not plan.symbols.unbounded,
        "a plan for the bounds alone claims less",
    ),
    Harmless(
        "symbols.dims.*",
        "*",
        lambda plan, changed: all(
            low >= wide.lower and (wide.upper is None or high <= wide.upper)
            for (low, high), wide in zip(
                changed.symbols.dims.values(), plan.symbols.dims.values(), strict=True
            )
        ),
        "fewer values claim less",
    ),
    Harmless(
        "symbols.unbounded.*",
        "*",
        lambda plan, changed: len(changed.symbols.storages) == len(plan.symbols.storages),
        "another number for a storage of the same tensors",
    ),
    Harmless(
        "status",
        "=feasible",
        lambda plan, changed: bool(plan.pieces),
        "pieces are ranked by more than the peak: a plan that meets its bound may claim less",
    ),
    Harmless(
        "first*|last*",
        "delete|empty",
        _proved,
        "the bound is proved again for all orders",
    ),
    Harmless(
        "capacity|pools.#.*|first*|last*|lower_bound|cost_bound_by",
        "*",
        _searched,
        "the word of a search is taken for its bound, as plan, report and docs/proved.md say",
    ),
]


def reasons(source: Source, plan: Plan, mutation: Mutation) -> list[Harmless] | None:
    """Reasons for which a changed plan may be accepted; ``None`` if it is refused or the same.

    Fields that follow from others, written for other readers, may be missing.
    """
    try:
        changed = plan_from_dict(mutation.values)
        verify(source, changed)
    except CpplanError as error:
        if "\n" in str(error):
            raise
        return None
    if changed == plan:
        return None
    return [
        row for row in HARMLESS if mutation.is_at(row.place, row.how) and row.holds(plan, changed)
    ]


def unexplained(source: Source, plan: Plan, few: int | None = None) -> list[str]:
    """Changes of a plan that are accepted without a reason; of some changes, if they are many."""
    every = list(mutations(plan))
    if few is not None:
        every = random.Random(plan.name).sample(every, min(few, len(every)))
    return [each.label for each in every if reasons(source, plan, each) == []]
