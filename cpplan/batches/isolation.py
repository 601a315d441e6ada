"""Tasks in processes of their own, so that a crash ends neither another task nor the batch."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO

from cpplan.batches.task import Task
from cpplan.batches.task_planning import LACKS, Row, failed, lacks_memory, machine
from cpplan.model.printable import MESSAGE, printable
from cpplan.runtime.compiled import prepare_all, telling
from cpplan.runtime.deadline import Deadline
from cpplan.runtime.loop_cache import environment
from cpplan.solving.all_loops import GROUPS

# Seconds between two looks if the run was stopped, while loops are compiled.
_PATIENCE = 0.2

# Environment variables that set the number of threads of libraries.
_THREADS = (
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
)


class Processes:
    """The processes of one run, which can all be ended at once.

    Parameters
    ----------
    tell
        Function called, in any thread, with a line about each group of loops that is compiled.
    """

    def __init__(self, tell: Callable[[str], None] = lambda text: None) -> None:
        self._tell = tell
        self._lock = threading.Condition()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._runs = 0  # calls of ``run`` that have not ended
        self._stopped = False

    def start(self, threads: int) -> subprocess.Popen[bytes]:
        """A new process, which waits for its task."""
        # Ctrl-C reaches the whole process group: a task that it cuts short would look like a
        # result.
        code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        # With this process's module path, the new process finds the same packages.
        code += f"import sys; sys.path[:] = {sys.path!r}; "
        code += "from cpplan.batches.task_process import main; main()"
        pipe, own = subprocess.PIPE, environment() | dict.fromkeys(_THREADS, str(threads))
        with self._lock:
            if self._stopped:
                raise KeyboardInterrupt
            process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=pipe, stdout=pipe, stderr=pipe, env=own,
            )  # fmt: skip
            self._running.add(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process if it still runs, wait for it, and close its pipes."""
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        with self._lock:
            self._running.discard(process)

    def stop(self) -> None:
        """Kill all processes, wait for them and for calls of ``run``, and refuse to start more."""
        with self._lock:
            self._stopped = True
            running = tuple(self._running)
        for process in running:
            process.kill()
        for process in running:
            process.wait()
        with self._lock:
            self._lock.wait_for(lambda: self._runs == 0)

    def run(self, task: Task) -> Row:
        """The task's row; its status tells if the process failed or took too long.

        If the task lacks compiled loops, they are compiled, once for all tasks, and the task is run
        again: neither its limits nor its plan depend on what was compiled before.
        """
        with self._lock:
            self._runs += 1
        try:
            while LACKS in (row := self._run(task)):
                self._compile(row[LACKS])
        except RuntimeError as error:
            return failed(task, "error", str(error)) | {"machine": machine()}
        finally:
            with self._lock:
                self._runs -= 1
                self._lock.notify_all()
        return row

    def _compile(self, names: Sequence[str]) -> None:
        """Compile groups of loops, unless another task's thread does so already."""
        with telling(self._tell):
            while not prepare_all([GROUPS[name] for name in names], Deadline(_PATIENCE)):
                if self._stopped:
                    raise KeyboardInterrupt

    def _run(self, task: Task) -> Row:
        start = time.perf_counter()
        process = self.start(task.setting.threads)
        # ``communicate`` would close standard input, and the process lives only while that is open.
        given, process.stdin = process.stdin, None
        assert given is not None
        limit = task.limits.seconds
        data = pickle.dumps(task.limits.memory) + pickle.dumps(task)
        # The time limit must also hold for a process that never reads all of a large task.
        sender = threading.Thread(target=_send, args=(given, data), daemon=True)
        sender.start()
        try:
            answer, errors = process.communicate(timeout=limit)
            row = _read_row(task, process.returncode, answer, errors.decode(errors="replace"))
        except subprocess.TimeoutExpired:
            row = failed(task, "out of time", f"it took more than {limit:g} seconds")
        finally:
            self.end(process)
            sender.join()
            with suppress(OSError):
                given.close()
        return {"task_seconds": time.perf_counter() - start, "machine": machine()} | row


def run_isolated(task: bytes) -> Row:
    """Row of a pickled task that runs in a process of its own; for workers on other machines."""
    return Processes().run(pickle.loads(task))


def _send(stream: IO[bytes], data: bytes) -> None:
    # If the process has ended already, its exit code and output say why.
    with suppress(BrokenPipeError):
        stream.write(data)
        stream.flush()


def _read_row(task: Task, code: int, answer: bytes, errors: str) -> Row:
    if code == 0:
        row: Row = json.loads(answer)
        return row
    last = next((line for line in reversed(errors.splitlines()) if line.strip()), "")
    if lacks_memory(task, errors):
        return failed(task, "out of memory", printable(last.strip(), MESSAGE))
    how = f"its process ended with code {code}"
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}
        how = f"its process was ended by {names.get(-code, f'signal {-code}')}"
    text = f"{how}: {last.strip()}" if last else how
    return failed(task, "crashed", printable(text, MESSAGE))
