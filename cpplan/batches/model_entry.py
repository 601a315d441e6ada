"""One model of a batch: its source, and a digest by which its content is recognised."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from glob import glob
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpplan.batches.content_digest import digest_file, digest_value
from cpplan.io import load
from cpplan.io.formats import read_suffixes
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.names import check_name
from cpplan.model.problem import Problem
from cpplan.runtime.regular_file import check_source

if TYPE_CHECKING:
    from cpplan.program.anf import Program

_SCHEME = "zoo://"
# Packages of ``zoo://`` models; other versions may have other models under the same names.
_PACKAGES = ("onnx", "timm", "torch", "torchvision", "transformers")


@dataclass(frozen=True)
class Model:
    """A model under a name.

    Attributes
    ----------
    name
        Name of the model in its rows.
    source
        A file or ``zoo://…``, as ``cpplan.load`` takes it; or a graph, program or problem.
    dims, in_place, workspaces
        Options of ``cpplan.load``.

    Examples
    --------
    >>> Model("tiny", Problem(("a",), lower=[0], upper=[1], size=[4])).load().size.tolist()
    [4]
    """

    name: str
    source: Any
    dims: Mapping[str, Any] | None = None
    in_place: Mapping[str, bool] | None = None
    workspaces: Mapping[str, int | str] | None = None

    def __post_init__(self) -> None:
        check_name("a model's name", self.name)
        if isinstance(self.source, Path):
            object.__setattr__(self, "source", str(self.source))

    @property
    def is_file(self) -> bool:
        return isinstance(self.source, str) and not self.source.startswith(_SCHEME)

    def load(self) -> Graph | Program | Problem:
        """The graph, program or problem to be planned."""
        from cpplan.program.anf import Program

        if isinstance(self.source, Program):
            return self.source
        return load(self.source, dims=self.dims, in_place=self.in_place, workspaces=self.workspaces)

    def digest(self) -> str | None:
        """Digest of the content and of the reading options; ``None`` if the file cannot be read.

        A file's digest covers its bytes and the bytes of files that are read with it; the digest of
        ``zoo://…`` covers the name and the versions of the packages that have such models.
        """
        content: Any = self.source
        if self.is_file:
            try:
                check_source(self.source)
                content = [digest_file(path) for path in _files_of(Path(self.source))]
            except InputError:
                return None
        elif isinstance(self.source, str):
            content = self.source, _versions()
        stated = () if self.workspaces is None else (self.workspaces,)
        return digest_value((content, self.dims, self.in_place, *stated))


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def _files_of(path: Path) -> Iterable[Path]:
    """The file, and the second file of a listing that comes in two files."""
    if path.suffix.lower() != ".txt":
        return (path,)
    stem = path.name.removesuffix("-buffer-assignment.txt").removesuffix("-live-range.txt")
    other = (path.with_name(f"{stem}-{part}.txt") for part in ("buffer-assignment", "live-range"))
    return (path, *(beside for beside in other if beside != path and beside.is_file()))


def is_pattern(source: str, folder: Path) -> bool:
    """True if a source has wildcards (``*``, ``?``, ``[…]``) and is not itself a file's name."""
    return any(sign in source for sign in "*?[") and not os.path.exists(folder / source)


def models_like(pattern: str, folder: Path) -> list[Model]:
    """Files that match a pattern relative to a folder and have a known suffix, sorted by name."""
    found = sorted(
        name
        for name in glob(pattern, root_dir=folder, recursive=True)
        if name.lower().endswith(read_suffixes()) and (folder / name).is_file()
    )
    if not found:
        raise InputError(f"{pattern}: matches no file in {', '.join(read_suffixes())}")
    return [Model(name, str(folder / name)) for name in found]


def models_in(folder: Path, prefix: str = "") -> list[Model]:
    """Files in a folder that have a suffix known to ``cpplan.load``, sorted by name."""
    try:
        files = sorted(
            path for path in folder.iterdir() if path.name.lower().endswith(read_suffixes())
        )
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from error
    models = [Model(f"{prefix}{path.name}", str(path)) for path in files if path.is_file()]
    if not models:
        raise InputError(
            f"{folder}: no model in it: expected files in {', '.join(read_suffixes())}"
        )
    return models
