"""Retentions placed by insertion: what comes out is packed, and costs what its gaps cost."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.spill_oracle import random_spill_graph

from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.pool import Pool
from cpplan.model.residency import Residency
from cpplan.model.spill_problem import Flags, SpillProblem
from cpplan.program.anf import to_anf
from cpplan.runtime.budget import Tuning, make_budget, using
from cpplan.runtime.deadline import Deadline
from cpplan.spilling import heuristics
from cpplan.spilling.outcome import find_shortfall
from cpplan.spilling.packed import lay_out
from cpplan.spilling.problem import spill_problem
from cpplan.spilling.search import gap_kernel, repacking
from cpplan.spilling.search.address_arrays import Addresses
from cpplan.spilling.search.addresses import Placed
from cpplan.spilling.search.gap_arrays import GapState, make_state, with_sections
from cpplan.spilling.search.repacking import Repacking, applies_to
from cpplan.spilling.search.window_kernel import change_window
from cpplan.spilling.tuning import SpillingTuning


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("direct", [False, True])
def test_places_are_a_packing_of_the_gaps_kept(direct: bool, share: bool) -> None:
    checked = 0
    for seed in range(20):
        rng = random.Random(seed)
        program = to_anf(random_spill_graph(rng))
        pools = Pool("fast", 8 * rng.randint(4, 8), alignment=16), Pool("slow", direct=direct)
        problem = spill_problem(program, Residency(), pools, share=share)
        if find_shortfall(problem) is not None or not applies_to(problem):
            continue
        search = Repacking(problem, pools[0].capacity or 0, seed)
        placed = search.run(problem.all_kept(), None, Deadline(0.02, deterministic=True), 0)
        if placed is None:
            continue
        assert placed.paid == problem.paid(placed.kept).sum(), seed
        layout = lay_out(
            program, Residency(), problem, placed.kept, pools, make_budget(1), share=share,
            places=placed.places,
        )  # fmt: skip
        assert layout.fits, seed
        checked += 1
    # Where ops cannot read the slow pool, most of these fast pools are too small for some op.
    assert checked >= 3


def test_an_op_that_fits_only_over_its_input_leaves_no_room_for_insertion() -> None:
    tensors = Tensor("a", 8), Tensor("b", 8, kind="output")
    ops = Op("f", outputs=("a",)), Op("g", inputs=("a",), outputs=("b",), in_place=(("b", "a"),))
    program = to_anf(Graph("over", tensors, ops))
    for capacity, fits in (8, False), (16, True):
        pools = Pool("fast", capacity), Pool("slow")
        problem = spill_problem(program, Residency(outputs="keep"), pools, share=True)
        assert find_shortfall(problem) is None
        assert applies_to(problem) == fits


def steps_of(*ranges: tuple[int, int], size: int | list[int], steps: int) -> Graph:
    """A graph of tensors, each written at one step and read at another."""
    sizes = size if isinstance(size, list) else [size] * len(ranges)
    tensors = [Tensor(f"t{k}", sizes[k]) for k in range(len(ranges))]
    ops = [
        Op(
            f"op{step}",
            inputs=tuple(f"t{k}" for k, (_, last) in enumerate(ranges) if last == step),
            outputs=tuple(f"t{k}" for k, (first, _) in enumerate(ranges) if first == step),
        )
        for step in range(steps)
    ]
    return Graph("ranges", tuple(tensors), tuple(ops))


def test_the_gap_that_does_not_fit_is_dropped() -> None:
    """Three tensors of 8 bytes cross step 3, and two fit: one is spilled and reloaded."""
    program = to_anf(steps_of((0, 4), (1, 5), (2, 6), size=8, steps=7))
    problem = spill_problem(program, Residency(), (Pool("fast", 16), Pool("slow")))
    search = Repacking(problem, 16, 0)
    placed = search.run(problem.all_kept(), None, Deadline(1, deterministic=True), 16)
    assert placed is not None
    assert (placed.paid, int((~placed.kept).sum())) == (16, 1)


def test_a_dropped_gap_is_kept_again_where_it_fits() -> None:
    program = to_anf(steps_of((0, 4), (1, 5), size=8, steps=6))
    problem = spill_problem(program, Residency(), (Pool("fast", 16), Pool("slow")))
    search = Repacking(problem, 16, 0)
    nothing = np.zeros(len(problem.gap_storage), bool)
    placed = search.run(nothing, None, Deadline(1, deterministic=True), 0)
    assert placed is not None
    assert placed.paid == 0


def test_windows_leave_the_packing_around_them_valid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Retentions that cross a window's ends stay in place, and the cost is kept step by step."""
    rng = random.Random(7)
    spans = [(first, first + rng.choice((1, 3, 9, 25))) for first in range(40)]
    sizes = [rng.choice((8, 16, 24, 40)) for _ in spans]
    program = to_anf(steps_of(*spans, size=sizes, steps=66))
    pools = Pool("fast", 160), Pool("slow")
    problem = spill_problem(program, Residency(), pools)
    narrow = SpillingTuning(window_widths=(4, 8, 16, 32))
    monkeypatch.setattr(repacking, "_SMALLER_MARGINS", (0.3,))
    with using(Tuning({SpillingTuning: narrow})):
        search = Repacking(problem, 160, 0)
        first = search.run(problem.all_kept(), None, Deadline(0.003, deterministic=True), 0)
        placed = search.run(problem.all_kept(), first, Deadline(0.5, deterministic=True), 0)
    assert first is not None
    assert placed is not None
    assert placed.paid == problem.paid(placed.kept).sum() < first.paid
    layout = lay_out(
        program, Residency(), problem, placed.kept, pools, make_budget(1), share=False,
        places=placed.places,
    )  # fmt: skip
    assert layout.fits


def test_a_gap_in_a_window_is_kept_at_the_place_of_the_retention_around_it() -> None:
    """``a`` is longer than the window; the smaller tensors in its way move aside."""
    tensors = Tensor("a", 8), Tensor("b", 4), Tensor("c", 4)
    ops = [Op(f"op{step}") for step in range(40)]
    ops[0] = Op("op0", outputs=("a",))
    ops[18], ops[22] = Op("op18", inputs=("a",)), Op("op22", inputs=("a",))
    ops[39] = Op("op39", inputs=("a",))
    ops[19], ops[20] = Op("op19", outputs=("b",)), Op("op20", outputs=("c",))
    ops[21] = Op("op21", inputs=("b", "c"))
    program = to_anf(Graph("g", tensors, tuple(ops)))
    problem = spill_problem(program, Residency(), (Pool("fast", 16), Pool("slow")))
    search = Repacking(problem, 16, 0)
    names = [problem.names[storage] for storage in problem.access_storage.tolist()]
    assert names == ["a"] * 4 + ["b"] * 2 + ["c"] * 2
    kept, gap = problem.all_kept(), 1
    assert (problem.gap_lower[gap], problem.gap_upper[gap]) == (19, 22)
    kept[gap] = False
    for places, packs in (([0] * 8, True), ([0, 0, 8, 8, 0, 0, 4, 4], False)):
        state = make_state(problem, kept, np.array(places), np.zeros(40, np.int64))
        state.places[-2:] = 4
        rows = with_sections(search._rows(kept), 4)
        made, count, _ = change_window(
            search.flat, state, rows, gap, 18, 0, 0.0, (50, 300, 0.1), search.rng, search._random
        )
        assert (made > 0, count > 0, int(state.cost[0])) == (packs, packs, 0 if packs else 16)
        if packs:
            offsets = dict(zip(names, state.places.tolist(), strict=True))
            assert offsets["a"] == 0
            assert sorted((offsets["b"], offsets["c"])) == [8, 12]


@pytest.mark.parametrize(
    ("least", "tried"),
    [(0.01, [0.05, 0.03, 0.02, 0.014, 0.01, 0.007, 0.007]), (0.2, [0.05, 0.1, 0.2])],
)
def test_margins_shrink_until_no_choice_fits_or_grow_until_one_does(
    monkeypatch: pytest.MonkeyPatch, least: float, tried: list[float]
) -> None:
    program = to_anf(steps_of((0, 4), (1, 5), (2, 6), size=8, steps=7))
    problem = spill_problem(program, Residency(), (Pool("fast", 16), Pool("slow")))
    search, margins = Repacking(problem, 16, 0), list[float]()

    def choose(self: Repacking, kept: Flags, margin: float, deadline: Deadline) -> Flags:
        margins.append(margin)
        return kept

    def pack(self: Repacking, kept: Flags, *rest: object, patient: bool) -> Placed | None:
        assert patient == (len(margins) == 1 or least > 0.05)
        return Placed(kept, cost(), np.zeros(6, np.int64)) if margins[-1] >= least else None

    def cost() -> int:
        return int(10_000 * margins[-1])

    monkeypatch.setattr(Repacking, "choose", choose)
    monkeypatch.setattr(Repacking, "_pack", pack)
    monkeypatch.setattr(SpillProblem, "paid", lambda *_: np.array([cost()]))
    search._settle(problem.all_kept(), None, Deadline(1, deterministic=True))
    assert margins == tried


def test_choices_leave_the_margin_empty_and_cost_no_more_than_rules() -> None:
    rng = random.Random(3)
    spans = [(first, first + rng.choice((1, 3, 9, 25))) for first in range(60)]
    sizes = [rng.choice((8, 16, 24, 40)) for _ in spans]
    program = to_anf(steps_of(*spans, size=sizes, steps=86))
    problem = spill_problem(program, Residency(), (Pool("fast", 160), Pool("slow")))
    search = Repacking(problem, 160, 0)
    deadline = Deadline(10, deterministic=True)
    kept = search.choose(problem.all_kept(), 0.0, deadline)
    emptier = search.choose(problem.all_kept(), 0.2, deadline)
    assert kept is not None
    assert emptier is not None
    assert problem.load(kept).max() <= 160
    assert (problem.load(emptier) <= np.maximum(128, problem.least_load())).all()
    rules = [heuristics.get(name)(problem, deadline) for name in heuristics.names()]
    best = min(int(problem.paid(rule).sum()) for rule in rules if rule is not None)
    assert problem.paid(kept).sum() < best <= problem.paid(emptier).sum()


def read_again(count: int) -> Graph:
    """Tensors read in reverse order by ops that all read one input as well."""
    tensors = [Tensor("w", 8, kind="input"), *(Tensor(f"t{k}", 8) for k in range(count))]
    writes = (Op(f"w{k}", inputs=("w",), outputs=(f"t{k}",)) for k in range(count))
    reads = (Op(f"r{k}", inputs=("w", f"t{k}")) for k in reversed(range(count)))
    return Graph("g", tuple(tensors), (*writes, *reads))


@pytest.mark.parametrize("dropping", [0.0, 1.0])
def test_gaps_dropped_in_portions_make_a_choice_fit(
    monkeypatch: pytest.MonkeyPatch, dropping: float
) -> None:
    monkeypatch.setattr("cpplan.spilling.search.repacking._DROPPING", dropping)
    pools = Pool("fast", 80), Pool("slow")
    problem = spill_problem(to_anf(read_again(30)), Residency(), pools)
    search = Repacking(problem, 80, 0)
    kept = search.choose(problem.all_kept(), 0.0, Deadline(1, deterministic=True))
    assert kept is not None
    assert (~kept).sum() > 10
    assert problem.load(kept).max() <= 80
    if dropping == 0.0:
        assert search.choose(problem.all_kept(), 0.0, Deadline(0)) is None


def test_many_gaps_of_one_tensor_take_no_more_than_their_share() -> None:
    pools = Pool("fast", 1600), Pool("slow")
    problem = spill_problem(to_anf(read_again(600)), Residency(), pools)
    search = Repacking(problem, 1600, 0)
    deadline = Deadline(1, deterministic=True)
    assert search.choose(problem.all_kept(), 0.0, deadline) is not None
    # Most of a change's time is that of the pairs of gaps of the tensor that all ops read.
    assert search._change > 1e-10 * 1200**2
    assert 1 - deadline.remaining() < 1.3 * repacking._CHOICE_SHARE


def test_draws_among_many_gaps_of_one_tensor_take_no_more_than_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pools = Pool("fast", 16), Pool("slow", direct=True)
    problem = spill_problem(to_anf(read_again(2000)), Residency(), pools)
    search, of = Repacking(problem, 16, 0), problem.gap_storage
    gaps, pairs = np.bincount(of), []

    def draw(flat: Addresses, state: GapState, power: float, rng: np.random.Generator) -> int:
        pairs.append(int(gaps[of[state.drop]].sum()))
        return int(drawn(flat, state, power, rng))

    drawn = gap_kernel.draw_gap
    monkeypatch.setattr(gap_kernel, "draw_gap", draw)
    nowhere = np.full(len(problem.access_step), -1, np.int64)
    nothing = np.zeros(len(of), bool)
    start = Placed(nothing, int(problem.paid(nothing).sum()), nowhere)
    deadline = Deadline(0.05, deterministic=True)
    search._improve(start, deadline, 0)
    assert pairs[0] > 1e7
    assert len(pairs) > 1
    assert sum(pairs) * 5e-10 < 0.06
