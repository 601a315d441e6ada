"""Rows of text that all have one plain form, as columns: no object is made for a number or a row.

Files of very many rows are mostly written by programs, each row like the next. Such rows are found
by the positions of their marks (quotes or commas), many at once. ``None`` for rows of any other
form: these are left to a parser, which also says what is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cpplan.model.problem import Ints

    Bytes = NDArray[np.uint8]

# Most digits of a number: with one more it may exceed 64 bits.
_DIGITS = 18
_LINE, _QUOTE, _COMMA, _ZERO, _BACKSLASH = b'\n",0\\'
# A row of a plan, without its values.
_BUFFER = b'  {"name": "", "size": , "lower": , "upper": , "offset": , "pool": ""},\n'


def read_buffers(text: str) -> tuple[list[str], list[Ints], list[str]] | None:
    """Names, numbers (size, lower, upper, offset) and pools of a plan's rows of JSON."""
    data, rows = _bytes(text + ",\n")
    marks = np.flatnonzero(data == _QUOTE)
    if (data == _BACKSLASH).any() or len(marks) != 16 * rows:
        return None
    # Of each row: two for every key, and two for the name and the pool.
    quote = marks.reshape(rows, 16).T
    begin = np.stack([quote[2] + 1, *(quote[[5, 7, 9, 11]] + 3), quote[14] + 1])
    end = np.stack([quote[3], *(quote[[6, 8, 10, 12]] - 2), quote[15]])
    if not (begin < end).all():
        return None
    rest = data[~_within(len(data), begin.T.ravel(), end.T.ravel())]
    if len(rest) != rows * len(_BUFFER) or (rest.reshape(rows, -1) != list(_BUFFER)).any():
        return None
    numbers = [_numbers(data, *span) for span in zip(begin[1:5], end[1:5], strict=True)]
    # JSON has no number with a zero before its first digit.
    zeros = (data[begin[1:5]] == _ZERO) & (end[1:5] - begin[1:5] > 1)
    if zeros.any() or any(column is None for column in numbers):
        return None
    names, pools = _texts(data, begin[0], end[0]), _few_texts(data, begin[5], end[5])
    return names, [column for column in numbers if column is not None], pools


def read_fields(
    text: str, columns: int, name: int, longest: int
) -> tuple[list[str], list[Ints]] | None:
    """Names, and numbers of the other columns, of rows of CSV."""
    data, rows = _bytes(text if text.endswith("\n") else text + "\n")
    marks = np.flatnonzero((data == _COMMA) | (data == _LINE))
    if (data == _QUOTE).any() or len(marks) != columns * rows:
        return None
    end = marks.reshape(rows, columns).T
    if (data[end[:-1]] != _COMMA).any() or (data[end[-1]] != _LINE).any():
        return None
    begin = np.concatenate([[0], marks[:-1] + 1]).reshape(rows, columns).T
    if not (begin < end).all() or (end - begin)[name].max(initial=0) > longest:
        return None
    numbers = [_numbers(data, begin[k], end[k]) for k in range(columns) if k != name]
    if any(column is None for column in numbers):
        return None
    names = _texts(data, begin[name], end[name])
    return names, [column for column in numbers if column is not None]


def _bytes(text: str) -> tuple[Bytes, int]:
    """The text's bytes, and its number of lines; -1 if it has control characters in them."""
    data = np.frombuffer(text.encode(), np.uint8)
    control = int(np.count_nonzero(data < ord(" ")))
    return data, control if control == np.count_nonzero(data == _LINE) else -1


def _within(length: int, begin: Ints, end: Ints) -> NDArray[np.bool_]:
    """True for the bytes of these spans, which are in order and apart; shape (length,)."""
    edges = np.empty(2 * len(begin) + 2, np.int64)
    edges[0], edges[1:-1:2], edges[2:-1:2], edges[-1] = 0, begin, end, length
    inside = np.zeros(len(edges) - 1, bool)
    inside[1::2] = True
    return np.repeat(inside, np.diff(edges))


def _numbers(data: Bytes, begin: Ints, end: Ints) -> Ints | None:
    """The numbers in these spans; ``None`` if one is not of digits only, or has too many."""
    value = np.zeros(len(begin), np.int64)
    longest = int((end - begin).max(initial=0))
    if longest > _DIGITS:
        return None
    for place in range(longest):
        at = end - 1 - place
        digit = data[np.maximum(at, begin)] - np.uint8(_ZERO)
        if (digit > 9).any():
            return None
        value += np.where(at >= begin, digit, np.int64(0)) * 10**place
    return value


def _texts(data: Bytes, begin: Ints, end: Ints) -> list[str]:
    """The texts in these spans; no line end lies within one."""
    data = data.copy()
    data[end] = _LINE
    return data[_within(len(data), begin, end + 1)].tobytes().decode().split("\n")[:-1]


def _few_texts(data: Bytes, begin: Ints, end: Ints) -> list[str]:
    """The texts in these spans, which mostly are all the same."""
    length = int(end[0] - begin[0])
    if (end - begin == length).all():
        alike = data[begin[:, None] + np.arange(length)]
        if (alike == alike[0]).all():
            return [alike[0].tobytes().decode()] * len(begin)
    return _texts(data, begin, end)
