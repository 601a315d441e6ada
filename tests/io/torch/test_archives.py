"""Archives of exported programs that say more than a program: nothing in them is ever run."""

from __future__ import annotations

import io
import json
import pickle
import zipfile

import pytest

torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:copyreg")

from support.torch_archives import (  # noqa: E402
    PROGRAM,
    WEIGHTS,
    Touch,
    edited,
    first_node,
    pickled,
    write,
)
from torch.export import export  # noqa: E402

import cpplan  # noqa: E402
from cpplan.model.errors import InputError  # noqa: E402


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
    with pytest.raises(
        InputError, match=r"node 'linear': op .* is not on the list of safe operators"
    ):
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
        InputError, match=r"the archive has no member data/weights/\.\./\.\./\.\./up"
    ):
        cpplan.load(write(tmp_path / "net.pt2", members))
