"""Damaged files: read, or refused in one line that names the file."""

from __future__ import annotations

import gzip
import json
import random
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from cpplan import Graph, Plan, Problem, Program, load, simulate, solve, to_anf, verify
from cpplan.io.graph_json import graph_to_dict
from cpplan.io.minimalloc_csv import write_problem
from cpplan.io.plan_json import plan_text
from cpplan.model.errors import CpplanError

from .case import Case
from .made import random_graph, random_problem

_HAS_ONNX = find_spec("onnx") is not None
ONNX = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3] x, float[2,3] z) => (float[4,3] y, float[6] f) <float[3] w = {1, 2, 3}> {
    a = Relu(x) b = Add(a, w) c = Concat<axis = 0>(b, z) s = Shape(b) d = Sigmoid(c)
    n = ReduceProd<keepdims = 1>(s) f = Reshape(b, n) y = Mul(c, d) }"""
Damage = Callable[[random.Random, bytes], bytes]


def _flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    begin, end = sorted(rng.randrange(len(data)) for _ in range(2))
    return data[:end] + data[begin:end] + data[end:]


def _digits(rng: random.Random, data: bytes) -> bytes:
    places = [k for k, byte in enumerate(data) if chr(byte).isdigit()]
    if not places:
        return _flip(rng, data)
    at = rng.choice(places)
    odd = rng.choice(
        [b"-1", b"1e400", b"NaN", b"99999999999999999999", b"null", b'"7"', b"[]", b"{}"]
    )
    return data[:at] + odd + data[at + 1 :]


def _word(rng: random.Random, data: bytes) -> bytes:
    words = [
        b"size",
        b"view_of",
        b"inputs",
        b"kind",
        b"name",
        b"lower",
        b"offset",
        b"pools",
        b"ops",
    ]
    word = rng.choice([w for w in words if w in data] or [data[:1]])
    return data.replace(word, rng.choice([b"", b"x", b"outputs", b"\\u0000"]), 1)


DAMAGES: tuple[Damage, ...] = (_flip, _cut, _repeat, _digits, _word)


def damaged(rng: random.Random) -> Case:
    """A file of some format, damaged once or twice."""
    suffix = rng.choice([".json", ".json.gz", ".csv", ".plan", ".anf", *[".onnx"] * _HAS_ONNX])
    data = _file(rng, suffix)
    for _ in range(rng.randint(1, 2)):
        if data:
            data = rng.choice(DAMAGES)(rng, data)
    if suffix == ".json.gz" and rng.random() < 0.7:
        data = gzip.compress(data, mtime=0)
    lines = (
        f"path = tmp_path / 'damaged{suffix}'",
        f"path.write_bytes({data!r})",
        _reading(suffix),
    )

    def false() -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"damaged{suffix}"
            path.write_bytes(data)
            try:
                _use(path, suffix)
            except CpplanError as error:
                if "\n" in str(error) or len(str(error)) > 1000:
                    return [f"# not one short line: {str(error)[:200]!r}"]
        return []

    return Case(lines, false)


def _reading(suffix: str) -> str:
    if suffix == ".plan":
        return "Plan.load(path)  # read, or refused as InputError"
    if suffix == ".anf":
        return "Program.parse(path.read_text(errors='replace'))"
    return "solve(load(path), time_limit=0.5, workers=1)"


def _file(rng: random.Random, suffix: str) -> bytes:
    if suffix == ".onnx":
        import onnx.parser

        return onnx.parser.parse_model(ONNX).SerializeToString(deterministic=True)
    graph = random_graph(rng, rng.randint(1, 3))
    if suffix == ".anf":
        return str(to_anf(graph)).encode()
    if suffix == ".plan":
        return "".join(plan_text(solve(graph, deterministic=True, time_limit=1))).encode()
    if suffix == ".csv":
        problem = random_problem(rng, 4, fixed=False)
        with tempfile.TemporaryDirectory() as folder:
            write_problem(problem, Path(folder) / "p.csv")
            return (Path(folder) / "p.csv").read_bytes()
    data = json.dumps(graph_to_dict(graph)).encode()
    return gzip.compress(data, mtime=0) if suffix == ".json.gz" and rng.random() < 0.3 else data


def _use(path: Path, suffix: str) -> None:
    if suffix == ".plan":
        Plan.load(path)
    elif suffix == ".anf":
        Program.parse(path.read_text(errors="replace"))
    else:
        source = load(path)
        assert isinstance(source, (Graph, Problem))
        plan = solve(source, deterministic=True, time_limit=0.5)
        if plan.offset is not None:
            verify(source, plan)
            if (plan.peak or 0) < 1 << 24:
                simulate(source, plan)
