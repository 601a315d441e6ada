"""Process of one task: reads the task from standard input, writes its row to standard output."""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO, NoReturn

if TYPE_CHECKING:
    from cpplan.batches.task_planning import Row


def main() -> None:
    """Plan the one task and end.

    Standard input stays open as long as the process that waits for the row lives. When it closes,
    this process ends, even if its parent was killed.
    """
    answer = _own_output()
    from cpplan.batches.task_planning import LACKS, failed, plan_task
    from cpplan.runtime.compiled import LoopGroup, leave_compiling_to

    # Set the limit before the model is read: the model itself may be large.
    memory = pickle.load(sys.stdin.buffer)
    reason = limit_memory(memory)
    task = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_input, args=(sys.stdin.buffer,), daemon=True).start()
    answering = threading.Lock()

    def end_with(row: Row) -> NoReturn:
        # Another thread may lack loops too.
        answering.acquire()
        answer.write(json.dumps(row).encode())
        answer.close()
        # Nothing else needs an orderly end.
        sys.stderr.flush()
        os._exit(0)

    def lack(groups: Sequence[LoopGroup]) -> NoReturn:
        end_with({LACKS: [group.name for group in groups]})

    leave_compiling_to(lack)
    end_with(plan_task(task) if reason is None else failed(task, "error", reason))


def _own_output() -> BinaryIO:
    """The stream to standard output; all other output there is redirected to standard error."""
    own = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(own, "wb")


def _end_with_input(stream: BinaryIO) -> None:
    while stream.read(1):
        pass
    os._exit(1)


def limit_memory(most: int | None) -> str | None:
    """Limit this process to ``most`` bytes of data; return a reason if that is impossible.

    The limit is on data, not on address space, which includes gigabytes that libraries only
    reserve.
    """
    if most is None:
        return None
    try:
        import resource
    except ImportError:
        return "a memory limit needs a system with resource limits (POSIX)"
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    _, hard = resource.getrlimit(kind)
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (limit, hard))
    return None
