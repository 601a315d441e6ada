"""Exported programs in ``.pt2`` archives, read without running code from the file.

An archive keeps weights and sample inputs as pickles or raw bytes, and the program as JSON.
Planning needs the JSON alone: weights become tensors without data, with the sizes that the archive
lists, and sample inputs are not read. Running a model reads the raw bytes of the weights, too.
torch evaluates some strings of the JSON, so :mod:`cpplan.io.torch.archive_check` checks it first.
Parts that only unpickling could read are refused by name.
"""

from __future__ import annotations

import json
import math
import os
import reprlib
import zipfile
from collections.abc import Mapping
from os import PathLike
from typing import Any

import torch
from torch._export.serde import schema
from torch._export.serde.serialize import (
    ExportedProgramDeserializer,
    _dict_to_dataclass,
    deserialize_scalar_type,
)
from torch.export import ExportedProgram

from cpplan.io.torch.archive_check import TRUSTED, check_program
from cpplan.model.errors import InputError
from cpplan.model.tensor import LIMIT
from cpplan.runtime.limits import check_text, read_unpacked

_PROGRAM = "models/model.json"
_OLDER = "serialized_exported_program.json"
# Folder -> the file that lists its contents, and the pickle that older versions wrote instead.
_PAYLOADS = {
    "data/weights": ("model_weights_config.json", "model.pt"),
    "data/constants": ("model_constants_config.json", "model.pt"),
}


def read_archive(
    path: str | PathLike[str], *, data: bool = False, drawn: bool = False
) -> ExportedProgram:
    """The exported program of a ``.pt2`` archive, without samples of its inputs."""
    if not zipfile.is_zipfile(path):
        raise InputError("not an exported program, or cut short: expected a .pt2 archive")
    try:
        with zipfile.ZipFile(path) as archive:
            members = _Members(archive, data, drawn=drawn, stored=os.path.getsize(path))
            values = members.read_json(_PROGRAM)
            program = _dict_to_dataclass(schema.ExportedProgram, values)
            check_program(program)
            weights, constants = (members.read_payloads(folder) for folder in _PAYLOADS)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError) as error:
        text = " ".join(str(error).split())
        raise InputError(f"not an exported program, or damaged: {text}") from error
    return ExportedProgramDeserializer().deserialize(program, weights, constants)


class _Members:
    """The members of an archive, by their names within its one folder."""

    def __init__(self, archive: zipfile.ZipFile, data: bool, *, drawn: bool, stored: int):
        self._archive, self._data, self._drawn = archive, data, drawn
        # Bytes of the file not read yet: limits members that are read twice or overlap in the file.
        self._stored = self._whole = stored
        self._infos: dict[str, zipfile.ZipInfo] = {}
        names = archive.namelist()
        if _OLDER in names:
            raise InputError(
                "an archive of an older layout, which can only be unpickled (serialized_*.pt): "
                "expected an archive written by torch.export.save of torch 2.8 or newer"
            )
        root = next((n.partition("/")[0] for n in names if n.endswith("/archive_format")), None)
        if root is None:
            raise InputError("not an exported program: expected archive_format in the archive")
        for info in archive.infolist():
            folder, _, name = info.filename.partition("/")
            if folder != root:
                continue
            if name in self._infos:
                raise InputError(f"two members are named {reprlib.repr(name)}: expected one")
            self._infos[name] = info
        for name, expected in {"archive_format": b"pt2", "archive_version": b"0"}.items():
            if (found := self._read(name)) != expected:
                raise InputError(f"{name} is {found[:20]!r}: expected {expected.decode()!r}")

    def read_json(self, name: str) -> Any:
        """Read a member as JSON."""
        data = self._read(name)
        check_text(data, name, stored=min(self._infos[name].compress_size, self._whole))
        try:
            return json.loads(data)
        except ValueError as error:  # neither text nor JSON, or a number too long
            raise InputError(f"{name} is not JSON") from error
        except RecursionError as error:
            raise InputError(f"{name}: nested too deeply") from error

    def read_payloads(self, folder: str) -> dict[str, torch.Tensor]:
        """Tensors of a folder by name; tensors in the same member share a storage."""
        listing, older = (f"{folder}/{name}" for name in _PAYLOADS[folder])
        if older in self._infos:
            raise InputError(f"{older} can only be unpickled: {TRUSTED}")
        values = self.read_json(listing)
        config = values.get("config") if isinstance(values, Mapping) else None
        if not isinstance(config, Mapping):
            raise InputError(f"{listing}: expected an object with a config")
        storages: dict[str, torch.Tensor] = {}
        return {
            name: self._tensor(f"{folder}: {name!r}", folder, entry, storages)
            for name, entry in config.items()
        }

    def _tensor(
        self, where: str, folder: str, entry: Any, storages: dict[str, torch.Tensor]
    ) -> torch.Tensor:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("path_name"), str):
            raise InputError(f"{where}: expected an object with a path_name")
        path, meta = entry["path_name"], entry.get("tensor_meta")
        if entry.get("use_pickle") is not False or not isinstance(meta, Mapping):
            raise InputError(f"{where} ({path}) can only be unpickled: {TRUSTED}")
        sizes, strides = (
            _numbers(meta.get(key), f"{where}: {key}") for key in ("sizes", "strides")
        )
        [offset] = _numbers([meta.get("storage_offset")], f"{where}: storage_offset")
        if len(sizes) != len(strides):
            raise InputError(f"{where}: {len(sizes)} sizes but {len(strides)} strides")
        reach = 0
        if 0 not in sizes:
            reach = offset + 1 + sum((e - 1) * s for e, s in zip(sizes, strides, strict=True))
        if path not in storages:
            dtype, nbytes = _dtype(meta.get("dtype"), where), self._size(f"{folder}/{path}")
            # If a tensor was exported without values, its member is empty.
            count = nbytes // dtype.itemsize if nbytes else reach
            if count * dtype.itemsize >= LIMIT:
                raise InputError(f"{where}: expected less than 2**62 bytes")
            if self._data and nbytes:
                raw = bytearray(self._read(f"{folder}/{path}"))
                if len(raw) < dtype.itemsize * max(1, count):
                    raise InputError(f"{where} has {len(raw)} B in {path}: expected {nbytes}")
                storages[path] = torch.frombuffer(raw, dtype=dtype, count=count)
            else:
                storages[path] = self._without_values(where, count, dtype)
        storage = storages[path]
        if reach > storage.numel():
            raise InputError(f"{where} ends after element {reach} of {storage.numel()} in {path}")
        if math.prod(sizes) * storage.itemsize >= LIMIT:
            raise InputError(f"{where}: expected sizes of less than 2**62 bytes")
        tensor = storage.as_strided(sizes, strides, offset)
        if not entry.get("is_param"):
            return tensor
        return torch.nn.Parameter(tensor, requires_grad=bool(meta.get("requires_grad")))

    def _without_values(self, where: str, count: int, dtype: torch.dtype) -> torch.Tensor:
        """A tensor whose values are missing in the archive, or are not needed."""
        size = count * dtype.itemsize
        if self._data and size and not self._drawn:
            raise InputError(f"{where} has no values in the archive: expected {size} B")
        try:
            return torch.empty((count,), dtype=dtype, device="cpu" if self._data else "meta")
        except RuntimeError as error:
            raise InputError(
                f"{where} takes {size} B, more than this machine can allocate"
            ) from error

    def _size(self, name: str) -> int:
        """Bytes of a member, as the archive's own list says."""
        if name not in self._infos:
            raise InputError(f"the archive has no member {name}")
        return self._infos[name].file_size

    def _read(self, name: str) -> bytes:
        self._size(name)
        try:
            with self._archive.open(self._infos[name]) as stream:
                data = read_unpacked(stream, name, stored=self._stored)
            self._stored -= len(data)
            return data
        except RuntimeError as error:  # encrypted
            raise InputError(f"{name} cannot be read: {error}") from error


def _dtype(number: Any, where: str) -> torch.dtype:
    """The element type of this number in an archive."""
    try:
        return deserialize_scalar_type(number)
    except (KeyError, TypeError) as error:
        raise InputError(f"{where}: dtype {reprlib.repr(number)} is not understood") from error


def _numbers(values: Any, where: str) -> list[int]:
    """Integers, each as ``{"as_int": n}``."""
    found = [value.get("as_int") if isinstance(value, Mapping) else None for value in values or ()]
    numbers = [number for number in found if type(number) is int and 0 <= number < 1 << 63]
    if len(numbers) != len(found):
        raise InputError(f"{where}: expected integers from 0 on")
    return numbers
