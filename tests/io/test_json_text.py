"""JSON text with long lists is what the library writes."""

from __future__ import annotations

import json

import pytest

from cpplan.io.json_text import indented


@pytest.mark.parametrize(
    "value",
    [
        *(["a", 'b"\n%s'], [["x", 1], ["ü %d", -2]], [["a"], ["b", "c"]], [[1.5]], [[True, 1]]),
        *([], [[]], [[1, None]], {}, {"%s": ["x", 0], "b": ["y", 4]}, {"a": ["x"], "b": []}),
        *([{"a": 1, "%s": None}, {"a": "%d\n", "%s": 1.5}], [{"a": 1}, {"b": 1}], [{}], [{}, {}]),
        *([{"a": 1, "b": 2}, {"b": 1, "a": 2}], [{"a": [1]}], [{1: 2}], [{"a": 1}, ["a", 1]]),
        *({"a": {"b": 1}}, {"a": [["x"]]}, None, 1.5, "text"),
    ],
)
def test_fields_are_indented_as_json_writes_them(value):
    assert indented({"key": value}) == json.dumps({"key": value}, indent=1)


def test_an_object_without_fields_is_written_as_json_writes_it():
    assert indented({}) == json.dumps({}, indent=1)


def test_long_lists_are_not_encoded_item_by_item(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("encoded by the library's Python code")

    monkeypatch.setattr("json.encoder._make_iterencode", refuse)
    rows = [{"name": f"b{k}", "storage": k} for k in range(5)]
    text = indented({"buffers": rows, "views": {"v": ["x", 4]}, "order": ["f", "g"]})
    assert json.loads(text)["buffers"] == rows
