"""Archives of exported programs that say more than a program: nothing in them is ever run."""

from __future__ import annotations

import io
import json
import operator
import os
import pickle
import random
import zipfile

import pytest

torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:copyreg")

from torch.export import Dim, export  # noqa: E402

import cpplan  # noqa: E402
from cpplan.cli.main import main  # noqa: E402
from cpplan.io.torch import inner_graphs  # noqa: E402
from cpplan.model.errors import InputError  # noqa: E402
from cpplan.runtime import limits  # noqa: E402

PROGRAM = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"


class Touch:
    """An object that makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


class Net(torch.nn.Module):
    """Shared weights, a buffer, a constant, a symbolic size and a branch."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("shift", torch.ones(4))
        self.constant = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def forward(self, x):
        y = torch.cat([self.second(torch.relu(self.first(x))) + self.shift * self.constant, x, x])
        return torch.cond(y.sum() > 0, torch.sin, torch.cos, (y,)).reshape(-1)


@pytest.fixture(scope="module")
def saved():
    net = Net().requires_grad_(False)  # cond asks for gradients of what is no leaf
    program = export(net, (torch.ones(3, 4),), dynamic_shapes=({0: Dim("n", min=2, max=64)},))
    stream = io.BytesIO()
    torch.export.save(program, stream)
    return stream.getvalue(), cpplan.load(program)


@pytest.fixture
def members(saved):
    with zipfile.ZipFile(io.BytesIO(saved[0])) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "it_ran"


def write(path, members, root="net/"):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(root + name, data)
    return path


def pickled(marker):
    stream = io.BytesIO()
    torch.save(Touch(marker), stream)
    return stream.getvalue()


def edited(data, edit):
    values = json.loads(data)
    edit(values)
    return json.dumps(values).encode()


def first_node(program):
    return program["graph_module"]["graph"]["nodes"][0]


def test_the_payload_works(marker):
    torch.load(io.BytesIO(pickled(marker)), weights_only=False)
    assert marker.exists()


def test_archive_may_hold_ops_that_write_over_what_they_read(tmp_path):
    """As torch.export.export writes them, before anything is decomposed."""

    class Cache(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache", torch.zeros(4))

        def forward(self, x):
            self.cache.add_(x)
            return torch.nn.functional.relu(x * 2, inplace=True) + self.cache

    program, path = export(Cache(), (torch.ones(4),)), tmp_path / "net.pt2"
    torch.export.save(program, path)
    read, expected = cpplan.load(path), cpplan.load(program)
    assert (read.tensors, read.ops) == (expected.tensors, expected.ops)


def test_archive_is_read_as_the_program_it_was_made_of(saved, tmp_path):
    data, graph = saved
    path = tmp_path / "net.pt2"
    path.write_bytes(data)
    read = cpplan.load(path)
    assert (read.tensors, read.ops, read.symbols) == (graph.tensors, graph.ops, graph.symbols)


@pytest.mark.parametrize("payload", [pickled, lambda marker: pickle.dumps(Touch(marker))])
def test_no_pickle_is_opened(saved, members, tmp_path, marker, payload):
    for name in members:
        if name.startswith("data/") and not name.endswith(".json"):
            data = payload(marker)
            members[name] = data + bytes(-len(data) % 4)
    members["data/aotinductor/model/model.so"] = payload(marker)
    members["extra/notes.txt"] = payload(marker)
    read = cpplan.load(write(tmp_path / "net.pt2", members))
    assert read.ops == saved[1].ops
    assert not marker.exists()


@pytest.mark.parametrize("folder", ["weights", "constants"])
def test_tensors_that_are_pickled_are_refused_by_name(members, tmp_path, marker, folder):
    listing = f"data/{folder}/model_{folder}_config.json"
    [[name, entry], *_] = json.loads(members[listing])["config"].items()
    members[f"data/{folder}/{entry['path_name']}"] = pickled(marker)
    members[listing] = edited(
        members[listing], lambda values: values["config"][name].update(use_pickle=True)
    )
    with pytest.raises(InputError, match=rf"net\.pt2: data/{folder}: '{name}' .*unpickled"):
        cpplan.load(write(tmp_path / "net.pt2", members))
    assert not marker.exists()


@pytest.mark.parametrize("folder", ["weights", "constants"])
def test_pickles_of_older_versions_are_refused_by_name(members, tmp_path, marker, folder):
    members[f"data/{folder}/model.pt"] = pickled(marker)
    with pytest.raises(InputError, match=rf"data/{folder}/model\.pt can only be unpickled"):
        cpplan.load(write(tmp_path / "net.pt2", members))
    assert not marker.exists()


def test_older_layout_is_refused_by_name(members, tmp_path, marker):
    data = pickled(marker)
    kinds = ("state_dict", "constants", "example_inputs")
    older = {f"serialized_{kind}.pt": data for kind in kinds}
    older |= {"serialized_exported_program.json": members[PROGRAM], "version": b"8.20"}
    with pytest.raises(InputError, match=r"older layout.*serialized_\*\.pt"):
        cpplan.load(write(tmp_path / "net.pt2", older, root=""))
    assert not marker.exists()


@pytest.mark.parametrize(
    "target",
    [
        "torch.os.mkdir",
        "torch.hub.load",
        "torch.ops.load_library",
        "torch.ops.aten.save.default",  # TorchScript's
        "torch.ops.aten.from_file.default",
        "torch.ops.aten._print.default",
        "torch.ops.aten.__class__.default",
        "torch.ops.higher_order.triton_kernel_wrapper_mutation",
        "torch.ops.debugprims.load_tensor.default",
        "_operator.methodcaller",
        "_operator.add.__self__",
        "math.factorial",
        "#extension:op",
        "",
        7,
    ],
)
def test_ops_that_do_more_than_compute_are_refused(members, tmp_path, marker, target):
    def edit(program):
        argument = {"name": "", "arg": {"as_string": str(marker)}, "kind": 1}
        first_node(program).update(target=target, inputs=[argument])

    members[PROGRAM] = edited(members[PROGRAM], edit)
    with pytest.raises(InputError, match=r"node 'linear': op .* is none that is known to compute"):
        cpplan.load(write(tmp_path / "net.pt2", members))
    assert not marker.exists()


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').mkdir({marker!r})",
        "Symbol('s77', positive=__import__('os').mkdir({marker!r}))",
        "Symbol(__import__('os').mkdir({marker!r}))",
        "Add(Symbol('s77'), (lambda: __import__('os').mkdir({marker!r}))())",
        "sympify({marker!r})",
        "Pow(Integer(9), Integer(999999999))",
        "Pow(Integer(9), Pow(Integer(9), Integer(9)))",
        "Float('1.0', precision=1000000000)",
        "Symbol('s77').__class__",
        "Integer(" * 5_000 + "1" + ")" * 5_000,
        "Symbol('s" + "7" * 30_000 + "')",
    ],
)
def test_sizes_are_never_evaluated(members, tmp_path, marker, text):
    def edit(program):
        sizes = program["graph_module"]["graph"]["tensor_values"]["relu"]["sizes"]
        sizes[0]["as_expr"]["expr_str"] = text.replace("{marker!r}", repr(str(marker)))

    members[PROGRAM] = edited(members[PROGRAM], edit)
    with pytest.raises(InputError, match="expected sums, products and quotients") as error:
        cpplan.load(write(tmp_path / "net.pt2", members))
    assert len(str(error.value)) < 400
    assert not marker.exists()


@pytest.mark.parametrize("where", ["node", "input", "inner", "constant"])
def test_names_never_become_source_code(members, tmp_path, marker, where):
    name = f"x=__import__('os').mkdir({str(marker)!r})"
    text = members[PROGRAM].decode()
    old = {
        "node": "relu",
        "input": "p_first_weight",
        "inner": "true_graph_0",
        "constant": "c_constant",
    }
    members[PROGRAM] = text.replace(f'"{old[where]}"', json.dumps(name)).encode()
    assert members[PROGRAM] != text.encode()
    with pytest.raises(InputError, match=r"name .*: expected an identifier"):
        cpplan.load(write(tmp_path / "net.pt2", members))
    assert not marker.exists()


def test_what_planning_does_not_need_is_not_looked_at(saved, members, tmp_path, marker):
    run = f"__import__('os').mkdir({str(marker)!r})"

    def edit(program):
        program["guards_code"] = [run]
        program["verifiers"] = [run]
        first_node(program)["metadata"] = {"source_fn_stack": f"relu,torch.{run}", "custom": run}
        for entry in program["graph_module"]["module_call_graph"]:
            if entry["signature"]:
                entry["signature"]["in_spec"] = run

    members[PROGRAM] = edited(members[PROGRAM], edit)
    assert cpplan.load(write(tmp_path / "net.pt2", members)).ops == saved[1].ops
    assert not marker.exists()


def test_custom_objects_are_refused(members, tmp_path):
    def edit(program):
        argument = {"as_custom_obj": {"name": "held", "class_fqn": "__torch__.torch.classes.a.B"}}
        first_node(program)["inputs"][0]["arg"] = argument

    members[PROGRAM] = edited(members[PROGRAM], edit)
    with pytest.raises(InputError, match="custom objects can only be unpickled"):
        cpplan.load(write(tmp_path / "net.pt2", members))


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


def test_two_members_of_one_name_are_refused(members, tmp_path):
    with zipfile.ZipFile(tmp_path / "net.pt2", "w") as archive:
        for name, data in members.items():
            archive.writestr(f"net/{name}", data)
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr(f"net/{PROGRAM}", members[PROGRAM])
    with pytest.raises(InputError, match=r"net\.pt2: two members are named 'models/model\.json'"):
        cpplan.load(tmp_path / "net.pt2")


def test_members_are_never_unpacked_to_files(saved, members, tmp_path):
    outside = {"../up", "/up", "net/../../up", "..\\up", "C:\\up"}
    with zipfile.ZipFile(tmp_path / "net.pt2", "w") as archive:
        for name, data in members.items():
            archive.writestr(f"net/{name}", data)
        for name in outside:
            archive.writestr(name, b"up")
    assert cpplan.load(tmp_path / "net.pt2").ops == saved[1].ops
    assert [path.name for path in tmp_path.iterdir()] == ["net.pt2"]
    # Nor is one that a weight names as its own.
    entry = json.loads(members[WEIGHTS])["config"]["shift"]["path_name"]
    members[WEIGHTS] = members[WEIGHTS].replace(entry.encode(), b"../../../up")
    with pytest.raises(
        InputError, match=r"there is no data/weights/\.\./\.\./\.\./up in the archive"
    ):
        cpplan.load(write(tmp_path / "net.pt2", members))


@pytest.fixture
def layer():
    """Members of the archive of one layer, which can be executed."""
    stream = io.BytesIO()
    torch.export.save(export(torch.nn.Linear(4, 4), (torch.ones(3, 4),)), stream)
    with zipfile.ZipFile(stream) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


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
        (lambda x: x.repeat(2, 2), 1 << 60, "Storage size calculation overflowed"),
        (lambda x: torch.linalg.svd(x)[1], 1 << 40, "Storage size calculation overflowed"),
    ],
)
def test_huge_extents_end_in_one_line(tmp_path, capsys, function, extent, said):
    class Call(torch.nn.Module):
        def forward(self, x):
            return function(x)

    stream = io.BytesIO()
    torch.export.save(export(Call(), (torch.ones(3, 4),)), stream)
    with zipfile.ZipFile(stream) as archive:
        members = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}

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
    with pytest.raises(InputError, match=r"has a number of \d+ bits: expected 7"):
        inner_graphs.run(torch.fx.GraphModule({}, inner), (torch.ones(2),))


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
