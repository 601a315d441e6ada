"""The bound "live between pieces": its parts by enumeration, and the whole by brute force."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import cpplan
from cpplan import Graph, Plan, Tensor
from cpplan.model.axes import Axis, Window
from cpplan.model.certificates import LiveBetween, Reading
from cpplan.model.errors import VerificationError
from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.runtime.deadline import Deadline
from cpplan.splitting.between_pieces import Between, least_between
from cpplan.splitting.live_shares import Reach, halo, live_shares, reach
from cpplan.splitting.problem import SplitProblem
from cpplan.verification.piece_moment import bytes_at_moment
from cpplan.verification.piece_steps import live_parts, steps_of
from tests.support.cases import seeds
from tests.support.split_networks import Network
from tests.support.split_oracle import random_twins
from tests.support.step_oracle import least_peak_of_steps, random_steps

# Steps, extent, and the window of a step: taps with padding, strides, gaps, and no halo.
AXES = [
    (4, 4, Window("x", 0, 1, -1, 3)),
    (3, 3, Window("x", 0, 1, -1, 3)),
    (3, 4, Window("x", 0, 1, 0, 2)),
    (2, 4, Window("x", 0, 2, 0, 3)),
    (2, 4, Window("x", 0, 2, -1, 3)),
    (2, 4, Window("x", 0, 2, 0, 1)),
    (4, 4, Window("x", 0, 1, -2, 5)),
    (3, 3, Window("x", 0)),
    (4, 2, Window("x", 0, table=((0, 1), (0, 2), (0, 2), (1, 2)))),
    (4, 2, Window("x", 0, table=((0, 1), (0, 1), (1, 2), (1, 2)))),
]


def bound_of(graph: Graph, *sharing: str) -> Between:
    problem = SplitProblem(to_anf(graph), Residency(), frozenset(sharing))  # type: ignore[arg-type]
    return least_between(problem, Deadline(100.0))


def read_sets(one: int, other: int) -> tuple[Reach, Reach, list[int]]:
    """The reach along two axes, and the positions of each pair of steps as a mask."""
    found, spans = [], []
    for steps, extent, window in (AXES[one], AXES[other]):
        there = reach(window, steps, extent)
        assert there is not None
        anew = steps_of(window, steps, extent)
        assert tuple(vars(anew).values()) == pytest.approx(tuple(there))
        found.append(there)
        spans.append([range(*window.interval(k, k + 1, extent)) for k in range(steps)])
    wide = AXES[other][1]
    masks = [
        sum(1 << (r * wide + c) for r, c in product(rows, columns))
        for rows, columns in product(*spans)
    ]
    return found[0], found[1], masks


@pytest.mark.parametrize("one", range(len(AXES)))
@pytest.mark.parametrize("other", [0, 3, 6])
def test_no_set_of_steps_keeps_less_alive(one: int, other: int) -> None:
    rows, columns, masks = read_sets(one, other)
    grid, count, parts = rows.read * columns.read, len(masks), 7
    everything = rows.extent * columns.extent
    read = 0
    for mask in masks:
        read |= mask
    axes = [(rows.read, rows.common), (columns.read, columns.common)]
    table = live_shares((rows, columns), True, False, parts)
    assert np.allclose(
        table,
        live_parts(
            tuple(steps_of(w, n, e) for n, e, w in (AXES[one], AXES[other])),  # type: ignore[misc]
            True,
            False,
            parts,
        ),
    )
    for chosen in range(1 << count):
        inside = outside = 0
        for k, mask in enumerate(masks):
            if chosen >> k & 1:
                inside |= mask
            else:
                outside |= mask
        done, held, dead = chosen.bit_count(), inside.bit_count(), (read & ~outside).bit_count()
        assert dead <= done * rows.most * columns.most + 1e-9
        assert held >= done * rows.least * columns.least - 1e-9
        if dead:
            assert held - dead >= halo(np.array([float(dead)]), axes)[0] - 1e-9
        for more in (0, grid - held):
            written = held + more + everything - grid  # what no step reads is written, too
            i, j = (label_of(share, parts) for share in (written / everything, done / count))
            assert table[i, j] * everything <= held + more - dead + 1e-9


def label_of(share: float, parts: int) -> int:
    """The interval of shares that a share lies in."""
    if share in (0.0, 1.0):
        return int(share) * (parts + 1)
    return 1 + min(parts - 1, int(share * parts))


def test_any_set_of_dead_positions_has_its_halo() -> None:
    for one, other in product((1, 2, 7), (1, 4)):
        rows, columns, masks = read_sets(one, other)
        axes = [(rows.read, rows.common), (columns.read, columns.common)]
        for dead in range(1, 1 << (rows.extent * columns.extent)):
            held = 0
            for mask in masks:
                if mask & dead:
                    held |= mask
            if dead & ~held:
                continue  # a position that no step reads
            size = float(dead.bit_count())
            assert held.bit_count() - size >= halo(np.array([size]), axes)[0] - 1e-9


def check_by_brute_force(seed: int) -> bool:
    """Check the bound of a random network; true if it is more than 0."""
    rng = random.Random(seed)
    twins = random_twins(rng, 22)
    graph, sharing = twins.graph(), ["in place"] if rng.random() < 0.5 else []
    found = bound_of(graph, *sharing)
    if found.certificate is None:
        return False
    assert bytes_at_moment(graph, Residency(), sharing, found.certificate) == found.bytes
    assert found.bytes <= twins.elements.least_peak(in_place=bool(sharing)), f"seed {seed}"
    return found.bytes > 0


def test_bounds_are_below_brute_force() -> None:
    assert sum(map(check_by_brute_force, seeds(40))) > 20


@pytest.mark.slow
def test_two_thousand_bounds_are_below_brute_force() -> None:
    assert sum(map(check_by_brute_force, range(2000))) > 1000


def check_sums_by_brute_force(seed: int) -> bool:
    """Check the bound of a random network that adds up its terms; true if it is more than 0."""
    rng = random.Random(seed)
    net = Network("float32")
    x = net.image(rng.randint(1, 5), rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2, 3]))
    for _ in range(rng.randint(1, 3)):
        taps, stride = rng.choice([1, 3, 3]), rng.choice([1, 1, 2])
        x = net.conv(x, rng.randint(1, 3), taps=taps, stride=stride)
    graph = net.graph()
    if sum(math.prod(axis.extent for axis in op.axes) for op in graph.ops) > 14:
        return False
    found = bound_of(graph)
    if found.certificate is None:
        return False
    assert bytes_at_moment(graph, Residency(), (), found.certificate) == found.bytes
    assert found.bytes <= least_peak_of_steps(graph), f"seed {seed}"
    return found.bytes > 0


def test_bounds_on_sums_are_below_brute_force() -> None:
    assert sum(map(check_sums_by_brute_force, seeds(150))) > 20


@pytest.mark.slow
def test_many_bounds_on_sums_are_below_brute_force() -> None:
    assert sum(map(check_sums_by_brute_force, range(20_000))) > 2000


def check_steps_by_brute_force(seed: int) -> bool:
    """Check the bound of a random network with slices and parts; true if it is more than 0."""
    rng = random.Random(seed)
    graph = random_steps(rng, 13)
    sharing = [what for what in ("in place", "placement") if rng.random() < 0.5]
    found = bound_of(graph, *sharing)
    if found.certificate is None:
        return False
    assert bytes_at_moment(graph, Residency(), sharing, found.certificate) == found.bytes
    assert found.bytes <= least_peak_of_steps(graph, sharing), f"seed {seed}"
    return found.bytes > 0


def test_bounds_with_slices_and_parts_are_below_brute_force() -> None:
    assert sum(map(check_steps_by_brute_force, seeds(60))) > 30


@pytest.mark.slow
def test_many_bounds_with_slices_and_parts_are_below_brute_force() -> None:
    assert sum(map(check_steps_by_brute_force, range(10_000))) > 5000


def test_an_operand_is_dead_when_sums_of_the_last_channels_are_held() -> None:
    """While a convolution adds up its three channels, it needs its operand one by one: 20 B."""
    net = Network("float32")
    x = net.image(1, 1, 1)
    last = net.conv(net.conv(x, 3, taps=1), 3)
    graph = net.graph("sums", net.relu(x), last)
    found = bound_of(graph)
    assert least_peak_of_steps(graph) == 20
    assert found.bytes <= 20


def chain() -> Graph:
    """Three convolutions of three taps over 24 rows and 8 columns of 8 channels."""
    net = Network()
    x = net.image(24, 8, 2)
    for _ in range(3):
        x = net.conv(x, 8)
    return net.graph("chain", net.dense(x, 4))


@pytest.fixture(scope="module")
def plan() -> Plan:
    return cpplan.solve(chain(), split=True, time_limit=4, deterministic=True, workers=1)


def test_lines_are_live_beside_what_is_read_whole(plan: Plan, tmp_path: Path) -> None:
    """The last layer is read whole, 1,536 B; lines of the others are live beside it."""
    assert plan.bound_by == "live between pieces"
    assert plan.cost_limit == plan.base_cost == plan.cost
    assert plan.lower_bound is not None
    assert plan.peak is not None
    assert 1536 < plan.lower_bound <= plan.peak <= 1.05 * plan.lower_bound
    cpplan.verify(chain(), plan)
    plan.save(tmp_path / "plan.json")
    cpplan.verify(chain(), Plan.load(tmp_path / "plan.json"))


def test_more_work_needs_another_bound(plan: Plan) -> None:
    loose = cpplan.solve(chain(), split=True, cost_limit=1.2, time_limit=2, workers=1)
    assert loose.bound_by == "least piece"
    assert plan.base_cost is not None
    for limit in (None, 2 * plan.base_cost):
        with pytest.raises(VerificationError, match="may do more"):
            cpplan.verify(chain(), replace(plan, cost_limit=limit))


CHANGES = [
    ({"op": "?"}, "unknown op"),
    ({"parts": 0}, "share of an op"),
    ({"parts": 100_000}, "share of an op"),
    ({"interval": -1}, "share of an op"),
    ({"interval": 0}, "prove"),
    ({"readings": ()}, "prove"),
    ({"readings": (Reading((), "conv1"),)}, "no tensor"),
    ({"readings": (Reading(("?",), "conv1"),)}, "unknown tensor"),
    ({"readings": (Reading(("t1",), "conv2"),)}, "as a reader"),
    ({"readings": (Reading(("t1",), None),)}, "no output"),
    ({"readings": (Reading(("t1", "t2"), "conv2"),)}, "has the values"),
    ({"readings": (Reading(("t1",), "conv1"),) * 3}, "too often"),
]


@pytest.mark.parametrize(("changes", "message"), CHANGES)
def test_changed_certificates_are_refused(
    plan: Plan, changes: dict[str, object], message: str
) -> None:
    assert isinstance(plan.certificate, LiveBetween)
    changed = replace(plan, certificate=plan.certificate._replace(**changes))
    with pytest.raises(VerificationError, match=message):
        cpplan.verify(chain(), changed)


def test_bounds_without_proof_are_refused(plan: Plan) -> None:
    with pytest.raises(VerificationError, match="no certificate"):
        cpplan.verify(chain(), replace(plan, certificate=None))
    with pytest.raises(VerificationError, match="prove"):
        cpplan.verify(chain(), replace(plan, lower_bound=plan.peak, status="optimal"))


def test_values_are_live_through_ops_that_hand_them_on() -> None:
    """A concatenation of two rectifiers is read whole: its 128 B, or what they come from."""
    net = Network()
    x = net.image(8, 4, 1)
    one, other = net.conv(x, 2, taps=1), net.conv(x, 2, taps=1)
    y = net.dense(net.concat(net.relu(one), net.relu(other)), 4)
    found = bound_of(net.graph("joined", y))
    assert found.bytes >= 120
    assert found.certificate is not None
    paths = {reading.path for reading in found.certificate.readings}
    assert any(len(path) == 3 for path in paths)


def test_channels_that_are_not_read_are_not_kept() -> None:
    """Two of four channels go on; the others may be dead as soon as they are written."""
    net = Network()
    wide = net.conv(net.image(8, 4, 1), 4, taps=1)
    two = net._tensor(None, (8, 4, 2))
    axes = [
        Axis(name, n, (Window(wide, k), Window(two, k)))
        for k, (name, n) in enumerate((("rows", 8), ("columns", 4), ("channels", 2)))
    ]
    net._op("Slice", (wide,), two, axes, 64)
    net.dense(net.conv(two, 2, taps=3), 1)
    found = bound_of(net.graph())
    assert found.certificate is not None
    assert all(reading.op != "slice1" for reading in found.certificate.readings)


def test_channels_that_a_reader_calls_otherwise_are_left_out() -> None:
    """A convolution's channels are the rows of an op that fills up its columns."""
    net = Network()
    made = net.conv(net.image(4, 6, 1), 4, taps=1)
    padded = net._tensor(None, (4, 8, 4))
    rows = Axis("rows", 4, (Window(made, 2), Window(padded, 2)))
    net._op("Pad", (made,), padded, [rows], 128)
    net.dense(padded, 2)
    graph = net.graph()
    found = bound_of(graph)
    assert found.certificate is not None
    assert bytes_at_moment(graph, Residency(), (), found.certificate) == found.bytes
    assert all(reading.op != "pad1" for reading in found.certificate.readings)


def test_tensors_without_a_type_are_counted_whole() -> None:
    graph = chain()
    bare = tuple(replace(t, size=t.nbytes, dtype=None) for t in graph.tensors)
    untyped = replace(graph, tensors=bare)
    plan = cpplan.solve(untyped, split=True, time_limit=1, workers=1)
    cpplan.verify(untyped, plan)
    found = bound_of(untyped)
    assert found.certificate is not None
    assert bytes_at_moment(untyped, Residency(), (), found.certificate) == found.bytes
    assert found.bytes == bound_of(graph).bytes


def test_a_part_that_lies_in_a_whole_is_not_counted_twice() -> None:
    """The second half of a whole is computed from all of the first, which may lie in it."""
    net = Network()
    one = net.conv(net.image(8, 4, 1), 2, taps=1)
    other, whole = net._tensor(None, (8, 4, 2)), net._tensor(None, (16, 4, 2))
    spread = Axis("columns", 4, (Window(other, 1),))
    net._op("Spread", (net.dense(one, 2),), other, [spread], 500)
    columns = Axis("columns", 4, tuple(Window(name, 1) for name in (one, other, whole)))
    places = ((one, whole, 0), (other, whole, 64))
    net._op("Concat", (one, other), whole, [columns], 128, placements=places)
    net.dense(whole, 4)
    graph = net.graph()
    plan = cpplan.solve(graph, placement=True, time_limit=3, workers=1)
    assert plan.peak == 132
    shared, apart = bound_of(graph, "placement"), bound_of(graph)
    assert shared.bytes <= 132 < apart.bytes
    assert apart.certificate is not None
    assert bytes_at_moment(graph, Residency(), (), apart.certificate) == apart.bytes
    assert apart.certificate.op == graph.ops[3].name
    with pytest.raises(VerificationError, match="counts tensor 't1', which it may not"):
        bytes_at_moment(graph, Residency(), ("placement",), apart.certificate)


def test_steps_that_read_one_position_together_free_it_together() -> None:
    """Before the tensor that is made larger has been read, four times its bytes are written."""
    net = Network()
    small = net.conv(net.conv(net.image(8, 8, 1), 4, stride=2), 4, taps=1)
    large = net._tensor(None, (8, 8, 4))
    twice = tuple((k // 2, k // 2 + 1) for k in range(8))
    axes = [
        Axis(name, 8, (Window(small, at, table=twice), Window(large, at)))
        for at, name in enumerate(("rows", "columns"))
    ]
    net._op("Resize", (small,), large, axes, 64)
    net.conv(large, 1, taps=1)
    for steps, extent in ((8, 4), (4, 2)):
        window = Window("x", 0, table=tuple((k // 2, k // 2 + 1) for k in range(steps)))
        there = reach(window, steps, extent)
        assert there is not None
        assert (there.most, there.least) == pytest.approx((0.5, 0.5))
    assert bound_of(net.graph()).bytes > 64


def test_steps_that_cost_nothing_do_not_count() -> None:
    net = Network()
    x = net.image(8, 4, 1)
    for _ in range(3):
        x = net.conv(x, 4)
    graph = net.graph("free")
    free = replace(graph, ops=tuple(replace(op, cost=0) for op in graph.ops))
    few = replace(graph, ops=tuple(replace(op, cost=3) for op in graph.ops))
    assert bound_of(graph).bytes > 0
    assert bound_of(free).bytes == bound_of(few).bytes == 0


def test_sums_of_two_tensors_count_for_neither() -> None:
    """Partial sums may be held instead of one factor of a product, but not of both."""
    tensors = (
        Tensor("a", shape=(4, 8), dtype="int8", kind="input"),
        Tensor("b", shape=(8, 4), dtype="int8", kind="input"),
        Tensor("c", shape=(4, 4), dtype="int8", kind="output"),
    )
    terms = Axis("terms", 8, (Window("a", 1), Window("b", 0)), accumulates=True)
    rows = Axis("rows", 4, (Window("a", 0), Window("c", 0)))
    product_of = cpplan.Op("f", inputs=("a", "b"), outputs=("c",), cost=4096, axes=(rows, terms))
    found = bound_of(Graph("g", tensors, (product_of,)))
    assert found.certificate is None or {r.op for r in found.certificate.readings} == {None}
