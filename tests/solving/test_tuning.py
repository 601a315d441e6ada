"""Tuning: every room's thresholds and shares, overridden for one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, fields, is_dataclass
from typing import Any

import pytest

from cpplan.model.errors import InputError
from cpplan.ordering.tuning import OrderingTuning
from cpplan.remat.tuning import RematTuning
from cpplan.runtime.budget import Budget, Tuning, tuned, using
from cpplan.runtime.deadline import Deadline
from cpplan.solving.tuning import ROOMS, SolvingTuning, make_tuning


def test_an_overridden_field_travels_with_the_budget() -> None:
    budget = Budget(Deadline(10), tuning=make_tuning({"solving": {"rival": 2}}))
    assert budget.share(0.5).tuned(SolvingTuning) == SolvingTuning(rival=2.0)
    assert Budget(Deadline(10)).tuned(SolvingTuning) == SolvingTuning()


def test_a_dataclass_of_a_room_may_be_given_itself() -> None:
    given = SolvingTuning(order_share=0.25)
    assert make_tuning({"solving": given}).of(SolvingTuning) == given


def test_defaults_of_a_room_are_made_once() -> None:
    @dataclass(frozen=True)
    class Other:
        rounds: int = 3

    assert Tuning().of(Other) is Tuning().of(Other)


@pytest.mark.parametrize("room", ROOMS.values(), ids=ROOMS)
def test_tuning_of_a_room_is_frozen_and_documents_every_field(room: type) -> None:
    assert is_dataclass(room)
    tuning = room()
    names = [field.name for field in fields(room)]
    with pytest.raises(FrozenInstanceError):
        setattr(tuning, names[0], None)
    undocumented = [name for name in names if name not in (room.__doc__ or "")]
    assert undocumented == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "tuning must be a mapping of rooms"),
        ({"solvign": {}}, "tuning: unknown room 'solvign': expected one of "),
        ({"solving": 3}, "tuning of solving must be a mapping of fields, not 3"),
        ({"solving": {"rivals": 2}}, "tuning of solving: unknown field 'rivals': expected one of "),
        ({"solving": {"rival": "2"}}, "tuning of solving: rival must be like 1.05, not '2'"),
        ({"solving": {"joint_ops": True}}, "tuning of solving: joint_ops must be like 40"),
        ({"solving": {"grace": float("nan")}}, "tuning of solving: grace must be like 1.0"),
        ({"solving": {"order_share": 0.0}}, "tuning of solving: order_share must be more than 0"),
        ({"solving": {"order_share": 1.5}}, "tuning of solving: order_share must be more than 0"),
        ({"solving": {"rival": -1}}, "tuning of solving: rival must not be negative, not -1.0"),
        ({"remat": {"halvings": -1}}, "tuning of remat: halvings must not be negative, not -1"),
    ],
)
def test_tuning_that_is_not_understood_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        make_tuning(given)
    assert str(caught.value).startswith(message)


def test_overrides_hold_within_their_block(tune: Callable[..., None]) -> None:
    tune(OrderingTuning, few_ops=0)
    tune(RematTuning, most_short=6)
    assert (tuned(OrderingTuning).few_ops, tuned(RematTuning).most_short) == (0, 6)
    with using(Tuning()):
        assert tuned(RematTuning) == RematTuning()
    assert tuned(RematTuning).most_short == 6
