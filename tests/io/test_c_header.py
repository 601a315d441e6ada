"""Plans as C headers: what compilers accept, what the arena really holds, and odd names."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cpplan.cli.main import main
from cpplan.io.c_header import format_c_header
from cpplan.io.graph_json import write_graph
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.plan import Plan
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.solving.pipeline import solve

GCC, GXX = shutil.which("gcc"), shutil.which("g++")
needs_gcc = pytest.mark.skipif(GCC is None, reason="needs the C compiler gcc")
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only")
HERE = Path(__file__).parent

HOSTILE = [
    "int",
    "INT",
    "a b",
    "a-b",
    "a_b",
    'quote"d',
    "it's",
    "new\nline",
    "back\\slash\\",
    "/* comment */",
    "*/ #error out",
    "//",
    "??/",
    "??)",
    "größe",
    "名前",
    "\u202eright to left",
    "",
    "0",
    "0_2",
    "a_b_2",
    "arena",
    "arena_size",
    "assert",
    "%d",
    "x" * 500,
    "x" * 500 + "y",
    "y~1",
]


def plan_of(names: list[str], **fields) -> Plan:
    count = len(names)
    problem = Problem(
        names,
        lower=np.arange(count),
        upper=np.arange(count) + 2,
        size=np.arange(count) + 1,
        **fields,
    )
    return solve(problem, time_limit=5)


def compile_header(text: str, folder: Path, compiler: str = "gcc", standard: str = "c11"):
    """The compiler's result for a program of the header and its arenas alone."""
    prefix = re.search(r"#ifndef (\w+)_PLAN_H", text)[1]
    arrays = re.findall(r"#define (\w+_ARRAY)\(", text)
    source = folder / ("use.c" if compiler == "gcc" else "use.cpp")
    (folder / "plan.h").write_text(text)
    declared = "".join(f"{array}(memory{k});\n" for k, array in enumerate(arrays))
    again = f'#include "plan.h"\n#include "plan.h"\n#ifndef {prefix}_PLAN_H\n#error guard\n#endif\n'
    source.write_text(again + declared)
    command = [compiler, f"-std={standard}", *STRICT, str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def macros(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"#define (\w+) (\d+)u", text)}


def test_offsets_and_sizes_are_those_of_the_plan():
    plan = plan_of(["a", "b", "c"], name="tiny")
    found = macros(format_c_header(plan))
    assert found["TINY_ARENA_SIZE"] == plan.peak
    for name in plan.buffers:
        assert found[f"TINY_{name.upper()}_OFFSET"] == plan.offset_of(name)
        assert found[f"TINY_{name.upper()}_SIZE"] == plan.size[plan.row[name]]


def two_ops() -> Graph:
    return Graph(
        "two_ops",
        (
            Tensor("x", shape=(32,), dtype="int8", kind="input"),
            Tensor("h", shape=(16,), dtype="int32", alignment=4),
            Tensor("y", shape=(16,), dtype="int32", kind="output", alignment=4),
        ),
        (Op("dense", inputs=("x",), outputs=("h",)),
         Op("relu", inputs=("h",), outputs=("y",), in_place=(("y", "h"),))),
    )  # fmt: skip


@needs_gcc
@pytest.mark.parametrize("in_place", [False, True])
def test_a_network_computes_in_the_arena_what_numpy_does(tmp_path, in_place):
    plan = solve(two_ops(), in_place=in_place)
    # x 32 and h 64 bytes, then h and y unless y is written over h.
    assert plan.peak == (96 if in_place else 128)
    (tmp_path / "two_ops.h").write_text(format_c_header(plan))
    program = tmp_path / "two_ops"
    command = ["gcc", "-std=c11", "-O2", *STRICT[:4], f"-I{tmp_path}", str(HERE / "two_ops.c")]
    subprocess.run([*command, "-o", str(program)], check=True)
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    row, column = np.arange(16)[:, None], np.arange(32)
    weight, x = (row * 7 + column * 3) % 11 - 5, column * 13 % 29 - 14
    y = np.maximum(weight @ x, 0)
    assert y.any()
    assert int(printed) == int((np.arange(1, 17) * y).sum())


@needs_gcc
def test_odd_names_are_c_names_of_their_own(tmp_path):
    names = [name for name in HOSTILE if name]
    text = format_c_header(plan_of(names, name='a "model"\n*/'))
    offsets = [name for name in macros(text) if name.endswith("_OFFSET")]
    assert len(offsets) == len(set(offsets)) == len(names)
    assert text.isascii()
    result = compile_header(text, tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
@needs_gcc
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), unique=True))
def test_any_names_compile(tmp_path, names):
    text = format_c_header(plan_of(names, name=names[0] if names else "none"))
    assert compile_header(text, tmp_path).returncode == 0


@pytest.mark.parametrize("name", HOSTILE)
def test_any_model_name_begins_macros(name):
    text = format_c_header(plan_of(["a"], name=name))
    guard = re.search(r"#ifndef (\w+)_PLAN_H", text)
    assert guard is not None
    assert guard[1][0].isalpha()


def test_of_two_names_that_come_to_the_same_the_later_has_a_number():
    found = macros(format_c_header(plan_of(["a-b", "a_b", "a b", "a_b_2"], name="p")))
    assert {name for name in found if name.endswith("_OFFSET")} == {
        f"P_{name}_OFFSET" for name in ("A_B", "A_B_2", "A_B_3", "A_B_2_2")
    }


@needs_gcc
@pytest.mark.parametrize(("compiler", "standard"), [("gcc", "c11"), ("g++", "c++11")])
def test_several_pools_are_several_arrays(tmp_path, compiler, standard):
    if shutil.which(compiler) is None:
        pytest.skip(f"needs the compiler {compiler}")
    pools = [Pool("sram", capacity=4, alignment=4), Pool("d-ram", alignment=128, base=1 << 40)]
    plan = plan_of(["a", "b", "c", "d"], name="p", pools=pools)
    text = format_c_header(plan)
    found = macros(text)
    assert {"P_SRAM_SIZE", "P_D_RAM_SIZE"} <= set(found)
    assert (found["P_SRAM_ALIGNMENT"], found["P_D_RAM_ALIGNMENT"]) == (64, 128)
    assert found["P_D_RAM_BASE"] == 1 << 40
    result = compile_header(text, tmp_path, compiler, standard)
    assert result.returncode == 0, result.stderr


@needs_gcc
@pytest.mark.parametrize(
    ("macro", "value", "complaint"),
    [("P_B_OFFSET", "6u", "not aligned"), ("P_B_OFFSET", "64u", "leaves its arena")],
)
def test_a_header_that_was_tampered_with_does_not_compile(tmp_path, macro, value, complaint):
    plan = plan_of(["a", "b"], name="p", pools=[Pool(alignment=4)])
    text = re.sub(rf"(#define {macro}) \d+u", rf"\1 {value}", format_c_header(plan))
    result = compile_header(text, tmp_path)
    assert result.returncode != 0
    assert complaint in result.stderr


@needs_gcc
def test_with_the_source_each_buffer_keeps_its_own_alignment(tmp_path):
    graph = Graph(
        "g",
        (
            Tensor("x", 4, kind="input"),
            Tensor("h", 4, alignment=256),
            Tensor("y", 3, kind="output", alignment=2),
        ),
        (Op("f", inputs=("x",), outputs=("h",)), Op("g", inputs=("h",), outputs=("y",))),
    )
    plan = solve(graph, memory_limit="4 KiB", remat=True)
    text = format_c_header(plan, graph)
    assert macros(text)["G_ARENA_ALIGNMENT"] == 256
    assert "(G_H_OFFSET % 256u == 0," in text
    assert compile_header(text, tmp_path).returncode == 0
    moved = re.sub(r"(#define G_Y_OFFSET) \d+u", r"\1 1u", text)
    assert "G_Y is not aligned" in compile_header(moved, tmp_path).stderr
    assert macros(format_c_header(plan))["G_ARENA_ALIGNMENT"] == 64


@needs_gcc
def test_an_empty_arena_and_views_compile(tmp_path):
    assert compile_header(format_c_header(plan_of([], name="none")), tmp_path).returncode == 0
    graph = Graph(
        "views",
        (
            Tensor("x", 8, kind="input"),
            Tensor("y", 8, kind="output"),
            Tensor("half", 4, view_of=("x", 4)),
        ),
        (Op("split", inputs=("x",), outputs=("half",)), Op("f", inputs=("half",), outputs=("y",))),
    )
    plan = solve(graph)
    text = format_c_header(plan)
    assert macros(text)["VIEWS_HALF_OFFSET"] == plan.offset_of("x") + 4
    assert compile_header(text, tmp_path).returncode == 0


@pytest.mark.parametrize("prefix", ["", "9a", "_a", "a-b", "ä", "a\n", 7])
def test_a_prefix_that_is_no_identifier_is_refused(prefix):
    with pytest.raises(InputError, match="identifier"):
        format_c_header(plan_of(["a"]), prefix=prefix)


@pytest.mark.parametrize("alignment", [0, 3, -4, 2.0, True, "64"])
def test_an_array_is_aligned_to_a_power_of_two(alignment):
    with pytest.raises(InputError, match="power of two"):
        format_c_header(plan_of(["a"]), alignment=alignment)
    with pytest.raises(InputError, match="power of two"):
        format_c_header(plan_of(["a"], pools=[Pool(alignment=12)]))


def test_plans_without_numbers_are_refused():
    plan = plan_of(["a", "b"])
    with pytest.raises(InputError, match="there is no plan"):
        format_c_header(replace(plan, offset=None, status="unknown"))
    tensors = (Tensor("x", shape=("n",), dtype="int8", kind="input"), Tensor("y", 4, kind="output"))
    from cpplan.model.symbols import Symbols

    graph = Graph("s", tensors, (Op("f", inputs=("x",), outputs=("y",)),), Symbols({"n": (1, 8)}))
    with pytest.raises(InputError, match="depend on variables"):
        format_c_header(solve(graph))


def test_the_command_line_writes_the_header(tmp_path, capsys):
    model, header = tmp_path / "two_ops.json", tmp_path / "two_ops.h"
    write_graph(two_ops(), model)
    assert main(["plan", str(model), "-q", "--c-header", str(header)]) == 0
    assert header.read_text() == format_c_header(solve(two_ops()), two_ops())
    assert main(["plan", str(model), "-q", "--c-header", str(model)]) == 2
    assert "--c-header" in capsys.readouterr().err
