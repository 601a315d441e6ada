"""Bad input is refused: exit code 2, one line that names the thing, nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from support.cli_models import SQUEEZENET

from cpplan.cli.main import cli, main

GRAPH = {
    "format": "cpplan.graph",
    "version": 1,
    "name": "g",
    "tensors": [
        {"name": "x", "size": 4, "kind": "input"},
        {"name": "t", "size": 4, "kind": "intermediate"},
        {"name": "y", "size": 4, "kind": "output"},
    ],
    "ops": [
        {"name": "a", "kind": "op", "inputs": ["x"], "outputs": ["t"]},
        {"name": "b", "kind": "op", "inputs": ["t"], "outputs": ["y"]},
    ],
}


def _graph(change) -> str:
    values = json.loads(json.dumps(GRAPH))
    change(values)
    return json.dumps(values)


BAD_GRAPHS = {
    "another format": (lambda g: g.update(format="onnx"), "format"),
    "another version": (lambda g: g.update(version=2), "version"),
    "negative size": (lambda g: g["tensors"][1].update(size=-4), "'t'"),
    "size not an integer": (lambda g: g["tensors"][1].update(size=1.5), "'t'"),
    "unknown tensor": (lambda g: g["ops"][1].update(inputs=["z"]), "unknown tensor 'z'"),
    "two producers": (lambda g: g["ops"][1].update(outputs=["t"]), "two producers"),
    "cycle": (lambda g: g["ops"][0].update(inputs=["y"]), "cycle: "),
    "size beyond 62 bits": (
        lambda g: g["tensors"][1].update(size=2**63),
        "'t': size must be below",
    ),
    "alignment": (
        lambda g: g["tensors"][1].update(alignment=2**62),
        "'t': alignment must be below",
    ),
    "shape": (
        lambda g: g["tensors"][1].update(shape=[2**40, 2**40]),
        "'t': the product of its shape must be below 2**62",
    ),
    "bytes of a shape": (
        lambda g: g["tensors"][1].update(shape=[2**61], dtype="float32"),
        "'t': bytes of its shape and dtype must be below 2**62",
    ),
    "alignments without a common multiple": (
        lambda g: g["tensors"].extend(
            {"name": f"v{a}", "size": 1, "view_of": "t", "alignment": a} for a in (2**61, 3)
        ),
        "buffer 't': the alignments of the tensors in it",
    ),
    "lone surrogate": (lambda g: g["tensors"][1].update(name="\ud800"), "lone surrogate"),
    "cost": (lambda g: g["ops"][1].update(cost=10**400), "'b': cost must be a number >= 0 below"),
    "very long name": (lambda g: g["ops"][1].update(inputs=["z" * 100_000]), "…zzz"),
}
BAD_CSV = {
    "upper not above lower": ("id,lower,upper,size\na,2,2,4\n", "upper"),
    "alignment 0": ("id,lower,upper,size,alignment\na,0,2,4,0\n", "alignment"),
    "fixed offset off its alignment": (
        "id,lower,upper,size,alignment,offset\na,0,2,4,4,2\n",
        "offset 2",
    ),
    "unknown column": ("id,lower,upper,size,colour\na,0,2,4,red\n", "colour"),
    "negative size": ("id,lower,upper,size\na,0,2,-4\n", "size"),
    "not an integer": ("id,lower,upper,size\na,0,2,many\n", "many"),
    "empty": ("", "empty"),
}


def _refused(arguments, capsys, tmp_path) -> str:
    """Exit code 2, one line on stderr, nothing on stdout, nothing written."""
    before = sorted(tmp_path.rglob("*"))
    assert main([*arguments, "-q", "-o", str(tmp_path / "plan.json")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert len(err) < 1200
    assert "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before
    return err


@pytest.mark.parametrize(("change", "named"), BAD_GRAPHS.values(), ids=BAD_GRAPHS)
def test_malformed_graphs_are_refused_by_name(change, named, capsys, tmp_path):
    path = tmp_path / "bad.json"
    path.write_text(_graph(change))
    err = _refused(["plan", str(path)], capsys, tmp_path)
    assert "bad.json" in err
    assert named in err


@pytest.mark.parametrize(("text", "named"), BAD_CSV.values(), ids=BAD_CSV)
def test_malformed_csv_is_refused_by_name(text, named, capsys, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    err = _refused(["plan", str(path)], capsys, tmp_path)
    assert "bad.csv" in err
    assert named in err


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("broken.json", b"{", "not JSON"),
        ("broken.onnx", b"not a model at all", "broken.onnx"),
        ("empty.onnx", b"", "empty.onnx"),
        ("model.xyz", b"", ".onnx"),
        ("latin.csv", b"id,lower,upper,size\n\xff,0,1,4\n", "UTF-8"),
    ],
)
def test_unreadable_files_are_refused_by_name(name, content, named, capsys, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    err = _refused(["plan", str(path)], capsys, tmp_path)
    assert name in err
    assert named in err


def test_missing_file_is_named(capsys, tmp_path):
    assert "none.onnx" in _refused(["plan", str(tmp_path / "none.onnx")], capsys, tmp_path)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--capacity", "lots"], "--capacity: 'lots' is not a byte count"),
        (["--capacity", "9" * 5000], "--capacity: '9999"),
        (["--memory-limit", str(2**63)], "--memory-limit: a byte count must be below 2**63"),
        (["--dim", "N=" + "9" * 5000], "expected at most 18 digits"),
        (["--dim", "N=8", "--dim", "N=9"], "'N' is bound to 8 already"),
        (["--seed", "-1"], "-1 is not in the range"),
        (["--time-limit", "0"], "0.0 is not in the range"),
        (["--time-limit", "soon"], "'soon' is not a valid float"),
        (["--dim", "N"], "expected e.g. N=8"),
        (["--dim", "N=8"], "dims"),
        (["--inputs", "maybe"], "'maybe'"),
        (["--colour", "red"], "--colour"),
        (["--workers", "0"], "0 is not in the range"),
    ],
)
def test_wrong_options_are_named(options, named, tiny, capsys, tmp_path):
    assert named in _refused(["plan", tiny, *options], capsys, tmp_path)


# Options with files that are read.
READ = {"--answers"}
OUTPUTS = [
    (name, option.opts[0])
    for name, command in cli.commands.items()
    for option in command.params
    if isinstance(option, click.Option)
    and (option.metavar or "").startswith("FILE")
    and option.opts[0] not in READ
]
MORE = {"sizes": ["--at", "N=1"]}


@pytest.mark.parametrize(("command", "option"), OUTPUTS)
def test_files_that_cannot_be_written_are_refused_before_anything_is_read(
    command, option, capsys, tmp_path
):
    """The model is not there, but that is not what the line says."""
    suffix = ".parquet" if command == "batch" else ".json"
    folder, nowhere = tmp_path / f"plan{suffix}", tmp_path / "nowhere" / f"plan{suffix}"
    folder.mkdir()
    wrong = {folder: "is a folder: expected a file", nowhere: "cannot be written: there is no"}
    if Path("/proc/self").exists():
        # Its permissions admit new files, for root at least, but none can be made.
        wrong[Path(f"/proc/plan{suffix}")] = "cannot be written"
    for path, message in wrong.items():
        missing = str(tmp_path / "missing.json")
        assert main([command, missing, *MORE.get(command, []), option, str(path)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"cpplan: {path}: {message}")
        assert err.count("\n") == 1


def test_every_command_that_writes_has_its_outputs_checked():
    assert {command for command, _ in OUTPUTS} == {
        "batch", "compare", "pareto", "plan", "show", "sizes", "storages", "summary",
    }  # fmt: skip
    assert len([command for command, _ in OUTPUTS if command == "plan"]) == 9


def test_a_plan_is_not_a_model(tiny, capsys, tmp_path):
    path = str(tmp_path / "p.json")
    main(["plan", tiny, "-q", "-o", path])
    capsys.readouterr()
    assert main(["plan", path]) == 2
    assert "this is a plan, not a model" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{}", "[]", '{"format": "cpplan.plan", "version": 9}', "null"])
def test_show_refuses_what_is_no_plan(text, capsys, tmp_path):
    path = tmp_path / "p.json"
    path.write_text(text)
    assert main(["show", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "p.json" in err


ODD = "a\x1b[2J\x07\u2028\u202e\n" + "b" * 100_000


@pytest.fixture
def odd(tmp_path):
    """Two buffers; the name of one would clear the screen and fill it."""
    values = json.loads(json.dumps(GRAPH))
    values["name"] = values["tensors"][1]["name"] = values["ops"][0]["outputs"][0] = ODD
    values["ops"][1]["inputs"] = [ODD]
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(values))
    return str(path)


def test_names_never_reach_the_terminal_raw(odd, tmp_path, capsys):
    plan = str(tmp_path / "plan.json")
    assert main(["plan", odd, "-o", plan]) == 0
    assert main(["show", plan]) == 0
    assert main(["verify", odd, plan]) == 0
    assert main(["plan", odd, "--capacity", "1"]) == 3
    values = json.loads(Path(plan).read_text())
    for row in values["buffers"]:
        row["offset"] = 0
    Path(plan).write_text(json.dumps(values))
    assert main(["verify", odd, plan]) == 4
    out, err = capsys.readouterr()
    assert r"a\x1b[2J\x07\u2028\u202e\n" in out
    assert r"a\x1b[2J\x07\u2028\u202e\n" in err
    assert (out + err).replace("\n", "").isprintable()
    assert max(map(len, (out + err).splitlines())) < 1200


def test_errors_name_their_files_once(tiny, tmp_path, capsys):
    plan = str(tmp_path / "plan.json")
    main(["plan", SQUEEZENET, "-q", "-o", plan])
    assert main(["verify", tiny, plan]) == 4
    assert capsys.readouterr().err.startswith(f"cpplan: {tiny}, {plan}: a bare problem has no")
    clash = tmp_path / "clash.csv"
    clash.write_text("id,lower,upper,size,offset\na,0,2,4,0\nb,0,2,4,2\n")
    for command in ("plan", "compare"):
        assert main([command, str(clash)]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"cpplan: {clash}: the fixed offsets contradict")
        assert err.count(str(clash)) == 1


def test_only_models_with_kernels_can_be_executed(tiny, tmp_path, capsys):
    plan = str(tmp_path / "none.json")
    assert main(["verify", tiny, plan, "--execute"]) == 2
    out, err = capsys.readouterr()
    message = "--execute needs an ONNX, TFLite or torch model"
    assert (out, err) == ("", f"cpplan: {tiny}: {message}\n")


@pytest.mark.parametrize("field", ["peak", "lower_bound", "capacity", "cost", "gap", "runtime"])
@pytest.mark.parametrize("value", [10**400, -(10**400), float("inf"), float("nan")])
def test_show_refuses_numbers_beyond_reason(field, value, tiny, tmp_path, capsys):
    path = tmp_path / "p.json"
    main(["plan", tiny, "-q", "-o", str(path)])
    capsys.readouterr()
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    assert main(["show", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"p.json: not a valid plan: {field} " in err


def test_show_names_the_file_whose_plan_makes_no_sense(tiny, tmp_path, capsys):
    path = tmp_path / "p.json"
    main(["plan", tiny, "-q", "-o", str(path)])
    capsys.readouterr()
    values = json.loads(path.read_text())
    values["buffers"][0]["upper"] = 0
    path.write_text(json.dumps(values))
    assert main(["show", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"cpplan: {path}: buffer 'a': upper must be greater than lower")


@pytest.mark.parametrize("weight", [["--piece-bytes", "1KiB"], ["--split", "--piece-bytes", "-1"]])
def test_bytes_of_pieces_that_make_no_sense_are_refused(weight, tiny, capsys, tmp_path):
    _refused(["plan", tiny, *weight], capsys, tmp_path)


@pytest.mark.parametrize("option", ["--onnx", "--program"])
def test_an_order_needs_a_model_that_has_ops(option, tiny, capsys, tmp_path):
    _refused(["plan", tiny, option, str(tmp_path / "out")], capsys, tmp_path)


def test_names_that_csv_cannot_hold_are_refused_before_planning(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("cpplan.solving.pipeline.solve_request", None)
    path, target = tmp_path / "long.json", tmp_path / "packed.csv"
    path.write_text(
        _graph(lambda g: g["tensors"][0].update(name="n" * 200_000)).replace(
            '["x"]', json.dumps(["n" * 200_000])
        )
    )
    assert main(["plan", str(path), "--csv", str(target)]) == 2
    err = capsys.readouterr().err
    assert "an id must have from 1 to 131072 characters" in err
    assert not target.exists()


@pytest.mark.parametrize(
    "options", [[], ["--order", "search"], ["--order", "search", "--in-place"]]
)
def test_sizes_that_add_up_beyond_addresses_are_refused(options, tmp_path, capsys):
    tensors = [{"name": f"t{k}", "size": (1 << 62) - 1, "kind": "input"} for k in range(9)]
    values = {"format": "cpplan.graph", "version": 1, "name": "huge", "tensors": tensors, "ops": []}
    path = tmp_path / "huge.json"
    path.write_text(json.dumps(values))
    assert main(["plan", str(path), "-q", *options]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "add up to more than 2**62 bytes" in err


def test_steps_as_far_as_numbers_go_take_no_memory(tmp_path, capsys):
    path = tmp_path / "far.csv"
    path.write_text("id,lower,upper,size\na,0,4611686018427387903,4\nb,1,4611686018427387902,8\n")
    assert main(["plan", str(path), "-q", "--memory-limit", "100%"]) == 0
    capsys.readouterr()
    assert main(["compare", str(path), "--time-limit", "1", "-q"]) == 2
    err = capsys.readouterr().err
    assert "far has 4611686018427387903 steps" in err
    assert len(err.splitlines()) == 1


def test_gaps_may_reach_as_far_as_steps(tmp_path, capsys):
    path = tmp_path / "gaps.csv"
    rows = "a,0,4000000000000000000,4,1-{}\n"
    path.write_text("id,lower,upper,size,gaps\n" + rows.format(2305843009213693951))
    assert main(["plan", str(path), "-q"]) == 0
    path.write_text("id,lower,upper,size,gaps\n" + rows.format(4611686018427387904))
    capsys.readouterr()
    assert main(["plan", str(path), "-q"]) == 2
    assert "numbers must be below 2**62" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algorithm", "bumb"], "algorithm 'bumb' is not understood (perhaps 'bump'): expected"),
        (["--cost-limit", "1.1"], "--cost-limit limits what runs again: it needs --remat or"),
        (["--spill"], "--spill needs two workspace pools"),
        (["--first", "r0"], "they need --order search"),
        (["--pool", "a=1MiB,kindd=x"], "'kindd=x' is not understood (perhaps 'kind'): expected"),
    ],
    ids=lambda value: value[0].strip("-") if isinstance(value, list) else "",
)
def test_refusals_speak_of_flags_and_name_what_is_near(arguments, message, capsys) -> None:
    assert main(["plan", SQUEEZENET, "-q", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) == 1


def test_fields_of_files_are_no_flags(tmp_path, capsys) -> None:
    plan = tmp_path / "plan.json"
    assert main(["plan", SQUEEZENET, "-q", "-o", str(plan)]) == 0
    values = json.loads(plan.read_text())
    plan.write_text(json.dumps({**values, "cost_limit": "x"}))
    capsys.readouterr()
    assert main(["verify", SQUEEZENET, str(plan)]) == 2
    assert "not a valid plan: cost_limit must be a number" in capsys.readouterr().err


def test_names_of_models_are_no_flags(tmp_path, capsys) -> None:
    model = tmp_path / "cost_limit memory_limit.json"
    model.write_text(json.dumps(GRAPH))
    assert main(["plan", str(model), "-q", "--cost-limit", "2"]) == 2
    assert f"{model}: --cost-limit limits what runs again" in capsys.readouterr().err
