"""The bounds at cuts from the duals that a plan carries, and duals that prove nothing."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest
from support.cases import seeds
from support.programs_oracle import graph_with_views, programs
from support.remat_oracle import (
    interesting_limits,
    random_remat_graph,
    random_remat_problem,
    remat_chain,
)
from support.remat_oracle import least_cost as cheapest

import cpplan
from cpplan import Graph, Op, Plan, Pool, Residency, Tensor, to_anf, verify
from cpplan.io.plan_json import plan_from_dict, plan_text, plan_to_dict
from cpplan.model.certificates import RULES, CutDuals, DualRow, read_cut_duals
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.remat_problem import RematProblem
from cpplan.remat import cut_bounds
from cpplan.remat.cut_bounds import RELAXED, CutBound
from cpplan.remat.problem import remat_problem
from cpplan.remat.relaxed import relax_repetition
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline
from cpplan.verification.access_trace import replay
from cpplan.verification.cited_bounds import holds_no_schedule, least_cost
from cpplan.verification.verifier import check_plan


@pytest.fixture(autouse=True)
def _linear_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """CP-SAT's bounds at cuts carry no certificate."""
    monkeypatch.setattr(cut_bounds.CutSearch, "_solve", lambda *_: None)


def proved(
    graph: Graph, duals: CutDuals, limit: int, order: list[str] | None = None
) -> int | float | None:
    """The cost that duals prove; ``None`` if they prove that no schedule is within the limit."""
    facts = Residency(), duals, limit, order or [], *replay(to_anf(graph), Residency())
    return None if holds_no_schedule(graph, *facts) else least_cost(graph, *facts)


def linear_bound(
    problem: RematProblem, limit: int, order: list[int] | None = None
) -> CutBound | None:
    """The best linear bound of all repetitions that the graph allows, if there is any."""
    relaxed = relax_repetition(problem, views=order is None)
    found = cut_bounds.cut_bound(relaxed, limit, Budget(Deadline(60)), order=order)
    assert (found.certificate is None) == (found.name != RELAXED)
    return None if found.certificate is None else found


@pytest.mark.parametrize("seed", seeds(2))
def test_duals_prove_what_the_planner_claims_and_no_more_than_the_optimum(seed):
    problem = random_remat_problem(seed, 5)
    graph = problem.graph
    base = sum(op.cost for op in graph.ops)
    for limit in interesting_limits(problem):
        best = cheapest(problem, limit)
        found = linear_bound(problem, limit)
        if found is None:
            continue
        least = proved(graph, found.certificate, limit)
        assert least == (None if found.infeasible else base + found.extra)
        assert (best is None) if least is None else (best is None or least <= best)


@pytest.mark.parametrize("seed", [0, 7, 13])
def test_no_program_costs_less_than_duals_prove(seed):
    """Programs op by op: views that run again by themselves, or not at all.

    Programs of the fewest bytes, in graphs where duals prove something of these.
    """
    graph = graph_with_views(seed, 5)
    problem = remat_problem(graph)
    found = programs(graph, 2, 300)
    unit_of = {graph.ops[op].name: u for u, ops in enumerate(problem.units) for op in ops}
    said = 0
    for live, cost, names in sorted(found)[:5]:
        cost = min(other for peak, other, _ in found if peak <= live)
        bound = linear_bound(problem, live)
        assert bound is None or proved(graph, bound.certificate, live) <= cost
        first = list(dict.fromkeys(names))
        same = [c for peak, c, n in found if peak <= live and list(dict.fromkeys(n)) == first]
        bound = linear_bound(problem, live, list(dict.fromkeys(unit_of[name] for name in names)))
        if bound is not None:
            said += 1
            assert bound.certificate.given_order
            assert proved(graph, bound.certificate, live, names) <= min(same)
    assert said


def test_fractions_of_costs_and_large_bytes():
    """The chain of n = 2 in 3 slots runs f0 again, for 0.1."""
    graph = remat_chain(2, 1_234_567_891, forward=[0.1, 0.7, 0.3], backward=[1.1, 0.9])
    limit = 3 * 1_234_567_891
    found = linear_bound(remat_problem(graph), limit)
    assert found.extra == pytest.approx(0.1, rel=1e-9)
    base = sum(Fraction(op.cost) for op in graph.ops)
    assert proved(graph, found.certificate, limit) == float(base + found.extra)


def held() -> Graph:
    """a may not run again, and stays for h while g takes 8 of 10 bytes: every op alone fits."""
    tensors = Tensor("a", 3), Tensor("b", 1), Tensor("w", 6, kind="workspace"), Tensor("c", 1)
    ops = (
        Op("f", outputs=("a",), recomputable=False),
        Op("e", inputs=("a",), outputs=("b",)),
        Op("g", inputs=("b",), outputs=("c",), workspaces=("w",)),
        Op("h", inputs=("a", "c"), outputs=("y",)),
    )
    return Graph("held", (*tensors, Tensor("y", 1, kind="output")), ops)


@cache
def least_bytes() -> tuple[Graph, Plan]:
    graph = held()
    plan = cpplan.solve(graph, order="search")
    found = cut_bounds.cut_bound(remat_problem(graph), plan.peak - 1, Budget(Deadline(60)))
    assert found.infeasible
    return graph, replace(plan, bound_by="live bytes at cuts", certificate=found.certificate)


@cache
def within(n: int, limit: int) -> tuple[Graph, Plan]:
    """A chain within a limit, with the linear bound, which may be below the cost of the plan."""
    graph = remat_chain(n)
    plan = cpplan.solve(
        graph, remat=True, order="search", memory_limit=limit, deterministic=True, time_limit=5
    )
    found = linear_bound(remat_problem(graph), limit)
    status = "optimal" if plan.base_cost + found.extra == plan.cost else "feasible"
    return graph, replace(
        plan,
        cost_bound=plan.base_cost + int(found.extra),
        cost_bound_by=RELAXED,
        cost_certificate=found.certificate,
        status=status,
    )


def test_bytes_within_a_cost_are_proved_again():
    """The bound is of schedules within the limit on the cost, which the plan must have and keep."""
    graph = remat_chain(5)
    plan = cpplan.solve(graph, remat=True, cost_limit=1.2, deterministic=True, time_limit=2)
    assert (plan.status, plan.peak, plan.bound_by) == ("optimal", 5, "cost at cuts")
    assert check_plan(graph, plan).bound == "certificate"
    assert plan.cost <= plan.cost_limit == 1.2 * plan.base_cost
    for change, message in (
        ({"cost_limit": 3 * plan.base_cost}, "proves a lower bound of None B"),
        ({"cost_limit": None}, "the plan has none"),
        ({"cost_limit": plan.cost - 1}, "beyond its cost_limit"),
        ({"cost_limit": "much"}, "beyond its cost_limit of 'much'"),
        ({"certificate": None}, "has no certificate"),
    ):
        with pytest.raises(VerificationError, match=message):
            verify(graph, replace(plan, **change))
    more = cpplan.solve(graph, remat=True, cost_limit=2, deterministic=True, time_limit=2)
    assert more.peak < plan.lower_bound


def test_bytes_of_random_graphs_within_a_cost_are_proved_again():
    """Duals that hold at any cost are cited as such; ops that may not run again lead to them."""
    cited = set()
    for seed in seeds(24):
        graph = random_remat_graph(seed, 8)
        for order in ("given", "search"):
            plan = cpplan.solve(
                graph, remat=True, order=order, cost_limit=1 + seed % 4 / 10, time_limit=0.1,
                deterministic=True, workers=1,
            )  # fmt: skip
            verify(graph, plan)
            assert (plan.cost_limit is None) == (plan.bound_by != "cost at cuts")
            cited.add(plan.bound_by)
    assert {"cost at cuts", "live bytes at cuts"} < cited


def test_bounds_at_cuts_are_proved_again():
    graph, plan = least_bytes()
    assert (plan.peak, plan.lower_bound) == (11, 11)
    assert check_plan(graph, plan).bound == "certificate"
    with pytest.raises(VerificationError, match="live bytes at cuts', but has no certificate"):
        verify(graph, replace(plan, certificate=None))
    raised = replace(plan, offset=plan.offset + 1, peak=12, lower_bound=12)
    with pytest.raises(VerificationError, match="proves a lower bound of None B"):
        verify(graph, raised)
    assert check_plan(graph, replace(raised, lower_bound=11, status="feasible"))
    ordered = replace(plan, certificate=plan.certificate._replace(given_order=True))
    assert plan.scope == "every order"
    with pytest.raises(VerificationError, match="proves a lower bound of None B"):
        verify(graph, ordered)
    assert check_plan(graph, replace(ordered, scope="given order"))


def test_the_planner_s_plan_carries_its_duals():
    """Three values of 2 B are for h: while g has 7 of 11 B, one of them goes, for 10."""
    tensors = (
        *(Tensor(f"v{k}", 2) for k in range(3)),
        Tensor("w", 6, kind="workspace"),
        Tensor("z", 1),
        Tensor("y", 1, kind="output"),
    )
    ops = tuple(Op(f"f{k}", outputs=(f"v{k}",), cost=10) for k in range(3))
    ops += (Op("g", outputs=("z",), workspaces=("w",), after=("f0", "f1", "f2")),)
    ops += (Op("h", inputs=("v0", "v1", "v2", "z"), outputs=("y",)),)
    graph = Graph("three", tensors, ops)
    plan = cpplan.solve(
        graph, remat=True, order="given", memory_limit=11, deterministic=True, time_limit=0.3
    )
    assert (plan.status, plan.cost, plan.cost_bound_by) == ("optimal", 42, RELAXED)
    assert check_plan(graph, plan).cost_bound == "certificate"
    with pytest.raises(VerificationError, match="the duals prove a cost of None"):
        verify(graph, replace(plan, scope="every order"))
    keys = "status", "cost_bound", "cost_bound_by", "cost_certificate"
    claims = {key: getattr(plan, key) for key in keys}
    for fast in (7, 9):
        # In two pools, of 11 and of 13 bytes together: then nothing must run again.
        pools = Pool("fast", fast), Pool("slow", 4)
        pooled = replace(cpplan.solve(to_anf(graph, plan.order), pools=pools), **claims)
        if fast == 7:
            assert check_plan(graph, pooled).cost_bound == "certificate"
        else:
            with pytest.raises(VerificationError, match="prove a cost of 32, but the plan's"):
                verify(graph, pooled)
    again = plan_from_dict(json.loads("".join(plan_text(plan))))
    assert again == plan
    assert again.cost_certificate == plan.cost_certificate


def changed(duals: CutDuals, rng: random.Random) -> CutDuals:
    """Duals with one thing changed: a row or its multiplier, rule or index; the scale; a cut."""
    rows = list(duals.rows)
    k = rng.randrange(len(rows))
    row = rows[k]
    at = rng.randrange(len(row.indices))
    indices = list(row.indices)
    indices[at] += rng.choice([-1, 1])
    alike = [rule for rule in RULES if RULES[rule] == RULES[row.rule] and rule != row.rule]
    number = row.multiplier
    new = {
        "dropped": [],
        "twice": [row, row],
        "multiplier": [row._replace(multiplier=rng.choice([0, 1, number - 1, 2 * number]))],
        "negative": [row._replace(multiplier=-number)],
        "index": [row._replace(indices=tuple(indices))],
        "rule": [row._replace(rule=rng.choice([*alike, "read", "held", "hope"]))],
        "other": [DualRow(rng.choice(list(RULES)), (1,) * rng.randint(1, 3), number)],
    }
    choice = rng.choice([*new, "cuts", "unit", "places", "names", "order"])
    if choice in new:
        return duals._replace(rows=(*rows[:k], *new[choice], *rows[k + 1 :]))
    names = list(duals.storages)
    rng.shuffle(names)
    return {
        "cuts": duals._replace(cuts=rng.choice([(), duals.cuts * 2, duals.ops[:1], ("?",)])),
        "unit": duals._replace(cost_unit=rng.choice([(2, 1), (1, 3), (0, 1), (-1, 1), (1, 0)])),
        "places": duals._replace(places=duals.places + rng.choice([-1, 1, 200])),
        "names": duals._replace(storages=tuple(names)),
        "order": duals._replace(given_order=True),
    }[choice]


@pytest.mark.parametrize("count", [60, pytest.param(500, marks=pytest.mark.slow)])
def test_changed_duals_prove_no_more_than_the_optimum(count: int):
    """Each proves a bound that is true, or nothing; a larger claim is refused."""
    cases = [within(n, limit) for n, limit in ((3, 3), (4, 4), (6, 4), (11, 5))]
    refused = 0
    for k in range(count):
        rng = random.Random(f"duals {k}")
        graph, plan = rng.choice(cases)
        best = plan.cost  # chains are solved exactly
        duals = changed(plan.cost_certificate, rng)
        try:
            least = proved(graph, duals, plan.capacity, list(plan.order))
        except VerificationError:
            least = 0
        assert least is not None
        assert least <= best, k
        claim = replace(plan, cost_certificate=duals)
        if least < plan.cost_bound:
            refused += 1
        else:
            more = least + rng.choice([0.5, 1, 2, 2**40])
            status = "optimal" if more == plan.cost else "feasible"
            claim = replace(claim, cost_bound=more, status=status)
        with pytest.raises(VerificationError):
            verify(graph, claim)
    assert refused > 0.6 * count


@pytest.mark.parametrize(
    ("rule", "indices", "message"),
    [
        ("read", (3, 2, 0, 0), "a range of intervals that ends too early"),
        ("either", (1, 2, 2, 0), "a range that two others do not make up"),
        ("either", (2, 1, 3, 0), "a range that two others do not make up"),
        ("first run", (1, 9, 0), "of interval 1 to 9, which has no such row"),
        ("retained", (1, 2), "a malformed row"),
        ("rounded", (1,), "a malformed row"),
        ("rounded", (1, 0), "rounds a row by 0"),
        ("rounded", (0, 4), "of no cut"),
        ("rounded", (4, 4), "which has no such row"),
        ("rounded", (1, 4, 0), "of storages that surely are live"),
    ],
)
def test_rows_that_do_not_exist_are_refused(rule: str, indices: tuple[int, ...], message: str):
    graph = remat_chain(3)
    last, first = graph.ops[-1].name, next(t.name for t in graph.tensors if t.size)
    cuts = tuple(op.name for op in graph.ops[1:4])
    rows = (DualRow(rule, indices, 1),)
    with pytest.raises(VerificationError, match=message):
        proved(graph, CutDuals(cuts, False, (1, 1), 0, (last,), (first,), rows), 3)


def test_a_rounded_row_proves_what_whole_values_cost():
    """Beside g, 11 B hold two of the values of 3, 4 and 5 B; in fractions, all but a fifth of 5."""
    tensors = *(Tensor(f"v{k}", k + 3) for k in range(3)), Tensor("w", 6, kind="workspace")
    tensors += Tensor("z", 1), Tensor("y", 1, kind="output")
    ops = tuple(Op(f"f{k}", outputs=(f"v{k}",), cost=12) for k in range(3))
    ops += (Op("g", outputs=("z",), workspaces=("w",), after=("f0", "f1", "f2")),)
    ops += (Op("h", inputs=("v0", "v1", "v2", "z"), outputs=("y",)),)
    graph = Graph("three", tensors, ops)
    found = linear_bound(remat_problem(graph), 18)
    assert found is not None
    assert proved(graph, found.certificate, 18) == 38 + 12
    assert proved(graph, found.certificate, 19) == 38
    values = found.certificate.to_dict()
    assert read_cut_duals(json.loads(json.dumps(values)), "certificate") == found.certificate
    (row,) = (row for row in found.certificate.rows if row.rule == "rounded")
    rows = [each for each in found.certificate.rows if each is not row]
    for other in (row._replace(indices=row.indices[:2]), DualRow("at cut", (1,), row.multiplier)):
        assert proved(graph, found.certificate._replace(rows=(*rows, other)), 18) < 50


@pytest.mark.parametrize("k", range(14))
def test_claims_that_contradict_the_duals_are_refused(k):
    graph, plan = within(11, 5)
    assert (plan.cost_bound, plan.cost) == (31, 33)
    assert check_plan(graph, plan).cost_bound == "certificate"
    change = [
        {"cost_bound": plan.cost_bound + 1},
        {"cost_bound": plan.cost_bound + 0.5},
        {"cost_bound": plan.cost, "status": "optimal"},
        {"cost_bound": float("nan")},
        {"cost_bound": None},
        {"status": "optimal"},
        {"cost_certificate": None},
        {"cost_bound_by": "CP-SAT at cuts"},
        {"cost_bound_by": "every op once", "cost_bound": plan.base_cost},
        {"cost_bound": None, "cost_bound_by": None},
        {"cost_certificate": CutDuals((), False, (1, 1), 0, (), (), ())},
        {"cost_certificate": plan.cost_certificate._replace(cuts=("n7",) * 10**6)},
        {"cost_certificate": plan.cost_certificate._replace(rows=plan.cost_certificate.rows * 2)},
        {"certificate": plan.cost_certificate},
    ][k]
    with pytest.raises(VerificationError):
        verify(graph, replace(plan, **change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "duals"}, "must be an object of kind 'cut duals'"),
        ({"more": 1}, "must hold kind, cuts, given_order"),
        ({"cuts": [3]}, "cuts must be a list of names"),
        ({"given_order": 1}, "given_order must be true or false"),
        ({"cost_unit": [1, 0]}, "cost_unit must be two positive numbers"),
        ({"cost_unit": [10**900, 1]}, "cost_unit must be two positive numbers"),
        ({"places": 10**9}, "places must be a number of binary places up to 128"),
        ({"rows": []}, "rows must be an object of lists of rows"),
        ({"rows": {"hope": ["1"]}}, "no rows have the rule 'hope'"),
        ({"rows": {"at cut": ["1"]}}, "must be the text of 1 indices and a multiplier"),
        ({"rows": {"at cut": ["99 1"]}}, "must be the text of 1 indices and a multiplier"),
        ({"rows": {"at cut": ["1 -1"]}}, "must be the text of 1 indices and a multiplier"),
        ({"rows": {"at cut": ["1 " + "9" * 10_000]}}, "must be the text of 1 indices"),
        ({"rows": {"at cut": ["1 " * 10**6]}}, "must be the text of 1 indices"),
        ({"rows": {"rounded": ["1 3"]}}, "must be the text of 2 indices and a multiplier"),
        ({"rows": {"rounded": ["1 " + "9" * 30 + " 1"]}}, "must be the text of 2 indices"),
        ({"rows": {"rounded": ["1 3 99 1"]}}, "must be the text of 3 indices and a multiplier"),
        ({"rows": {"rounded": ["1 " * 10**6]}}, "must be the text of"),
        ({"rows": {"at cut": [[1, 2]]}}, "must be the text of 1 indices and a multiplier"),
        ({"rows": {"held": ["1 1"] * (2**20 + 1)}}, "has more than 1048576 rows"),
    ],
)
def test_hostile_certificates_are_refused_in_one_line(change, message):
    _, plan = within(3, 3)
    values = plan_to_dict(plan)
    for key in ("certificate", "cost_certificate"):
        broken = {**values, key: {**values["cost_certificate"], **change}}
        if key == "certificate" and "kind" in change:
            continue
        with pytest.raises(InputError, match=message) as error:
            plan_from_dict(broken)
        assert len(str(error.value)) < 300
        assert "\n" not in str(error.value)
