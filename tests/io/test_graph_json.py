"""``cpplan.graph`` JSON: round trips, defaults, and every way to be malformed."""

from __future__ import annotations

import copy
import gzip
import json

import pytest
from hypothesis import given
from support.published import DATASETS
from support.random_graphs import graphs

import cpplan
from cpplan.io.graph_json import graph_from_dict, graph_to_dict, read_graph, write_graph
from cpplan.model.axes import Axis, Window
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor

TINY = {
    "format": "cpplan.graph",
    "version": 1,
    "name": "tiny",
    "tensors": [{"name": "x", "size": 8, "kind": "input"}, {"name": "y", "size": 4}],
    "ops": [{"name": "f", "inputs": ["x"], "outputs": ["y"]}],
}


@given(graphs())
def test_any_graph_reads_back_the_same(graph):
    assert graph_from_dict(json.loads(json.dumps(graph_to_dict(graph)))) == graph


def test_a_file_has_a_line_a_tensor_or_op(tmp_path):
    graph = graph_from_dict(TINY)
    write_graph(graph, tmp_path / "tiny.json")
    assert (tmp_path / "tiny.json").read_text().split("\n") == [
        '{"format":"cpplan.graph","version":1,"name":"tiny",',
        '"tensors":[',
        '{"name":"x","size":8,"kind":"input"},',
        '{"name":"y","size":4,"kind":"intermediate"}',
        "],",
        '"ops":[',
        '{"name":"f","kind":"op","inputs":["x"],"outputs":["y"]}',
        "]}",
        "",
    ]
    assert read_graph(tmp_path / "tiny.json") == graph


def test_a_view_names_its_base_alone_or_with_an_offset():
    values = copy.deepcopy(TINY)
    values["tensors"] += [
        {"name": "whole", "size": 8, "view_of": "x"},
        {"name": "half", "size": 4, "view_of": ["x", 4]},
    ]
    graph = graph_from_dict(values)
    assert graph.tensor["whole"].view_of == ("x", 0)
    assert graph.tensor["half"].view_of == ("x", 4)


def test_a_view_that_repeats_its_base_lies_in_the_bases_bytes():
    values = copy.deepcopy(TINY)
    values["tensors"] += [
        {"name": "s", "shape": [1, 2], "dtype": "float32", "view_of": "x"},
        {"name": "e", "shape": [3, 5, 2], "dtype": "float32", "view_of": "s"},
        {"name": "ee", "shape": [7, 3, 5, 2], "dtype": "float32", "view_of": "e"},
    ]
    graph = graph_from_dict(values)
    assert [graph.tensor[name].size for name in ("s", "e", "ee")] == [8, 8, 8]
    assert graph_from_dict(graph_to_dict(graph)) == graph


def test_bodies_need_no_format():
    inner = {"name": "then", "tensors": [], "ops": []}
    values = copy.deepcopy(TINY)
    values["ops"][0]["bodies"] = [inner]
    graph = graph_from_dict(values)
    assert graph.ops == (Op("f", inputs=("x",), outputs=("y",), bodies=(Graph("then", (), ()),)),)


def test_axes_read_back_the_same():
    rows = Axis("rows", 4, (Window("x", 0, 2, -1, 3), Window("y", 0)))
    picked = Axis("picked", 2, (Window("x", 0, table=((0, 1), (1, 8))), Window("y", 0, 2, 0, 2)))
    terms = Axis("terms", 8, (Window("x", 0),), accumulates=True)
    tensors = (
        Tensor("x", shape=(8,), dtype="int8", kind="input"),
        Tensor("y", shape=(4,), dtype="int8", kind="output"),
    )
    graph = Graph("g", tensors, (Op("f", "f", ("x",), ("y",), axes=(rows, picked, terms)),))
    values = json.loads(json.dumps(graph_to_dict(graph)))
    assert graph_from_dict(values) == graph
    assert values["ops"][0]["axes"][0] == {
        "name": "rows",
        "extent": 4,
        "windows": [
            {"tensor": "x", "axis": 0, "stride": 2, "offset": -1, "size": 3},
            {"tensor": "y", "axis": 0},
        ],
    }


def _malformed_axes(case):
    def axes(*values):
        return lambda v: v["ops"][0].update(axes=list(values))

    def window(**keys):
        return axes({"name": "rows", "extent": 4, "windows": [{"tensor": "y", "axis": 0, **keys}]})

    yield case("axes", "op 'f': axes must be a list, not 3", lambda v: v["ops"][0].update(axes=3))
    yield case("axis", "op 'f': axes[0]: expected an object, not 3", axes(3))
    yield case(
        "axis of none", "op 'f': axis 'r': missing key 'extent'", axes({"name": "r", "windows": []})
    )
    yield case("table", "windows[0]: table must be a list of [start", window(table=[[0]]))
    yield case("window", "axis 'rows': windows[0]: unknown key 'step'", window(step=1))
    yield case("offset", "windows[0]: offset must be an integer, not 0.5", window(offset=0.5))
    yield case("entries", "op 'f': axis 'rows': the table of 'y' has 1", window(table=[[0, 4]]))
    yield case("descending", "op 'f': window of 'y': table must hold", window(table=[[1, 0]] * 4))
    yield case("axis unshaped", "op 'f': axis 'rows': 'y' has no axis 0", window())


def _malformed():
    def case(label, message, change):
        values = copy.deepcopy(TINY)
        replaced = change(values)
        return pytest.param(values if replaced is None else replaced, message, id=label)

    def body(values, **keys):
        values["ops"][0]["bodies"] = [{"name": "b", "tensors": [], "ops": [], **keys}]

    def set_in(section, position, **keys):
        return lambda v: v[section][position].update(keys)

    yield case("a list", "not a graph", lambda v: [v])
    yield case("no format", "not a graph", lambda v: v.pop("format") and None)
    yield case("another format", "format 'csv' is not", lambda v: v.update(format="csv"))
    yield case("a plan", "this is a plan", lambda v: v.update(format="cpplan.plan"))
    yield case("version", "version 2 is not understood: expected 1", lambda v: v.update(version=2))
    yield case("no version", "version None", lambda v: v.pop("version") and None)
    yield case("format first", "version 2", lambda v: v.update(version=2, extra=1))
    yield case("no name", "graph: missing key 'name'", lambda v: v.pop("name") and None)
    yield case("unknown key", "graph: unknown key 'extra'", lambda v: v.update(extra=1))
    yield case("no list", "tensors must be a list, not {}", lambda v: v.update(tensors={}))
    yield case("no object", "tensors[0]: expected an object", lambda v: v.update(tensors=[3]))
    yield case(
        "no tensor name", "tensors[1]: missing key 'name'", lambda v: v["tensors"][1].clear()
    )
    yield case("unknown in tensor", "tensor 'y': unknown key 'sise'", set_in("tensors", 1, sise=4))
    yield case("unknown in op", "op 'f': unknown key 'reads'", set_in("ops", 0, reads=[]))
    yield from _malformed_axes(case)
    yield case("negative", "tensor 'y': size must be a non-neg", set_in("tensors", 1, size=-4))
    yield case("fraction", "tensor 'y': size must be a non-neg", set_in("tensors", 1, size=4.5))
    yield case("text size", "tensor 'y': size must be a non-neg", set_in("tensors", 1, size="4"))
    yield case("true", "tensor 'y': size must be a non-neg", set_in("tensors", 1, size=True))
    yield case("no size", "give size, or shape", lambda v: v["tensors"][1].pop("size") and None)
    yield case("shape", "tensor 'y': shape must be a list", set_in("tensors", 1, shape=[1, 2.5]))
    yield case("dtype", "dtype 'f33' is not", set_in("tensors", 1, shape=[1], dtype="f33"))
    yield case("kind", "kind 'weird' is not understood", set_in("tensors", 1, kind="weird"))
    yield case("alignment", "alignment must be an integer", set_in("tensors", 1, alignment=0))
    yield case("view", "view_of must be a name or", set_in("tensors", 1, view_of=["x"]))
    yield case("view beyond", "lie beyond its base 'x'", set_in("tensors", 1, view_of=["x", 6]))
    yield case("view of none", "view of unknown tensor 'q'", set_in("tensors", 1, view_of="q"))
    yield case("unknown tensor", "op 'f': unknown tensor 'q'", set_in("ops", 0, inputs=["q"]))
    yield case("inputs", "op 'f': inputs must be a list of names", set_in("ops", 0, inputs="x"))
    yield case("cost", "op 'f': cost must be a number", set_in("ops", 0, cost="much"))
    yield case("infinite", "op 'f': cost must be a number", set_in("ops", 0, cost=float("inf")))
    yield case("after", "op 'f': after must be a list of names", set_in("ops", 0, after="f"))
    yield case("after none", "op 'f': must run after unknown op 'g'", set_in("ops", 0, after=["g"]))
    yield case("after itself", "cycle: f -> f (control)", set_in("ops", 0, after=["f"]))
    yield case("sequence", "op 'f': sequence must be a string", set_in("ops", 0, sequence=1))
    yield case("in place", "in_place must be a list of", set_in("ops", 0, in_place=[["y"]]))
    yield case(
        "two producers",
        "tensor 'y' has two producers: 'f' and 'g'",
        lambda v: v["ops"].append({"name": "g", "outputs": ["y"]}),
    )
    yield case("cycle", "ops form a cycle: f -> f", set_in("ops", 0, inputs=["y"]))
    yield case("body", "op 'f', body 0: graph: unknown key 'zz'", lambda v: body(v, zz=1))
    yield case(
        "body's version", "op 'f', body 0: cpplan.graph version 7", lambda v: body(v, version=7)
    )


@pytest.mark.parametrize(("values", "message"), list(_malformed()))
def test_malformed_values_are_named_in_one_line(values, message, tmp_path):
    with pytest.raises(InputError) as caught:
        graph_from_dict(values)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=r"bad\.json: "):
        read_graph(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b'{"format":', "not JSON: Expecting value at line 1, column 11"),
        (b'{"format": "cpp', "not JSON: Unterminated string starting at line 1, column 12"),
        (b"\xff\xfe\x00", "expected UTF-8 text"),
        (b"[" * 100_000, "nested too deeply"),
        (b"1" * 5000, "not "),
    ],
)
def test_files_that_are_not_json(content, message, tmp_path):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_graph(path)
    assert "bad.json" in str(caught.value)
    assert message in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.json: cannot be read: No such file"):
        read_graph(tmp_path / "none.json")


def test_nothing_is_written_where_it_cannot_be_whole(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        write_graph(Graph("g", (Tensor("x", 1, kind="input"),), ()), tmp_path / "no" / "g.json")
    assert list(tmp_path.iterdir()) == []


def test_data_sets_read_back_the_same(tmp_path):
    for path in sorted((DATASETS / "ordering").glob("*.json")):
        graph = read_graph(path)
        write_graph(graph, tmp_path / path.name)
        assert read_graph(tmp_path / path.name) == graph


def test_compressed_files_hold_the_same(tmp_path):
    graph = Graph("g", (Tensor("y", 4, kind="output"),), (Op("f", outputs=("y",)),))
    plain, packed = tmp_path / "g.json", tmp_path / "g.json.gz"
    write_graph(graph, plain)
    write_graph(graph, packed)
    assert read_graph(packed) == cpplan.load(packed) == graph
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    before = packed.read_bytes()
    write_graph(graph, packed)
    assert packed.read_bytes() == before


@pytest.mark.parametrize("damage", [lambda b: b[:20], lambda b: b"{}", lambda b: b[:-9] + b[-8:]])
def test_damaged_compressed_files_are_named(tmp_path, damage):
    path = tmp_path / "g.json.gz"
    path.write_bytes(damage(gzip.compress(b'{"format": "cpplan.graph"}' * 9)))
    with pytest.raises(InputError, match=r"g\.json\.gz: expected gzip data"):
        cpplan.load(path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"name": "b", "kind": "output", "size": True}, "tensor 'b': size must be a non-neg"),
        ({"name": "b", "kind": "output", "size": -1}, "tensor 'b': size must be a non-neg"),
        ({"kind": "output", "size": 1}, r"tensors\[1\]: missing key 'name'"),
        ({"name": "b", "size": 1, "sise": 1}, "tensor 'b': unknown key 'sise'"),
        (["b"], r"tensors\[1\]: expected an object"),
    ],
)
def test_one_wrong_row_among_many_is_named(row: object, message: str) -> None:
    rows = [{"name": "a", "size": 1, "kind": "input"}, row, {"name": "c", "size": 1}]
    values = {"format": "cpplan.graph", "version": 1, "name": "g", "tensors": rows, "ops": []}
    with pytest.raises(InputError, match=message):
        graph_from_dict(values)


def test_one_op_with_a_wrong_list_among_many_is_named() -> None:
    ops = [{"name": f"o{k}", "inputs": ["x"]} for k in range(3)]
    ops[1]["inputs"] = ["x", 3]  # type: ignore[list-item]
    tensors = [{"name": "x", "size": 1, "kind": "input"}]
    values = {"format": "cpplan.graph", "version": 1, "name": "g", "tensors": tensors, "ops": ops}
    with pytest.raises(InputError, match="op 'o1': inputs must be a list of names"):
        graph_from_dict(values)
