"""Small TFLite files that claim to hold much: one line, before memory or time is spent."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cpplan.io.tflite import graph as tflite_graph
from cpplan.io.tflite.model import parse_model
from cpplan.model.errors import InputError
from cpplan.runtime import limits

pytest.importorskip("tflite", reason="needs cpplan[tflite]")

MODELS = Path(__file__).resolve().parents[2] / "datasets" / "tflite"


class _File:
    """A FlatBuffer under construction, each part after those that lead to it."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0\0\0\0TFL3")

    def put(self, data: bytes) -> int:
        self.data += bytes(-len(self.data) % 4)
        self.data += data
        return len(self.data) - len(data)

    def table(self, *fields: int) -> int:
        """A table with 4 B for each field that is not 0."""
        places = [4 * (1 + sum(map(bool, fields[:k]))) if f else 0 for k, f in enumerate(fields)]
        size = 4 + 4 * sum(map(bool, fields))
        vtable = self.put(struct.pack(f"<{2 + len(places)}H", 4 + 2 * len(places), size, *places))
        position = self.put(bytes(size))
        struct.pack_into("<i", self.data, position, position - vtable)
        return position

    def link(self, place: int, target: int) -> None:
        struct.pack_into("<I", self.data, place, target - place)

    def vector(self, place: int, count: int, width: int = 4) -> int:
        start = self.put(struct.pack("<I", count) + bytes(width * count))
        self.link(place, start)
        return start + 4


def shared_file(subgraphs: int, tensors: int, extents: int, letters: int) -> bytes:
    """A file whose subgraphs are one table, as are all their tensors."""
    file = _File()
    root = file.table(1, 0, 1, 0, 1)
    file.link(0, root)
    struct.pack_into("<I", file.data, root + 4, 3)
    graphs = file.vector(root + 8, subgraphs)
    buffers = file.vector(root + 12, 1)
    file.link(buffers, file.table())
    graph = file.table(1)
    entries = file.vector(graph + 4, tensors)
    tensor = file.table(1, 0, 0, 1)
    for first, count, target in ((graphs, subgraphs, graph), (entries, tensors, tensor)):
        places = first + 4 * np.arange(count)
        file.data[first : first + 4 * count] = (target - places).astype("<u4").tobytes()
    shape = file.vector(tensor + 4, extents)
    file.data[shape : shape + 4 * extents] = np.ones(extents, "<i4").tobytes()
    name = file.vector(tensor + 8, letters, 1)
    file.data[name : name + letters] = b"a" * letters
    return bytes(file.data)


def test_a_file_that_shares_nothing_is_read() -> None:
    found = parse_model(shared_file(1, 1, 2, 3))
    assert found.subgraphs[0].tensors[0].shape == (1, 1)
    assert found.subgraphs[0].tensors[0].name == "aaa"


@pytest.mark.parametrize(
    ("subgraphs", "tensors", "extents", "letters"),
    [(1, 100_000, 4, 3), (1, 2_000, 20_000, 3), (2_000, 2_000, 2, 3), (1, 2_000, 1, 100_000)],
    ids=["tensors", "extents", "subgraphs", "names"],
)
def test_parts_that_are_those_of_too_many_are_refused(
    subgraphs: int, tensors: int, extents: int, letters: int
) -> None:
    data = shared_file(subgraphs, tensors, extents, letters)
    assert len(data) < 1 << 20
    with pytest.raises(InputError, match="share their bytes"):
        parse_model(data)


@pytest.fixture
def calling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operator of subgraph ``k`` runs subgraph ``k + 1``, which has as many."""
    monkeypatch.setattr(tflite_graph, "subgraphs_of", lambda operator: operator.options or ())


def _levels(count: int, each: int):
    model = parse_model((MODELS / "separable.tflite").read_bytes())
    first = model.subgraphs[0]
    found = []
    for level in range(count):
        runs = (level + 1,) if level + 1 < count else ()
        operators = tuple(replace(o, options=runs) for o in first.operators[:each])
        found.append(replace(first, operators=operators))
    return replace(model, subgraphs=tuple(found))


def test_subgraphs_that_run_one_another_too_often_are_refused(calling: None) -> None:
    with pytest.raises(InputError, match="run too often"):
        tflite_graph.translate(_levels(30, 2), "doubling")


def test_subgraphs_that_run_one_another_too_deep_are_refused(calling: None) -> None:
    with pytest.raises(InputError, match=f"more than {limits.MOST_CALLERS} deep"):
        tflite_graph.translate(_levels(500, 1), "deep")
