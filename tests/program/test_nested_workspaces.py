"""Buffers inside calls, branches and loops share the arena with the tensors outside them.

Every plan is proved optimal, and checked by ``verify`` and by ``simulate``.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from support.plan_verdicts import proved

from cpplan import Graph, Op, Plan, Program, Tensor, simulate, to_anf, verify
from cpplan.model.errors import VerificationError


def overlap(plan: Plan, one: str, other: str) -> bool:
    """True if two buffers share a byte of the arena."""
    size = dict(zip(plan.buffers, plan.size.tolist(), strict=True))
    a, b = plan.offset_of(one), plan.offset_of(other)
    return a < b + size[other] and b < a + size[one]


def rejected_where(source: Graph | Program, plan: Plan, moved: str, onto: str) -> None:
    """Both checkers refuse the plan with one buffer moved onto another."""
    offset = plan.offset.copy()
    offset[plan.buffers.index(moved)] = plan.offset_of(onto)
    wrong = replace(plan, offset=offset, peak=int(max(offset + plan.size)))
    wrong = replace(wrong, status="optimal" if wrong.peak == plan.lower_bound else "feasible")
    with pytest.raises(VerificationError, match=moved.rpartition("/")[2]):
        verify(source, wrong)
    with pytest.raises(VerificationError, match=f"{moved}|{onto}"):
        simulate(source, wrong)


def prim_func(given: str, result: str, sizes: tuple[int, int], own: tuple[int, int]) -> Graph:
    """pad: given -> padded; reduce: padded, with a row as workspace -> result."""
    return Graph(
        "prim_func",
        (
            Tensor(given, sizes[0], kind="input"),
            Tensor("padded", own[0]),
            Tensor("row", own[1], kind="workspace"),
            Tensor(result, sizes[1], kind="output"),
        ),
        (
            Op("pad", inputs=(given,), outputs=("padded",)),
            Op("reduce", inputs=("padded",), outputs=(result,), workspaces=("row",)),
        ),
    )


@pytest.fixture
def residual() -> Graph:
    """x -> skip, t; t -> call -> y; skip + y -> z: skip is live across the call."""
    tensors = (
        Tensor("x", 8, kind="input"),
        *(Tensor("skip", 10), Tensor("t", 6), Tensor("y", 4), Tensor("z", 2, kind="output")),
    )
    ops = (
        Op("stem", inputs=("x",), outputs=("skip", "t")),
        Op("call", inputs=("t",), outputs=("y",), bodies=(prim_func("t", "y", (6, 4), (12, 3)),)),
        Op("join", inputs=("skip", "y"), outputs=("z",)),
    )
    return Graph("residual", tensors, ops)


def test_a_call_s_buffers_share_the_arena_with_the_tensors_outside(residual):
    plan = proved(residual)
    # Optimum 35, in reduce: skip 10 + t 6 + y 4 + padded 12 + row 3. In stem: 8 + 10 + 6 = 24.
    assert plan.peak == 35
    # Of 45 B in all, x and z can only lie where the call has its buffers.
    assert sum(plan.size) == 45
    assert overlap(plan, "x", "call/0/padded") or overlap(plan, "x", "call/0/row")


@pytest.mark.parametrize("outer", ["skip", "t", "y"])
@pytest.mark.parametrize("inner", ["call/0/padded", "call/0/row"])
def test_what_is_live_across_a_call_is_not_overwritten(residual, inner, outer):
    plan = proved(residual)
    assert not overlap(plan, inner, outer)
    rejected_where(residual, plan, inner, outer)


def test_calls_of_one_body_use_the_same_bytes():
    # x 4 -> m 4 -> n 4 -> y 4; each call needs 20 + 1 B of its own.
    names = ["x", "m", "n", "y"]
    kinds = ["input", "intermediate", "intermediate", "output"]
    ops = tuple(
        Op(f"call{k}", inputs=(a,), outputs=(b,), bodies=(prim_func(a, b, (4, 4), (20, 1)),))
        for k, (a, b) in enumerate(pairwise(names))
    )
    tensors = tuple(Tensor(name, 4, kind=kind) for name, kind in zip(names, kinds, strict=True))
    graph = Graph("calls", tensors, ops)
    plan = proved(graph)
    # Optimum 29 in every call: two of the tensors and 21. Apart, the bodies alone would take 63.
    assert plan.peak == 4 + 4 + 21
    assert overlap(plan, "call0/0/padded", "call1/0/padded")


def test_the_very_same_body_serves_many_calls():
    scratch = Graph(
        "scratch",
        (Tensor("a", 7), Tensor("b", 5), Tensor("c", 6)),
        (
            Op("f", outputs=("a",)),
            Op("g", inputs=("a",), outputs=("b",)),
            Op("h", inputs=("b",), outputs=("c",)),
        ),
    )
    tensors = (Tensor("x", 3, kind="input"), Tensor("t", 2), Tensor("y", 1, kind="output"))
    ops = (
        Op("one", inputs=("x",), outputs=("t",), bodies=(scratch,)),
        Op("two", inputs=("t",), outputs=("y",), bodies=(scratch, scratch)),
    )
    graph = Graph("calls", tensors, ops)
    plan = proved(graph)
    # Optimum 17, in g of one: x 3 + t 2 + a 7 + b 5. In two, twice: 2 + 1 + 12.
    assert plan.peak == 17
    inner = {f"{call}/{name}" for call in ("one/0", "two/0", "two/1") for name in "abc"}
    assert {name for name in plan.buffers if "/" in name} == inner


def test_a_call_that_is_computed_again_has_buffers_again(residual):
    program = to_anf(residual, ["stem", "call", "call", "join"])
    plan = proved(program)
    # Optimum 35, as with one call, for nobody reads the first y: it is gone before the second.
    assert plan.peak == 35
    assert {"call/0/padded", "call~1/0/padded", "y", "y~1"} <= set(plan.buffers)
    rejected_where(program, plan, "call~1/0/padded", "skip")


def test_bodies_within_bodies():
    deepest = Graph("deepest", (Tensor("s", 13, kind="workspace"),), (Op("q", workspaces=("s",)),))
    deeper = Graph(
        "deeper",
        (Tensor("u", 5, kind="input"), Tensor("w", 11), Tensor("v", 7, kind="output")),
        (
            Op("p", inputs=("u",), outputs=("w",)),
            Op("call", inputs=("w",), outputs=("v",), bodies=(deepest,)),
        ),
    )
    deep = Graph(
        "deep",
        (
            *(Tensor("x", 2, kind="input"), Tensor("u", 5), Tensor("v", 7)),
            Tensor("y", 3, kind="output"),
        ),
        (
            Op("f", inputs=("x",), outputs=("u",)),
            Op("call", inputs=("u",), outputs=("v",), bodies=(deeper,)),
            Op("g", inputs=("v",), outputs=("y",)),
        ),
    )
    graph = Graph(
        "outer",
        (Tensor("x", 2, kind="input"), Tensor("y", 3, kind="output"), Tensor("late", 30)),
        (
            Op("call", inputs=("x",), outputs=("y",), bodies=(deep,)),
            Op("last", outputs=("late",)),
        ),
    )
    plan = proved(graph)
    # Optimum 41, in q: x 2 + y 3 of the outermost call, u 5 + v 7 of the next, w 11, and s 13.
    assert plan.peak == 41
    assert "call/0/call/0/call/0/s" in plan.buffers
    # late 30 comes when all is over but y 3: it lies in the bodies' bytes.
    assert any(overlap(plan, "late", name) for name in plan.buffers if "/" in name)
    rejected_where(graph, plan, "call/0/call/0/call/0/s", "call/0/u")


def branch(name: str, own: int, scratch: int) -> Graph:
    """f: x, with a workspace -> t; g: t -> y."""
    return Graph(
        name,
        (
            *(Tensor("x", 4, kind="input"), Tensor("t", own), Tensor("y", 5, kind="output")),
            Tensor("s", scratch, kind="workspace"),
        ),
        (
            Op("f", inputs=("x",), outputs=("t",), workspaces=("s",)),
            Op("g", inputs=("t",), outputs=("y",)),
        ),
    )


def choice(*bodies: Graph) -> Graph:
    """keep is read after the choice; x before and in it."""
    tensors = (
        Tensor("x", 4, kind="input"),
        *(Tensor("keep", 6), Tensor("y", 5), Tensor("z", 1, kind="output")),
    )
    ops = (
        Op("before", inputs=("x",), outputs=("keep",)),
        Op("if", inputs=("x",), outputs=("y",), bodies=bodies),
        Op("after", inputs=("keep", "y"), outputs=("z",)),
    )
    return Graph("choice", tensors, ops)


def test_branches_exclude_each_other_workspaces_and_all():
    graph = choice(branch("then", 20, 9), branch("else", 7, 24))
    plan = proved(graph)
    # Optimum 46: x 4 + keep 6 + y 5, and the larger of 20 + 9 and 7 + 24; not both, which is 75.
    assert plan.peak == 15 + 31
    rejected_where(graph, plan, "if/1/s", "keep")
    rejected_where(graph, plan, "if/0/s", "x")


def test_one_branch_more_costs_only_what_it_needs_beyond_the_others():
    small, large = branch("small", 3, 3), branch("large", 8, 8)
    peaks = [proved(choice(*bodies)).peak for bodies in ((large,), (large, small), (large,) * 3)]
    assert peaks == [15 + 16] * 3


def test_a_choice_within_a_branch():
    inner = Graph(
        "inner",
        (Tensor("x", 4, kind="input"), Tensor("h", 10), Tensor("y", 5, kind="output")),
        (
            Op("make", inputs=("x",), outputs=("h",)),
            Op(
                "if",
                inputs=("h",),
                outputs=("y",),
                bodies=tuple(
                    Graph(
                        f"n{k}", (Tensor("s", k, kind="workspace"),), (Op("n", workspaces=("s",)),)
                    )
                    for k in (12, 17)
                ),
            ),
        ),
    )
    plan = proved(choice(inner, branch("else", 20, 6)))
    # Optimum 42: 15 outside; then h 10 + 17, the larger of 12 and 17; else 26.
    assert plan.peak == 15 + 27


def loop(state: int = 6) -> Graph:
    """The body: state -> t -> u -> next; x is the one outside; next becomes the state."""
    body = Graph(
        "turn",
        (
            *(Tensor("x", 4, kind="input"), Tensor("state", state, kind="input")),
            *(Tensor("t", 9), Tensor("u", 5), Tensor("next", state, kind="output")),
        ),
        (
            Op("f", inputs=("state", "x"), outputs=("t",)),
            Op("g", inputs=("t",), outputs=("u",)),
            Op("h", inputs=("u",), outputs=("next",)),
        ),
    )
    tensors = (Tensor("x", 4, kind="input"), Tensor("y", state, kind="output"))
    return Graph("loop", tensors, (Op("loop", inputs=("x",), outputs=("y",), bodies=(body,)),))


def test_loop_carried_buffers_live_through_the_loop():
    graph = loop()
    plan = proved(graph)
    # Optimum 30, in g: x 4 + y 6 + state 6, though only f reads it, + t 9 + u 5.
    # In h the next state is written beside the old one: 4 + 6 + 6 + 5 + 6 = 27.
    assert plan.peak == 30
    for inner in ("loop/0/t", "loop/0/u", "loop/0/next"):
        rejected_where(graph, plan, inner, "loop/0/state")
    rejected_where(graph, plan, "loop/0/u", "x")


def test_a_larger_state_counts_old_and_new_at_once():
    # Optimum 69, in h: x 4 + y 20 + state 20 + u 5 + next 20; t and u with state: 4 + 40 + 14.
    assert proved(loop(20)).peak == 69


def test_a_workspace_of_a_branch_of_a_loop():
    turn = Graph(
        "turn",
        (
            Tensor("state", 3, kind="input"),
            Tensor("x", 4, kind="input"),
            *(Tensor("y", 5), Tensor("next", 3, kind="output")),
        ),
        (
            Op(
                "if",
                inputs=("x",),
                outputs=("y",),
                bodies=(branch("then", 11, 8), branch("else", 2, 14)),
            ),
            Op("step", inputs=("y", "state"), outputs=("next",)),
        ),
    )
    tensors = (Tensor("x", 4, kind="input"), Tensor("end", 3, kind="output"))
    graph = Graph("g", tensors, (Op("loop", inputs=("x",), outputs=("end",), bodies=(turn,)),))
    plan = proved(graph)
    # Optimum 34, in f of then: x 4 + end 3 + state 3 + y 5 + 11 + 8.
    assert plan.peak == 34
    rejected_where(graph, plan, "loop/0/if/0/s", "loop/0/state")


def test_one_arena_is_never_worse_than_one_apiece_and_never_better_than_inlining():
    rng = random.Random(3)
    gained = 0
    for _ in range(25):
        sizes = [rng.randint(1, 20) for _ in range(5)]
        own = [(rng.randint(1, 20), rng.randint(0, 9)) for _ in range(4)]
        nested, bare, inlined = (_chain(sizes, own, how) for how in ("nested", "bare", "inlined"))
        peak = proved(nested).peak
        bodies = [padded + row for padded, row in own]
        assert proved(inlined).peak <= peak <= proved(bare).peak + max(bodies)
        gained += peak < proved(bare).peak + max(bodies)
    assert gained


def _chain(sizes: list[int], own: list[tuple[int, int]], how: str) -> Graph:
    """Calls one after another: with bodies, without what the bodies need, or written out."""
    kinds = ["input", *["intermediate"] * (len(own) - 1), "output"]
    tensors = [Tensor(f"t{k}", size, kind=kinds[k]) for k, size in enumerate(sizes)]
    ops: list[Op] = []
    for k, (padded, row) in enumerate(own):
        given, result = f"t{k}", f"t{k + 1}"
        body = prim_func(given, result, (sizes[k], sizes[k + 1]), (padded, row))
        if how == "inlined":
            tensors += [
                Tensor(f"padded{k}", padded),
                Tensor(f"row{k}", row, kind="workspace"),
            ]
            ops += [
                Op(f"pad{k}", inputs=(given,), outputs=(f"padded{k}",)),
                Op(
                    f"reduce{k}",
                    inputs=(f"padded{k}",),
                    outputs=(result,),
                    workspaces=(f"row{k}",),
                ),
            ]
        else:
            bodies = (body,) if how == "nested" else ()
            ops.append(Op(f"call{k}", inputs=(given,), outputs=(result,), bodies=bodies))
    return Graph(how, tuple(tensors), tuple(ops))
