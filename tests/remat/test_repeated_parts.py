"""Schedules that treat equal layers alike: few decisions for many layers, limits kept."""

from __future__ import annotations

import pytest

from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.residency import Residency
from cpplan.remat.problem import remat_problem
from cpplan.remat.repeated_parts import find_classes, plan_alike
from cpplan.runtime.deadline import Deadline


def layered(layers: int, *, recomputable: bool = True) -> Graph:
    """Layers of a large cheap value within a small dear one, and a backward pass through them.

    Forward: ``x0 -> w1 -> x1 -> w2 -> ...``, where ``w`` has 100 bytes and costs 1, ``x`` has 10
    bytes and costs 10. Backward, layer by layer, both are read again. Everything saved takes
    110 bytes a layer; with all but one ``w`` computed again, 10 a layer and 100 once.
    """
    tensors = [Tensor("x0", 10)]
    ops = [Op("x0", "in", (), ("x0",), cost=10, recomputable=False)]
    for k in range(1, layers + 1):
        tensors += [Tensor(f"w{k}", 100), Tensor(f"x{k}", 10), Tensor(f"g{k}", 1)]
        ops.append(
            Op(f"w{k}", "wide", (f"x{k - 1}",), (f"w{k}",), cost=1, recomputable=recomputable)
        )
        ops.append(Op(f"x{k}", "narrow", (f"w{k}",), (f"x{k}",), cost=10))
    before = f"x{layers}"
    for k in range(layers, 0, -1):
        read = (before, f"w{k}", f"x{k - 1}")
        ops.append(Op(f"g{k}", "back", read, (f"g{k}",), cost=11, recomputable=False))
        before = f"g{k}"
    return Graph("layered", tuple(tensors), tuple(ops))


def problem_of(layers: int, **options: bool):
    return remat_problem(layered(layers, **options), Residency())


def test_inner_layers_are_of_the_same_classes():
    problem = problem_of(20)
    names, classes = problem.ordering.names, find_classes(problem)
    class_of = dict(zip(names, classes, strict=True))
    assert len({class_of[f"w{k}"] for k in range(4, 17)}) == 1
    assert class_of["w10"] != class_of["x10"]
    assert len(set(find_classes(problem_of(40)))) == len(set(classes))


@pytest.mark.parametrize("layers", [5, 20, 60])
def test_limit_is_kept_by_recomputing_only_cheap_values(layers):
    problem = problem_of(layers)
    limit = problem.peak(range(len(problem))) // 2
    found = plan_alike(problem, range(len(problem)), limit, Deadline(60))
    assert found is not None
    assert problem.is_schedule(found)
    assert problem.peak(found) <= limit
    # The narrow values take a tenth of the bytes: that is why a little more than half is needed.
    again = problem.total_cost(found) - problem.total_cost(range(len(problem)))
    assert again <= 0.6 * layers


def test_least_limit_recomputes_every_wide_value_but_one():
    problem = problem_of(10)
    least = 10 * 11 + 100 + 1
    found = plan_alike(problem, range(len(problem)), least, Deadline(60))
    assert found is not None
    assert problem.peak(found) <= least
    again = problem.total_cost(found) - problem.total_cost(range(len(problem)))
    assert 9 <= again <= 10


def test_nothing_is_found_below_what_must_be_saved():
    problem = problem_of(10, recomputable=False)
    limit = problem.peak(range(len(problem))) // 2
    assert plan_alike(problem, range(len(problem)), limit, Deadline(60)) is None


def test_order_within_the_limit_is_returned_as_it_is():
    problem = problem_of(4)
    order = tuple(range(len(problem)))
    assert plan_alike(problem, order, problem.peak(order), Deadline(60)) == order


def test_number_of_schedules_measured_does_not_grow_with_the_layers(monkeypatch):
    from cpplan.remat import repeated_parts

    counts = []
    for layers in (10, 80):
        measured = []
        make = repeated_parts._Search._schedule
        monkeypatch.setattr(
            repeated_parts._Search,
            "_schedule",
            lambda self, make=make, measured=measured: (measured.append(1), make(self))[1],
        )
        problem = problem_of(layers)
        limit = problem.peak(range(len(problem))) // 2
        assert plan_alike(problem, range(len(problem)), limit, Deadline(60)) is not None
        counts.append(len(measured))
        monkeypatch.undo()
    assert counts[1] <= 2 * counts[0]
