"""``batch``: plans every model under every setting, and keeps rows that are done already."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from os import PathLike
from threading import Lock
from typing import TYPE_CHECKING, Any

from cpplan.batches.dispatch import BACKENDS, Backend, count_processes, need_joblib, run_here
from cpplan.batches.inputs import as_models, as_settings
from cpplan.batches.isolation import run_isolated
from cpplan.batches.progress import BatchProgress
from cpplan.batches.row_store import RowStore
from cpplan.batches.setting import Setting
from cpplan.batches.table import to_frame
from cpplan.batches.task import Task, make_limits, make_tasks
from cpplan.batches.task_planning import Row
from cpplan.model.errors import InputError, MissingExtraError
from cpplan.model.names import not_understood
from cpplan.packing import heuristics

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
        Called at the start, with every row, and with a note, in any thread, when loops are
        compiled; calls do not overlap.

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
        raise not_understood(f"backend={backend!r}", backend, BACKENDS)
    if backend == "processes":
        if scheduler is not None:
            raise InputError("scheduler is for backend 'dask'")
        processes = count_processes(tasks, processes)
    elif processes is not None:
        raise InputError("processes is for this machine: backend 'dask' uses what its workers have")

    def run(some: Sequence[Task], tell: Callable[[str], None]) -> Generator[Row]:
        if processes is None:
            return run_on_dask(some, scheduler)
        return run_here(some, processes, tell)

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
            showing = Lock()

            def show(row: Row | None = None, note: str | None = None) -> None:
                with showing:
                    seconds = time.monotonic() - start
                    progress(BatchProgress(len(rows), len(tasks), kept, seconds, row, note))

            with closing(run(missing, lambda note: show(note=note))) as coming:
                for row in coming:
                    if store is not None:
                        store.keep(row)
                    rows[row["key"]] = row
                    show(row)
        ordered = [rows[task.key] for task in tasks]
        if store is not None:
            store.finish(ordered, baselines)
    return ordered


def run_on_dask(tasks: Sequence[Task], scheduler: str | None) -> Generator[Row]:
    """Rows from a Dask cluster as tasks finish; each thread of its workers runs one task at a time.

    A worker that is lost costs no row: its tasks go to others. The workers must find the files
    under the same names. If a run is interrupted, its workers finish the tasks that they have
    begun.
    """
    joblib = need_joblib()
    with _client_of(scheduler) as client:
        threads = max((task.setting.threads for task in tasks), default=1)
        slots = sum(client.nthreads().values())
        at_once = "2*n_jobs" if threads == 1 else max(1, slots // threads)
        with joblib.parallel_config(backend="dask", client=client, pure=False) as config:
            _keep_from_running_here(config["backend"])
            work = joblib.Parallel(
                return_as="generator_unordered", batch_size=1, pre_dispatch=at_once
            )
            # Tasks are sent as bytes: Dask would spread larger objects over workers and lose them
            # with a worker.
            yield from work(joblib.delayed(run_isolated)(pickle.dumps(task)) for task in tasks)


def _keep_from_running_here(backend: Any) -> None:
    """Make joblib use a cluster of one thread, which it would otherwise bypass."""
    count = backend.effective_n_jobs
    backend.effective_n_jobs = lambda n_jobs: max(2, count(n_jobs))


@contextmanager
def _client_of(scheduler: str | None) -> Iterator[Any]:
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError("distributed", "dask", "backend 'dask'") from error
    connect: Any = distributed.Client
    client: Any
    try:
        if scheduler is None:
            client = distributed.get_client()
        else:
            _greet(scheduler)
            client = connect(scheduler, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = "backend 'dask' needs a scheduler: there is no client"
        if scheduler is not None:
            reason = f"scheduler {scheduler!r} cannot be reached"
        raise InputError(f"{reason}: {error}") from error
    where = f"scheduler {client.scheduler.address!r}"
    try:
        yield client
    except distributed.KilledWorker as error:
        raise InputError(f"{where}: its workers end again and again: {error}") from error
    except TimeoutError as error:
        raise InputError(f"{where}: no worker has joined the cluster") from error
    except CancelledError as error:
        raise InputError(f"{where}: the connection was lost") from error
    finally:
        if scheduler is not None:
            client.close()


def _greet(scheduler: str) -> None:
    """Shake hands with a scheduler; raise ``OSError`` or ``ValueError`` if there is none.

    Without this check, a client that finds no scheduler would take a minute to end, and would wait
    for ever for a server that listens there but never answers.
    """
    import dask
    from dask.utils import parse_timedelta
    from distributed import security
    from distributed.comm import core

    given = dask.config.get("distributed.comm.timeouts.connect")
    seconds = float(parse_timedelta(given, default="seconds"))

    connect: Any = core.connect
    secrets: Any = security.Security

    async def shake() -> None:
        hand = connect(scheduler, timeout=seconds, **secrets().get_connection_args("client"))
        (await asyncio.wait_for(hand, seconds + 1)).abort()

    try:
        # In a thread of its own: the caller's thread may have a running event loop, as in
        # notebooks.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, shake()).result()
    except (TimeoutError, asyncio.TimeoutError) as error:
        raise OSError(f"no answer within {seconds:g} s") from error
    except (OSError, ValueError):
        raise
    except Exception as error:  # another server's answer, read as a greeting, can raise anything
        raise OSError(f"the answer is not from a Dask scheduler: {type(error).__name__}") from error
