"""Process of one task: reads the task from standard input, writes its row to standard output."""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
from typing import BinaryIO


def main() -> None:
    """Plan the one task and end.

    Standard input stays open as long as the process that waits for the row lives. When it closes,
    this process ends, even if its parent was killed.
    """
    answer = _own_output()
    from cpplan.batches.task_planning import failed, plan_task
    from cpplan.runtime.memory_limit import limit_memory

    # Set the limit before the model is read: the model itself may be large.
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
    """The stream to standard output; all other output there is redirected to standard error."""
    own = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(own, "wb")


def _end_with_input(stream: BinaryIO) -> None:
    while stream.read(1):
        pass
    os._exit(1)
