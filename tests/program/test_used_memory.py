"""Live bytes per binding: TVM's published figures, and the same rules on graphs of our own."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from support.published import published
from support.random_graphs import programs

from cpplan import Graph, Op, Program, Tensor, to_anf
from cpplan.model.errors import InputError


def network(sizes: Mapping[str, int], calls: Sequence[tuple[str, str, str]]) -> Graph:
    """Calls ``(kind, arguments, result)``; what no call makes is an input, the last an output."""
    made = {result for _, _, result in calls}

    def kind(name: str) -> str:
        if name not in made:
            return "input"
        return "output" if name == calls[-1][2] else "intermediate"

    return Graph(
        "network",
        tuple(Tensor(name, size, kind=kind(name)) for name, size in sizes.items()),
        tuple(
            Op(f"{kind}#{k}", kind, tuple(args.split()), (result,))
            for k, (kind, args, result) in enumerate(calls)
        ),
    )


@pytest.fixture(scope="module")
def cases() -> dict[str, dict[str, Any]]:
    """TVM's tests of AnnotateUsedMemory."""
    return {case["id"]: case for case in published("tvm")["used_memory_in_anf_order"]["cases"]}


def test_every_published_figure(cases):
    figures = {name: case for name, case in cases.items() if "error" not in case}
    assert len(figures) >= 7
    for name, case in figures.items():
        calls = case["calls"]
        sizes = case["inputs"] | {call["out"]: call["size"] for call in calls}
        graph = network(sizes, [(c["f"], " ".join(c["args"]), c["out"]) for c in calls])
        used = to_anf(graph).used_memory()
        # The pass annotates calls of primitive functions; the closing concatenation is none.
        primitive = [not op.kind.startswith("concat") for op in graph.ops]
        assert used.per_binding[primitive].tolist() == case["used_memory_per_call"], name
        assert used.io == case["io_used_memory"], name


def test_a_size_that_is_not_known_is_refused(cases):
    assert cases["used_memory/dynamic_io_not_supported"]["error"]
    with pytest.raises(InputError, match=r"tensor 'input': extent must be .* not None"):
        Tensor("input", shape=(1, 2, 2, None), dtype="int8", kind="input")


def test_a_chain_holds_two_neighbours():
    sizes = {"image": 300, "a": 200, "b": 90, "label": 7}
    calls = [("conv", "image", "a"), ("pool", "a", "b"), ("dense", "b", "label")]
    used = to_anf(network(sizes, calls)).used_memory()
    assert used.per_binding.tolist() == [300 + 200, 200 + 90, 90 + 7]
    assert used.per_op == {"conv#0": (500,), "pool#1": (290,), "dense#2": (97,)}
    assert used.io == 307


def test_results_pile_up_until_they_are_joined():
    sizes = {"image": 50, "stem": 60, "l": 10, "m": 20, "r": 30, "joined": 60}
    calls = [
        *(("conv", "image", "stem"), ("left", "stem", "l")),
        *(("middle", "stem", "m"), ("right", "stem", "r"), ("concat", "l m r", "joined")),
    ]
    used = to_anf(network(sizes, calls)).used_memory()
    assert used.per_binding.tolist() == [110, 60 + 10, 60 + 30, 60 + 60, 60 + 60]
    assert used.io == 50 + 60


def test_branches_that_branch_again():
    # TVM's test_nested_branches, with sizes that tell the tensors apart.
    sizes = {"x": 1, "a": 2, "b": 4, "c": 8, "d": 16, "out": 26}
    calls = [
        *(("f", "x", "a"), ("g", "x", "b"), ("h", "b", "c"), ("k", "b", "d")),
        ("concat", "a c d", "out"),
    ]
    used = to_anf(network(sizes, calls)).used_memory()
    assert used.per_binding.tolist() == [
        1 + 2,
        1 + 2 + 4,
        2 + 4 + 8,
        2 + 4 + 8 + 16,
        2 + 8 + 16 + 26,
    ]


def test_inputs_wait_for_their_readers_and_outputs_for_the_end():
    tensors = (
        Tensor("early", 1, kind="input"),
        Tensor("late", 2, kind="input"),
        Tensor("w", 4, kind="constant"),
        Tensor("first", 8, kind="output"),
        Tensor("t", 16),
        Tensor("last", 32, kind="output"),
    )
    ops = (
        Op("f", inputs=("early",), outputs=("first",)),
        Op("g", inputs=("first", "w"), outputs=("t",)),
        Op("h", inputs=("t", "late"), outputs=("last",)),
    )
    used = to_anf(Graph("g", tensors, ops)).used_memory()
    assert used.per_binding.tolist() == [1 + 2 + 8, 2 + 8 + 16, 2 + 8 + 16 + 32]
    assert used.io == 1 + 2 + 8 + 32


def test_views_of_one_storage_count_once():
    tensors = (
        Tensor("x", 10, kind="input"),
        Tensor("flat", 10, view_of=("x", 0)),
        Tensor("half", 5, view_of=("flat", 5)),
        Tensor("y", 3, kind="output"),
    )
    ops = (
        Op("reshape", inputs=("x",), outputs=("flat",)),
        Op("slice", inputs=("flat",), outputs=("half",)),
        Op("f", inputs=("half",), outputs=("y",)),
    )
    assert to_anf(Graph("g", tensors, ops)).used_memory().per_binding.tolist() == [10, 10, 13]


def test_every_run_of_an_op_has_a_figure():
    sizes = {"x": 1, "t": 2, "u": 4, "v": 8, "y": 16}
    calls = [("f", "x", "t"), ("g", "t", "u"), ("h", "u", "v"), ("k", "t v", "y")]
    graph = network(sizes, calls)
    # Computed once, t lies there during h; computed twice, x does.
    assert to_anf(graph).used_memory().per_op["h#2"] == (2 + 4 + 8,)
    again = to_anf(graph, ["f#0", "g#1", "h#2", "f#0", "k#3"]).used_memory()
    assert again.ops == ("f#0", "g#1", "h#2", "f#0", "k#3")
    assert again.per_binding.tolist() == [1 + 2, 1 + 2 + 4, 1 + 4 + 8, 1 + 8 + 2, 2 + 8 + 16]
    assert again.per_op["f#0"] == (3, 11)


def test_what_an_op_needs_for_itself_counts_if_asked_for():
    # TVM's composite function: the tensors inside a primitive function are not seen.
    body = Graph(
        "inside",
        (
            Tensor("x", 16, kind="input"),
            Tensor("padded", 40),
            Tensor("row", 6, kind="workspace"),
            Tensor("y", 4, kind="output"),
        ),
        (
            Op("pad", inputs=("x",), outputs=("padded",)),
            Op("max", inputs=("padded",), outputs=("y",), workspaces=("row",)),
        ),
    )
    tensors = (
        Tensor("x", 16, kind="input"),
        Tensor("y", 4),
        Tensor("s", 9, kind="workspace"),
        Tensor("z", 2, kind="output"),
    )
    ops = (
        Op("call", inputs=("x",), outputs=("y",), bodies=(body,)),
        Op("f", inputs=("y",), outputs=("z",), workspaces=("s",)),
    )
    program = to_anf(Graph("g", tensors, ops))
    assert program.used_memory().per_binding.tolist() == [16 + 4, 4 + 2]
    # In the call, max holds the most: 16 + 4 + 40 + 6.
    assert program.used_memory(workspaces=True).per_binding.tolist() == [66, 4 + 2 + 9]


def test_a_workspace_in_which_a_result_lies_is_no_scratch():
    tensors = (
        Tensor("scratch", 12, kind="workspace"),
        Tensor("t", 4, view_of=("scratch", 8)),
        Tensor("inside", 3, kind="workspace", view_of=("t", 1)),
        Tensor("y", 1, kind="output"),
    )
    ops = (
        Op("f", outputs=("t",), workspaces=("scratch", "inside")),
        Op("g", inputs=("t",), outputs=("y",)),
    )
    assert to_anf(Graph("g", tensors, ops)).used_memory().per_binding.tolist() == [12, 13]


def test_without_ops_there_is_nothing_to_count():
    graph = Graph("g", (Tensor("x", 4, kind="output"),), ())
    used = to_anf(graph).used_memory()
    assert (used.per_binding.shape, used.per_op, used.io) == ((0,), {}, 4)


def test_ops_that_hold_nothing_have_a_figure_too():
    tensors = (Tensor("x", 4, kind="input"), Tensor("t", 2))
    ops = (Op("f", inputs=("x",), outputs=("t",)), Op("signal"), Op("barrier"))
    assert to_anf(Graph("g", tensors, ops)).used_memory().per_binding.tolist() == [6, 0, 0]


@given(programs())
def test_with_workspaces_it_is_the_most_live_at_the_binding_s_steps(program):
    live = program.live_bytes().tolist()
    steps = zip(program.starts, program.starts[1:], strict=False)
    most = [max(live[begin:end], default=0) for begin, end in steps]
    between, inside = program.used_memory(), program.used_memory(workspaces=True)
    assert inside.per_binding.tolist() == most
    assert (between.per_binding <= inside.per_binding).all()
    for op, less, more in zip(program.ops, between.per_binding, inside.per_binding, strict=True):
        assert less == more or op.workspaces or op.bodies


def test_the_definition_spelled_out_agrees():
    rng = random.Random(5)
    for _ in range(200):
        program = _random_program(rng)
        assert program.used_memory().per_binding.tolist() == _by_definition(program)


def _random_program(rng: random.Random) -> Program:
    """Up to seven ops without views, some of them run again."""
    tensors = [Tensor(f"x{k}", rng.randint(0, 9), kind="input") for k in range(rng.randint(1, 2))]
    ops = []
    for k in range(rng.randint(1, 7)):
        args = [rng.choice(tensors).name for _ in range(rng.randint(0, 2))]
        kind = rng.choice(["intermediate", "intermediate", "output"])
        ops.append(Op(f"op{k}", inputs=tuple(args), outputs=(f"t{k}",)))
        tensors.append(Tensor(f"t{k}", rng.randint(0, 9), kind=kind))
    order = list(range(len(ops)))
    for _ in range(rng.randint(0, 3)):
        again = rng.randrange(len(ops))
        order.insert(rng.randint(order.index(again) + 1, len(order)), again)
    return Program(Graph("random", tuple(tensors), tuple(ops)), tuple(order))


def _by_definition(program: Program) -> list[int]:
    """Each value from where it is written to its last reader; the last of an output to the end."""
    tensor, last = program.graph.tensor, len(program.ops) - 1
    values = [[name, 0, 0] for name, t in tensor.items() if t.kind == "input"]
    current = {value[0]: value for value in values}
    for k, op in enumerate(program.ops):
        for name in op.inputs:
            current[name][2] = k
        for name in op.outputs:
            current[name] = [name, k, k]
            values.append(current[name])
    for name, value in current.items():
        if tensor[name].kind == "output":
            value[2] = last
    live = np.zeros(len(program.ops), np.int64)
    for name, begin, end in values:
        live[begin : end + 1] += tensor[name].nbytes
    return live.tolist()
