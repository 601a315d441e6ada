"""Compiles groups of loops once for each installation, within the run's deadline.

The loops of a group are compiled together, which takes a second or two, and stored beside the code
as its *library*. ``prepare`` is called before a loop is used. If its group is not compiled yet,
another process compiles it, and the run waits for that process only as long as its deadline allows:
time limits also hold on the first run. ``compile_groups`` compiles ahead of time. Each room
declares its groups in its ``loops.py``.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, NoReturn

from cpplan.runtime.cores import available_cores
from cpplan.runtime.loop_cache import (
    compiling,
    environment,
    library_path,
    ready_libraries,
    store,
)
from cpplan.runtime.loop_compiler.loop import is_noting, noting

if TYPE_CHECKING:
    from cpplan.runtime.deadline import Deadline

# Share of the time left that a stage waits for its loops, if other stages can go on.
COMPILING_SHARE = 0.1
# Seconds to import the compiler and to load compiled loops, once for each process.
LOADING_SECONDS = 0.1
# Seconds after which a waiting run looks at its deadline again.
_PATIENCE = 0.05


@dataclass(frozen=True, slots=True)
class LoopGroup:
    """Compiled loops that are used together, and therefore made ready together.

    A group has only names: declaring it does not import the compiler, and its ``repr`` can be
    passed to another process.

    Attributes
    ----------
    name
        Name by which users ask for the group.
    kernels
        Modules with the loops. A module is in one group only.
    first_use
        ``module:function`` that calls every loop that Python calls, with the types of real uses.
        It runs as Python: the loops are compiled for the arguments that it gives them.
    """

    name: str
    kernels: tuple[str, ...]
    first_use: str

    def use(self) -> None:
        """Use every loop once."""
        module, _, function = self.first_use.partition(":")
        getattr(import_module(module), function)()


_ready: set[LoopGroup] = set()
# Groups that this process has loaded.
_loaded: set[LoopGroup] = set()
# Processes that are compiling; they outlive the deadlines of stages, but not this process.
_compiling: dict[LoopGroup, subprocess.Popen[bytes]] = {}
# Process that has ended -> the last line of its error output.
_last_lines: dict[int, list[str]] = {}
_lock = threading.Lock()
_leave: Callable[[Sequence[LoopGroup]], NoReturn] | None = None
_tell: ContextVar[Callable[[str], None]] = ContextVar("tell", default=lambda text: None)


@contextmanager
def telling(tell: Callable[[str], None]) -> Iterator[None]:
    """Context in which ``tell`` gets a line about each group that must be compiled."""
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)


def prepare(group: LoopGroup, deadline: Deadline) -> bool:
    """True if these loops are ready; waits until they are, but not beyond the deadline.

    O(1) once they are ready.
    """
    if not missing([group]):
        return True
    if deadline.endless or not sys.executable:
        _announce(group)
        _compile(group)
    elif not _compile_elsewhere(group, deadline):
        return False
    _set_ready(group)
    return True


def prepare_all(groups: Sequence[LoopGroup], deadline: Deadline) -> bool:
    """True if all of these groups are ready; they are compiled side by side, the first ones first.

    At most one group for each core is compiled at a time, so that later groups do not slow down the
    ones needed first.
    """
    waiting = missing(groups)
    following = waiting[available_cores() :]
    if not deadline.endless:
        for group in waiting[: available_cores()]:
            begin(group)
    for group in waiting:
        if not prepare(group, deadline):
            return False
        if following and not deadline.endless:
            begin(following.pop(0))
    return True


def prepare_first(groups: Sequence[LoopGroup], deadline: Deadline) -> bool:
    """True if the first of these groups is ready; the others are compiled meanwhile, in order.

    The caller goes on with the first group and does not wait for the others.
    """
    if deadline.endless:
        return prepare_all(groups, deadline)
    waiting = missing(groups)
    for group in waiting[: available_cores()]:
        begin(group)
    if not prepare(groups[0], deadline):
        return False
    if waiting and waiting[0] is groups[0]:
        for group in waiting[available_cores() :][:1]:
            begin(group)
    return True


def begin(group: LoopGroup) -> None:
    """Start another process that compiles these loops, unless they are ready; do not wait."""
    if missing([group]) and sys.executable:
        _compiler(group)


def missing(groups: Sequence[LoopGroup]) -> list[LoopGroup]:
    """Groups that are not ready; where another process compiles, they are left to it."""
    found = [group for group in groups if not is_ready(group)]
    if found and _leave is not None:
        _leave(found)
    return found


def leave_compiling_to(other: Callable[[Sequence[LoopGroup]], NoReturn]) -> None:
    """Call a function with groups that are needed and not ready, from now on in this process.

    It ends the process: who has started it compiles the groups, and starts it again.
    """
    global _leave
    _leave = other


def is_ready(group: LoopGroup) -> bool:
    """True if these loops were compiled before, by any process."""
    if group not in _ready and not is_noting() and _path(group).exists():
        _set_ready(group)
    return group in _ready or is_noting()


def _set_ready(group: LoopGroup) -> None:
    _ready.add(group)
    ready_libraries.update(dict.fromkeys(group.kernels, _path(group)))


def load(group: LoopGroup) -> None:
    """Load loops, compiled now if they are not ready, so that later timings do not include that."""
    from cpplan.runtime.loop_compiler.library import open_library

    if group in _loaded or is_noting():
        return
    if missing([group]):
        _compile(group)
        _set_ready(group)
    open_library(_path(group))
    _loaded.add(group)


def may_load(deadline: Deadline) -> bool:
    """True if there is time to load loops; always true once this process has loaded any."""
    return bool(_loaded) or deadline.endless or deadline.remaining() >= LOADING_SECONDS


def compile_groups(
    groups: Sequence[LoopGroup], tell: Callable[[str], None] = lambda text: None
) -> dict[str, float]:
    """Name of a group -> seconds that it took to compile: 0 if it was ready."""
    seconds = dict.fromkeys((group.name for group in groups), 0.0)
    missing = [group for group in groups if not _path(group).exists()]
    count = min(available_cores(), len(missing)) if sys.executable else 1
    if count > 1:
        seconds.update(_compile_side_by_side(missing, count, tell))
    else:
        seconds.update({group.name: _compile(group, tell) for group in missing})
    for group in groups:
        _set_ready(group)
    return seconds


def compile_for_another(groups: Sequence[LoopGroup]) -> None:
    """Compile groups for the process that reads the output: a line of JSON before and after each.

    The line has the name of the group, and afterwards the seconds that it took.
    """

    def say(name: str, seconds: float | None = None) -> None:
        # One write, since several processes write to one pipe.
        sys.stdout.write(f"{json.dumps([name, seconds])}\n")
        sys.stdout.flush()

    for group in groups:
        say(group.name, _compile(group, say))


def _compile_side_by_side(
    groups: Sequence[LoopGroup], count: int, tell: Callable[[str], None]
) -> dict[str, float]:
    """Seconds of each group; every process compiles its share, then what others have not begun."""
    shares = [groups[k::count] for k in range(count)]
    orders = [[*own, *(each for each in reversed(groups) if each not in own)] for own in shares]
    seconds: dict[str, float] = {}
    reading, writing = os.pipe()
    processes = [_start(order, stdout=writing) for order in orders]
    os.close(writing)
    try:
        with open(reading) as news:
            for name, took in map(json.loads, news):
                if took is None:
                    tell(name)
                else:
                    seconds[name] = max(took, seconds.get(name, 0.0))
        for process in processes:
            process.wait()
            if (failure := _failure(process)) is not None:
                raise RuntimeError(f"compiling the loops of the searches failed: {failure}")
    finally:
        for process in processes:
            process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()
    return seconds


def _compile(group: LoopGroup, tell: Callable[[str], None] = lambda text: None) -> float:
    """Compile and store a group in this process, unless another one does or did so.

    Returns the seconds that it took, 0 if another process did it.
    """
    from cpplan.runtime.loop_compiler.library import make_library

    path, took = _path(group), 0.0
    with compiling(path, group.name):
        if not path.exists():
            start = time.monotonic()
            tell(group.name)
            with noting(group.kernels) as uses:
                group.use()
            store(path, group.name, make_library(list(uses)))
            took = time.monotonic() - start
    return took


def _compile_elsewhere(group: LoopGroup, deadline: Deadline) -> bool:
    """Wait for the process that compiles a group; other threads may wait for it too."""
    process = _compiler(group)
    while process is not None and process.poll() is None:
        if deadline.expired():
            return False
        time.sleep(_PATIENCE)
    if process is None:
        return True
    with _lock:
        failure = _failure(process)
        if _compiling.get(group) is process:
            if failure is None:
                _set_ready(group)
            del _compiling[group]
    if failure is not None:
        raise RuntimeError(f"compiling the loops for {group.name} failed: {failure}")
    return True


def _failure(process: subprocess.Popen[bytes]) -> str | None:
    """Last message of a process that has ended and has failed to compile its loops."""
    if process.pid not in _last_lines:
        _, error = process.communicate()
        _last_lines[process.pid] = error.decode(errors="replace").strip().splitlines()[-1:]
    return " ".join(_last_lines[process.pid]) if process.returncode else None


def _compiler(group: LoopGroup) -> subprocess.Popen[bytes] | None:
    """The process that compiles a group, begun now if there is none; ``None`` if it is ready."""
    with _lock:
        if group not in _compiling and not is_ready(group):
            _announce(group)
            _compiling[group] = _start([group], stdout=subprocess.DEVNULL)
        return _compiling.get(group)


def _start(groups: Sequence[LoopGroup], stdout: int) -> subprocess.Popen[bytes]:
    # In a session of its own: Ctrl-C ends the run that waits, but not the compilation.
    return subprocess.Popen(
        _command(groups),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=PIPE,
        env=environment(),
        start_new_session=True,
    )


def _announce(group: LoopGroup) -> None:
    _tell.get()(f"compiling the loops for {group.name}, once for this installation")


def _command(groups: Sequence[LoopGroup]) -> list[str]:
    module = "cpplan.runtime.compiled"
    # With this process's path, the new process compiles the loops of this copy of cpplan.
    path = f"import sys; sys.path[:] = {sys.path!r}"
    script = f"from {module} import LoopGroup, compile_for_another; compile_for_another({groups!r})"
    return [sys.executable, "-c", f"{path}; {script}"]


@atexit.register
def _stop_compiling() -> None:
    for process in list(_compiling.values()):  # other threads may still wait
        process.kill()


def _after_fork() -> None:
    """Forget the parent's compiling processes, which a forked child must not wait for or end."""
    global _lock
    _compiling.clear()
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _path(group: LoopGroup) -> Path:
    return library_path(group.name, group.kernels, group.first_use.partition(":")[0])
