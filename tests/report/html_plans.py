"""Models, plans and tables that reports are tested on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd

import cpplan
from cpplan import Graph, Op, Plan, Pool, Problem, Tensor

HOSTILE = [
    "</script><script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "<!--<script>",
    "abc\u202ecba\u2066\u200f",
    "a\u2028b\u2029c\x00\x1b[2J\x7f",
    "'; window.hacked=1; //",
    "&lt;b&gt;&amp;",
    "__proto__",
    "=HYPERLINK(0)",
    "constructor",
    "`${window.hacked = 1}`",
    "long" * 2500,
    "é\u0301 名前 \U0001f600",
]


def chain() -> Graph:
    """x -> a -> t -> b -> y: three tensors of 8, 16 and 4 bytes."""
    return Graph(
        "chain",
        (Tensor("x", 8, kind="input"), Tensor("t", 16), Tensor("y", 4, kind="output")),
        (Op("a", "conv", ("x",), ("t",)), Op("b", "pool", ("t",), ("y",))),
    )


def forked() -> Graph:
    """Two branches that should be finished one after the other; the given order mixes them.

    Given order: both wide results are live, 1 + 8 + 8; searched: 1 + 8 + 1 at most.
    """
    return Graph(
        "forked",
        (
            Tensor("x", 1, kind="input"),
            Tensor("wide1", 8), Tensor("wide2", 8), Tensor("thin1", 1), Tensor("thin2", 1),
            Tensor("y", 1, kind="output"),
        ),
        (
            Op("w1", inputs=("x",), outputs=("wide1",)),
            Op("w2", inputs=("x",), outputs=("wide2",)),
            Op("t1", inputs=("wide1",), outputs=("thin1",)),
            Op("t2", inputs=("wide2",), outputs=("thin2",)),
            Op("end", inputs=("thin1", "thin2"), outputs=("y",)),
        ),
    )  # fmt: skip


def hostile_plan() -> Plan:
    count = len(HOSTILE)
    problem = Problem(
        HOSTILE, lower=list(range(count)), upper=list(range(2, count + 2)), size=[64] * count,
        pools=(Pool("</script><b>"),), name="</title><script>window.hacked=1</script>\u202e",
    )  # fmt: skip
    return cpplan.solve(problem)


def hostile_graph() -> Graph:
    """A chain whose ops, kinds and tensors bear such names; every other op works in place."""
    last = len(HOSTILE) - 1
    kinds = {0: "input", last: "output"}
    tensors = (
        Tensor(name, 64, kind=kinds.get(k, "intermediate")) for k, name in enumerate(HOSTILE)
    )
    ops = (
        Op(f"op {y}", f"kind {x}", inputs=(x,), outputs=(y,), in_place=((y, x),) if k % 2 else ())
        for k, (x, y) in enumerate(pairwise(HOSTILE))
    )
    return Graph(f"</title>{HOSTILE[3]}", tuple(tensors), tuple(ops))


def again() -> Graph:
    """r is read first and last: in 24 bytes only if it is computed again in between."""
    tensors = [Tensor("x", 4, kind="input"), Tensor("r", 8), Tensor("y", 4, kind="output")]
    tensors += [Tensor(f"m{k}", 8) for k in range(3)]
    ops = [
        Op("r", inputs=("x",), outputs=("r",)),
        Op("m0", inputs=("r",), outputs=("m0",)),
        Op("m1", inputs=("m0",), outputs=("m1",)),
        Op("m2", inputs=("m1",), outputs=("m2",)),
        Op("y", inputs=("m2", "r"), outputs=("y",)),
    ]
    return Graph("again", tuple(tensors), tuple(ops))


def results() -> pd.DataFrame:
    """Two models, two settings; one failed."""
    return pd.DataFrame(
        {
            "model": ["a", "a", "</script>", "</script>"],
            "setting": ["x", "y", "x", "y"],
            "status": ["optimal", "feasible", "optimal", "error"],
            "bytes": pd.array([12, 16, 8, None], dtype="Int64"),
            "bound": pd.array([12, 12, 8, None], dtype="Int64"),
            "gap": [0.0, 0.25, 0.0, np.nan],
            "ratio_first_fit": [0.5, 0.75, 1.0, np.nan],
            "seconds": [0.5, 1.0, 0.25, np.nan],
            "error": [None, None, None, "it is <b>broken</b>"],
        }
    )


def planned(count: int, steps: int) -> tuple[Problem, Plan]:
    """A problem of random buffers, and a plan of it by one heuristic."""
    rng = np.random.default_rng(count)
    lower = rng.integers(0, steps, count)
    upper = lower + rng.geometric(0.02, count)
    size = np.ceil(np.exp(rng.normal(9, 2, count))).astype(np.int64)
    names = [f"block_{k // 12}/layer_{k % 12}/output:{k}" for k in range(count)]
    problem = Problem(names, lower, upper, size)
    return problem, cpplan.solve(problem, algorithm="lowest_offset_first")
