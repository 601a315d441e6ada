"""``simulate``: what is destroyed in memory is found, and named."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import examples
from support.oracles import (
    clashes,
    first_fit,
    plan_for,
    problems,
    programs,
    random_problem,
    random_program,
)
from support.plan_verdicts import accepts

import cpplan
from cpplan import Graph, Op, Plan, Problem, Program, Tensor, simulate, to_anf, verify
from cpplan.model.errors import VerificationError
from cpplan.model.problem import Gap
from cpplan.model.residency import Residency
from cpplan.verification.arena import Simulation


def moved(plan: Plan, **offsets: int) -> Plan:
    """The same plan with some buffers elsewhere, and the peak that gives."""
    offset = plan.offset.copy()
    for name, value in offsets.items():
        offset[plan.buffers.index(name)] = value
    return replace(plan, offset=offset, peak=int(max(offset + plan.size)))


def rejected(source: Graph | Program | Problem, plan: Plan, match: str) -> None:
    with pytest.raises(VerificationError, match=match) as caught:
        simulate(source, plan)
    assert "\n" not in str(caught.value)


def bump(source: Program | Problem, residency: Residency | None = None) -> Plan:
    """Every buffer by itself, one above the other."""
    plan = plan_for(source, residency)
    starts = (np.cumsum(plan.size) - plan.size).tolist()
    return moved(plan, **dict(zip(plan.buffers, starts, strict=True)))


@pytest.fixture
def chain() -> Program:
    """x (8 B) -> a, with scratch s -> t (16 B) -> b -> y (4 B)."""
    tensors = (
        Tensor("x", 8, kind="input"),
        Tensor("s", 2, kind="workspace"),
        Tensor("t", 16),
        Tensor("y", 4, kind="output"),
    )
    ops = (
        Op("a", inputs=("x",), outputs=("t",), workspaces=("s",)),
        Op("b", inputs=("t",), outputs=("y",)),
    )
    return Program(Graph("chain", tensors, ops), (0, 1))


def test_counts_what_it_did(chain: Program) -> None:
    # Written: x 8, t 16, s 2, y 4. Checked: x 8 by the caller, x before and after a, t and s after
    # it; t before and after b, y after it and at the end.
    assert simulate(chain, plan_for(chain)) == Simulation(
        ops=2,
        bytes_written=8 + 16 + 2 + 4,
        bytes_checked=8 + 8 + 8 + 16 + 2 + 16 + 16 + 4 + 4,
        arena_bytes=26,
    )


def test_an_empty_program_needs_no_arena() -> None:
    empty = to_anf(Graph("empty", (), ()))
    assert simulate(empty, plan_for(empty)).arena_bytes == 0


def test_names_op_tensor_bytes_step_and_who_overwrote_them(chain: Program) -> None:
    # x 0..8, t 8..24: y over the end of t, which b reads, is too early.
    plan = moved(bump(chain), y=20)
    rejected(
        chain,
        plan,
        r"^at step 1 op 'b' finds that bytes 20\.\.24 of the arena are no longer those of tensor "
        r"'t', written at step 0: tensor 'y' \(op 'b'\) overwrote them at step 1$",
    )


def test_an_output_may_not_reach_into_its_ops_input_or_workspace(chain: Program) -> None:
    plan = bump(chain)
    assert plan.buffers == ("x", "t", "s", "y")
    rejected(chain, moved(plan, t=7), "op 'a' finds that bytes 7..8 .* 'x'.* 't' .*overwrote")
    rejected(chain, moved(plan, s=23), "op 'a' finds that bytes 23..24 .* 't'.* 's' .*overwrote")


def test_inputs_are_all_there_when_the_program_starts() -> None:
    tensors = (Tensor("x", 4, kind="input"), Tensor("unread", 4, kind="input"))
    program = to_anf(Graph("inputs", tensors, ()))
    rejected(program, moved(bump(program), unread=2), "bytes 2..4 .*'x'.*'unread' overwrote them")


def test_outputs_and_kept_inputs_are_read_at_the_end(chain: Program) -> None:
    early = Tensor("z", 4, kind="output")
    first = replace(chain.graph.ops[0], outputs=("t", "z"))
    graph = Graph("early", (*chain.graph.tensors, early), (first, chain.graph.ops[1]))
    program = to_anf(graph)
    plan = bump(program)
    rejected(program, moved(plan, y=plan.offset_of("z")), "^at step 1 bytes .*'z'.*'y'")
    kept = Residency(inputs="keep")
    rejected(program, moved(bump(program, kept), y=0), "^at step 1 bytes 0..4 .*'x'.*'y'")
    simulate(program, moved(bump(program), y=0))


def test_a_view_writes_nothing_and_reads_its_bases_bytes() -> None:
    tensors = (
        Tensor("x", 8, kind="input"),
        Tensor("v", 4, view_of=("x", 2)),
        Tensor("t", 4),
        Tensor("y", 4, kind="output"),
    )
    ops = (
        Op("cut", inputs=("x",), outputs=("v",)),
        Op("f", inputs=(), outputs=("t",)),
        Op("g", inputs=("v", "t"), outputs=("y",)),
    )
    program = to_anf(Graph("view", tensors, ops))
    plan = plan_for(program)
    assert simulate(program, plan).bytes_written == 8 + 4 + 4
    # t over x's last bytes would do: v is 2..6. But the storage stays whole.
    rejected(program, moved(plan, t=5), "'g' finds .*5..6 .* tensor 'v' in buffer 'x'.* 't' ")


def test_parts_of_a_concatenation_are_written_in_place() -> None:
    tensors = (
        Tensor("a", 4, view_of=("whole", 0)),
        Tensor("b", 4, view_of=("whole", 4)),
        Tensor("whole", 10, kind="output"),
    )
    ops = (
        Op("fill_a", outputs=("a",)),
        Op("fill_b", outputs=("b",)),
        Op("join", inputs=("a", "b"), outputs=("whole",)),
    )
    program = to_anf(Graph("join", tensors, ops))
    plan = plan_for(program)
    # join writes only the two bytes that are in neither part.
    assert simulate(program, plan).bytes_written == 4 + 4 + 2
    assert plan.buffers == ("whole",)


def branches() -> Program:
    """An ``if`` whose branches need 8 and 6 B of their own, one at a time."""
    x, y = Tensor("x", 4, kind="input"), Tensor("y", 4, kind="output")
    bodies = tuple(
        Graph(
            f"body{size}",
            (x, y, Tensor("t", size)),
            (Op("f", inputs=("x",), outputs=("t",)), Op("g", inputs=("t",), outputs=("y",))),
        )
        for size in (8, 6)
    )
    op = Op("if", inputs=("x",), outputs=("y",), bodies=bodies)
    return to_anf(Graph("branches", (x, y), (op,)))


def test_branches_share_bytes_but_spare_what_the_op_accesses() -> None:
    program = branches()
    plan = plan_for(program)
    # Optimum 16: x, y and the larger t.
    assert (plan.peak, plan.status) == (16, "optimal")
    assert plan.offset_of("if/0/t") == plan.offset_of("if/1/t")
    assert simulate(program, plan).ops == 5
    verify(program, plan)
    rejected(
        program, moved(plan, **{"if/0/t": 0}), "'if/0/f' finds .* 'x'.* 't' in buffer 'if/0/t'"
    )


def test_inputs_of_a_body_live_while_it_runs() -> None:
    carried = (Tensor("i", 4, kind="input"), Tensor("o", 4, kind="output"), Tensor("t", 4))
    body = Graph("turn", carried, (Op("f", outputs=("t",)), Op("g", inputs=("t",), outputs=("o",))))
    program = to_anf(
        Graph("loop", (Tensor("y", 4),), (Op("loop", outputs=("y",), bodies=(body,)),))
    )
    plan = bump(program)
    simulate(program, plan)
    start = plan.offset_of("loop/0/i")
    rejected(program, moved(plan, **{"loop/0/t": start}), "'loop' finds .*'i' in buffer 'loop/0/i'")
    start = plan.offset_of("loop/0/o")
    rejected(program, moved(plan, **{"loop/0/i": start}), "'i' in buffer.*'o' in buffer 'loop/0/o'")


def test_outputs_of_a_body_live_from_their_write() -> None:
    tensors = (
        *(Tensor("i", 4, kind="input"), Tensor("t", 8), Tensor("u", 2)),
        *(Tensor("o", 8, kind="output"), Tensor("same", 1, kind="output")),
    )
    ops = (
        Op("f", inputs=("i",), outputs=("t",)),
        Op("g", inputs=("t",), outputs=("u",)),
        Op("h", inputs=("u",), outputs=("o",)),
    )
    loop = Op("loop", outputs=("y",), bodies=(Graph("turn", tensors, ops),))
    program = to_anf(Graph("loop", (Tensor("y", 3),), (loop,)))
    plan = plan_for(program)
    spans = dict(zip(plan.buffers, zip(plan.lower, plan.upper, strict=True), strict=True))
    # i and same, which nobody writes, are there throughout; t and o never meet.
    assert spans["loop/0/i"] == spans["loop/0/same"] == (0, 3)
    assert spans["loop/0/o"] == (2, 3)
    # Optimum 18 = i 4 + same 1 + y 3 + t or o 8 + u 2.
    assert (plan.peak, plan.status) == (18, "optimal")
    verify(program, plan)
    simulate(program, plan)
    start = plan.offset_of("loop/0/i")
    rejected(program, moved(plan, **{"loop/0/o": start}), "'i'.*'o' in buffer 'loop/0/o'")


def test_a_copy_is_read_where_it_was_last_written() -> None:
    tensors = (Tensor("t", 4), Tensor("u", 4), Tensor("y", 4, kind="output"))
    ops = (
        Op("f", outputs=("t",)),
        Op("g", inputs=("t",), outputs=("u",)),
        Op("h", inputs=("u", "t"), outputs=("y",)),
    )
    program = Program(Graph("again", tensors, ops), (0, 1, 0, 2))
    plan = bump(program)
    assert plan.buffers == ("t", "u", "t~1", "y")
    # The first retention is over after g: y may have its bytes, not those of the second.
    simulate(program, moved(plan, y=0))
    rejected(program, moved(plan, y=8), "'h' finds that .* tensor 't' in buffer 't~1'.* 'y'")


def test_gaps_are_free_but_for_their_window() -> None:
    problem = Problem(("a", "b"), [0, 2], [6, 4], [8, 6], gaps={0: [Gap(2, 4, 0, 2)]})
    plan = bump(problem)
    # a: 8 B at step 0, and again at step 4; its window is kept, not written.
    assert simulate(problem, moved(plan, b=2)).bytes_written == 8 + 6 + 8
    rejected(
        problem,
        moved(plan, b=1),
        r"^at step 3 bytes 1\.\.2 of the arena are no longer those of buffer 'a', written at step 0"
        r": buffer 'b' overwrote them at step 2$",
    )


def test_writes_are_told_apart_beyond_the_256th() -> None:
    # The 1st and the 257th write have the same low byte.
    count = 257
    lower = np.arange(count)
    upper = lower + 1
    upper[0] = count
    problem = Problem([f"b{k}" for k in lower], lower, upper, np.ones(count, np.int64))
    plan = moved(plan_for(problem), b256=0)
    rejected(problem, plan, "buffer 'b0', written at step 0: buffer 'b256' overwrote .* step 256")
    simulate(problem, moved(plan, b256=1))


def test_large_arenas_are_simulated_exactly_in_little_memory() -> None:
    tera = 1 << 40
    problem = Problem(("a", "b", "c"), [0, 0, 1], [2, 1, 2], [tera + 1, tera, 3])
    plan = bump(problem)
    simulate(problem, moved(plan, c=tera + 1))
    rejected(problem, moved(plan, b=tera), f"bytes {tera}..{tera + 1} .*'a'.*'b' overwrote")
    rejected(problem, moved(plan, c=tera - 2), f"bytes {tera - 2}..{tera + 1} .*'a'.*'c' overwrote")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"offset": None}, "holds no offsets"),
        ({"offset": np.array([0, 8])}, "offset has shape"),
        ({"offset": np.array([-1, 8, 24, 26])}, "'x', used at step 0: .*-1..7 lie outside"),
        ({"offset": np.array([0, 8, 24, 27])}, "'y', used at step 1: .*27..31 lie outside"),
        ({"offset": np.array([0, 8, 24, 25])}, "claims a peak of 30 B, but nothing .* from 29 on"),
        ({"peak": 31}, "claims a peak of 31 B, but nothing accesses its bytes from 30 on"),
        ({"peak": 29}, "lie outside the arena of 29 B"),
        ({"peak": None}, "peak must be a byte count, not None"),
        ({"buffers": ("x", "t", "s", "z")}, "'y', used at step 1, is not in the plan"),
        ({"buffers": ("x", "t", "s", "s")}, "buffer 's' is in the plan twice"),
        ({"order": ("b", "a")}, "op 'b' runs before 'a'"),
    ],
)
def test_names_what_cannot_be_run(chain: Program, change: dict[str, object], match: str) -> None:
    rejected(chain, replace(bump(chain), **change), match)  # type: ignore[arg-type]


def test_misaligned_addresses_are_named() -> None:
    problem = Problem(("a",), [3], [4], [4], alignment=[4])
    rejected(
        problem, moved(plan_for(problem), a=2), "'a', used at step 3: address 2 .* alignment 4"
    )


@settings(max_examples=examples(50))
@given(problems())
def test_accepts_correct_plans_of_problems(problem: Problem) -> None:
    simulate(problem, plan_for(problem))


@settings(max_examples=examples(50))
@given(programs(), st.sampled_from(["reuse", "keep", "outside"]))
def test_accepts_correct_plans_of_programs(program: Program, inputs: str) -> None:
    simulate(program, plan_for(program, Residency(inputs=inputs)))


@settings(max_examples=examples(60))
@given(problems(), st.randoms(use_true_random=False))
def test_verify_and_simulate_agree_on_where_buffers_lie(
    problem: Problem, rng: random.Random
) -> None:
    offset = first_fit(problem)
    for row in range(len(problem)):
        if row not in problem.fixed and rng.random() < 0.5:
            offset[row] = max(0, offset[row] - int(problem.alignment[row]))
    plan = replace(plan_for(problem), offset=offset, lower_bound=None, status="feasible")
    plan = replace(plan, peak=int(max(offset + problem.size, default=0)))
    assert accepts(verify, problem, plan) == accepts(simulate, problem, plan)


def overlapping(rng: random.Random, problem: Problem) -> tuple[Plan, int] | None:
    """A plan in which one buffer was moved into another that is live with it; and which one."""
    plan = plan_for(problem)
    for row in rng.sample(range(len(problem)), len(problem)):
        unit = int(problem.alignment[row])
        for other in rng.sample(range(len(problem)), len(problem)):
            for low, high in clashes(problem, other, row) if other != row else ():
                start = int(plan.offset[other])
                bytes_shared = range(max(0, start + low + 1), start + high)
                offsets = [offset for offset in bytes_shared if offset % unit == 0]
                if offsets:
                    return moved(plan, **{problem.names[row]: rng.choice(offsets)}), row
    return None


def test_rejects_500_of_500_plans_that_go_wrong_in_memory() -> None:
    rng, tried = random.Random(5), 0
    while tried < 500:
        problem = random_problem(rng, rng.randint(1, 7))
        plan, row = plan_for(problem), rng.randrange(len(problem))
        kind = tried % 5
        if kind < 2:
            found = overlapping(rng, problem)
            if found is None:
                continue
            plan, row = found
        elif kind == 2:
            offset = plan.offset.copy()
            offset[row] += rng.choice([-1000 * int(problem.alignment[row]), 1000])
            plan = replace(plan, offset=offset)
        elif kind == 3:
            plan = replace(plan, peak=plan.peak + rng.choice([-1, 1]))
        else:
            names = tuple("lost" if k == row else name for k, name in enumerate(plan.buffers))
            plan = replace(plan, buffers=names)
        tried += 1
        with pytest.raises(VerificationError) as caught:
            simulate(problem, plan)
        if kind < 2:
            message = str(caught.value)
            pattern = r"at step (\d+) bytes .* buffer '(\w+)', .*buffer '(\w+)' .* at step (\d+)"
            match = re.fullmatch(pattern, message)
            assert match, message
            assert problem.names[row] in match.groups()
            one, other = (problem.names.index(name) for name in match.group(2, 3))
            distance = int(plan.offset[other] - plan.offset[one])
            assert any(low < distance < high for low, high in clashes(problem, one, other))
        elif kind in (2, 4):
            assert repr(problem.names[row]) in str(caught.value)


def test_rejects_programs_whose_buffers_meet() -> None:
    rng, tried = random.Random(6), 0
    while tried < 200:
        program = random_program(rng)
        plan = plan_for(program)
        graph = program.graph
        viewed = {graph.root[t.name][0] for t in graph.tensors if t.view_of is not None}
        read = {name for op in graph.ops for name in op.inputs}
        # Of these every byte is written at the first step of the lifespan and read at the last.
        whole = [
            row
            for row, name in enumerate(plan.buffers)
            if plan.size[row]
            and name in graph.tensor
            and name not in viewed
            and (name in graph.producer or name in read)
        ]
        pairs = [
            (i, j)
            for i in whole
            for j in whole
            if i < j and max(plan.lower[[i, j]]) < min(plan.upper[[i, j]])
        ]
        if not pairs:
            continue
        tried += 1
        one, other = (plan.buffers[row] for row in rng.choice(pairs))
        with pytest.raises(VerificationError, match=r"step \d+"):
            simulate(program, moved(plan, **{other: int(plan.offset[plan.row[one]])}))


def test_runs_what_solve_finds(chain: Program) -> None:
    rng = random.Random(7)
    simulate(chain, cpplan.solve(chain))
    for _ in range(20):
        program = random_program(rng)
        simulate(program, cpplan.solve(program, time_limit=5))
