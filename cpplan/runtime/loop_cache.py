"""Store of compiled loops: beside the code, or in another folder that numba may write to.

If it may write to none (a read-only installation without a home), loops are kept in a temporary
folder as long as this process lives. No other user can write there, since numba runs what it loads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

_folder: TemporaryDirectory[str] | None = None


def stamp(group: str, names: Sequence[str]) -> Path:
    """Path of a file that exists if these modules' present loops were compiled on this machine."""
    import llvmlite.binding

    modules = [_load(name) for name in names]
    machine = sys.version, version("numba"), llvmlite.binding.get_host_cpu_name()
    digest = sha256(repr(machine).encode())
    for module in modules:
        digest.update(Path(str(module.__file__)).read_bytes())
    return _cache_folder(modules[0]) / f"cpplan-{group}-{digest.hexdigest()[:16]}.compiled"


def begin_storing(path: Path, group: str, names: Sequence[str]) -> None:
    """Keep what is stored of these modules only if it is of their present code.

    ``path`` is their :func:`stamp`. A process that was ended in the middle of compiling has stored
    some of the loops: the next one goes on from there.
    """
    begun = path.with_suffix(".begun")
    if begun.exists():
        return
    forget(names)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Whoever goes back to earlier code has to compile it again.
    for suffix in ("begun", "compiled"):
        for old in path.parent.glob(f"cpplan-{group}-*.{suffix}"):
            old.unlink(missing_ok=True)
    begun.touch()


def forget(names: Sequence[str]) -> None:
    """Delete numba's stored loops, since it misses changes in the functions that a loop calls."""
    for name in names:
        for suffix in ("nb[ic]", "loop"):
            for stored in _cache_folder(_load(name)).glob(f"{name.rpartition('.')[2]}.*.{suffix}"):
                stored.unlink(missing_ok=True)


def environment() -> dict[str, str]:
    """Environment for another process, so that it stores loops where this one looks."""
    if _folder is None:
        return dict(os.environ)
    return {**os.environ, "NUMBA_CACHE_DIR": _folder.name}


def code_folder(source: Path) -> Path:
    """Folder for the machine code of a source file: the first that may be written to.

    The one that the environment names for numba, the one beside the source, the user's own, or a
    temporary one.
    """
    digest = sha256(str(source.parent).encode()).hexdigest()[:16]
    within = f"{source.parent.name}_{digest}"
    named = environment().get("NUMBA_CACHE_DIR")
    if named:
        return Path(named) / within
    for folder in (source.parent / "__pycache__", Path.home() / ".cache" / "cpplan" / within):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return Path(_temporary_folder()) / within


def _load(name: str) -> ModuleType:
    try:
        return import_module(name)
    except RuntimeError as error:
        if _folder is not None or "no locator available" not in str(error):
            raise
    _temporary_folder()
    return import_module(name)


def _temporary_folder() -> str:
    """Folder that is deleted when this process ends; numba stores there too."""
    global _folder
    if _folder is None:
        import numba

        _folder = TemporaryDirectory(prefix="cpplan-")
        numba.config.CACHE_DIR = _folder.name  # type: ignore[attr-defined]
    return _folder.name


def _cache_folder(module: ModuleType) -> Path:
    """Folder in which the compiled loops of a module are stored."""
    for value in vars(module).values():
        if hasattr(value, "stats"):
            return Path(value.stats.cache_path)
        if hasattr(value, "first_line"):
            return value.folder  # type: ignore[no-any-return]
    raise RuntimeError(f"{module.__name__} has no compiled loops")
