"""``batch``: plans every model under every setting, and keeps rows that are done already."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from os import PathLike
from typing import TYPE_CHECKING, Any

from cpplan.batches.cluster import run_on_dask
from cpplan.batches.dispatch import BACKENDS, Backend, count_processes, run_here
from cpplan.batches.inputs import as_models, as_settings
from cpplan.batches.progress import BatchProgress
from cpplan.batches.row_store import RowStore
from cpplan.batches.setting import Setting
from cpplan.batches.table import to_frame
from cpplan.batches.task import Task, make_limits, make_tasks
from cpplan.batches.task_planning import Row
from cpplan.model.errors import InputError
from cpplan.packing import heuristics
from cpplan.solving.all_loops import warm_up

if TYPE_CHECKING:
    import pandas

BASELINES = ("greedy_by_size",)
# Statuses of plans; any other status means that the task failed.
PLANNED = ("optimal", "feasible", "infeasible", "unknown")


def batch(
    models: Mapping[str, Any] | Iterable[Any],
    settings: Mapping[str, Mapping[str, Any]] | Iterable[Setting] | None = None,
    output: str | PathLike[str] | None = None,
    *,
    baselines: Iterable[str] = BASELINES,
    processes: int | None = None,
    task_seconds: float | None = None,
    task_memory: int | str | None = None,
    backend: Backend = "processes",
    scheduler: str | None = None,
    retry: bool = False,
    progress: Callable[[BatchProgress], None] | None = None,
) -> pandas.DataFrame:
    """Plan every model under every setting, several tasks at once; the table has one row each.

    Every task runs in a process of its own: if it fails, crashes or reaches a limit, the status of
    its row says so. Heuristics that the calling program has registered are not known there.

    Parameters
    ----------
    models
        Name -> anything that ``cpplan.load`` takes; or a list of files or of ``Model``.
    settings
        Name -> keywords of :func:`cpplan.solve`, or a list of ``Setting``; if left out, one setting
        ``default`` with the defaults of ``solve`` and one worker. See
        :class:`~cpplan.batches.setting.Setting`.
    output
        The table to write, ``.parquet``; see :mod:`cpplan.batches.table` for its columns. Rows that
        an earlier run has left there, or beside it, are kept if model, setting, limits and version
        are unchanged; its other rows are dropped. Without ``output``, no rows are stored.
    baselines
        Names of heuristics to compare with.
    processes
        Number of tasks at once. If left out, as many as have no more threads together than there
        are cores; on Dask, one for each thread of its workers.
    task_seconds, task_memory
        Limits of each task; see :class:`~cpplan.batches.task.Limits`.
    backend, scheduler
        ``"dask"`` runs the tasks on a Dask cluster: ``scheduler`` is its address; if left out, the
        current client is used.
    retry
        Run failed tasks again.
    progress
        Called at the start, and with every row.

    Returns
    -------
    pandas.DataFrame
        The table: model by model, setting by setting.

    Raises
    ------
    InputError
        If an argument other than a model is not understood; names it.

    Examples
    --------
    >>> from cpplan import Problem
    >>> tiny = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> table = batch({"tiny": tiny}, {"plain": {}, "first fit": {"algorithm": "first_fit"}})
    >>> table[["model", "setting", "status", "bytes", "ratio_greedy_by_size"]].values.tolist()
    [['tiny', 'plain', 'optimal', 12, 1.0], ['tiny', 'first fit', 'optimal', 12, 1.0]]
    """
    chosen = tuple(dict.fromkeys([baselines] if isinstance(baselines, str) else baselines))
    for name in chosen:
        heuristics.get(name)
    store = None if output is None else RowStore(output)
    limits = make_limits(task_seconds, task_memory)
    tasks = make_tasks(as_models(models), as_settings(settings), chosen, limits)
    if backend not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise InputError(f"backend={backend!r} is not understood: expected one of {known}")
    if backend == "processes":
        if scheduler is not None:
            raise InputError("scheduler is for backend 'dask'")
        processes = count_processes(tasks, processes)
    elif processes is not None:
        raise InputError("processes is for this machine: backend 'dask' uses what its workers have")

    def run(some: Sequence[Task], tell: Callable[[str], None]) -> Generator[Row]:
        if processes is None:
            return run_on_dask(some, scheduler)
        # Compile once, before each of many processes starts to compile the same loops.
        warm_up(tell=lambda group: tell(f"compiling the loops for {group}, once"))
        return run_here(some, processes)

    rows = _run(tasks, run, store, chosen, retry, progress or (lambda _: None))
    return to_frame(rows, chosen)


def _run(
    tasks: Sequence[Task],
    run: Callable[[Sequence[Task], Callable[[str], None]], Generator[Row]],
    store: RowStore | None,
    baselines: tuple[str, ...],
    retry: bool,
    progress: Callable[[BatchProgress], None],
) -> list[Row]:
    start = time.monotonic()
    with nullcontext() if store is None else store:
        found = {} if store is None else store.found()
        rows = {task.key: found[task.key] for task in tasks if task.key in found}
        others = len(found) - len(rows)
        if retry:
            rows = {key: row for key, row in rows.items() if row["status"] in PLANNED}
        kept = len(rows)
        progress(BatchProgress(kept, len(tasks), kept, 0.0, others=others))
        missing = [task for task in tasks if task.key not in rows]
        if missing:

            def tell(note: str) -> None:
                seconds = time.monotonic() - start
                progress(BatchProgress(kept, len(tasks), kept, seconds, note=note))

            with closing(run(missing, tell)) as coming:
                for row in coming:
                    if store is not None:
                        store.keep(row)
                    rows[row["key"]] = row
                    seconds = time.monotonic() - start
                    progress(BatchProgress(len(rows), len(tasks), kept, seconds, row))
        ordered = [rows[task.key] for task in tasks]
        if store is not None:
            store.finish(ordered, baselines)
    return ordered
