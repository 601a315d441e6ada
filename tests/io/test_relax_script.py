"""Relax modules with planned storages: TVM's answer beside what the tensors need."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from cpplan.comparison.baselines import compare_rows
from cpplan.comparison.rivals.relax_script import read_relax
from cpplan.io import load
from cpplan.model.errors import InputError

RIVALS = Path(__file__).parents[2] / "datasets/rivals"


def storage(name: str, size: object, scope: str = "global") -> str:
    return (
        f'{name} = R.memory.alloc_storage(R.shape([{size}]), 0, R.str("{scope}"), R.dtype("int8"))'
    )


def tensor(name: str, within: str, shape: str, dtype: str = "int8", offset: int = 0) -> str:
    what = f'R.shape([{shape}]), R.dtype("{dtype}")'
    return f"{name} = R.memory.alloc_tensor({within}, {offset}, {what}, 0)"


def read(folder: Path, *body: str, name: str = "main", more: str = ""):
    lines = ["@R.function", f"def {name}(x):", *(f"    {line}" for line in body)]
    path = folder / "planned.txt"
    path.write_text("\n".join(lines) + "\n" + more)
    return read_relax(path)


def test_storages_of_a_real_model():
    problem = load(RIVALS / "relax_squeezenet1_1.txt")
    rows = {row.algorithm: row for row in compare_rows(problem, algorithms=[])}
    assert (rows["tvm"].bytes, rows["tvm"].status) == (6349088, "feasible")
    # The bytes live at once: whole storages cost 62 % more.
    assert (rows["cpplan"].bytes, rows["cpplan"].status) == (3928576, "optimal")


def test_tensors_live_from_their_first_use_to_that_of_their_last_name(tmp_path):
    problem = read(
        tmp_path,
        storage("s", 64),
        tensor("a", "s", "4, 4", "int32"),
        "cls.fill(x, a)",  # step 0
        "view: R.Tensor((16,)) = R.call_packed('vm.builtin.reshape', a)",  # step 1
        storage("t", 16),
        tensor("b", "t", "8"),
        tensor("c", "t", "8", offset=8),
        "cls.first(view, b)",  # step 2
        "pair = (b, c)",
        "cls.second(pair[0], pair, x)",  # step 3
        "other = pair[1]",
        "R.memory.kill_tensor(a)",
        "return other",  # step 4
    )
    columns = (problem.lower, problem.upper, problem.size)
    assert dict(zip(problem.names, zip(*(c.tolist() for c in columns), strict=True), strict=True)) \
        == {"a": (0, 3, 64), "b": (2, 4, 8), "c": (3, 5, 8)}  # fmt: skip
    assert problem.answers[0].offset == {"a": 0, "b": 64, "c": 72}
    assert problem.answers[0].peak == 80


def test_a_storage_reused_too_early_is_invalid(tmp_path):
    body = [
        storage("s", 8),
        tensor("a", "s", "8"),
        "cls.f(x, a)",
        tensor("b", "s", "8"),
        "cls.g(a, b)",
        "return b",
    ]
    assert compare_rows(read(tmp_path, *body), algorithms=[])[-1].status == "invalid"


def test_both_branches_are_steps(tmp_path):
    body = [
        storage("s", 8),
        tensor("a", "s", "8"),
        "if cond:",
        "    cls.f(x, a)",
        "else:",
        "    cls.g(x, a)",
        "with R.dataflow():",
        "    cls.h(a)",
        "return a",
    ]
    problem = read(tmp_path, *body)
    assert (problem.lower[0], problem.upper[0]) == (1, 5)


def test_main_is_read_among_several(tmp_path):
    other = "@R.function\ndef other(x):\n    " + "\n    ".join(
        [storage("s", 4), tensor("o", "s", "4"), "return o"]
    )
    body = [storage("s", 8), tensor("a", "s", "8"), "return a"]
    assert list(read(tmp_path, *body, more=other).names) == ["a"]
    with pytest.raises(InputError, match="2 functions with planned storages"):
        read(tmp_path, *body, name="another", more=other)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (["return x"], "no function with planned storages"),
        (["s = R.memory.alloc_storage("], ":3: not the text of a Relax module, or cut short"),
        ([storage("s", "n")], ":3: sizes, shapes and dtypes must be literals"),
        ([storage("s", 8), tensor("a", "t", "8")], ":4: there is no storage 't'"),
        ([storage("s", 8), tensor("a", "s", "n")], ":4: sizes, shapes and dtypes"),
        ([storage("s", 8), tensor("a", "s", "8", "odd")], "odd"),
        ([storage("s", 8), "return x"], "no tensors"),
        ([storage("s", -8), "return x"], ":3: sizes and shapes must be integers >= 0 below"),
        (
            [storage("s", 8), tensor("a", "s", str(2**64)), "return a"],
            ":4: sizes and shapes must be",
        ),
        ([storage("s", 8), tensor("a", "s", f"{2**40}, {2**40}"), "return a"], "too large"),
        ([storage("s", 8), "a = R.memory.alloc_tensor(s, 0)"], ":4: expected an argument 3"),
        (
            [storage("s", 8), storage("t", 8, "local"), tensor("a", "s", "8"), "return a"],
            r"several scopes: \['global', 'local'\]",
        ),
    ],
)
def test_bad_modules_are_refused(tmp_path, body, complaint):
    with pytest.raises(InputError, match=complaint) as error:
        read(tmp_path, *body)
    assert str(tmp_path) in str(error.value)


@pytest.mark.slow
def test_tvm_plans_a_model_as_its_listing_says(tmp_path):
    pytest.importorskip("tvm", reason="needs the extra tvm")
    script = RIVALS.parent / "generators" / "rival_listings.py"
    spec = importlib.util.spec_from_file_location("rival_listings", script)
    listings = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(listings)
    path = tmp_path / "planned.txt"
    path.write_text(listings.relax_text(listings.ONNX))
    planned, listed = read_relax(path), load(RIVALS / "relax_squeezenet1_1.txt")
    assert planned.answers == listed.answers
