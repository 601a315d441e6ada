"""Why a plan is not smaller: against hand-counted bytes, and against planning without the rule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_graphs import programs

import cpplan
from cpplan.explanation import Explanation
from cpplan.explanation.fullest_step import live_tensors
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Placement, Tensor
from cpplan.model.pool import Pool
from cpplan.model.problem import Gap, Problem
from cpplan.model.symbols import Symbols


@pytest.fixture
def tail() -> Graph:
    """conv, relu, head: 8, 16, 16 and 4 bytes; 32 are live while relu runs, 24 if in place."""
    tensors = (
        Tensor("x", 8, kind="input"),
        Tensor("t", 16),
        Tensor("u", 16),
        Tensor("y", 4, kind="output"),
    )
    ops = (
        Op("conv", "Conv", ("x",), ("t",)),
        Op("relu", "Relu", ("t",), ("u",), in_place=(("u", "t"),)),
        Op("head", "Gemm", ("u",), ("y",)),
    )
    return Graph("tail", tensors, ops)


def _rule(found: Explanation, name: str):
    return next(r for r in found.relaxations if r.rule == name)


def test_the_fullest_step_names_its_op_and_its_tensors(tail):
    full = cpplan.solve(tail).explain(tail).fullest
    assert (full.step, full.op, full.kind, full.filled) == (1, "relu", "Relu", 32)
    assert [(t.name, t.size, t.share) for t in full.tensors] == [("t", 16, 0.5), ("u", 16, 0.5)]


def test_a_plan_alone_tells_its_fullest_step(tail, tmp_path):
    cpplan.solve(tail).save(tmp_path / "plan.json")
    found = cpplan.Plan.load(tmp_path / "plan.json").explain()
    assert (found.fullest.step, found.fullest.op, found.fullest.kind) == (1, "relu", None)
    assert (found.relaxations, found.order_bound, found.waste) == ((), None, 0)
    assert "fullest step     1 of 3, op relu: 32 B filled, all of the peak" in str(found)


def test_what_each_rule_costs(tail):
    """In place, x and t or t with u over it: 24. A constant is not there to be put outside."""
    found = cpplan.solve(tail).explain(tail)
    bounds = {r.rule: (r.bound, r.at_most, r.peak) for r in found.relaxations}
    assert bounds == {
        "no in place": (24, 8, None),
        "inputs inside": (32, 0, 32),
        "outputs inside": (32, 0, 32),
        "run once": (32, 0, 32),
    }
    assert found.relaxations[0].rule == "no in place"


def test_with_time_plans_are_made(tail):
    rule = _rule(cpplan.solve(tail).explain(tail, time_limit=5, workers=1), "no in place")
    assert (rule.bound, rule.peak, rule.saved, rule.share(rule.saved)) == (24, 24, 8, 0.25)


def test_shared_bytes_count_once(tail):
    found = cpplan.solve(tail, in_place=True).explain(tail)
    assert (found.peak, found.fullest.filled, found.fullest.step) == (24, 24, 0)
    merged = cpplan.solve(tail, in_place=True, inputs="outside")
    full = merged.explain(tail).fullest
    assert (full.step, full.filled) == (2, 20)
    _, tensors = live_tensors(merged, 1)
    assert [(t.name, t.own, t.within) for t in tensors] == [("t", 16, None), ("u", 0, "t")]


def test_what_is_not_proved_may_be_a_better_layout(tail):
    """Each buffer below the next: 44 bytes, where 32 do."""
    found = cpplan.solve(tail, algorithm="bump").explain(tail, time_limit=5)
    rule = _rule(found, "nothing")
    assert (rule.before, rule.bound, rule.peak, rule.saved) == (44, 32, 32, 12)
    assert "nothing" not in {r.rule for r in cpplan.solve(tail).explain(tail).relaxations}


def test_forbidding_placement_costs_sixteen_bytes():
    """p and q lie within their concatenation: 16 bytes instead of 32."""
    tensors = (
        Tensor("p", 8, kind="input"),
        Tensor("q", 8, kind="input"),
        Tensor("y", 16, kind="output"),
    )
    places = Placement("p", "y", 0), Placement("q", "y", 8)
    graph = Graph("cat", tensors, (Op("cat", "Concat", ("p", "q"), ("y",), placements=places),))
    rule = _rule(cpplan.solve(graph).explain(graph, time_limit=5), "no placement")
    assert (rule.before, rule.bound, rule.peak) == (32, 16, 16)


def test_alignment_and_fixed_offsets():
    problem = Problem(
        ("a", "b"), [0, 0], [1, 1], size=[5, 5], alignment=[8, 8], fixed={1: 16}, name="fixed"
    )
    found = cpplan.solve(problem).explain(problem, time_limit=5)
    assert (found.peak, found.forced_by, found.order_bound_by) == (21, "b", "fixed offset")
    assert "buffer b alone makes the bound" in str(found)
    assert (_rule(found, "fixed offsets").bound, _rule(found, "fixed offsets").peak) == (13, 13)
    # Without alignment, b still lies where it is fixed.
    assert (_rule(found, "alignment").bound, _rule(found, "alignment").saved) == (21, 0)


def test_a_buffer_larger_than_what_is_ever_live():
    problem = Problem(("a",), [0], [2], size=[8], gaps={0: [Gap(0, 1, 0, 4), Gap(1, 2, 4, 8)]})
    found = cpplan.solve(problem).explain(problem)
    assert (found.peak, found.forced_by, found.fullest.filled) == (8, "a", 4)


def test_another_order_saves_seven_bytes():
    """Two branches, each 8 bytes down to 1: one after the other needs 10 bytes, both at once 17."""
    tensors = [Tensor(n, s) for n, s in (("a", 8), ("b", 8), ("p", 1), ("q", 1))]
    ops = (
        Op("a", outputs=("a",)), Op("b", outputs=("b",)),
        Op("p", inputs=("a",), outputs=("p",)), Op("q", inputs=("b",), outputs=("q",)),
        Op("y", inputs=("p", "q"), outputs=("y",)),
    )  # fmt: skip
    graph = Graph("two", (*tensors, Tensor("y", 1, kind="output")), ops)
    rule = _rule(cpplan.solve(graph).explain(graph, time_limit=5), "order")
    assert (rule.before, rule.peak, rule.bound) == (17, 10, 10)
    searched = cpplan.solve(graph, order="search").explain(graph)
    assert "order" not in {r.rule for r in searched.relaxations}


def test_a_chain_has_no_other_order(tail):
    assert "order" not in {r.rule for r in cpplan.solve(tail).explain(tail).relaxations}


def test_running_an_op_again_saves_four_bytes():
    """g needs a after c has come and gone: kept, 4 + 8 + 1 are live; computed again, 9."""
    tensors = [Tensor(n, s) for n, s in (("a", 4), ("b", 1), ("c", 8), ("d", 1))]
    ops = (
        Op("fa", outputs=("a",)),
        Op("fb", inputs=("a",), outputs=("b",)),
        Op("fc", inputs=("b",), outputs=("c",)),
        Op("fd", inputs=("c",), outputs=("d",)),
        Op("g", inputs=("d", "a"), outputs=("y",)),
    )
    graph = Graph("again", (*tensors, Tensor("y", 1, kind="output")), ops)
    rule = _rule(cpplan.solve(graph).explain(graph, time_limit=5), "run once")
    assert (rule.before, rule.bound, rule.peak) == (13, 9, 9)
    plan = cpplan.solve(graph, remat=True, memory_limit=9)
    found = plan.explain(graph)
    assert {"run once", "order"}.isdisjoint(r.rule for r in found.relaxations)
    assert found.order_bound == 9


def test_explanation_counts_inputs_outputs_and_constants():
    tensors = (
        Tensor("x", 8, kind="input"),
        Tensor("w", 16, kind="constant"),
        Tensor("t", 2),
        Tensor("y", 4, kind="output"),
    )
    ops = Op("f", inputs=("x", "w"), outputs=("t",)), Op("g", inputs=("t",), outputs=("y",))
    graph = Graph("io", tensors, ops)
    found = cpplan.solve(graph, inputs="keep", constants="keep").explain(graph)
    bounds = {r.rule: r.bound for r in found.relaxations}
    assert found.peak == 30
    assert bounds["inputs kept"] == 26
    assert bounds["inputs inside"] == 22
    assert bounds["outputs inside"] == 26
    assert bounds["constants inside"] == 14


def test_joining_two_pools_saves_eight_bytes():
    """a and b have a pool each: what one leaves free when it is gone, the other cannot use."""
    pools = Pool("fast"), Pool("slow")
    problem = Problem(("a", "b"), [0, 1], [1, 2], [8, 8], pools=pools, candidates={0: [0], 1: [1]})
    found = cpplan.solve(problem).explain(problem, time_limit=5)
    rule = _rule(found, "pools")
    assert (rule.before, rule.bound, rule.peak, rule.saved) == (16, 8, 8, 8)
    assert _rule(found, "objective").saved == 0
    assert "pool" not in str(found).splitlines()[5].split()
    both = replace(problem, lower=[0, 0])
    assert str(cpplan.solve(both).explain()).splitlines()[5].split()[-1] == "pool"


def test_what_does_not_fit_is_explained(tail):
    found = cpplan.solve(tail, capacity=24).explain(tail)
    assert (found.peak, found.waste, found.status) == (None, None, "infeasible")
    rule = _rule(found, "no in place")
    assert (rule.bound, rule.at_most, rule.saved, rule.share(rule.saved)) == (24, None, None, None)
    assert "peak             none, infeasible, limit 24 B" in str(found)
    assert "no in place  at least 24 B: may fit  ops write over" in str(found)
    assert "is not enough: inputs inside, outputs inside, run once" in str(found)
    planned = cpplan.solve(tail, capacity=24).explain(tail, time_limit=2)
    assert "no in place  24 B: fits " in str(planned)
    assert found.to_frame()["at_most"].isna().all()


def test_symbolic_sizes_are_explained_at_their_bounds():
    x = Tensor("x", shape=("n",), dtype="int8", kind="input")
    y = Tensor("y", shape=("n",), dtype="int8", kind="output")
    op = Op("relu", inputs=("x",), outputs=("y",), in_place=(("y", "x"),))
    graph = Graph("g", (x, y), (op,), Symbols({"n": (1, 8)}))
    assert _rule(cpplan.solve(graph).explain(graph), "no in place").bound == 8
    several = cpplan.plan_sizes(graph, [{"n": 2}, {"n": 4}]).plan
    assert _rule(several.explain(graph), "no in place").bound == 4


def test_explanation_converts_to_frame_and_dictionary(tail):
    found = cpplan.solve(tail).explain(tail)
    frame = found.to_frame()
    assert frame["rule"].tolist() == [r.rule for r in found.relaxations]
    assert frame["saved"].isna().tolist() == [True, False, False, False]
    values = found.to_dict()
    assert values["fullest"]["tensors"][0]["name"] == "t"
    assert values["relaxations"][0]["at_most_share"] == 0.25
    assert list(cpplan.solve(tail).explain().to_frame().columns) == list(frame.columns)


def test_other_models_and_options_are_refused(tail):
    plan = cpplan.solve(tail)
    larger = replace(tail, tensors=(*tail.tensors[:3], Tensor("y", 5, kind="output")))
    with pytest.raises(InputError, match=r"another model.*'y'"):
        plan.explain(larger)
    with pytest.raises(InputError, match=r"cpplan\.load reads"):
        plan.explain("model.onnx")
    with pytest.raises(InputError, match="time_limit"):
        plan.explain(tail, time_limit=-1)


def test_nothing_to_explain():
    found = cpplan.solve(Graph("empty", (), ())).explain(Graph("empty", (), ()))
    assert (found.fullest.step, found.fullest.filled, found.peak) == (None, 0, 0)
    assert "nothing is live" in str(found)


def test_hostile_names_stay_on_their_line():
    problem = Problem(("a\n\x1b[2J",), [0], [1], [4], name="p\nq")
    text = str(cpplan.solve(problem).explain(problem))
    assert "\x1b" not in text
    assert len(text.splitlines()) == 7


def test_bound_of_one_order_is_none_of_other_schedules():
    # `y` is written first and kept while `f` needs its workspace; written again, it is not.
    tensors = (
        Tensor("y", 1, kind="output"),
        Tensor("z", 0, kind="output"),
        Tensor("w", 1, kind="workspace"),
    )
    ops = Op("g", outputs=("y",)), Op("f", outputs=("z",), workspaces=("w",))
    graph = Graph("twice", tensors, ops)
    plan = cpplan.solve(cpplan.Program(graph, (0, 1, 0, 1)), algorithm="bump")
    (limit,) = (r for r in plan.explain(graph).relaxations if r.rule == "cost limit")
    assert limit.bound == 1


@settings(max_examples=6)
@given(programs(), st.booleans())
def test_plans_without_a_rule_lie_between_bound_and_plan(program, in_place):
    options = {"workers": 1, "deterministic": True}
    plan = cpplan.solve(program, in_place=in_place, algorithm="bump", time_limit=5, **options)
    cheap = plan.explain(program)
    assert cheap.order_bound <= cheap.peak
    assert cheap.fullest.filled <= cheap.peak
    assert cheap.fullest.filled == sum(tensor.own for tensor in cheap.fullest.tensors)
    bounds = {r.rule: r.bound for r in cheap.relaxations}
    made = {r.rule: r for r in plan.explain(program, time_limit=0.5, **options).relaxations}
    assert bounds.keys() == made.keys()
    for rule, bound in bounds.items():
        assert bound <= made[rule].bound <= made[rule].peak <= plan.peak
