"""Archives damaged at random end in a graph or in one line, and run nothing."""

from __future__ import annotations

import io
import json
import os
import random
import zipfile

import pytest

torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:copyreg")

from support.torch_archives import CONSTANTS, PROGRAM, WEIGHTS, pickled  # noqa: E402

import cpplan  # noqa: E402
from cpplan.model.errors import InputError  # noqa: E402


def complaint(path):
    """The error's text, or ``None`` if there is a graph."""
    try:
        cpplan.load(path)
    except InputError as error:
        return str(error)
    return None


def mutated(rng, data, members, marker):
    """Bytes of an archive that was damaged in one way."""
    kind = rng.choice(["flip", "cut", "drop", "rename", "swap", "json", "value", "value"])
    if kind == "flip":
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 8)):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        return bytes(damaged)
    if kind == "cut":
        return data[: rng.randrange(len(data))]
    members = dict(members)
    name = rng.choice(list(members))
    if kind == "drop":
        del members[name]
    elif kind == "rename":
        members[rng.choice([*members, name + "x", "data/weights/model.pt"])] = members.pop(name)
    elif kind == "swap":
        members[name] = members[rng.choice(list(members))]
    elif kind == "json":
        name = rng.choice([PROGRAM, PROGRAM, WEIGHTS, CONSTANTS])
        text = bytearray(members[name])
        for _ in range(rng.randint(1, 3)):
            text[rng.randrange(len(text))] = rng.choice(b'0123456789"{}[],:ax-. \xff')
        members[name] = bytes(text)
    else:
        name = rng.choice([PROGRAM, PROGRAM, WEIGHTS, CONSTANTS])
        values = json.loads(members[name])
        holder = values
        while True:
            key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
            if not isinstance(holder[key], (dict, list)) or not holder[key] or rng.random() < 0.1:
                break
            holder = holder[key]
        run = f"__import__('os').mkdir({str(marker)!r})"
        odd = [None, -1, 1 << 62, 10**30, 0, "", run, "s77", [], {}, [[]], {"as_int": 3}, True, 0.5]
        holder[key] = rng.choice(odd)
        members[name] = json.dumps(values).encode()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, part in members.items():
            archive.writestr(f"net/{name}", part)
    return stream.getvalue()


@pytest.mark.parametrize("block", range(4))
def test_damaged_archives_end_in_a_graph_or_in_one_line(saved, members, tmp_path, marker, block):
    rng = random.Random(block)
    for name in members:
        if name.startswith("data/sample"):
            members[name] = pickled(marker)
    path, refused = tmp_path / "net.pt2", 0
    for _ in range(int(os.environ.get("CPPLAN_CASES", "60"))):
        path.write_bytes(mutated(rng, saved[0], members, marker))
        said = complaint(path)
        assert said is None or (said.startswith(f"{path}: ") and "\n" not in said)
        assert not marker.exists()
        refused += said is not None
    assert refused
