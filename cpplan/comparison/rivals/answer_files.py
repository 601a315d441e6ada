"""Reader of other planners' answers from a file of their own, beside the model's."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path

from cpplan.model.answers import Answer
from cpplan.model.errors import InputError


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
        from cpplan.comparison.rivals.listings import read_listing

        found = read_listing(path).answers
        return tuple(replace(answer, offset=None, pool={}) for answer in found)
    raise InputError(
        f"{path}: expected a profile of ONNX Runtime (.json) or a listing of another planner's "
        "(.txt)"
    )
