"""The process of one task: reads it from standard input, writes its row to standard output."""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
from typing import BinaryIO


def main() -> None:
    """Plan the one task and end.

    Standard input stays open as long as whoever wants the row lives: its end is ours, also where
    nobody was left to tell us.
    """
    answer = _own_output()
    from cpplan.batches.task_planning import failed, plan_task

    # Before the model is there, which may be large itself.
    memory = pickle.load(sys.stdin.buffer)
    reason = limit_memory(memory)
    task = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_input, args=(sys.stdin.buffer,), daemon=True).start()
    row = plan_task(task) if reason is None else failed(task, "error", reason)
    answer.write(json.dumps(row).encode())
    answer.close()
    # Whatever else would be torn down is not worth waiting for.
    sys.stderr.flush()
    os._exit(0)


def _own_output() -> BinaryIO:
    """Standard output, which from now on is standard error for everybody else."""
    own = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(own, "wb")


def _end_with_input(stream: BinaryIO) -> None:
    while stream.read(1):
        pass
    os._exit(1)


def limit_memory(most: int | None) -> str | None:
    """Let this process have so many bytes of data; why that cannot be, if so.

    Data, not address space: the latter counts what libraries only reserve, gigabytes of it.
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
