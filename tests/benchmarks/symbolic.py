"""Time of ``Plan.at`` for a changed variable and for none, against that of a new plan.

Run: ``python tests/benchmarks/symbolic.py [tensors]``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.symbols import Symbols
from cpplan.solving.pipeline import solve

RANGES = {"n": (1, 4096), "h": (32, 512), "w": (32, 512), "t": (1, 2048)}
HEIGHTS = ("h", "(h + 1)//2", "(h + 3)//4", "ceildiv(h, 8)")
WIDTHS = ("w", "(w + 1)//2", "(w + 3)//4", "max(ceildiv(w, 8), 1)")


def chain(count: int) -> Graph:
    """Ops in a row with skips; images and sequences take turns."""
    tensors, ops = [Tensor("t0", shape=("n", 3, "h", "w"), dtype="float32", kind="input")], []
    for k in range(1, count):
        level = k * 4 // count
        shape: tuple[int | str, ...] = ("n", 8 + k % 57, HEIGHTS[level], WIDTHS[level])
        if k % 5 == 4:
            shape = ("n", f"t + {k % 7}", 64)
        kind = "output" if k == count - 1 else "intermediate"
        tensors.append(Tensor(f"t{k}", shape=shape, dtype="float32", kind=kind))  # type: ignore[arg-type]
        inputs = tuple(dict.fromkeys((f"t{k - 1}", f"t{max(0, k - 7)}")))
        ops.append(Op(f"op{k}", inputs=inputs, outputs=(f"t{k}",)))
    return Graph("chain", tuple(tensors), tuple(ops), Symbols(RANGES))


def best_of(run: Callable[[int], object], times: int) -> float:
    """Seconds of the fastest run."""
    found = []
    for k in range(times):
        begun = time.perf_counter()
        run(k)
        found.append(time.perf_counter() - begun)
    return min(found)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    graph = chain(count)
    begun = time.perf_counter()
    plan = solve(graph, time_limit=20)
    print(f"{count} tensors, planned in {time.perf_counter() - begun:.2f} s")
    values = {"n": 8, "h": 224, "w": 224, "t": 128}
    begun = time.perf_counter()
    plan.at(values)
    print(f"first             {(time.perf_counter() - begun) * 1e3:9.3f} ms")
    for name in values:
        changed = best_of(lambda k, name=name: plan.at({**values, name: 33 + k}), 50)
        print(f"{name} changed         {changed * 1e3:9.3f} ms")
    changed = best_of(lambda k: plan.at(n=k + 1, h=99 + k, w=k + 50, t=k + 3), 50)
    print(f"all changed       {changed * 1e3:9.3f} ms")
    print(f"remembered        {best_of(lambda k: plan.at(values), 200) * 1e6:9.3f} µs")
    at = plan.at(values)
    offsets = best_of(lambda k: [at.offset(name) for name in plan.buffers], 20)
    print(f"all offsets       {offsets * 1e3:9.3f} ms")
    print(f"a plan of its own {best_of(lambda k: plan.at(values).plan_at, 20) * 1e3:9.3f} ms")


if __name__ == "__main__":
    main()
