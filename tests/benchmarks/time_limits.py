"""Time and memory that whole runs of ``cpplan plan`` take beside their limit, up to 100,000 ops.

    python tests/benchmarks/time_limits.py [--ops 20000 100000] [--mode given search …]
        [--graph chain …] [--seconds 2] [--processor]
    python tests/benchmarks/time_limits.py --mode spill spill-search --graph local diamonds \
        --ops 250 1000 5000 --seconds 5 --processor

Each graph is written to a file; each mode plans the file in a process of its own, with one worker,
of a package whose modules are compiled to bytecode, as installed ones are.
A run may take ``1.1 × limit + 0.5`` seconds, all in all. By the clock that holds on a quiet machine
only; on a busy one, ``--processor`` lets the limit count processor time, which is the yardstick in
any case. In the modes that begin with ``spill`` the fast pool holds half the live bytes of the
given order, and ops may access the slow one; ``spill-compare`` may take as much for each row.

Prints CSV: seconds by the clock and of processor time; the most memory the process ever had, MiB,
and bytes of that an op; status, peak, bound and method.
"""

from __future__ import annotations

import argparse
import compileall
import csv
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import cpplan
from cpplan import Graph, Op, Tensor
from cpplan.io.graph_json import write_graph
from cpplan.model.graph import Placement
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem

MODES: dict[str, tuple[str, ...]] = {
    "given": ("plan",),
    "in-place": ("plan", "--in-place"),
    "search": ("plan", "--order", "search"),
    "search-in-place": ("plan", "--order", "search", "--in-place"),
    "storages": ("storages",),
}
# Run only if asked for, with two pools besides.
SPILLING = {
    "spill": ("plan", "--in-place", "--spill"),
    "spill-search": ("plan", "--in-place", "--spill", "--order", "search"),
    "spill-compare": ("compare", "--in-place", "--spill"),
}
COLUMNS = (
    *("graph", "ops", "mode", "limit", "seconds", "processor", "allowed", "within"),
    *("mib", "bytes_an_op", "status", "peak", "lower_bound", "moved_bytes", "moved_bytes_bound"),
    "method",
)
ANSWERS = COLUMNS[COLUMNS.index("status") :]


def layers(count: int, reads: Callable[[int], list[int]], *, seed: int = 0) -> Graph:
    """A graph whose op ``k`` reads the results of the ops ``reads(k)``, or the input if of none.

    What nothing reads is an output. Sizes are 64 B, 128 B, 256 B or 1 KiB; an op may write over
    what it reads of equal size.
    """
    chance = random.Random(seed)
    used: set[int] = set()
    ops, sizes = [], []
    for k in range(count):
        before = sorted(set(reads(k)))
        used.update(before)
        sizes.append(64 * chance.choice((1, 2, 4, 16)))
        in_place = tuple((f"t{k}", f"t{j}") for j in before if sizes[j] == sizes[k])
        names = tuple(f"t{j}" for j in before) or ("x",)
        ops.append(Op(f"op{k}", inputs=names, outputs=(f"t{k}",), in_place=in_place))
    kinds = ["intermediate" if k in used else "output" for k in range(count)]
    tensors = [Tensor(f"t{k}", sizes[k], kind=kinds[k]) for k in range(count)]
    return Graph("layers", (Tensor("x", 64, kind="input"), *tensors), tuple(ops))


def chain(count: int) -> Graph:
    """One op after another."""
    return layers(count, lambda k: [k - 1] if k else [])


def residual(count: int) -> Graph:
    """A chain in which every third op also reads the result three ops earlier."""
    return layers(count, lambda k: [k - 1] * (k > 0) + [k - 3] * (k > 0 and k % 3 == 0))


def local(count: int) -> Graph:
    """Ops that each read two of the last twenty results."""
    chance = random.Random(1)
    return layers(
        count, lambda k: [chance.randrange(max(0, k - 20), k) for _ in range(2 * (k > 0))]
    )


def anywhere(count: int) -> Graph:
    """Ops that each read two results from anywhere before."""
    chance = random.Random(2)
    return layers(count, lambda k: [chance.randrange(k) for _ in range(2 * (k > 0))])


def branches(count: int) -> Graph:
    """Up to a hundred chains side by side, listed in turns, joined at the end."""
    wide = min(100, -(-count // 4))
    return layers(
        count,
        lambda k: list(range(k - wide, k)) if k == count - 1 else [k - wide] if k >= wide else [],
    )


def fan_out(count: int) -> Graph:
    """One result that all other ops read; the result of each of these is an output."""
    return layers(count, lambda k: [0] if k else [])


def fan_in(count: int) -> Graph:
    """Results that only the last op reads, all at once."""
    return layers(count, lambda k: list(range(k)) if k == count - 1 else [])


def tree(count: int) -> Graph:
    """A binary tree that adds up leaves, listed level by level."""
    leaves = count // 2 + 1
    return layers(count, lambda k: [2 * (k - leaves), 2 * (k - leaves) + 1] if k >= leaves else [])


def training(count: int) -> Graph:
    """A forward chain, and a backward one that reads its results in reverse."""
    half = count // 2
    return layers(count, lambda k: [k - 1] * (k > 0) + [count - 1 - k] * (k > half))


def diamonds(count: int) -> Graph:
    """Four branches of ten ops that meet, again and again."""

    def reads(k: int) -> list[int]:
        block, place = divmod(k, 41)
        if place == 0:
            return [k - 1 - 10 * b for b in range(4)] if block else []
        return [41 * block if place % 10 == 1 else k - 1]

    return layers(count, reads)


def views(count: int) -> Graph:
    """A chain of views of views; an op reads each view."""
    tensors = [Tensor("x", 8, kind="input"), Tensor("v0", 8, view_of=("x", 0))]
    tensors += [Tensor(f"v{k}", 8, view_of=(f"v{k - 1}", 0)) for k in range(1, count)]
    tensors += [Tensor(f"t{k}", 64) for k in range(count)]
    ops = [Op(f"op{k}", inputs=(f"v{k}",), outputs=(f"t{k}",)) for k in range(count)]
    return Graph("views", tuple(tensors), tuple(ops))


def concatenations(count: int) -> Graph:
    """Blocks of eight ops whose results a ninth concatenates, and the next block reads."""
    tensors, ops = [Tensor("c0", 512, kind="input")], []
    blocks = count // 9
    for b in range(blocks):
        parts = [f"p{b}_{k}" for k in range(8)]
        tensors += [Tensor(name, 64) for name in parts]
        whole = f"c{b + 1}"
        tensors.append(Tensor(whole, 512, kind="output" if b == blocks - 1 else "intermediate"))
        ops += [Op(f"op_{name}", inputs=(f"c{b}",), outputs=(name,)) for name in parts]
        placements = tuple(Placement(name, whole, 64 * k) for k, name in enumerate(parts))
        ops.append(Op(f"cat{b}", inputs=tuple(parts), outputs=(whole,), placements=placements))
    return Graph("concatenations", tuple(tensors), tuple(ops))


GRAPHS = {
    make.__name__: make
    for make in (
        *(chain, residual, local, anywhere, branches, fan_out, fan_in, tree, training, diamonds),
        *(views, concatenations),
    )
}

# Run in the child, so that what the benchmark itself takes is not counted.
_CHILD = """
import resource, sys, time
clock = time.perf_counter
begin = clock()
if sys.argv[1] == "processor":
    time.monotonic = time.perf_counter = time.process_time
from cpplan.cli.main import main
del sys.argv[1]
code = main()
usage = resource.getrusage(resource.RUSAGE_SELF)
print(clock() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, code,
      file=sys.stderr)
"""


def measure(path: Path, mode: str, seconds: float, *, processor: bool) -> dict[str, object]:
    """Time and memory of a run of one mode, and its answer."""
    command, *options = (MODES | SPILLING)[mode]
    if mode in SPILLING:
        live = to_problem(to_anf(cpplan.load(path))).live_bytes()
        options += ["--pool", f"fast={int(live.max()) // 2}", "--pool", "slow,direct=true"]
    run = subprocess.run(
        [
            *(sys.executable, "-c", _CHILD, "processor" if processor else "clock"),
            *(command, str(path), *options),
            *("--time-limit", str(seconds), "--workers", "1", "--json", "-"),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = run.stderr.strip().splitlines()
    if run.returncode or not lines or not run.stdout:
        return {"status": f"failed: {lines[-1:]}"}
    clock, processor, most, _ = map(float, lines[-1].split())
    answer, rows = json.loads(run.stdout), 1
    if isinstance(answer, list):
        slowest = max(answer, key=lambda row: row["seconds"])
        status = Counter(row["status"] for row in answer)
        method = f"slowest row: {slowest['algorithm']}, {slowest['seconds']:.2f} s"
        answer, rows = {"status": dict(status), "method": method}, len(answer)
    allowed = 1.1 * seconds * rows + 0.5
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return {
        "seconds": round(clock, 2),
        "processor": round(processor, 2),
        "allowed": allowed,
        "within": processor <= allowed,
        "mib": round(most / unit),
        **{key: answer.get(key) for key in ANSWERS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ops", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--graph", nargs="+", choices=GRAPHS, default=list(GRAPHS))
    parser.add_argument("--mode", nargs="+", choices=MODES | SPILLING, default=list(MODES))
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--processor", action="store_true", help="limit processor time")
    options = parser.parse_args()
    compileall.compile_dir(str(Path(cpplan.__file__).parent), quiet=1)
    table = csv.DictWriter(sys.stdout, COLUMNS)
    table.writeheader()
    with tempfile.TemporaryDirectory() as folder:
        for name in options.graph:
            for ops in options.ops:
                path = Path(folder) / f"{name}_{ops}.json"
                write_graph(GRAPHS[name](ops), path)
                for mode in options.mode:
                    found = measure(path, mode, options.seconds, processor=options.processor)
                    each = 2**20 * int(str(found.get("mib", 0))) // ops
                    row = {"graph": name, "ops": ops, "mode": mode, "limit": options.seconds}
                    table.writerow({**row, **found, "bytes_an_op": each})
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
