"""Tasks run on this machine through joblib: the number of processes, and rows as tasks finish.

On this machine, each of joblib's threads controls one process at a time; on Dask (``cluster``),
each thread of a worker does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Literal

from cpplan.batches.isolation import Processes
from cpplan.batches.task import Task
from cpplan.batches.task_planning import Row
from cpplan.model.errors import InputError, MissingExtraError
from cpplan.runtime.cores import available_cores

Backend = Literal["processes", "dask"]
BACKENDS = ("processes", "dask")


def count_processes(tasks: Sequence[Task], wanted: int | None) -> int:
    """Number of tasks to run at once: together they have no more threads than there are cores."""
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
    """Raise unless ``wanted`` is a number of processes, or ``None`` for no choice."""
    if wanted is None:
        return
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise InputError(f"processes must be an integer from 1 on, not {wanted!r}")


def run_here(tasks: Sequence[Task], processes: int, tell: Callable[[str], None]) -> Generator[Row]:
    """Rows as tasks finish, at most ``processes`` of them running at once.

    ``tell`` gets a line, in any thread, about each group of loops that is compiled.
    """
    joblib = need_joblib()
    own = Processes(tell)
    work = joblib.Parallel(
        n_jobs=processes, backend="threading", return_as="generator_unordered", batch_size=1
    )
    try:
        yield from work(joblib.delayed(own.run)(task) for task in tasks)
    finally:
        own.stop()


def need_joblib() -> Any:
    """The module joblib; raises an error that names the extra if it is missing."""
    try:
        import joblib
    except ImportError as error:
        raise MissingExtraError("joblib", "batch", "a batch") from error
    return joblib
