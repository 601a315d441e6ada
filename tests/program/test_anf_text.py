"""The text of a Program: what it says, and that reading it back loses nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from support.random_graphs import programs

from cpplan.model.axes import Axis, Window
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.program.anf import Program, to_anf
from cpplan.program.text.parser import parse_program


@given(programs())
def test_any_program_reads_back_the_same(program):
    text = str(program)
    assert Program.parse(text) == program
    assert str(Program.parse(text)) == text


def test_comments_hold_result_bytes_and_the_live_bytes_of_the_step():
    # Step 0: x + t = 24. Step 1: t + y + s = 40. The weight is outside the arena.
    graph = Graph(
        "net",
        (
            Tensor("x", shape=(2,), dtype="float32", kind="input"),
            Tensor("w", 100, kind="constant"),
            Tensor("t", 16),
            Tensor("y", 16, kind="output", pools=("sram", "dram")),
            Tensor("s", 8, kind="workspace"),
        ),
        (
            Op("conv", "conv", ("x", "w"), ("t",)),
            Op(
                "last",
                "pool",
                ("t",),
                ("y",),
                ("s",),
                cost=2.5,
                in_place=(("y", "t"),),
                placements=(("y", "t", 0),),
            ),
        ),
    )
    assert str(to_anf(graph)).split("\n") == [
        "program net",
        "input %x : float32[2]",
        "constant %w : 100",
        "%t = conv(%x, %w) : 16  # 16 B, live 24 B",
        "%y = pool(%t) : 16 pools [sram, dram]"
        " {name = last, cost = 2.5, workspace %s : 8, %y over %t, %y within %t}"
        "  # 16 B, live 40 B",
        "return %y",
    ]


def test_ordering_constraints_are_attributes():
    graph = Graph(
        "g",
        (Tensor("x", 4, kind="input"),),
        (
            Op("load", inputs=("x",), sequence="io"),
            Op("a, b", after=("load",)),
            Op("store", inputs=("x",), after=("a, b", "load"), sequence="io"),
        ),
    )
    program = to_anf(graph)
    assert str(program).split("\n")[2:-1] == [
        "() = op(%x) {name = load, sequence = io}  # 0 B, live 4 B",
        '() = op() {name = "a, b", after = [load]}  # 0 B, live 4 B',
        '() = op(%x) {name = store, after = ["a, b", load], sequence = io}  # 0 B, live 4 B',
    ]
    assert parse_program(str(program)) == program


def test_axes_are_attributes():
    rows = Axis("rows", 4, (Window("x", 0, 2, -1, 3), Window("y", 0)))
    picked = Axis("picked rows", 2, (Window("y", 0, table=((0, 1), (1, 4))),))
    terms = Axis("terms", 8, (Window("x", 0),), accumulates=True)
    tensors = (
        Tensor("x", shape=(8,), dtype="int8", kind="input"),
        Tensor("y", shape=(4,), dtype="int8", kind="output"),
    )
    op = Op("conv", "conv", ("x",), ("y",), axes=(rows, picked, terms))
    program = to_anf(Graph("g", tensors, (op,)), ["conv", "conv"])
    text = str(program)
    assert (
        "{axis rows 4 [%x 0 2 -1 3, %y 0 1 0 1], "
        'axis "picked rows" 2 [%y 0 table 0:1 1:4], axis terms 8 adds [%x 0 1 0 1]}'
    ) in text
    assert parse_program(text) == program


def test_a_recomputed_op_binds_copies_that_later_readers_name():
    graph = Graph(
        "again",
        (Tensor("x", 1, kind="input"), Tensor("t", 2), Tensor("u", 4), Tensor("y", 8)),
        (Op("a", "f", ("x",), ("t",)), Op("b", "g", ("t",), ("u",)), Op("c", "h", ("t",), ("y",))),
    )
    lines = str(to_anf(graph, ["a", "b", "a", "c"])).split("\n")
    assert lines[4].startswith("%t~1 = f(%x) {name = a}")
    assert lines[5].startswith("%y = h(%t~1) : 8 {name = c}")


def test_a_copy_never_takes_the_name_of_a_tensor():
    graph = Graph(
        "clash",
        (Tensor("x", 4, kind="input"), Tensor("t", 0, view_of=("x", 0)), Tensor("t~1", 1)),
        (Op("a", "f", ("x",), ("t",)), Op("b", "g", ("t",), ("t~1",))),
    )
    program = to_anf(graph, ["a", "a", "b"])
    assert "%t~2 = f(%x)" in str(program)
    assert parse_program(str(program)) == program


def test_an_op_with_bodies_shows_them_and_the_most_it_ever_holds():
    # During the branch: c + x + inner + y = 1 + 4 + 32 + 4 = 41; the other branch: 9.
    then = Graph(
        "then",
        (Tensor("x", 4, kind="input"), Tensor("inner", 32), Tensor("y", 4, kind="output")),
        (Op("f", "f", ("x",), ("inner",)), Op("g", "g", ("inner",), ("y",))),
    )
    orelse = Graph(
        "else",
        (Tensor("x", 4, kind="input"), Tensor("y", 4, kind="output")),
        (Op("h", "h", ("x",), ("y",)),),
    )
    graph = Graph(
        "choice",
        (Tensor("c", 1, kind="input"), Tensor("x", 4, kind="input"), Tensor("y", 4, kind="output")),
        (Op("if", "if", ("c", "x"), ("y",), bodies=(then, orelse)),),
    )
    text = str(to_anf(graph))
    assert "%y = if(%c, %x) : 4  # 4 B, live 41 B" in text
    assert "    %inner = f(%x) : 32  # 32 B, live 41 B" in text
    assert "    %y = h(%x) : 4  # 4 B, live 9 B" in text
    assert parse_program(text) == to_anf(graph)


def test_comments_blank_lines_and_indentation_mean_nothing():
    text = (
        'program p  # a title\n\n   input %"a # b"  :  8 \n# nothing\n()=send( %"a # b" )\nreturn\n'
    )
    program = parse_program(text)
    assert program.graph.op["send"].inputs == ("a # b",)


HEAD = "program p\ninput %x : 4\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'line 1: expected "program" and a name, but the text ends'),
        ("graph p", "line 1: expected 'program', but found 'graph'"),
        ("program p", "line 1: expected a declaration, a binding or return, but the text ends"),
        (HEAD + "return\nmore", "line 4: expected nothing after the program's return"),
        (HEAD + "%y = f(%z) : 4\nreturn", "line 3: expected a tensor from a line above"),
        (HEAD + "%y = f(%x)\nreturn", "line 3: expected 1 types after ':'"),
        (HEAD + "%y = f(%x : 4\nreturn", "line 3: expected ')', but found ':'"),
        (HEAD + "%y f(%x) : 4\nreturn", "line 3: expected '=', but found 'f'"),
        (HEAD + "%y = f(%x) : -4\nreturn", "line 3: expected a type or a size, but found '-4'"),
        (HEAD + "%y = f(%x) : 4.5\nreturn", "line 3: expected a type or a size"),
        (HEAD + "%y = f(%x) : float32[a]\nreturn", "line 3: expected an extent"),
        (HEAD + "%y = f(%x) : float33[1]\nreturn", "line 3: dtype 'float33'"),
        (HEAD + "%y = f(%x) : 4 align 0\nreturn", "line 3: tensor 'y': alignment"),
        (HEAD + "%y = f(%x) : 4 of %q\nreturn", "line 4: tensor 'y': view of unknown tensor 'q'"),
        (HEAD + "%x = f() : 4\nreturn", "line 3: tensor 'x' is declared or bound twice"),
        (HEAD + "%y = f(%x) : 4 {speed = 3}\nreturn", "line 3: expected one of name, cost"),
        (HEAD + "%y = f(%x) : 4 {cost = nan}\nreturn", "line 3: expected the cost, a number"),
        (HEAD + "%y = f(%x) : 4 {cost = 1, cost = 2}\nreturn", "line 3: expected one of name"),
        (HEAD + "%y = f(%x) : 4 {after = g}\nreturn", "line 3: expected '[', but found 'g'"),
        (HEAD + "%y = f(%x) : 4 {after = []}\nreturn", "line 3: expected an op's name"),
        (HEAD + "%y = f(%x) : 4 {after = [g]}\nreturn", "line 4: op 'f': must run after unknown"),
        (HEAD + "%y = f(%x) : 4 {sequence = }\nreturn", "line 3: expected the sequence's name"),
        (HEAD + "%y = f(%x) : 4 {axis r [%y 0 1 0 1]}\nreturn", "line 3: expected its extent"),
        (HEAD + "%y = f(%x) : 4 {axis r 2 [%y 0 1 a 1]}\nreturn", "line 3: expected an integer"),
        (HEAD + "%y = f(%x) : 4 {axis r 1 [%y 0 table 3]}\nreturn", "line 3: expected START:STOP"),
        (HEAD + "%y = f(%x) : 4 {axis r 0 [%y 0 1 0 1]}\nreturn", "extent must be an integer >= 1"),
        (
            HEAD + "%y = f(%x) : 4 {sequence = s}\n%y~1 = f(%x)\nreturn",
            "line 5: op 'f' runs twice, but the ops of sequence 's' run once each",
        ),
        (HEAD + "%y = f(%x) : 4 {recomputable = true}\nreturn", "line 3: expected 'false'"),
        (HEAD + "%y = f(%x) : 4 {%y over %q}\nreturn", "line 3: op 'f': in_place pair"),
        (HEAD + "%y = f(%x) : 4\n%y~1 = f(%x) : 4\nreturn", "line 4: op 'f' is bound again"),
        (HEAD + "%y = f(%x) : 4\n%y~1 = f(%y)\nreturn", "line 4: op 'f' is bound again"),
        (HEAD + "%y = f(%x) : 4\n%y~1 = f(%x)\n%z = g(%y) : 4\nreturn", "line 5: expected the ne"),
        (HEAD + "return %x", "line 3: input 'x' must be an output and returned, or neither"),
        (HEAD + "output %y : 4\nreturn", "line 4: output 'y' must be an output and returned"),
        (HEAD + "ops f\nreturn", "line 3: expected every declared name once"),
        (HEAD + '%"y = f(%x) : 4\nreturn', "line 3: expected"),
        (HEAD + "%y = f(%x) : 4\nbody b\nreturn", "line 5: expected a declaration"),
        (
            HEAD + "()= f()\n body b\n ()=g()\n ()=g()\n return\nreturn",
            "line 7: an op is bound twi",
        ),
        (HEAD + "\\", "line 3: expected a declaration, a binding or return"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text, message):
    with pytest.raises(InputError) as caught:
        parse_program(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ten_thousand_bindings_read_back():
    count = 10_000
    names = [f"t{k}" for k in range(count + 1)]
    graph = Graph(
        "chain",
        (Tensor(names[0], 4, kind="input"), *(Tensor(name, 4) for name in names[1:])),
        tuple(Op(f"op{k}", "f", (names[k],), (names[k + 1],)) for k in range(count)),
    )
    program = to_anf(graph)
    assert parse_program(str(program)) == program
