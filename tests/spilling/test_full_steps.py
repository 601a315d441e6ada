"""Prices of room at the fullest steps, against the fewest bytes moved."""

from __future__ import annotations

from support.cases import seeds
from support.spill_oracle import random_spill_case

from cpplan import Graph, Op, Pool, Tensor
from cpplan.model.problem import Ints
from cpplan.model.residency import Residency
from cpplan.model.spill_problem import Flags, SpillProblem
from cpplan.program.anf import to_anf
from cpplan.runtime.deadline import Deadline
from cpplan.spilling import full_steps
from cpplan.spilling.bounds import bound_by_prices
from cpplan.spilling.full_steps import prices_of_full_steps
from cpplan.spilling.problem import spill_problem
from tests.benchmarks.time_limits import GRAPHS


def test_prices_of_full_steps_bound_the_fewest_bytes_moved() -> None:
    """In a fifth of the cases that must move some, by all of them."""
    positive = met = 0
    for seed in seeds(60, 300):
        case = random_spill_case(seed)
        least, problem = case.least(any_order=False), case.problem()
        if least is None:
            continue
        prices = prices_of_full_steps(problem, Deadline(10, deterministic=True))
        bound = bound_by_prices(problem, prices).value
        assert bound <= least
        positive += least > 0
        met += bound == least > 0
    assert 5 * met > positive > 5


def test_two_full_steps_are_priced_one_after_the_other() -> None:
    """Each of a and b is read late, over an op that leaves no room for it: 8 B out and back."""
    tensors = tuple(Tensor(name, 8) for name in "abcdef")
    ops = (
        Op("make a", outputs=("a",)),
        Op("full 1", outputs=("c", "d")),
        Op("read a", inputs=("a",)),
        Op("make b", outputs=("b",)),
        Op("full 2", outputs=("e", "f")),
        Op("read b", inputs=("b",)),
    )
    program = to_anf(Graph("g", tensors, ops))
    problem = spill_problem(program, Residency(), (Pool("fast", 16), Pool("slow")))
    prices = prices_of_full_steps(problem, Deadline(10))
    assert sorted(prices) == [1, 4]
    assert bound_by_prices(problem, prices).value == 32


def test_no_step_is_priced_after_the_deadline() -> None:
    case = random_spill_case(3)
    assert prices_of_full_steps(case.problem(), Deadline(0)) == {}


def test_loads_kept_up_to_date_give_the_prices_of_loads_summed_up(monkeypatch) -> None:
    graph = GRAPHS["chain"](1000)
    pools = Pool("fast", 1 << 10), Pool("slow", direct=True)
    problem = spill_problem(to_anf(graph), Residency(), pools, share=True)
    sums = []

    def load(self: SpillProblem, kept: Flags) -> Ints:
        sums.append(len(kept))
        return summed(self, kept)

    summed = SpillProblem.load
    monkeypatch.setattr(SpillProblem, "load", load)
    found = {}
    for few, many in ((1 << 30, 1), (0, 1 << 30), (0, 0), (40, 1000)):
        monkeypatch.setattr(full_steps, "_FEW_PRICES", few)
        monkeypatch.setattr(full_steps, "_MANY_GAPS", many)
        sums.clear()
        found[few, many] = prices_of_full_steps(problem, Deadline(1e9))
    assert len(sums) < 60 < len(found[40, 1000])
    assert all(prices == found[40, 1000] for prices in found.values())
