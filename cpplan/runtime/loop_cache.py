"""Store of compiled loops: beside the code, or in another writable folder.

If no folder is writable (a read-only installation without a home), loops are kept in a temporary
folder as long as this process lives. Other users cannot write there: a loop that is loaded is
executed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from numbers import Number
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from cpplan.runtime.atomic import write_bytes

# Environment variable: if it is 1, compiled loops check every index.
CHECKS = "CPPLAN_CHECK_LOOPS"
# Module with loops -> the library of its group, once that is known to be stored.
ready_libraries: dict[str, Path] = {}
_folder: TemporaryDirectory[str] | None = None
# Environment variable that names the folder.
VARIABLE = "CPPLAN_CACHE"


@cache
def checked() -> bool:
    """True if compiled loops check every index."""
    return os.environ.get(CHECKS) == "1"


@cache
def machine() -> str:
    """Versions of Python, NumPy and LLVM and features of the processor, for which code is valid.

    A home folder may be shared by machines, and processors of one name may differ in features. The
    text also tells if loops check their indices: code with and without checks is kept side by side.
    """
    import llvmlite
    import numpy
    from llvmlite import binding

    features = binding.get_host_cpu_features().flatten()
    processor = binding.get_process_triple(), binding.get_host_cpu_name(), features
    versions = sys.version, numpy.__version__, llvmlite.__version__
    return repr((*versions, processor, "checked" if checked() else ""))


def library_path(group: str, kernels: Sequence[str], first_use: str) -> Path:
    """Path of a group's library: its name tells the machine and the code that it is made from."""
    digests = f"{_short(machine().encode())}-{_code_digest(tuple(kernels), first_use)}"
    return code_folder(_source(kernels[0])) / f"cpplan-{group}-{digests}.loops"


def store(path: Path, group: str, library: bytes) -> None:
    """Store a library, and delete those of the same group and machine made from other code."""
    write_bytes(path, library)
    for old in path.parent.glob(f"cpplan-{group}-{_short(machine().encode())}-*.loops"):
        if old != path:
            old.unlink(missing_ok=True)


@contextmanager
def compiling(path: Path, group: str) -> Iterator[None]:
    """Context in which one process at a time compiles a group for a folder; the others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / f"cpplan-{group}.lock").open("w") as lock:
        # Where files cannot be locked, several processes may compile the same.
        with suppress(OSError):
            lock_file(lock, wait=True)
        yield


@cache
def _code_digest(kernels: tuple[str, ...], first_use: str) -> str:
    """Digest of all source that the loops of some modules are made from."""
    found: dict[str, str] = {}
    for name in kernels:
        _add_constants(name, found)
    compiler = sorted(Path(__file__).with_name("loop_compiler").glob("*.py"))
    texts = [path.read_bytes() for path in (*compiler, _source(first_use))]
    for name, constants in sorted(found.items()):
        texts += _source(name).read_bytes(), constants.encode()
    return _short(b"\0".join(texts))


def _add_constants(name: str, found: dict[str, str]) -> None:
    """Add a module and all modules whose loops it calls, each with the numbers that it knows."""
    if name in found:
        return
    known = vars(import_module(name))
    numbers = {key: value for key, value in known.items() if isinstance(value, Number)}
    found[name] = repr(sorted(numbers.items()))
    for value in known.values():
        if hasattr(value, "tree"):
            _add_constants(value.__module__, found)


def _short(text: bytes) -> str:
    return sha256(text).hexdigest()[:16]


def environment() -> dict[str, str]:
    """Environment for another process, so that it stores loops where this process looks."""
    if _folder is None:
        return dict(os.environ)
    return {**os.environ, VARIABLE: _folder.name}


def code_folder(source: Path) -> Path:
    """Folder for the machine code of a source file: the first writable one.

    Tried in turn: the folder that the environment names, the folder beside the source, the user's
    cache folder, a temporary folder.
    """
    digest = sha256(str(source.parent).encode()).hexdigest()[:16]
    within = Path("loops") / f"{source.parent.name}_{digest}"
    named = environment().get(VARIABLE)
    if named:
        return Path(named) / within
    own = user_cache()
    for folder in (source.parent / "__pycache__", own / within if own else None):
        if folder is None:
            continue
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return Path(_temporary_folder()) / within


def _source(name: str) -> Path:
    """Source file of a module, found without importing it."""
    found = find_spec(name)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"no module {name}", name=name)
    return Path(found.origin)


def _temporary_folder() -> str:
    """Folder that is deleted when this process ends."""
    global _folder
    if _folder is None:
        _folder = TemporaryDirectory(prefix="cpplan-")
    return _folder.name


def user_cache() -> Path | None:
    """``CPPLAN_CACHE`` if set, else ``cpplan`` in the user's caches; ``None`` without a home."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    # Without a home folder, ``~`` is not expanded.
    return Path(caches) / "cpplan" if os.path.isabs(caches) else None


def lock_file(stream: IO[str], *, wait: bool = False) -> None:
    """Lock a file until it is closed or the process ends."""
    try:
        import fcntl
    except ImportError:
        import msvcrt

        # Waits ten seconds at most.
        how = msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK  # type: ignore[attr-defined]
        msvcrt.locking(stream.fileno(), how, 1)  # type: ignore[attr-defined]
        return
    fcntl.flock(stream, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
