"""Bounds from CP-SAT's floats: never more than what was proved, in any formulation."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from formulations.joint import JointModel
from formulations.joint_sharing import JointSharingModel
from formulations.ordering import OrderingModel
from formulations.packing_sizes import PackingSizesModel
from formulations.pools import PoolsModel
from formulations.proved_value import proved_value
from formulations.rematerialization import RematModel
from formulations.retained_at_cuts import CutModel
from formulations.shared_storage import SharedStorageModel
from formulations.sharing import SharingModel
from formulations.storage_classes import StorageClassesModel

PROVED = [2**53 - 1, 2**53 + 1, 2**53 + 3, 2**60 + 1, 2**62 - 1, -(2**53) - 3]
MODELS = [
    JointModel, JointSharingModel, OrderingModel, PackingSizesModel, PoolsModel,
    RematModel, CutModel, SharedStorageModel, SharingModel,
    StorageClassesModel,
]  # fmt: skip


@pytest.mark.parametrize("proved", PROVED)
def test_a_float_never_stands_for_more_than_was_proved(proved):
    assert proved - 1024 <= proved_value(float(proved)) <= proved


@pytest.mark.parametrize("proved", [0, 1, -7, 2**53 - 1])
def test_what_a_float_can_hold_is_taken_as_it_is(proved):
    assert proved_value(float(proved)) == proved


@pytest.mark.parametrize("proved", PROVED)
@pytest.mark.parametrize("model", MODELS)
def test_no_formulation_claims_more_than_was_proved(model, proved):
    ordering = SimpleNamespace(base=0)
    shape = SimpleNamespace(
        unit=1, grain=1,
        problem=SimpleNamespace(base=0, ordering=ordering), rows=SimpleNamespace(constant=0),
    )  # fmt: skip
    assert model.in_bytes(shape, float(proved)) <= proved
