"""Small files that would become large: refused in one line, before they do."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

import cpplan
from cpplan.batches.manifest import read_manifest
from cpplan.cli.main import main
from cpplan.model.errors import InputError
from cpplan.runtime import limits

TINY = b'{"format": "cpplan.graph", "version": 1, "name": "g", "tensors": [], "ops": []}'


def test_compressed_graph_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(limits, "MOST_UNPACKED", 1 << 20)
    path = tmp_path / "g.json.gz"
    path.write_bytes(gzip.compress(TINY + b" " * (1 << 20)))
    assert path.stat().st_size < 2_000
    assert main(["plan", str(path)]) == 2
    assert capsys.readouterr().err == f"cpplan: {path}: unpacks to more than 1 MiB\n"


def test_compressed_graph_at_the_limit_is_read(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(limits, "MOST_UNPACKED", len(TINY))
    path = tmp_path / "g.json.gz"
    path.write_bytes(gzip.compress(TINY))
    assert cpplan.load(path).name == "g"


@pytest.mark.parametrize("value", ["{}", "[]", '""', "1", "[[[]]]", '{"a": {}}'])
def test_compressed_graph_of_many_small_values_is_refused(
    tmp_path: Path, monkeypatch, capsys, value: str
) -> None:
    monkeypatch.setattr(limits, "MOST_VALUES", 1_000)
    path = tmp_path / "g.json.gz"
    tensors = f'"tensors": [{", ".join([value] * 10_000)}]'.encode()
    path.write_bytes(gzip.compress(TINY.replace(b'"tensors": []', tensors)))
    most = 1_000 + 4 * path.stat().st_size
    assert main(["plan", str(path)]) == 2
    error = f"cpplan: {path}: unpacks to more than {most} values of JSON\n"
    assert capsys.readouterr().err == error


def test_compressed_graph_of_many_tensors_is_read(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(limits, "MOST_VALUES", 0)
    tensors = [{"name": f"tensor {k}", "size": 1024, "kind": "input"} for k in range(10_000)]
    path = tmp_path / "g.json.gz"
    text = json.dumps({**json.loads(TINY), "tensors": tensors})
    path.write_bytes(gzip.compress(text.encode()))
    assert len(cpplan.load(path).tensors) == 10_000


def test_compressed_text_of_wide_characters_is_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(limits, "MOST_WIDE", 1 << 20)
    path = tmp_path / "g.json.gz"
    path.write_bytes(gzip.compress(TINY.replace(b'"g"', '"\N{GRINNING FACE}"'.encode())))
    assert cpplan.load(path).name == "\N{GRINNING FACE}"
    path.write_bytes(gzip.compress(path.name.encode() + "\N{GRINNING FACE}".encode() * (1 << 18)))
    with pytest.raises(InputError, match="unpacks to more than 1 MiB that are not ASCII"):
        cpplan.load(path)


@pytest.mark.parametrize("kind", ["object", "array", "number"])
def test_deep_or_long_json_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "g.json"
    text = {"object": '{"a":' * 200_000, "array": "[" * 200_000, "number": "1" * 200_000}[kind]
    path.write_text(text)
    with pytest.raises(InputError, match=r"g\.json: .*(nested too deeply|out of range)"):
        cpplan.load(path)


@pytest.mark.parametrize("size", [1 << 62, 1 << 63, 10**30])
def test_sizes_beyond_addresses_are_refused_or_planned(tmp_path: Path, size: int, capsys) -> None:
    path = tmp_path / "g.json"
    tensors = f'[{{"name": "x", "size": {size}, "kind": "input"}}, {{"name": "y", "size": {size}}}]'
    op = '[{"name": "f", "inputs": ["x"], "outputs": ["y"]}]'
    path.write_text(
        TINY.decode().replace('"tensors": []', f'"tensors": {tensors}').replace("[]", op)
    )
    assert main(["plan", str(path), "--time-limit", "1"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "text", [".".join(["a"] * 20_000) + " = 1", f"[{'.'.join(['a'] * 20_000)}]", "a.\u2028" * 900]
)
def test_manifest_with_a_deep_key_is_refused_by_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "m.toml"
    path.write_text(f"# a batch\n{text}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"m\.toml: .*line 2 has \d+ dots: expected at most 250"):
        read_manifest(path)


def test_manifest_with_a_long_number_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text("processes = " + "9" * 10_000)
    with pytest.raises(InputError, match="not a manifest: a number is out of range"):
        read_manifest(path)


def test_manifest_of_many_deep_keys_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text("\n".join(f"k{k}" + ".a" * 240 + " = 1" for k in range(300)))
    with pytest.raises(InputError, match="expected at most 50000 dots, not 72000"):
        read_manifest(path)


def test_long_manifest_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text("#\n" * (1 << 20))
    with pytest.raises(InputError, match="expected at most 1 Mi characters, not 2097152"):
        read_manifest(path)


def test_out_of_memory_is_one_line(tmp_path: Path, monkeypatch, capsys) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("cpplan.io.graph_json.read_json", refuse)
    path = tmp_path / "g.json"
    path.write_bytes(TINY)
    assert main(["plan", str(path)]) == 2
    assert capsys.readouterr().err.startswith("cpplan: out of memory: ")


def test_random_bytes_end_in_one_line_for_every_suffix(tmp_path: Path) -> None:
    rng = random.Random(0)
    for suffix in (".json", ".json.gz", ".csv", ".txt", ".onnx", ".tflite", ".pt2"):
        for count in (0, 1, 100, 5_000):
            path = tmp_path / f"m{suffix}"
            path.write_bytes(rng.randbytes(count))
            with pytest.raises(cpplan.errors.CpplanError) as error:
                cpplan.load(path)
            assert "\n" not in str(error.value)
