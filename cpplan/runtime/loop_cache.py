"""Store of compiled loops: beside the code, or in another writable folder.

If no folder is writable (a read-only installation without a home), loops are kept in a temporary
folder as long as this process lives. Other users cannot write there: a loop that is loaded is
executed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from cpplan.runtime.user_cache import VARIABLE, user_cache

# Environment variable: if it is 1, compiled loops check every index.
CHECKS = "CPPLAN_CHECK_LOOPS"
_folder: TemporaryDirectory[str] | None = None


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


def stamp(group: str, names: Sequence[str]) -> Path:
    """Path of a file that exists if the current loops of these modules were compiled here."""
    sources = [_source(name) for name in names]
    digest = sha256(machine().encode())
    for source in sources:
        digest.update(source.read_bytes())
    return code_folder(sources[0]) / f"cpplan-{group}-{digest.hexdigest()[:16]}.compiled"


def begin_storing(path: Path, group: str, names: Sequence[str]) -> None:
    """Delete stored loops of these modules that were compiled from other code than the present.

    ``path`` is the :func:`stamp` of the modules. A process that was ended while compiling has
    stored some of the loops: the next process continues from there. If several processes begin,
    only one deletes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = path.with_suffix(".begun")
    try:
        begun.touch(exist_ok=False)
    except FileExistsError:
        return
    forget(names)
    # If the source text returns to an earlier version, that is compiled again.
    for suffix in ("begun", "compiled"):
        for old in path.parent.glob(f"cpplan-{group}-*.{suffix}"):
            if old != begun:
                old.unlink(missing_ok=True)


def forget(names: Sequence[str]) -> None:
    """Delete the stored loops of modules."""
    for source in map(_source, names):
        for stored in code_folder(source).glob(f"{source.stem}.*.loop"):
            stored.unlink(missing_ok=True)


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
