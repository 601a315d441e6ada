"""Readers of other planners' listings, recognised by their content, and of their answers alone."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path

from cpplan.model.answers import Answer
from cpplan.model.errors import InputError
from cpplan.model.problem import Problem
from cpplan.runtime.json_file import read_text


def read_listing(path: str | PathLike[str]) -> Problem:
    """The packing problem that a listing describes, with the other planner's answer.

    Listings understood: XLA's buffer assignment and live ranges, vela's ``--verbose-allocation``,
    and a Relax module in which TVM planned its storages.

    Raises
    ------
    InputError
        If the file cannot be read, is cut short, or is not such a listing; names the file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "notes.txt")
    ...     _ = path.write_text("allocation 0")
    ...     try:
    ...         read_listing(path)
    ...     except InputError as error:
    ...         print(str(error).split(": ")[1])
    not a listing that is understood
    """
    from cpplan.comparison.rivals.relax_script import STORAGE, read_relax
    from cpplan.comparison.rivals.vela_listing import TITLE, read_vela
    from cpplan.comparison.rivals.xla_dump import ASSIGNMENT, RANGES, read_xla

    text = read_text(path)
    if text.startswith((ASSIGNMENT, RANGES)):
        return read_xla(path)
    if TITLE in text:
        return read_vela(path)
    if STORAGE in text:
        return read_relax(path)
    raise InputError(
        f"{path}: not a listing that is understood: expected XLA's buffer assignment or live "
        "ranges, vela's --verbose-allocation, or a Relax script with alloc_storage"
    )


def read_answers(path: str | PathLike[str]) -> tuple[Answer, ...]:
    """Peaks that other planners state, in bytes, from a file that they wrote.

    The file is a profile of ONNX Runtime (``.json``) or a listing that :func:`cpplan.load` reads
    (``.txt``). Only the bytes of a listing are kept, since its buffers have the other planner's
    names.

    Raises
    ------
    InputError
        If the file cannot be read, or is neither of these; names the file.

    Examples
    --------
    >>> read_answers("model.onnx")
    Traceback (most recent call last):
    ...
    cpplan.model.errors.InputError: model.onnx: expected a profile of ONNX Runtime (.json) or a \
listing of another planner's (.txt)
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".json":
        from cpplan.comparison.rivals.onnxruntime_profile import read_profile

        return read_profile(path)
    if suffix == ".txt":
        found = read_listing(path).answers
        return tuple(replace(answer, offset=None, pool={}) for answer in found)
    raise InputError(
        f"{path}: expected a profile of ONNX Runtime (.json) or a listing of another planner's "
        "(.txt)"
    )
