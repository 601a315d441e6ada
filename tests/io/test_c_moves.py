"""Moves in C headers: a network that computes in two arenas, compiled and run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from cpplan import Graph, Op, Plan, Pool, Tensor, solve
from cpplan.io.c_header import format_c_header
from cpplan.model.errors import InputError
from cpplan.verification.lowering import Lowered

HERE = Path(__file__).parent
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs the C compiler gcc")
N = 64


def spilled_ops() -> Graph:
    """Five ops on arrays of 256 B; at most four arrays are live at once."""
    kinds = {"x": "input", "y": "output"}
    tensors = tuple(
        Tensor(name, shape=(N,), dtype="int32", kind=kinds.get(name, "intermediate"), alignment=4)
        for name in "xabcdy"
    )
    reads = {"f": ("x", "a"), "g": ("x", "b"), "h": ("x", "c"), "k": ("b", "c", "d")}
    reads["m"] = ("a", "d", "y")
    ops = tuple(Op(name, inputs=r[:-1], outputs=r[-1:]) for name, r in reads.items())
    return Graph("spilled", tensors, ops)


def plan_in(capacity: int, **options) -> Plan:
    engine = bool(options)
    speed = {"read_bandwidth": 128, "write_bandwidth": 128} if engine else {}
    pools = [Pool("fast", capacity), Pool("slow", engine=engine, **speed)]
    return solve(spilled_ops(), pools=pools, spill=True, time_limit=20, **options)


def operands(plan: Plan) -> str:
    """Macros for the operand ``x`` of op ``f`` and so on, from the plan."""
    graph = spilled_ops()
    moved = Lowered(graph, plan).moved

    def pointer(copy: str) -> str:
        row = plan.row[copy]
        array = plan.pools[int(plan.pool[row])].name
        return f"((int32_t *)(void *)({array} + {plan.offset[row]}))"

    lines = [
        f"#define {moved.origin[copy].upper()}_OF_{op.name.upper()} {pointer(copy)}"
        for op in moved.program.ops
        if op.name in graph.op
        for copy in op.tensors
    ]
    lines.append(f"#define X_OF_CALLER {pointer(moved.begins['x'])}")
    lines.append(f"#define Y_AT_THE_END {pointer(moved.ends['y'])}")
    return "\n".join(lines) + "\n"


@needs_gcc
@pytest.mark.parametrize(
    ("capacity", "options"), [(1024, {}), (768, {}), (768, {"objective": "time"})]
)
def test_a_network_computes_in_two_arenas_what_numpy_does(
    tmp_path: Path, capacity: int, options: dict[str, str]
) -> None:
    plan = plan_in(capacity, **options)
    # f keeps a over g, h and k: 768 B are one array too few.
    assert plan.moved_bytes == (0 if capacity == 1024 else 512)
    (tmp_path / "spilled.h").write_text(format_c_header(plan, spilled_ops()))
    (tmp_path / "operands.h").write_text(operands(plan))
    program = tmp_path / "spilled"
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", f"-I{tmp_path}"]
    subprocess.run([*command, str(HERE / "spilled_ops.c"), "-o", str(program)], check=True)
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    x = np.arange(N) * 37 % 101 - 50
    y = 3 * x + 1 - (5 - x + x * x)
    assert printed.split() == [str(int((np.arange(1, N + 1) * y).sum())), str(plan.moved_bytes)]


def test_a_header_with_moves_needs_the_graph() -> None:
    with pytest.raises(InputError, match="needs the graph that was planned"):
        format_c_header(plan_in(768))


@pytest.mark.parametrize("suffix", [".onnx", ".csv", ".anf"])
def test_formats_without_moves_refuse_the_plan(tmp_path: Path, suffix: str) -> None:
    plan = plan_in(768)
    with pytest.raises(InputError, match="has no place for the moves"):
        plan.export(tmp_path / f"plan{suffix}", spilled_ops())


def test_copies_beside_ops_are_begun_and_waited_for() -> None:
    plan = plan_in(768, objective="time")
    waits = [move.tensor for move in plan.moves if move.kind == "wait"]
    text = format_c_header(plan, spilled_ops())
    assert waits
    # Each macro is defined once besides.
    assert text.count("SPILLED_WAIT(") == 1 + len(waits)
    assert text.count("SPILLED_BEGIN(") == 1 + len(waits)


def test_moves_are_macros_before_their_op() -> None:
    text = format_c_header(plan_in(768), spilled_ops())
    assert text.count("SPILLED_COPY(") == 1 + 2
    for name in "FGHKM":
        assert f"#define SPILLED_BEFORE_{name}(pool0, pool1)" in text
