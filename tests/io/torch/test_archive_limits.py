"""Archives that claim impossible sizes: they are refused in one line, and nothing is allocated."""

from __future__ import annotations

import io
import json
import operator
import zipfile

import pytest

torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:copyreg")

from support.torch_archives import PROGRAM, WEIGHTS, edited, members_of, write  # noqa: E402
from torch.export import export  # noqa: E402

import cpplan  # noqa: E402
from cpplan.cli.main import main  # noqa: E402
from cpplan.io.torch import inner_graphs  # noqa: E402
from cpplan.model.errors import InputError  # noqa: E402
from cpplan.runtime import limits  # noqa: E402


def test_weights_that_end_beyond_their_storage_are_refused(members, tmp_path):
    def edit(values):
        values["config"]["shift"]["tensor_meta"]["sizes"] = [{"as_int": 1 << 50}]

    members[WEIGHTS] = edited(members[WEIGHTS], edit)
    with pytest.raises(InputError, match=r"'shift' ends after element \d+ of 4 in weight_\d"):
        cpplan.load(write(tmp_path / "net.pt2", members))


def test_archives_that_unpack_to_much_are_refused(members, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MOST_UNPACKED", 1 << 20)
    with zipfile.ZipFile(tmp_path / "net.pt2", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"net/{name}", data + b" " * (2 << 20) * (name == PROGRAM))
    with pytest.raises(
        InputError, match=r"net\.pt2: models/model\.json unpacks to more than 1 MiB"
    ):
        cpplan.load(tmp_path / "net.pt2")


def test_archives_of_many_small_values_are_refused(members, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MOST_VALUES", 1_000)
    with zipfile.ZipFile(tmp_path / "net.pt2", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            many = b"[" + b"{}," * 200_000 + b"{}]"
            archive.writestr(f"net/{name}", many if name == PROGRAM else data)
    with pytest.raises(InputError, match=r"net\.pt2: models/model\.json unpacks to .* of JSON"):
        cpplan.load(tmp_path / "net.pt2")


@pytest.fixture
def layer():
    """Members of the archive of one layer, which can be executed."""
    stream = io.BytesIO()
    torch.export.save(export(torch.nn.Linear(4, 4), (torch.ones(3, 4),)), stream)
    return members_of(stream.getvalue())


def big_weights(path, members, size):
    """Write an archive whose weights are ``size`` zero bytes each; return the number of weights."""
    config = json.loads(members[WEIGHTS])["config"]
    large = {f"data/weights/{entry['path_name']}" for entry in config.values()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"net/{name}", bytes(size) if name in large else data)
    return len(large)


def test_weights_that_unpack_to_much_together_are_refused(layer, tmp_path, monkeypatch):
    path = tmp_path / "net.pt2"
    count = big_weights(path, layer, 1 << 20)
    assert count == 2
    plan = cpplan.solve(cpplan.load(path))  # without their values
    cpplan.execute(path, plan)
    # More than either, and less than both.
    monkeypatch.setattr(limits, "MOST_UNPACKED", 0)
    stored = path.stat().st_size
    monkeypatch.setattr("os.path.getsize", lambda _: stored + (3 << 19))
    with pytest.raises(InputError, match=r"net\.pt2: data/weights/weight_1 unpacks to more than"):
        cpplan.execute(path, plan)


@pytest.mark.parametrize("size", [0, 8, 1 << 33, (1 << 62) - 1, (1 << 63) + 4])
def test_members_that_are_not_as_long_as_listed_are_refused(layer, tmp_path, size, capsys):
    """The archive's list may say any size: so much is not allocated."""
    path, plan = tmp_path / "net.pt2", tmp_path / "plan.json"
    cpplan.solve(cpplan.load(write(path, layer))).save(plan)
    assert main(["verify", str(path), str(plan), "--execute"]) == 0
    capsys.readouterr()
    entry = json.loads(layer[WEIGHTS])["config"]["weight"]["path_name"]
    name = f"net/data/weights/{entry}"
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        data = {info.filename: archive.read(info) for info in infos}
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in data.items():
            archive.writestr(each, content)
        archive.getinfo(name).file_size = size
    for command in (["plan", str(path), "-q"], ["verify", str(path), str(plan), "--execute"]):
        code = main(command)
        printed = capsys.readouterr().err.strip()
        # Planning does not look at values, so that only a list of too few is wrong to it.
        assert code == (2 if command[0] == "verify" or size == 8 or size >= 1 << 62 else 0)
        assert "\n" not in printed
        assert len(printed) < 400


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("sizes", [{"as_int": 1 << 60}, {"as_int": 1 << 60}], "sizes of less than"),
        ("sizes", [{"as_int": 1 << 62}], "ends after element"),
        ("dtype", 999, "dtype 999 is not understood"),
        ("dtype", [7], r"dtype \[7\] is not understood"),
        ("storage_offset", {"as_int": 1 << 62}, "ends after element"),
    ],
)
def test_weights_of_impossible_shapes_are_refused(members, tmp_path, field, value, said):
    def edit(values):
        meta = values["config"]["shift"]["tensor_meta"]
        meta[field] = value
        if field == "sizes":
            meta["strides"] = [{"as_int": 0 if len(value) > 1 else 1} for _ in value]

    members[WEIGHTS] = edited(members[WEIGHTS], edit)
    with pytest.raises(InputError, match=rf"net\.pt2: data/weights: 'shift'.*{said}"):
        cpplan.load(write(tmp_path / "net.pt2", members))


@pytest.mark.parametrize(
    ("function", "extent", "said"),
    [
        (lambda x: sum(x.unbind()), 10**9, "node 'unbind': returns 1000000000 tensors: expected"),
        (lambda x: sum(x.split(1)), 10**9, "node 'split': returns 1000000000 tensors: expected"),
        (lambda x: x.repeat(2, 2), 1 << 60, "the product of its shape must be below 2**62"),
        (lambda x: torch.linalg.svd(x)[1], 1 << 40, "Storage size calculation overflowed"),
    ],
)
def test_huge_extents_end_in_one_line(tmp_path, capsys, function, extent, said):
    class Call(torch.nn.Module):
        def forward(self, x):
            return function(x)

    stream = io.BytesIO()
    torch.export.save(export(Call(), (torch.ones(3, 4),)), stream)
    members = members_of(stream.getvalue())

    def edit(program):
        for value in program["graph_module"]["graph"]["tensor_values"].values():
            if value["sizes"][:1] == [{"as_int": 3}]:
                value["sizes"][0] = {"as_int": extent}

    members[PROGRAM] = edited(members[PROGRAM], edit)
    path = write(tmp_path / "net.pt2", members)
    assert main(["plan", str(path)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("function", "args"), [(operator.pow, (9, 10**9)), (operator.lshift, (1, 10**12))]
)
def test_numbers_that_no_size_has_are_refused_inside_branches(function, args):
    inner = torch.fx.Graph()
    x = inner.placeholder("x")
    inner.call_function(function, args)
    inner.output((x,))
    with pytest.raises(InputError, match=r"has a number of \d+ bits: expected at most 7"):
        inner_graphs.run(torch.fx.GraphModule({}, inner), (torch.ones(2),))
