"""Relax's StaticPlanBlockMemory: every case of its test suite."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from support.published import published

from cpplan import Graph, Op, Tensor
from cpplan.model.shapes import Dim, parse_dim
from cpplan.model.symbols import Symbols
from cpplan.packing.storage_ids import relax_static_plan

# The events list no branch. This one reads y, so that its storage is used in another block.
READ_IN_A_BRANCH = {"relax/test_cross_block_use/main": ("y#4",)}
# Extents for which no upper bound is given stay symbols: their storages are expressions.
SYMBOLIC = (
    "relax/test_symbolic_shape/main",
    "relax/test_lower_bound_only/main",
    "relax/test_call_tir_dyn_plan_partially_dynamic/main",
    "relax/test_add/main",
)
KNOWN = (
    "relax/test_basic/main",
    "relax/test_different_dtype/main",
    "relax/test_same_dtype/main",
    "relax/test_if_cond/main",
    "relax/test_cross_block_use/main",
    "relax/test_nested_tuple/main",
    "relax/test_call_packed_external_func/main",
    "relax/test_reshape_param/main",
    "relax/test_multiple_functions/func1",
    "relax/test_tir_var_upper_bound/main",
    "relax/test_tir_var_decreasing_monotone/main",
    "relax/test_call_tir_dyn/main",
    "relax/test_function_independence/func1",
    "relax/test_view/main",
    "relax/test_with_dataflow/main",
)


@pytest.fixture(scope="module")
def cases() -> dict[str, dict[str, Any]]:
    return {
        case["id"]: case for case in published("tvm")["relax_static_plan_block_memory"]["cases"]
    }


def test_no_case_is_forgotten(cases):
    assert set(cases) == {*KNOWN, *SYMBOLIC}


@pytest.mark.parametrize("name", KNOWN)
def test_storages_bytes_and_members_are_relax_s(name, cases):
    case = cases[name]
    expect = case["expect"]
    plan = relax_static_plan(_graph(case))
    storages = [storage["storage"] for storage in expect["storages"]]
    assert plan.bytes.tolist() == [storage["bytes"] for storage in expect["storages"]]
    assert list(plan.groups or ()) == [storage["dtype"] for storage in expect["storages"]]
    # Relax renumbers variables behind the "#" as it rewrites; the names before it stay.
    planned = {tensor.split("#")[0]: at["storage"] for tensor, at in expect["tensors"].items()}
    found = {tensor.split("#")[0]: storages[plan.storage_of(tensor)] for tensor in plan.buffers}
    assert found == planned


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_storages_are_relax_s(name, cases):
    case = cases[name]
    expect = case["expect"]
    returned = "relax.memory_plan_dynamic_func_output" in case["attrs"]
    plan = relax_static_plan(_graph(case), outputs="keep" if returned else "outside")
    storages = [storage["storage"] for storage in expect["storages"]]
    wanted = [_expression(storage["bytes"]) for storage in expect["storages"]]
    assert [plan.expressions[k] for k in range(len(plan))] == wanted
    assert list(plan.groups or ()) == [storage["dtype"] for storage in expect["storages"]]
    planned = {tensor.split("#")[0]: at["storage"] for tensor, at in expect["tensors"].items()}
    found = {tensor.split("#")[0]: storages[plan.storage_of(tensor)] for tensor in plan.buffers}
    assert found == planned


def _graph(case: dict[str, Any]) -> Graph:
    """Each event is an op; what is returned, tested or read in a branch is an output."""
    limits = json.loads(case["attrs"].get("tir_var_upper_bound", "{}"))
    leaving = {*case["ret"], *READ_IN_A_BRANCH.get(case["id"], ())}
    base: dict[str, tuple[str, ...]] = {name: (name,) for name in case["params"]}
    fields: dict[str, list[list[str]]] = {}
    made: dict[str, Tensor] = {}
    ops = []
    for event in case["events"]:
        var, kind = event["var"], event["kind"]
        if kind == "alloc":
            shape = tuple(_expression(extent) for extent in event["shape"])
            made[var] = Tensor(var, shape=shape, dtype=event["dtype"])
            base[var] = (var,)
            ops.append(Op(var, "alloc", outputs=(var,)))
        elif kind == "call":
            read = [name for arg in event["args"] for name in base.get(arg, ())]
            ops.append(Op(var, event["op"], inputs=tuple(name for name in read if name in made)))
        elif kind == "getitem":
            (item,) = fields[event["of"][0]][event["index"]]
            base[var], fields[var] = base[item], fields.get(item, [])
        elif kind == "if":
            leaving.update(event["cond"])
        else:
            base[var] = tuple(name for one in event["of"] for name in base[one])
            fields[var] = event.get("fields", [])
    outside = {name for var in leaving for name in base[var]}
    tensors = [
        replace(tensor, kind="output" if tensor.name in outside else tensor.kind)
        for tensor in made.values()
    ]
    extents = (extent for t in made.values() for extent in t.shape or ())
    names = {name for extent in extents if isinstance(extent, Dim) for name in extent.variables}
    symbols = Symbols({name: (0, limits.get(name)) for name in sorted(names)})
    return Graph(case["id"], tuple(tensors), tuple(ops), symbols)


def _expression(text: int | str) -> int | Dim:
    """As Relax prints them: ``T.int64(2) * n``, ``T.max(n - m, 1)``."""
    if isinstance(text, int):
        return text
    return parse_dim(re.sub(r"T\.int64\((\d+)\)", r"\1", text).replace("T.max", "max"))
