"""Compiles groups of loops once for each installation, within the run's deadline.

The first use of a loop compiles it, which takes seconds, and stores the result beside the code.
``prepare`` is called before a loop is used. If the loop is not compiled yet, another process
compiles it, and the run waits for that process only as long as its deadline allows: time limits
also hold on the first run. ``compile_groups`` compiles ahead of time. Each room declares its groups
in its ``loops.py``.
"""

from __future__ import annotations

import atexit
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
from typing import TYPE_CHECKING

from cpplan.runtime.cores import available_cores
from cpplan.runtime.loop_cache import begin_storing, environment, stamp

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
        Modules with the loops. A module is in one group only: its stored code is deleted before its
        group is compiled.
    first_use
        ``module:function`` that calls every loop with the types of real uses.

    Examples
    --------
    >>> LoopGroup("sizes", ("cpplan.packing.sizes.fit_kernel",), "cpplan.packing.first_uses:sizes")
    LoopGroup(name='sizes', kernels=('cpplan.packing.sizes.fit_kernel',), \
first_use='cpplan.packing.first_uses:sizes')
    """

    name: str
    kernels: tuple[str, ...]
    first_use: str

    def use(self) -> None:
        """Use every loop once, which compiles and stores it if necessary."""
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
    if is_ready(group):
        return True
    if deadline.endless or not sys.executable:
        _announce(group)
        _compile(group)
    elif not _compile_elsewhere(group, deadline):
        return False
    _ready.add(group)
    return True


def prepare_all(groups: Sequence[LoopGroup], deadline: Deadline) -> bool:
    """True if all of these groups are ready; they are compiled side by side, the first ones first.

    At most one group for each core is compiled at a time, so that later groups do not slow down the
    ones needed first.
    """
    missing = [group for group in groups if not is_ready(group)]
    following = missing[available_cores() :]
    if not deadline.endless:
        for group in missing[: available_cores()]:
            begin(group)
    for group in missing:
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
    missing = [group for group in groups if not is_ready(group)]
    for group in missing[: available_cores()]:
        begin(group)
    if not prepare(groups[0], deadline):
        return False
    if missing and missing[0] is groups[0]:
        for group in missing[available_cores() :][:1]:
            begin(group)
    return True


def begin(group: LoopGroup) -> None:
    """Start another process that compiles these loops, unless they are ready; do not wait."""
    if not is_ready(group) and sys.executable:
        _compiler(group)


def is_ready(group: LoopGroup) -> bool:
    """True if these loops were compiled before, by any process."""
    if group not in _ready and _stamp(group).exists():
        _ready.add(group)
    return group in _ready


def load(group: LoopGroup) -> None:
    """Load loops that are ready, so that later timings do not include their loading."""
    if group not in _loaded:
        group.use()
        _loaded.add(group)


def may_load(deadline: Deadline) -> bool:
    """True if there is time to load loops; always true once this process has loaded any."""
    return bool(_loaded) or deadline.endless or deadline.remaining() >= LOADING_SECONDS


def compile_groups(
    groups: Sequence[LoopGroup], tell: Callable[[str], None] = lambda text: None
) -> dict[str, float]:
    """Name of a group -> seconds that it took to compile: almost 0 if it was ready.

    Parameters
    ----------
    groups
        Groups to compile side by side, each in a process of its own.
    tell
        Function called with the name of each group before it is compiled.
    """
    seconds = dict.fromkeys((group.name for group in groups), 0.0)
    missing = [group for group in groups if not _stamp(group).exists()]
    if len(missing) > 1 and sys.executable:
        seconds.update(_compile_side_by_side(missing, tell))
    else:
        for group in missing:
            start = time.monotonic()
            tell(group.name)
            _compile(group)
            seconds[group.name] = time.monotonic() - start
    _ready.update(groups)
    return seconds


def _compile_side_by_side(
    groups: Sequence[LoopGroup], tell: Callable[[str], None]
) -> Iterator[tuple[str, float]]:
    """Compile each group in a process of its own, as many at once as there are cores."""
    from cpplan.runtime.deadline import Deadline

    waiting, since = list(groups), dict[LoopGroup, float]()
    while waiting or since:
        while waiting and len(since) < available_cores():
            group = waiting.pop(0)
            tell(group.name)
            since[group] = time.monotonic()
            begin(group)
        for group, start in list(since.items()):
            if _compile_elsewhere(group, Deadline(0)):
                del since[group]
                yield group.name, time.monotonic() - start
        time.sleep(_PATIENCE)


def _compile(group: LoopGroup) -> None:
    """Use every loop of a group once, which compiles and stores it."""
    begin_storing(_stamp(group), group.name, group.kernels)
    # The group's first use asks if its loops are ready: say yes, they are being compiled here.
    _ready.add(group)
    try:
        group.use()
    except BaseException:
        _ready.discard(group)
        raise
    _stamp(group).touch()


def _compile_elsewhere(group: LoopGroup, deadline: Deadline) -> bool:
    """Wait for the process that compiles a group; other threads may wait for it too."""
    process = _compiler(group)
    while process.poll() is None:
        if deadline.expired():
            return False
        time.sleep(_PATIENCE)
    with _lock:
        if _compiling.get(group) is process:
            del _compiling[group]
            _, error = process.communicate()
            _last_lines[process.pid] = error.decode(errors="replace").strip().splitlines()[-1:]
    if process.returncode:
        last = " ".join(_last_lines[process.pid])
        raise RuntimeError(f"compiling the loops for {group.name} failed: {last}")
    return True


def _compiler(group: LoopGroup) -> subprocess.Popen[bytes]:
    """The process that compiles a group, begun now if there is none."""
    with _lock:
        if group not in _compiling:
            _announce(group)
            null, command = subprocess.DEVNULL, _command(group)
            # In a session of its own: Ctrl-C ends the run that waits, but not the compilation.
            _compiling[group] = subprocess.Popen(
                command,
                stdin=null,
                stdout=null,
                stderr=PIPE,
                env=environment(),
                start_new_session=True,
            )
        return _compiling[group]


def _announce(group: LoopGroup) -> None:
    _tell.get()(f"compiling the loops for {group.name}, once for this installation")


def _command(group: LoopGroup) -> list[str]:
    module = "cpplan.runtime.compiled"
    # With this process's path, the new process compiles the loops of this copy of cpplan.
    path = f"import sys; sys.path[:] = {sys.path!r}"
    script = f"from {module} import LoopGroup, compile_groups; compile_groups([{group!r}])"
    return [sys.executable, "-c", f"{path}; {script}"]


@atexit.register
def _stop_compiling() -> None:
    for process in _compiling.values():
        process.kill()


def _after_fork() -> None:
    """Forget the parent's compiling processes, which a forked child must not wait for or end."""
    global _lock
    _compiling.clear()
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _stamp(group: LoopGroup) -> Path:
    return stamp(group.name, group.kernels)
