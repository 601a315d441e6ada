"""Hands tasks out through joblib, and their rows in as they come.

Here, joblib's threads each look after one process at a time; on Dask, the workers' threads do.
"""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, Literal

from cpplan.batches.isolation import Processes, run_isolated
from cpplan.batches.task import Task
from cpplan.batches.task_planning import Row
from cpplan.cores import available_cores
from cpplan.errors import InputError, MissingExtraError

Backend = Literal["processes", "dask"]
BACKENDS = ("processes", "dask")


def count_processes(tasks: Sequence[Task], wanted: int | None) -> int:
    """How many tasks run at once, so that their threads are no more than the cores.

    Raises
    ------
    InputError
        If they would be more; names the numbers.
    """
    cores = available_cores()
    threads = max((task.setting.threads for task in tasks), default=1)
    if threads > cores:
        name = next(task.setting.name for task in tasks if task.setting.threads == threads)
        raise InputError(f"setting {name!r}: workers={threads} is more than the {cores} cores here")
    check_processes(wanted)
    if wanted is None:
        return cores // threads
    if wanted * threads > cores:
        raise InputError(
            f"{wanted} processes of up to {threads} threads are more than the {cores} cores here"
        )
    return wanted


def check_processes(wanted: object) -> None:
    """Refuse what is no number of processes; ``None`` leaves it open."""
    if wanted is None:
        return
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise InputError(f"processes must be at least 1, not {wanted!r}")


def run_here(tasks: Sequence[Task], processes: int) -> Generator[Row]:
    """Rows as they come, from so many processes at once."""
    joblib = need_joblib()
    own = Processes()
    work = joblib.Parallel(
        n_jobs=processes, backend="threading", return_as="generator_unordered", batch_size=1
    )
    try:
        yield from work(joblib.delayed(own.run)(task) for task in tasks)
    finally:
        own.stop()


def run_on_dask(tasks: Sequence[Task], scheduler: str | None) -> Generator[Row]:
    """Rows as they come, from a Dask cluster: as many at once as its workers have threads.

    A worker that is lost costs no row: its tasks go to others. Files must be where the workers find
    them under the same names. Where a run is interrupted, what its workers are at comes to its end
    there.

    Parameters
    ----------
    scheduler
        Address of the cluster's scheduler; the current client's if left out.
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
            # As bytes: Dask would spread larger objects over workers, and lose them with those.
            yield from work(joblib.delayed(run_isolated)(pickle.dumps(task)) for task in tasks)


def _keep_from_running_here(backend: Any) -> None:
    """For a cluster of one thread, joblib would not ask the cluster at all."""
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
        raise InputError(f"{where}: its workers keep ending: {error}") from error
    except TimeoutError as error:
        raise InputError(f"{where}: no worker has come") from error
    except CancelledError as error:
        raise InputError(f"{where}: the connection was lost") from error
    finally:
        if scheduler is not None:
            client.close()


def need_joblib() -> Any:
    """joblib, or the error that names the extra."""
    try:
        import joblib
    except ImportError as error:
        raise MissingExtraError("joblib", "batch", "a batch") from error
    return joblib
