"""Published instances and cases: MiniMalloc's, OLLA's, Checkmate's and TVM's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cpplan import Graph, Op, Tensor
from cpplan.io.minimalloc_csv import read_problem
from cpplan.model.problem import Problem

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
PUBLISHED = DATASETS / "published"


def minimalloc(name: str) -> Problem:
    """One of MiniMalloc's challenging instances; each fits into 1,048,576 bytes."""
    return read_problem(PUBLISHED / "minimalloc" / f"{name}.1048576.csv")


def published(file: str) -> dict[str, Any]:
    """The tables of ``olla``, ``checkmate`` or ``tvm``, by name."""
    tables: dict[str, Any] = json.loads((PUBLISHED / f"{file}.json").read_text())
    return tables


def tvm_case(table: str, name: str) -> dict[str, Any]:
    """A case of one of TVM's tables by its identifier."""
    return next(case for case in published("tvm")[table] if case["id"] == name)


def remat_chains(longest: int | None = None) -> list[dict[str, int]]:
    """Checkmate's linear graphs with ``n`` up to ``longest``, each with a budget and least cost."""
    cases = published("checkmate")["remat_chain"]
    return [case for case in cases if longest is None or case["n"] <= longest]


def olla_graph(case: dict[str, Any], *tensors: Tensor) -> Graph:
    """The graph of an ordering case of OLLA, with further tensors."""
    listed = case["tensors"]
    ops = tuple(
        Op(
            node,
            inputs=tuple(t["name"] for t in listed if node in t["sinks"]),
            outputs=tuple(t["name"] for t in listed if node == t["source"]),
        )
        for node in case["nodes"]
    )
    return Graph(case["name"], (*tensors, *(Tensor(t["name"], t["size"]) for t in listed)), ops)
