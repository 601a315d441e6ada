"""Process of one task, which it reads from standard input; writes its row to standard output."""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
from typing import BinaryIO


def main() -> None:
    """Plan the one task and end.

    Standard input stays open as long as the process that wants the row lives. This process ends
    with it, also if its parent was killed.
    """
    answer = _own_output()
    from cpplan.batches.task_planning import failed, plan_task

    # Before the model is read, which may be large itself.
    memory = pickle.load(sys.stdin.buffer)
    reason = limit_memory(memory)
    task = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_input, args=(sys.stdin.buffer,), daemon=True).start()
    row = plan_task(task) if reason is None else failed(task, "error", reason)
    answer.write(json.dumps(row).encode())
    answer.close()
    # Nothing else needs an orderly end.
    sys.stderr.flush()
    os._exit(0)


def _own_output() -> BinaryIO:
    """Stream to standard output, and standard output redirected to standard error for all else."""
    own = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(own, "wb")


def _end_with_input(stream: BinaryIO) -> None:
    while stream.read(1):
        pass
    os._exit(1)


def limit_memory(most: int | None) -> str | None:
    """Limit this process to ``most`` bytes of data; return a reason if that is impossible.

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
