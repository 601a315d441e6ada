"""The search for a schedule of a joint graph within the limits of the settings."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cpplan.io.torch.training.joint_graph import JointGraph
from cpplan.io.torch.training.plan_cache import find_plan, keep_plan, plan_key
from cpplan.io.torch.training.settings import OTHER_SIZES, Settings, breaks_limit, limit_in
from cpplan.model.byte_sizes import format_bytes
from cpplan.model.errors import InfeasibleError, InputError, NotFoundError
from cpplan.model.plan_data import Progress
from cpplan.model.remat_problem import RematProblem
from cpplan.model.residency import Residency
from cpplan.ordering import loops as order_loops
from cpplan.program.anf import to_anf
from cpplan.remat.known_schedules import KnownSchedules, RematOutcome, better
from cpplan.remat.loops import SCHEDULES
from cpplan.remat.portfolio import ScheduleSearch
from cpplan.remat.problem import remat_problem
from cpplan.runtime.budget import Budget
from cpplan.runtime.compiled import compile_groups, is_ready
from cpplan.runtime.deadline import Deadline
from cpplan.runtime.interrupts import first_interrupt_ending
from cpplan.runtime.loop_cache import user_cache
from cpplan.runtime.progress import watching

_RESIDENCY = Residency(inputs="outside", outputs="keep", constants="outside")
# Least peak: shares of the time for an order, and of the rest for a first schedule.
_ORDER_SHARE, _BEGIN_SHARE = 0.2, 0.3
# Loops of the searches, those used first in front.
_LOOPS = (*order_loops.LOOPS, SCHEDULES)
_log = logging.getLogger("cpplan.torch")


@dataclass(frozen=True)
class Schedule:
    """A schedule of a joint graph.

    Attributes
    ----------
    order
        Names of ops, which may repeat.
    peak
        Bytes live at once, resident ones included.
    unplanned
        Peak of the given order, in which no op runs again, resident bytes included.
    memory_limit
        The limit on the peak in bytes; ``None`` if there is none.
    cost, base, bound
        Work of the schedule; work of running every op once; lower bound on the work of every
        schedule within the limit.
    least
        Lower bound on the peak of every schedule, resident bytes included.
    least_op
        The op that needs these bytes; ``None`` if they are live at the end.
    found_by, bound_by
        Names of the search and of the bound's proof.
    cached
        True if it comes from the cache.
    seconds
        Seconds spent on planning.
    """

    order: tuple[str, ...]
    peak: int
    unplanned: int
    memory_limit: int | None
    cost: float
    base: float
    bound: float
    least: int
    least_op: str | None
    found_by: str
    bound_by: str
    cached: bool
    seconds: float

    @property
    def extra_work(self) -> float:
        """Work of running ops again, as a part of running every op once."""
        return self.cost / self.base - 1 if self.base else 0.0

    @property
    def extra_bound(self) -> float:
        """Lower bound on :attr:`extra_work` within the limit."""
        return max(0.0, self.bound / self.base - 1) if self.base else 0.0


def plan_schedule(joint: JointGraph, settings: Settings, title: str = "step") -> Schedule:
    """A schedule within the limits of the settings.

    Parameters
    ----------
    title
        Name of the graph in errors.

    Raises
    ------
    InfeasibleError, NotFoundError
        If it is proved that no schedule is within the limits, or none was found in time, and
        ``on_infeasible`` is ``"error"``. Names the missing bytes, the op, and options that would
        help.
    """
    start, task = time.monotonic(), _read_task(joint, settings)
    problem, limit = task.problem, task.limit
    key = plan_key(
        joint.graph, limit, settings.cost_limit, settings.time_limit, settings.deterministic,
        settings.seed,
    )  # fmt: skip
    folder = _folder(settings)
    kept = find_plan(key, folder)
    found = _from_kept(problem, kept) if kept is not None else None
    cached = found is not None and not _ended_early(found, limit, settings)
    if found is None or not cached:
        found, ended = _search(task, settings)
        if ended:
            _log.warning("%s: planning was ended by Ctrl-C; the best plan so far is taken", title)
        else:
            _keep(key, folder, found)
    made = task.schedule(found, cached=cached, start=start)
    if settings.on_infeasible == "error":
        _check(title, task, made, settings)
    return made


def schedule_at(joint: JointGraph, settings: Settings, order: Sequence[str]) -> Schedule:
    """A schedule for other sizes, with its peak, work and limit at the sizes of a joint graph."""
    start, task = time.monotonic(), _read_task(joint, settings)
    first = {joint.graph.ops[ops[0]].name: unit for unit, ops in enumerate(task.problem.units)}
    known = KnownSchedules(task.problem, task.given)
    outcome = known.measure([first[name] for name in order if name in first], OTHER_SIZES)
    return task.schedule(_described(known, outcome), cached=False, start=start)


@dataclass(frozen=True)
class _Task:
    """Problem of a joint graph, its given order and peak, and the memory limit, all bytes in it."""

    problem: RematProblem
    given: list[int]
    outside: int
    unplanned: int
    memory_limit: int | None

    @property
    def limit(self) -> int | None:
        """The memory limit without resident bytes."""
        return None if self.memory_limit is None else self.memory_limit - self.outside

    def schedule(self, found: dict[str, Any], *, cached: bool, start: float) -> Schedule:
        ops = self.problem.graph.ops
        return Schedule(
            order=tuple(ops[op].name for op in self.problem.expand(found["schedule"])),
            peak=found["peak"] + self.outside,
            unplanned=self.unplanned,
            memory_limit=self.memory_limit,
            cost=found["cost"],
            base=self.problem.total_cost(range(len(self.problem))),
            bound=found["bound"],
            least=found["least"] + self.outside,
            least_op=found["least_op"],
            found_by=found["found_by"],
            bound_by=found["bound_by"],
            cached=cached,
            seconds=time.monotonic() - start,
        )


def _read_task(joint: JointGraph, settings: Settings) -> _Task:
    outside = joint.resident if settings.resident == "count" else 0
    problem = remat_problem(joint.graph, _RESIDENCY)
    unit_of = {op: unit for unit, ops in enumerate(problem.units) for op in ops}
    given = list(dict.fromkeys(unit_of[op] for op in to_anf(joint.graph).order))
    unplanned = problem.peak(given) + outside
    limit = limit_in(settings, unplanned, trains=bool(joint.backward))
    return _Task(problem, given, outside, unplanned, limit)


def _folder(settings: Settings) -> Path | None:
    if settings.cache is False:
        return None
    if isinstance(settings.cache, Path):
        return settings.cache
    folder = user_cache()
    return None if folder is None else folder / "training"


def _keep(key: str, folder: Path | None, found: dict[str, Any]) -> None:
    order = [int(unit) for unit in found["schedule"]]
    try:
        keep_plan(key, folder, {**found, "schedule": order})
    except InputError as error:
        _log.warning("the plan cannot be cached for later runs: %s", error)


def _search(task: _Task, settings: Settings) -> tuple[dict[str, Any], bool]:
    """The best schedule found, and True if Ctrl-C ended the search for it."""
    limit = task.limit
    known = KnownSchedules(task.problem, task.given)
    if known.once.peak > (known.least.bytes if limit is None else limit):
        _compile_loops()
    # Of this time, a third is kept for the least peak if the limit cannot be kept.
    deadline = Deadline(1.5 * settings.time_limit, deterministic=settings.deterministic)
    with first_interrupt_ending(deadline), _watching(task, known, settings):
        budget = Budget(deadline, settings.workers, settings.seed)
        found = _search_within(known, limit, settings, budget)
    missed = breaks_limit(settings, task.memory_limit, found.peak + task.outside)
    if deadline.cancelled and missed and settings.on_infeasible == "error":
        raise KeyboardInterrupt
    return _described(known, found), deadline.cancelled


@contextmanager
def _watching(task: _Task, known: KnownSchedules, settings: Settings) -> Iterator[None]:
    """Context in which improvements are told, as the settings say."""
    tell, begin = settings.progress, time.monotonic()
    shown = tell is True or (tell is None and sys.stderr is not None and sys.stderr.isatty())
    if not (shown or callable(tell)):
        yield
        return
    most = known.base * (settings.cost_limit or 1.0)

    def rank(found: RematOutcome) -> tuple[float, ...]:
        return (found.cost > most, found.peak) if task.limit is None else better(task.limit)(found)

    with watching(enabled=shown, seconds=settings.time_limit) as line:
        called = tell if callable(tell) else line
        assert called is not None
        least: RematOutcome | None = None

        def report(found: RematOutcome) -> None:
            nonlocal least
            if least is None or rank(found) < rank(least):
                least = found
                extra = f"{found.cost / known.base - 1:.1%} more work, " if known.base else ""
                peaks = found.peak + task.outside, known.least.bytes + task.outside
                event = Progress(time.monotonic() - begin, *peaks, extra + found.found_by)
                called(event)

        known.report = report
        report(known.outcomes[0])
        yield


def _search_within(
    known: KnownSchedules, limit: int | None, settings: Settings, budget: Budget
) -> RematOutcome:
    """The best schedule found within the limits, or the one of least peak if none is."""
    search, whole = ScheduleSearch(known), settings.time_limit
    most = None if settings.cost_limit is None else settings.cost_limit * known.base
    first = Deadline(whole, deterministic=settings.deterministic, parent=budget.deadline)
    within = budget.until(first)
    if limit is None:
        return _least(search, known.base if most is None else most, within)
    found = known.best(limit)
    if known.least.bytes <= limit:
        found = search.within(limit, within)
    if found.peak > limit:
        more = Deadline(whole / 2, deterministic=settings.deterministic, parent=budget.deadline)
        further = budget.until(more)
        found = _least(search, math.inf if most is None else most, further.share(0.7))
        found = search.within(found.peak, further)
    return found


def _described(known: KnownSchedules, found: RematOutcome) -> dict[str, Any]:
    """A schedule of units with its figures, as plans are kept."""
    unit = known.least.unit
    return {
        "schedule": list(found.schedule),
        "peak": found.peak,
        "cost": found.cost,
        "bound": found.bound,
        "least": known.least.bytes,
        "least_op": None if unit is None else known.problem.ordering.names[unit],
        "found_by": found.found_by,
        "bound_by": found.bound_by,
    }


def _compile_loops() -> None:
    """Compile the loops of the searches, once for each installation, before the time of a search.

    Within it, a search would wait for them, find less, or nothing.
    """
    missing = [group for group in _LOOPS if not is_ready(group)]
    if missing:
        compile_groups(missing, lambda name: _log.info("compiling the loops for %s", name))


def _least(search: ScheduleSearch, most: float, budget: Budget) -> RematOutcome:
    """The schedule of least peak found that costs at most ``most``."""
    search.search_order(0, budget.share(_ORDER_SHARE))
    if search.known.affords(most):
        search.start_below(most, budget.share(_BEGIN_SHARE))
        search.below(most, budget)
    return search.known.smallest(most)


def _from_kept(problem: RematProblem, kept: dict[str, Any]) -> dict[str, Any] | None:
    """A cached plan with its peak and cost computed anew; ``None`` if it is no valid schedule."""
    schedule = kept.get("schedule")
    units = range(len(problem))
    if not isinstance(schedule, list) or not all(
        isinstance(unit, int) and unit in units for unit in schedule
    ):
        return None
    texts = ("found_by", "bound_by")
    numbers = ("bound", "least")
    if not all(isinstance(kept.get(name), str) for name in texts):
        return None
    if not all(isinstance(kept.get(name), (int, float)) for name in numbers):
        return None
    if not problem.is_schedule(schedule):
        return None
    peak, cost = problem.peak(schedule), problem.total_cost(schedule)
    return {**kept, "peak": peak, "cost": cost, "least_op": kept.get("least_op")}


def _ended_early(found: dict[str, Any], limit: int | None, settings: Settings) -> bool:
    """True if a kept search found no plan within the limit, and did not prove that there is none.

    An error that it caused may not occur when the search runs again.
    """
    missed = limit is not None and found["least"] <= limit < found["peak"]
    return missed and settings.on_infeasible == "error"


def _check(title: str, task: _Task, found: Schedule, settings: Settings) -> None:
    """Raise if a schedule exceeds a limit, other than a share by a hundredth of it."""
    limit, most = found.memory_limit, settings.cost_limit
    if limit is not None and breaks_limit(settings, limit, found.peak):
        text = f"{title}: {_shortfall(task, found, limit, settings)}"
        raise InfeasibleError(text) if found.least > limit else NotFoundError(text)
    if most is not None and _exceeds(found.cost, most, found):
        text = (
            f"{title}: the least work found within {format_bytes(limit)} is "
            f"{1 + found.extra_work:.3f} times that of running every op once, above cost_limit "
            f"{most}: raise one of the limits"
        )
        proved = _exceeds(found.bound, most, found)
        raise InfeasibleError(text) if proved else NotFoundError(text)


def _exceeds(cost: float, most: float, found: Schedule) -> bool:
    """True if a cost exceeds a limit on the work, as a multiple of running every op once."""
    return cost > most * found.base * (1 + 1e-9)


def _shortfall(task: _Task, found: Schedule, limit: int, settings: Settings) -> str:
    """Text on a schedule beyond the memory limit: missing bytes, the op, and what would help."""
    problem = task.problem
    if found.least > limit:
        where = f"op {found.least_op!r}" if found.least_op else "the gradients at the end"
        reason = (
            f"every schedule needs at least {format_bytes(found.least)} ({where}), "
            f"{found.least - limit} B more than the limit"
        )
    else:
        unit_of = {name: k for k, name in enumerate(problem.ordering.names)}
        schedule = [unit_of[name] for name in found.order]
        fullest = int(np.argmax(problem.pressure(schedule)))
        reason = (
            f"the smallest schedule found needs {format_bytes(found.peak)} (op "
            f"{found.order[fullest]!r}), {found.peak - limit} B more than the limit; "
            f"at least {format_bytes(found.least)} are needed in any case"
        )
    asked, enough = format_bytes(limit), str(found.peak)
    if isinstance(settings.memory_limit, str):
        asked += f" ({settings.memory_limit})"
        enough = f"'{math.ceil(1000 * found.peak / found.unplanned) / 10:g}%'"
    helps = [f"memory_limit={enough}"]
    if task.outside:
        text = "resident='outside' if the limit is not meant to hold the "
        text += f"{format_bytes(task.outside)} "
        helps.append(text + "of parameters, buffers and inputs")
    if found.least <= limit:
        helps.append("a longer time_limit")
    helps.append("a smaller batch")
    return (
        f"no schedule within memory_limit {asked} was found: {reason}; "
        f"what would help: {', '.join(helps)}; on_infeasible='best' takes the smallest found"
    )
