"""The options of a cell as data: a new option is a line here.

The first value of an option is its default; options that rules read together stand together. The
combinations that cpplan refuses are its own tables (``cpplan.solving.combined_options`` and
``cpplan.io.refused_exports``); ``NEEDS`` has those that do not exist at all, such as the file of
another format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from cpplan import Graph, Op, Pool, Problem, Program, Tensor, to_anf
from cpplan.io.execution import RUNNERS
from cpplan.io.formats import writers
from cpplan.io.refused_exports import EXPORT_RULES
from cpplan.model.refusals import Refusal
from cpplan.model.symbols import Symbols
from cpplan.solving.combined_options import OPTION_RULES, SOURCE_RULES

Cell = dict[str, Any]

EXPORTS = tuple(form.name for form in writers() if form.name not in ("plan", "report"))
OPTIONS: dict[str, tuple[Any, ...]] = {
    "source": (
        "graph", "bodies", "program", "repeats", "expression", "networkx", "problem",
        "pooled problem", "onnx", "tflite", "torch", "pt2", "executorch",
    ),
    "use": ("simulate", "again", "json", "explain", "report", "execute", *EXPORTS),
    "sizes": ("fixed", "bounds"),
    "inputs": ("reuse", "keep", "outside"),
    "outputs": ("keep", "outside"),
    "constants": (None, "outside", "keep"),
    "pools": ("arena", "limited", "two", "two limited", "direct", "three", "constants", "endless"),
    "remat": (False, True),
    "split": (False, True),
    "spill": (False, True),
    "objective": ("preference", "total", "cost", "time"),
    "cost_limit": (None, 1.0, 1.3),
    "memory_limit": (None, "100%", "75%"),
    "capacity": (None, "90%"),
    "order": ("given", "search"),
    "ends": (None, "first", "last"),
    "in_place": (False, True),
    "placement": (None, False, True),
    "piece_bytes": (0, 8),
    "algorithm": (None, "bump"),
    "deterministic": (True, False),
    "workers": (1, 2),
    "seed": (0, 7),
    "suggest": (0.0, 0.5),
}  # fmt: skip


class Need(NamedTuple):
    """A value of one option that exists only with some values of another."""

    option: str
    value: Any
    other: str
    values: tuple[Any, ...]


_FILES = {".onnx": ("onnx",), ".tflite": ("tflite",), ".pt2": ("pt2", "torch")}
# What ExecuTorch's pass takes; the others keep their defaults.
_PASSED = ("source", "order", "in_place", "workers", "seed", "deterministic", "algorithm")
NEEDS = (
    Need("sizes", "bounds", "source", ("graph", "networkx", "onnx", "torch", "pt2")),
    Need("use", "execute", "source", tuple(s for r in RUNNERS for s in _FILES[r.suffix])),
    *(Need("use", f.name, "source", _FILES[f.model]) for f in writers() if f.model is not None),
    *(
        Need("source", "executorch", option, values[:1])
        for option, values in OPTIONS.items()
        if option not in _PASSED
    ),
)


def fields_of(cell: Mapping[str, Any], room: int = 100, names: tuple[str, ...] = ("op",)) -> Cell:
    """Keywords of ``solve`` for a cell, or for a part of one.

    Parameters
    ----------
    room
        Bytes that the model has live at once, from which the sizes of pools follow.
    names
        Names of an op that may run first and of one that may run last.
    """
    fields = {k: v for k, v in cell.items() if k not in ("source", "use", "sizes", "ends")}
    if "pools" in fields:
        fields["pools"] = pools_of(fields["pools"], room)
    if "ends" in cell:
        fields["first"] = names[:1] if cell["ends"] == "first" else ()
        fields["last"] = names[-1:] if cell["ends"] == "last" else ()
    return fields


def pools_of(name: str, room: int) -> tuple[Pool, ...] | None:
    """Memory regions, some too small for all."""
    if name.startswith("fast of "):
        return (pools_of(name.removeprefix("fast of "), room) or ())[:1]
    some = max(1, room * 3 // 5)
    slow: dict[str, Any] = {"read_bandwidth": 2, "write_bandwidth": 1, "read_latency": 3}
    return {
        "arena": None,
        "limited": (Pool("sram", room),),
        "two": (Pool("fast", some, cost_per_byte=2), Pool("slow")),
        "two limited": (Pool("fast", some, 4), Pool("slow", room, engine=True, **slow)),
        "direct": (Pool("fast", some, cost_per_byte=2), Pool("slow", direct=True, **slow)),
        "endless": (Pool("fast"), Pool("slow", **slow)),
        "constants": (Pool("ram"), Pool("flash", kind="constant")),
        "three": (Pool("a", some // 2), Pool("b", some, 8, cost_per_byte=3), Pool("c", **slow)),
    }[name]


@cache
def example_of(source: str, sizes: str) -> Program | Problem:
    """A source of the kind, as small as can be, for rules that look at it."""
    if source in ("problem", "pooled problem"):
        pools = (Pool("a"), Pool("b")) if source == "pooled problem" else (Pool(),)
        return Problem(("b",), [0], [1], [4], pools=pools)
    if sizes == "bounds":
        tensors = (Tensor("t", shape=("n",), dtype="int8"),)  # type: ignore[arg-type]
        ops = (Op("op", outputs=("t",)),)
        return to_anf(Graph("g", tensors, ops, Symbols({"n": (1, 4)})))
    bodies = (Graph("body", (), ()),) if source == "bodies" else ()
    program = to_anf(Graph("g", (Tensor("t", 4),), (Op("op", outputs=("t",), bodies=bodies),)))
    return Program(program.graph, (0, 0)) if source == "repeats" else program


def refused_by(cell: Cell) -> Refusal | None:
    """The first rule of cpplan's that refuses a cell, if one does."""
    return next((rule for rule in _rules_of(cell["use"]) if rule.when(*_asked(rule, cell))), None)


def exists(cell: Cell) -> bool:
    """True unless the cell breaks a need."""
    return all(cell[need.option] != need.value or cell[need.other] in need.values for need in NEEDS)


@cache
def forbidden() -> tuple[Cell, ...]:
    """Values that may not be together: those that rules refuse, and those that break a need."""
    found = [
        {need.option: need.value, need.other: value}
        for need in NEEDS
        for value in OPTIONS[need.other]
        if value not in need.values
    ]
    return (*found, *(cell for refused in refusals().values() for cell in refused))


@cache
def refusals() -> dict[Refusal, tuple[Cell, ...]]:
    """Every rule of cpplan's, and the values that it does not let be together."""
    found = {rule: tuple(_refused(rule, {})) for rule in (*OPTION_RULES, *SOURCE_RULES)}
    for use, rules in EXPORT_RULES.items():
        found |= {rule: tuple(_refused(rule, {"use": use})) for rule in rules}
    return found


def _rules_of(use: str) -> tuple[Refusal, ...]:
    return (*OPTION_RULES, *SOURCE_RULES, *EXPORT_RULES.get(use, ()))


class _UndecidedError(Exception):
    """A rule asks for an option that has no value yet."""


class _Asked:
    """A request, or the source that it is for, with values for some options."""

    def __init__(self, fields: Cell, undecided: str | None = None):
        object.__setattr__(self, "known", (fields, undecided))

    def __getattribute__(self, name: str) -> Any:
        fields, undecided = object.__getattribute__(self, "known")
        if name in fields:
            return fields[name]
        raise _UndecidedError(undecided or ("ends" if name in ("first", "last") else name))


def _asked(rule: Refusal, cell: Cell) -> tuple[object, ...]:
    """The arguments of a rule for a cell, or for a part of one."""
    request = _Asked(fields_of(cell))
    if rule in OPTION_RULES:
        return (request,)
    undecided = next((option for option in ("source", "sizes") if option not in cell), None)
    if undecided is not None:
        return request, _Asked({}, undecided)
    source = example_of(cell["source"], cell["sizes"])
    bare = isinstance(source, Problem)
    return request, source if bare or rule in SOURCE_RULES else source.graph


def _refused(rule: Refusal, cell: Cell) -> Iterator[Cell]:
    """The values, besides these, with which the rule refuses: no more of them than it asks for."""
    try:
        if rule.when(*_asked(rule, cell)):
            yield cell
    except _UndecidedError as undecided:
        (option,) = undecided.args
        for value in OPTIONS[option]:
            yield from _refused(rule, {**cell, option: value})


def changed(cell: Mapping[str, Any]) -> Cell:
    """The options of a cell that do not have their defaults, for messages."""
    return {k: v for k, v in cell.items() if v != OPTIONS[k][0] or k in ("source", "use")}
