"""Request: all options of ``solve``, one field for each option.

The metadata of a field has its name on the command line, its allowed values and its help. The
commands make their options from this table, batches the keywords of a setting, and both the message
for a value that is not understood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from cpplan.model.errors import InputError, OptionError, located
from cpplan.model.names import check_key, not_understood, tuple_of
from cpplan.model.pool import Objective
from cpplan.model.refusals import refuse
from cpplan.runtime.budget import Budget, Tuning, make_budget, tuning_in_use
from cpplan.runtime.deadline import Deadline
from cpplan.runtime.search_options import check_search_options
from cpplan.solving.combined_options import OPTION_RULES, SOURCE_RULES
from cpplan.solving.option import Option, option_field
from cpplan.solving.tuning import make_tuning

if TYPE_CHECKING:
    from cpplan.model.graph import Graph
    from cpplan.model.plan_data import Progress, RelationKind
    from cpplan.model.pool import Pool
    from cpplan.model.problem import Problem
    from cpplan.program.anf import Program

Freedom = Literal["order", "in place", "placement", "remat", "split"]

# Least seconds for a part of a run.
_SHORTEST = 0.001


def _read_limit(text: str) -> int | str:
    """A byte count, or a share as it is written."""
    from cpplan.model.byte_sizes import parse_bytes
    from cpplan.solving.shares import is_share

    return text if is_share(text) else parse_bytes(text)


def _read_bytes(text: str | int) -> int:
    from cpplan.model.byte_sizes import parse_bytes

    return parse_bytes(text)


def _read_piece_bytes(given: str | int | Mapping[str, Any]) -> int | Mapping[str, int]:
    if not isinstance(given, Mapping):
        return _read_bytes(given)
    return {name: _read_bytes(value) for name, value in given.items()}


def _read_pools(texts: tuple[str, ...]) -> tuple[Pool, ...] | None:
    from cpplan.solving.pool_texts import parse_pools

    return parse_pools(texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """All arguments of ``solve`` except the model; see :func:`cpplan.solve` for the fields.

    All options are checked together when the request is made; :meth:`check_source` checks those
    that depend on the model. A missing order is filled in. Limits are bytes or shares (``"60%"``).

    Raises
    ------
    InputError
        If an option is not understood, or two of them contradict each other.
    """

    inputs: str = option_field(
        "reuse", "--inputs",
        "Graph inputs: bytes free after their last use, kept, or not in the arena.",
        "choice", choices=("reuse", "keep", "outside"),
    )  # fmt: skip
    outputs: str = option_field(
        "keep", "--outputs",
        "Graph outputs: in the arena to the end, or not at all.",
        "choice", choices=("keep", "outside"),
    )  # fmt: skip
    constants: str | None = option_field(
        None, "--constants",
        "Constants: in memory of their own (default), or in a pool throughout.",
        "choice", choices=("outside", "keep"),
    )  # fmt: skip
    in_place: bool = option_field(
        False, "--in-place/--no-in-place",
        "Let ops write results over operands that no later op reads.",
        "switch",
    )  # fmt: skip
    placement: bool | None = option_field(
        None, "--placement/--no-placement",
        "Let a tensor lie within one that it is only copied to or from (default: as --in-place).",
        "switch",
    )  # fmt: skip
    pools: tuple[Pool, ...] | None = option_field(
        None, "--pool",
        "A memory region; several in order of preference (sram=256KiB). Keys: alignment, base, "
        "kind, cost_per_byte, read_bandwidth, write_bandwidth, read_latency, write_latency, "
        "direct, engine.",
        "text", metavar="NAME[=SIZE][,key=value]", many=True, read=_read_pools,
    )  # fmt: skip
    objective: Objective = option_field(  # noqa: RUF009  (makes a field)
        "preference", "--objective",
        "With several pools: fill the preferred ones first (preference), fewest bytes in all "
        "(total), or least cost (cost). With --spill: least time (time).",
        "text", metavar="NAME",
    )  # fmt: skip
    workers: int | None = option_field(
        None, "--workers",
        "Threads; as many as there are cores by default.",
        "integer", between=(1, 1024),
    )  # fmt: skip
    seed: int = option_field(
        0, "--seed",
        "For random choices.",
        "integer", between=(0, 2**31 - 1),
    )  # fmt: skip
    time_limit: float = option_field(
        60.0, "--time-limit",
        "Seconds for everything; the best plan so far is then returned.",
        "seconds", metavar="S",
    )  # fmt: skip
    capacity: int | str | None = option_field(
        None, "--capacity",
        "Stop at the first plan that fits (256KiB, or 60% of the bytes live at once in the given "
        "order).",
        "text", metavar="BYTES|P%", read=_read_limit,
    )  # fmt: skip
    memory_limit: int | str | None = option_field(
        None, "--memory-limit",
        "The plan must fit (256KiB, 60%), and be as small as can be.",
        "text", metavar="BYTES|P%", read=_read_limit,
    )  # fmt: skip
    order: str | None = option_field(
        None, "--order",
        "Run ops as the model lists them (default, except with --remat), or search for the order "
        "that needs the fewest bytes.",
        "choice", choices=("given", "search"),
    )  # fmt: skip
    remat: bool = option_field(
        False, "--remat",
        "Let ops run again, at the least extra cost within --memory-limit, or within the pools if "
        "all have a size.",
        "flag",
    )  # fmt: skip
    split: bool = option_field(
        False, "--split",
        "Let ops run in pieces: the fewest bytes at no more than --cost-limit (1 if left out), or "
        "the least extra cost within --memory-limit.",
        "flag",
    )  # fmt: skip
    cost_limit: float | None = option_field(
        None, "--cost-limit",
        "With --remat or --split: the fewest bytes at R times the cost of running every op once.",
        "number", metavar="R",
    )  # fmt: skip
    piece_bytes: int | Mapping[str, int] = option_field(
        0, "--piece-bytes",
        "With --split: bytes that the runtime keeps outside the arena for each run beyond one per "
        "op; plans are ranked by the sum.",
        "text", metavar="BYTES", read=_read_bytes,
    )  # fmt: skip
    spill: bool = option_field(
        False, "--spill",
        "Let tensors move between two pools, the first fast and the second slow, with the fewest "
        "bytes moved.",
        "flag",
    )  # fmt: skip
    suggest: float = option_field(
        0.0, "--suggest",
        "Seconds, after the plan, to try decisions that were not asked for and cost no work: what "
        "they would save is told.",
        "number", metavar="S",
    )  # fmt: skip
    first: tuple[str, ...] = option_field(
        (), "--first",
        "Searched orders start with these ops.",
        "text", metavar="OP", many=True,
    )  # fmt: skip
    last: tuple[str, ...] = option_field(
        (), "--last",
        "Searched orders end with these ops.",
        "text", metavar="OP", many=True,
    )  # fmt: skip
    algorithm: str | None = option_field(
        None, "--algorithm",
        "Let this heuristic alone pack (compare lists them).",
        "text", metavar="NAME",
    )  # fmt: skip
    deterministic: bool = option_field(
        False, "--deterministic",
        "Count work instead of time.",
        "flag",
    )  # fmt: skip
    tuning: Mapping[str, Any] | None = None
    progress: Callable[[Progress], None] | None = None

    def __post_init__(self) -> None:
        with _of_options():
            self._check()

    def _check(self) -> None:
        """Fill in what follows from other options, and raise unless they go together."""
        for name, option in OPTIONS.items():
            _check_value(name, getattr(self, name), option)
        set_field = object.__setattr__
        if self.order is None:
            searched = self.remat and not self.spill
            set_field(self, "order", "search" if searched else "given")
        for name in ("first", "last"):
            set_field(self, name, tuple_of(str, name, getattr(self, name)))
        if self.pools is not None:
            from cpplan.model.pool import check_pools

            set_field(self, "pools", check_pools(self.pools))
        for name in ("capacity", "memory_limit"):
            limit = getattr(self, name)
            if limit is not None:
                with located(name):
                    set_field(self, name, _read_limit(limit))
        with located("piece_bytes"):
            set_field(self, "piece_bytes", _read_piece_bytes(self.piece_bytes))
        check_search_options(
            self.time_limit, self.workers, self.seed, deterministic=self.deterministic
        )
        refuse(OPTION_RULES, self)
        _check_cost_limit(self.cost_limit)
        _check_seconds("suggest", self.suggest)
        if self.algorithm is not None:
            from cpplan.packing import heuristics

            heuristics.get(self.algorithm)
        self._tuning()

    def tell(self, event: Progress, deadline: Deadline) -> None:
        """Tell the caller an event; ``KeyboardInterrupt`` raised there ends the run as Ctrl-C."""
        if self.progress is not None:
            try:
                self.progress(event)
            except KeyboardInterrupt:
                deadline.cancel()

    @property
    def sharing(self) -> frozenset[RelationKind]:
        """Kinds of aliases that may be used."""
        placement = self.in_place if self.placement is None else self.placement
        kinds: dict[RelationKind, bool] = {"in place": self.in_place, "placement": placement}
        return frozenset(kind for kind, use in kinds.items() if use)

    def budget(self) -> Budget:
        """The budget of the whole run; its time starts now."""
        return make_budget(
            self.time_limit,
            self.workers,
            self.seed,
            deterministic=self.deterministic,
            tuning=self._tuning(),
        )

    def bytes_of_runs(self, graph: Graph) -> dict[str, int]:
        """Op -> bytes that the runtime keeps for each run beyond its first; empty if none."""
        given = self.piece_bytes
        if isinstance(given, int):
            return {op.name: given for op in graph.ops} if given else {}
        unknown = next((name for name in given if name not in graph.op), None)
        if unknown is not None:
            raise InputError(f"piece_bytes: graph {graph.name!r} has no op {unknown!r}")
        return {name: count for name, count in given.items() if count}

    def within(self, seconds: float) -> Request:
        """The request with another time limit, at least a millisecond."""
        return replace(self, time_limit=max(seconds, _SHORTEST))

    @property
    def freedoms(self) -> frozenset[Freedom]:
        """Decisions that are left to the search, and that a smaller search does without."""
        constrained = bool(self.first or self.last)
        used: dict[Freedom, bool] = {
            "order": self.order == "search" and not constrained,
            "in place": self.in_place,
            "placement": "placement" in self.sharing and not self.spill,
            "remat": self.remat,
            "split": self.split,
        }
        return frozenset(freedom for freedom, use in used.items() if use)

    def without(self, *freedoms: Freedom) -> Request:
        """The same request with some freedoms less."""
        remat, split = (
            self.remat and "remat" not in freedoms,
            self.split and "split" not in freedoms,
        )
        placement = "placement" in self.sharing and "placement" not in freedoms
        return replace(
            self,
            order="given" if "order" in freedoms else self.order,
            in_place=self.in_place and "in place" not in freedoms,
            placement=self.placement if self.spill else placement,
            remat=remat,
            split=split,
            cost_limit=self.cost_limit if remat or split else None,
            piece_bytes=self.piece_bytes if split else 0,
        )

    def check_source(self, source: Program | Problem) -> None:
        """Raise if an option does not go with the kind of source."""
        with _of_options():
            refuse(SOURCE_RULES, self, source)

    def _tuning(self) -> Tuning:
        return make_tuning(self.tuning, tuning_in_use())


OPTIONS: Mapping[str, Option] = {
    known.name: known.metadata["option"] for known in fields(Request) if known.metadata
}
# Options where many models are planned: no row has suggestions.
BATCHED = tuple(name for name in OPTIONS if name != "suggest")
# All keywords of a file.
KEYWORDS = (*BATCHED, "tuning")


def make_request(options: Mapping[str, Any]) -> Request:
    """A request from keywords of ``solve`` in a file."""
    for key in options:
        check_key(key, KEYWORDS)
    return Request(**options)


@contextmanager
def _of_options() -> Iterator[None]:
    """Context in which errors of the input are of options."""
    try:
        yield
    except InputError as error:
        raise OptionError(str(error)) from error


def _check_value(name: str, value: Any, option: Option) -> None:
    """Raise if the table does not allow a value; ``None`` is allowed only as the default."""
    if value is None and Request.__dataclass_fields__[name].default is None:
        return
    if option.choices and value not in option.choices:
        raise not_understood(f"{name}={value!r}", value, option.choices)
    if option.kind in ("switch", "flag") and not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, not {value!r}")


def _check_seconds(name: str, seconds: Any) -> None:
    number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not (number and 0 <= seconds < math.inf):
        raise InputError(f"{name} must be a number of seconds from 0 on, not {seconds!r}")


def _check_cost_limit(limit: Any) -> None:
    number = isinstance(limit, (int, float)) and not isinstance(limit, bool)
    if limit is not None and not (number and 1 <= limit < math.inf):
        raise InputError(f"cost_limit must be at least 1, not {limit!r}")
