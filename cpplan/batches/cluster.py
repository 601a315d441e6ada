"""Tasks on a Dask cluster, through joblib's backend for it."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from cpplan.batches.dispatch import need_joblib
from cpplan.batches.isolation import run_isolated
from cpplan.batches.task import Task
from cpplan.batches.task_planning import Row
from cpplan.model.errors import InputError, MissingExtraError


def run_on_dask(tasks: Sequence[Task], scheduler: str | None) -> Generator[Row]:
    """Rows from a Dask cluster as tasks finish; each thread of its workers runs one task at a time.

    A worker that is lost costs no row: its tasks go to others. The workers must find the files
    under the same names. If a run is interrupted, its workers finish the tasks that they have
    begun.

    Parameters
    ----------
    scheduler
        Address of the cluster's scheduler; if left out, the current client's scheduler.

    Raises
    ------
    InputError
        If the cluster cannot be reached within Dask's time limit for connections (30 seconds by
        default), has no workers, or is lost; names the cluster.
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
